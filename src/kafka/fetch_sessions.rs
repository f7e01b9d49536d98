//! Fetch sessions (KIP-227): a client with a thousand partitions names them once, and is told of those that changed.
//!
//! A session is taken out for the time of a fetch and put back with its answer; two fetches never have it at one time.
//! It belongs to the user that began it: to others it is not there.
//! What a session holds is bounded by the count of sessions and of partitions in all of them.

use crate::auth::Who;
use cluster::ids::UserId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchTopic, ForgottenTopic};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Partitions kept over all sessions.
const MOST_PARTITIONS: usize = 1_000_000;
/// A session unused for so long gives way to a new one.
const STALE: Duration = Duration::from_secs(120);

/// A topic as the client names it: by name before version 13, by id from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TopicKey {
    pub name: StrBytes,
    pub id: Uuid,
}

/// What a client wants of one partition, and what it was told last.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Index into [`Wants::topics`].
    pub topic: usize,
    pub partition: i32,
    pub offset: i64,
    pub max_bytes: i32,
    pub leader_epoch: i32,
    pub last_fetched_epoch: i32,
    /// -1: never told.
    pub told_high_watermark: i64,
    pub told_log_start: i64,
}

/// The partitions of one fetch, in the order in which they are served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    pub topics: Vec<TopicKey>,
    pub partitions: Vec<Wanted>,
    /// Where the next fetch begins, so that every partition has its turn.
    pub turn: usize,
}

impl Wants {
    /// Those of a request. A partition named twice is one, and wanted as it was named last.
    pub(crate) fn new(topics: Vec<FetchTopic>) -> Self {
        let mut wants = Self::listed(topics);
        if !wants.is_plain() {
            let mut places: HashMap<(TopicKey, i32), usize> = HashMap::new();
            let mut kept: Vec<Wanted> = Vec::with_capacity(wants.partitions.len());
            for wanted in std::mem::take(&mut wants.partitions) {
                let key = (wants.topics[wanted.topic].clone(), wanted.partition);
                match places.get(&key) {
                    Some(place) => {
                        let topic = kept[*place].topic;
                        kept[*place] = Wanted { topic, ..wanted };
                    }
                    None => {
                        places.insert(key, kept.len());
                        kept.push(wanted);
                    }
                }
            }
            wants.partitions = kept;
        }
        wants
    }

    /// Whether nothing is named twice, as far as one look can tell: clients list partitions in order.
    fn is_plain(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.topics.len());
        self.topics.iter().all(|topic| seen.insert(topic))
            && self
                .partitions
                .is_sorted_by(|a, b| a.topic < b.topic || (a.topic == b.topic && a.partition < b.partition))
    }

    fn listed(topics: Vec<FetchTopic>) -> Self {
        let mut wants = Self::default();
        for topic in topics {
            let index = wants.topics.len();
            wants.topics.push(TopicKey {
                name: topic.topic.0,
                id: topic.topic_id,
            });
            wants.partitions.extend(topic.partitions.into_iter().map(|p| Wanted {
                topic: index,
                partition: p.partition,
                offset: p.fetch_offset,
                max_bytes: p.partition_max_bytes,
                leader_epoch: p.current_leader_epoch,
                last_fetched_epoch: p.last_fetched_epoch,
                told_high_watermark: -1,
                told_log_start: -1,
            }));
        }
        wants
    }

    /// Adds and changes those of `topics`, removes the forgotten.
    fn update(&mut self, topics: Vec<FetchTopic>, forgotten: Vec<ForgottenTopic>) {
        if topics.is_empty() && forgotten.is_empty() {
            return;
        }
        let mut known: HashMap<TopicKey, usize> = self.topics.iter().cloned().zip(0..).collect();
        if !topics.is_empty() {
            let mut places: HashMap<(usize, i32), usize> = self
                .partitions
                .iter()
                .map(|p| (p.topic, p.partition))
                .zip(0..)
                .collect();
            let changed = Self::new(topics);
            for mut wanted in changed.partitions {
                let key = &changed.topics[wanted.topic];
                wanted.topic = *known.entry(key.clone()).or_insert_with(|| {
                    self.topics.push(key.clone());
                    self.topics.len() - 1
                });
                match places.get(&(wanted.topic, wanted.partition)) {
                    Some(place) => {
                        let there = &mut self.partitions[*place];
                        wanted.told_high_watermark = there.told_high_watermark;
                        wanted.told_log_start = there.told_log_start;
                        *there = wanted;
                    }
                    None => {
                        places.insert((wanted.topic, wanted.partition), self.partitions.len());
                        self.partitions.push(wanted);
                    }
                }
            }
        }
        if !forgotten.is_empty() {
            let mut gone: HashSet<(usize, i32)> = HashSet::new();
            for topic in forgotten {
                let key = TopicKey {
                    name: topic.topic.0,
                    id: topic.topic_id,
                };
                if let Some(index) = known.get(&key) {
                    gone.extend(topic.partitions.into_iter().map(|p| (*index, p)));
                }
            }
            self.partitions.retain(|p| !gone.contains(&(p.topic, p.partition)));
            self.turn = 0;
            self.drop_unused_topics();
        }
    }

    /// Without this, topics that come and go would pile up in a long session.
    fn drop_unused_topics(&mut self) {
        let mut to: Vec<Option<usize>> = vec![None; self.topics.len()];
        let mut kept = Vec::new();
        for wanted in &mut self.partitions {
            let index = *to[wanted.topic].get_or_insert_with(|| {
                kept.push(self.topics[wanted.topic].clone());
                kept.len() - 1
            });
            wanted.topic = index;
        }
        self.topics = kept;
    }
}

enum Kept {
    /// A fetch has it.
    Taken {
        owner: Owner,
        partitions: usize,
    },
    Free(Box<Free>),
}

/// Whose a session is; `None`: of whoever comes to an open store.
type Owner = Option<UserId>;

struct Free {
    owner: Owner,
    epoch: i32,
    by_id: bool,
    wants: Wants,
    used: Instant,
}

impl Kept {
    fn owner(&self) -> Owner {
        match self {
            Self::Taken { owner, .. } => *owner,
            Self::Free(free) => free.owner,
        }
    }
}

/// The sessions of a node.
pub(crate) struct FetchSessions {
    kept: Mutex<Sessions>,
    most: usize,
}

#[derive(Default)]
struct Sessions {
    by_number: HashMap<i32, Kept>,
    partitions: usize,
}

/// What a fetch is answered from.
pub(crate) enum Context<'a> {
    /// All partitions are in the request, and all are answered; a session begins if there is room.
    Full { wants: Wants, session: Option<Session<'a>> },
    /// The session's partitions; those that changed are answered.
    Incremental { wants: Wants, session: Session<'a> },
}

/// A session taken out; gone for good unless it is put back.
pub(crate) struct Session<'a> {
    home: &'a FetchSessions,
    /// Its number on the wire, never 0.
    pub number: i32,
    owner: Owner,
    next_epoch: i32,
    by_id: bool,
    partitions: usize,
    back: bool,
}

impl FetchSessions {
    /// At most so many sessions.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            kept: Mutex::default(),
            most,
        }
    }

    /// Finds or begins the session of a request.
    pub(crate) fn begin(
        &self,
        who: &Who,
        number: i32,
        epoch: i32,
        by_id: bool,
        topics: Vec<FetchTopic>,
        forgotten: Vec<ForgottenTopic>,
    ) -> Result<Context<'_>, ResponseError> {
        let owner = match who {
            Who::Anonymous | Who::Folder => None,
            Who::User(user) => Some(user.id),
        };
        if epoch == 0 || epoch == -1 {
            let wants = Wants::new(topics);
            let mut kept = self.kept.lock();
            if kept.by_number.get(&number).is_some_and(|kept| kept.owner() == owner) {
                kept.remove(number);
            }
            let number = (epoch == 0)
                .then(|| kept.reserve(owner, self.most, wants.partitions.len()))
                .flatten();
            let session = number.map(|number| Session {
                home: self,
                number,
                owner,
                next_epoch: 1,
                by_id,
                partitions: wants.partitions.len(),
                back: false,
            });
            return Ok(Context::Full { wants, session });
        }
        let (mut wants, session) = self.take(owner, number, epoch, by_id)?;
        wants.update(topics, forgotten);
        if wants.partitions.is_empty() {
            // Nothing is left of it: dropped here.
            return Ok(Context::Full { wants, session: None });
        }
        Ok(Context::Incremental { wants, session })
    }

    fn take(&self, owner: Owner, number: i32, epoch: i32, by_id: bool) -> Result<(Wants, Session<'_>), ResponseError> {
        let mut kept = self.kept.lock();
        let slot = kept
            .by_number
            .get_mut(&number)
            .filter(|kept| kept.owner() == owner)
            .ok_or(ResponseError::FetchSessionIdNotFound)?;
        let free = match slot {
            // Another fetch of the session is under way: this one is not the next.
            Kept::Taken { .. } => return Err(ResponseError::InvalidFetchSessionEpoch),
            Kept::Free(free) if free.by_id != by_id => return Err(ResponseError::FetchSessionTopicIdError),
            Kept::Free(free) if free.epoch != epoch => return Err(ResponseError::InvalidFetchSessionEpoch),
            Kept::Free(free) => free,
        };
        let wants = std::mem::take(&mut free.wants);
        let partitions = wants.partitions.len();
        *slot = Kept::Taken { owner, partitions };
        let session = Session {
            home: self,
            number,
            owner,
            next_epoch: if epoch == i32::MAX { 1 } else { epoch + 1 },
            by_id,
            partitions,
            back: false,
        };
        Ok((wants, session))
    }
}

impl Sessions {
    fn remove(&mut self, number: i32) {
        match self.by_number.remove(&number) {
            Some(Kept::Free(free)) => self.partitions -= free.wants.partitions.len(),
            Some(Kept::Taken { partitions, .. }) => self.partitions -= partitions,
            None => {}
        }
    }

    /// A number for a new session, if there is room or a stale one gives way.
    fn reserve(&mut self, owner: Owner, most: usize, partitions: usize) -> Option<i32> {
        while self.by_number.len() >= most || self.partitions + partitions > MOST_PARTITIONS {
            let stale = self
                .by_number
                .iter()
                .filter_map(|(number, kept)| match kept {
                    Kept::Free(free) if free.used.elapsed() >= STALE => Some((free.used, *number)),
                    _ => None,
                })
                .min()?;
            self.remove(stale.1);
        }
        loop {
            let number = rand::random_range(1..=i32::MAX);
            if let std::collections::hash_map::Entry::Vacant(slot) = self.by_number.entry(number) {
                slot.insert(Kept::Taken { owner, partitions });
                self.partitions += partitions;
                return Some(number);
            }
        }
    }
}

impl Session<'_> {
    /// Keeps the session for the next fetch.
    pub(crate) fn put_back(mut self, wants: Wants) {
        let mut kept = self.home.kept.lock();
        let total = (kept.partitions + wants.partitions.len()).saturating_sub(self.partitions);
        if total > MOST_PARTITIONS && wants.partitions.len() > self.partitions {
            kept.remove(self.number);
        }
        // Removed meanwhile by a full fetch that named it: stays removed.
        else if matches!(kept.by_number.get(&self.number), Some(Kept::Taken { .. })) {
            kept.partitions = total;
            let free = Box::new(Free {
                owner: self.owner,
                epoch: self.next_epoch,
                by_id: self.by_id,
                wants,
                used: Instant::now(),
            });
            kept.by_number.insert(self.number, Kept::Free(free));
        }
        self.back = true;
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.back {
            self.home.kept.lock().remove(self.number);
        }
    }
}

#[cfg(test)]
#[path = "fetch_sessions_test.rs"]
mod tests;
