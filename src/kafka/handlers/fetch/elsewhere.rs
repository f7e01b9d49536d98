//! A fetch of partitions that several members lead: each leader is asked for its own, all at once, and the first with
//! enough ends the wait.
//!
//! ```text
//!   read what is led here --+
//!   ask leader A for its own +--> together enough, or an error? --> answer
//!   ask leader B for its own +      no: wait for a commit here, for word of A or B, or the deadline
//! ```
//!
//! Each leader gets a share of `max_bytes`, so that all together stay within it; one whose first batch is larger than its
//! share sends that batch whole, and where it does not fit behind what others sent it comes with a later fetch. What a
//! leader sends is taken from the memory of answers before it is read; where that is used up, less is asked for.

use super::{Bounds, Pass, SCARCE, Topics, answer, failed, from, in_turn, refusal};
use crate::broker::{AccessError, FetchAsked, FetchElsewhere, FetchFrom, Fetched, Heard};
use crate::connections::Held;
use crate::kafka::call::Call;
use crate::kafka::fetch_sessions::Wants;
use cluster::ids::{NodeId, PartitionId};
use futures::future::{join_all, select_all};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A leader that does not say in this time what it holds is lost. Cold bytes come after it has said so.
const FIRST: Duration = Duration::from_secs(3);
/// How long after the deadline leaders may say what has come meanwhile.
const LATE: Duration = Duration::from_millis(100);
/// Restarts of one fetch: bytes came here and there, never enough in one place.
const ROUNDS: usize = 16;

/// A leader of some of the partitions.
struct Leader {
    node: NodeId,
    /// Their places in the order of the pass.
    places: Vec<usize>,
    /// What is asked of each.
    parts: Vec<(PartitionId, FetchFrom)>,
    /// As long as more may come.
    coming: Option<FetchElsewhere>,
    answers: Vec<Result<Fetched, AccessError>>,
    /// Bytes in the answers.
    bytes: usize,
    /// Bytes that could be read there by now.
    ready: usize,
    failed: bool,
    /// For the bytes in the answers.
    held: Held,
    /// For those of a pass that is coming.
    taken: Held,
}

impl Leader {
    fn take(&mut self, answers: Vec<Result<Fetched, AccessError>>) {
        let good = || answers.iter().flatten();
        self.bytes = good().map(|fetched| fetched.slice.bytes).sum();
        self.ready = self.bytes;
        self.failed = answers.iter().any(Result::is_err) || good().any(|fetched| fetched.diverging.is_some());
        self.answers = answers;
        self.held = std::mem::take(&mut self.taken);
    }

    /// Nothing is to be had of it.
    fn is_lost(&mut self) {
        let lost = self.places.iter().map(|_| Err(AccessError::NotLeader));
        let lost = lost.collect();
        self.taken = Held::default();
        self.take(lost);
        self.coming = None;
    }

    /// What it holds now, or that it is lost.
    async fn ask(mut self, call: &Call, mut asked: FetchAsked) -> Self {
        // Twice at most: where there is no room for the answer, a small one is asked for.
        loop {
            match timeout(FIRST, call.shared.broker.fetch_elsewhere(self.node, asked.clone())).await {
                Ok(Ok(coming)) => self.coming = Some(coming),
                Ok(Err(lost)) => {
                    tracing::debug!(node = %self.node, %lost, "fetch");
                    self.is_lost();
                    return self;
                }
                Err(_) => {
                    self.is_lost();
                    return self;
                }
            }
            match self.first_pass(call, asked.max_bytes <= SCARCE).await {
                true => return self,
                false => {
                    asked.max_bytes = SCARCE;
                    asked.wait = Duration::ZERO;
                }
            }
        }
    }

    /// Takes the first pass, or what ends it. False where there is no room for its bytes.
    async fn first_pass(&mut self, call: &Call, anyway: bool) -> bool {
        let begun = timeout(FIRST, next(&mut self.coming)).await;
        match begun.unwrap_or(Word::Lost) {
            Word::Heard(Heard::Begins(bytes)) => match call.shared.answers.try_take(bytes) {
                None if !anyway => {
                    self.coming = None;
                    return false;
                }
                taken => {
                    self.taken = taken.unwrap_or_default();
                    let word = next(&mut self.coming).await;
                    self.hear(call, word);
                }
            },
            word => self.hear(call, word),
        }
        true
    }

    fn hear(&mut self, call: &Call, word: Word) {
        match word {
            Word::Heard(Heard::Pass(answers)) => self.take(answers),
            Word::Heard(Heard::More(bytes)) => self.ready = bytes,
            Word::Heard(Heard::Begins(bytes)) => match call.shared.answers.try_take(bytes) {
                Some(taken) => self.taken = taken,
                // What came before stands; it can be asked for again.
                None => {
                    self.ready = bytes;
                    self.coming = None;
                }
            },
            Word::Over => self.coming = None,
            Word::Lost => self.is_lost(),
        }
        if self.answers.is_empty() && self.coming.is_none() {
            self.is_lost();
        }
    }
}

/// What was heard of a leader.
enum Word {
    Heard(Heard),
    Over,
    Lost,
}

async fn next(coming: &mut Option<FetchElsewhere>) -> Word {
    match coming {
        None => Word::Over,
        Some(fetch) => match fetch.next().await {
            Ok(Some(heard)) => Word::Heard(heard),
            Ok(None) => Word::Over,
            Err(lost) => {
                tracing::debug!(%lost, "fetch");
                Word::Lost
            }
        },
    }
}

/// The next word of any leader of which more may come; never where there is none.
async fn any(leaders: &mut [Leader]) -> (usize, Word) {
    let words = leaders
        .iter_mut()
        .enumerate()
        .filter(|(_, leader)| leader.coming.is_some())
        .map(|(at, leader)| Box::pin(async move { (at, next(&mut leader.coming).await) }));
    let words: Vec<_> = words.collect();
    match words.is_empty() {
        true => std::future::pending().await,
        false => select_all(words).await.0,
    }
}

/// Reads until there is enough, an error to tell, or no time left; with what the answer holds of the memory of answers.
pub(super) async fn enough(call: &Call, wants: &Wants, bounds: &Bounds) -> (Pass, Held) {
    let mut topics = Topics::default();
    let mut hurry = false;
    for _ in 1..ROUNDS {
        match round(call, &mut topics, wants, bounds, hurry).await {
            Some(done) => return done,
            // Enough lies ready, in several places.
            None => hurry = true,
        }
    }
    let late = Bounds {
        deadline: Instant::now(),
        ..*bounds
    };
    let done = round(call, &mut topics, wants, &late, true).await;
    done.unwrap_or_default()
}

/// One question to each leader. `None`: there is enough by now, if all are asked again.
async fn round(call: &Call, topics: &mut Topics, wants: &Wants, bounds: &Bounds, hurry: bool) -> Option<(Pass, Held)> {
    let mut changed = call.broker().routes().changed();
    let mut rights = call.shared.watch.changes();
    topics.look_up(call, &wants.topics);
    let led_by = led_by(call, topics, wants);
    let leaders = group(&led_by, topics, wants);
    let here = |place: usize| led_by[place].is_none();
    let count = led_by.len().max(1);
    let own = led_by.iter().filter(|node| node.is_none()).count();
    let own_share = share(bounds.max_bytes, own, count);

    let partitions = topics.partitions(wants, here);
    let mut subscription = call.broker().subscribe(&partitions);
    let mut local = topics.read_some(call, wants, own_share, bounds.first_whole, here);
    let missing = bounds.min_bytes.saturating_sub(local.bytes);
    let wait = match hurry || local.failed || missing == 0 {
        true => Duration::ZERO,
        false => bounds.deadline.saturating_duration_since(Instant::now()),
    };
    // What is not needed here is free for the others.
    let left = bounds.max_bytes.saturating_sub(local.bytes);
    let others = count - own;
    let asks = leaders.into_iter().map(|leader| {
        let asked = FetchAsked {
            wait,
            min_bytes: missing,
            max_bytes: share(left, leader.places.len(), others),
            first_whole: bounds.first_whole,
            parts: leader.parts.clone(),
        };
        leader.ask(call, asked)
    });
    let mut leaders = join_all(asks).await;

    let mut over = wait.is_zero();
    while !over {
        let have = local.bytes + leaders.iter().map(|leader| leader.bytes).sum::<usize>();
        let failed = local.failed || leaders.iter().any(|leader| leader.failed);
        if failed || have >= bounds.min_bytes {
            break;
        }
        let ready = local.bytes + leaders.iter().map(|leader| leader.ready).sum::<usize>();
        if ready >= bounds.min_bytes {
            return None;
        }
        let all_said = leaders.iter().all(|leader| leader.coming.is_none());
        let until = match all_said {
            true => bounds.deadline,
            false => bounds.deadline + LATE,
        };
        tokio::select! {
            () = subscription.changed() => {
                local = topics.read_some(call, wants, own_share, bounds.first_whole, here);
            }
            (at, word) = any(&mut leaders) => leaders[at].hear(call, word),
            _ = changed.changed() => lose(call, topics, wants, &mut leaders),
            // A topic may be gone, or the right to read it.
            Ok(()) = rights.changed() => {
                topics.look_up(call, &wants.topics);
                over = topics.found.iter().any(Result::is_err);
            }
            () = tokio::time::sleep_until(until) => {
                local = topics.read_some(call, wants, own_share, bounds.first_whole, here);
                over = true;
            }
            () = call.shared.stopping.cancelled() => over = true,
        }
    }
    Some(together(call, topics, wants, bounds, local, leaders))
}

/// What `some` of `all` partitions may take of `bytes`.
fn share(bytes: usize, some: usize, all: usize) -> usize {
    (bytes as u128 * some as u128 / all.max(1) as u128) as usize
}

/// Who leads each place; `None` for those that are answered here, led or not.
fn led_by(call: &Call, topics: &Topics, wants: &Wants) -> Vec<Option<NodeId>> {
    in_turn(wants)
        .map(|wanted| {
            let (topic, index) = topics.find(wanted).ok()?;
            call.broker().led_elsewhere(topic, index)
        })
        .collect()
}

fn group(led_by: &[Option<NodeId>], topics: &Topics, wants: &Wants) -> Vec<Leader> {
    let mut leaders: BTreeMap<NodeId, Leader> = BTreeMap::new();
    for ((place, wanted), node) in in_turn(wants).enumerate().zip(led_by) {
        if let Some(node) = *node
            && let Ok((topic, index)) = topics.find(wanted)
        {
            let leader = leaders.entry(node).or_insert_with(|| Leader {
                node,
                places: Vec::new(),
                parts: Vec::new(),
                coming: None,
                answers: Vec::new(),
                bytes: 0,
                ready: 0,
                failed: false,
                held: Held::default(),
                taken: Held::default(),
            });
            leader.places.push(place);
            leader
                .parts
                .push((PartitionId { topic: topic.id, index }, from(wanted)));
        }
    }
    leaders.into_values().collect()
}

/// Leaders that lead no more what they were asked for have no more to say.
fn lose(call: &Call, topics: &Topics, wants: &Wants, asked: &mut [Leader]) {
    let now = led_by(call, topics, wants);
    for leader in asked {
        let lost = |place: &usize| now[*place].is_some_and(|node| node != leader.node);
        if leader.places.iter().any(lost) {
            leader.is_lost();
        }
    }
}

/// What all hold, in the order of the pass, within the bounds.
fn together(
    call: &Call,
    topics: &mut Topics,
    wants: &Wants,
    bounds: &Bounds,
    mut local: Pass,
    leaders: Vec<Leader>,
) -> (Pass, Held) {
    // What was lost while others answered counts for their answers, too.
    topics.look_up(call, &wants.topics);
    let mut held = Held::default();
    let mut carried: BTreeMap<usize, Result<Fetched, AccessError>> = BTreeMap::new();
    for leader in leaders {
        held = held.and(leader.held);
        carried.extend(leader.places.into_iter().zip(leader.answers));
    }
    match call.shared.answers.try_take(local.in_memory()) {
        Some(own) => held = held.and(own),
        None => {
            let here = |place: usize| !carried.contains_key(&place);
            local = topics.read_some(call, wants, SCARCE.min(bounds.max_bytes), bounds.first_whole, here);
        }
    }
    let mut pass = Pass::default();
    for ((place, wanted), own) in in_turn(wants).enumerate().zip(local.answers) {
        let mut told = match (carried.remove(&place), topics.find(wanted)) {
            (_, Err(error)) => refusal(wanted, error),
            (None, Ok(_)) => own,
            (Some(Ok(fetched)), Ok(_)) => answer(wanted, fetched),
            (Some(Err(error)), Ok((topic, index))) => refusal(wanted, failed(topic, index, &error)),
        };
        if pass.bytes > 0 && pass.bytes + told.bytes > bounds.max_bytes {
            told.pieces = Vec::new();
            told.bytes = 0;
        }
        pass.add(told);
    }
    (pass, held)
}
