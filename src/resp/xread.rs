//! XREAD: what follows an id, in several streams at once, waiting for more where nothing does.
//!
//! ```text
//!   subscribe -> read all -> anything? -> answer
//!                              no: wait for a commit here, for word of another leader, a change of topics or rights,
//!                                  or the deadline -> subscribe -> read all again ..
//! ```

use super::call::{Call, Shared};
use super::decode::Command;
use super::errors::Refusal;
use super::id::Id;
use super::keys::Key;
use super::number::integer;
use super::read::count;
use super::reply::{Protocol, Reply, bulk};
use super::stream::{Span, Stream, Taken};
use crate::auth::Action;
use crate::broker::{FetchAsked, FetchFrom, Heard, Look};
use crate::connections::Room;
use crate::log::Offset;
use cluster::ids::{NodeId, PartitionId};
use futures::future::{BoxFuture, FutureExt, select_all};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

/// Keys of one XREAD.
pub(crate) const MOST_KEYS: usize = 1000;
/// Longest BLOCK that is told from one without an end: 30 years.
const LONGEST: u64 = 30 * 366 * 24 * 60 * 60 * 1000;
/// How long another member is asked to wait before it is asked again.
const ASKED_WAIT: Duration = Duration::from_secs(30);
/// Pause before a leader that could not be asked is asked again, unless a new one is heard of.
const LOST_PAUSE: Duration = Duration::from_millis(200);

/// What XREAD asks.
pub(crate) struct Asked<'c> {
    count: usize,
    /// How long to wait; `None`: not at all; zero: without an end.
    block: Option<Duration>,
    /// Keys, each with where to begin.
    streams: Vec<(&'c [u8], Start)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Behind this id.
    After(Id),
    /// `$`: with what comes from now on.
    New,
    /// `+`: with the last entry there is.
    Last,
}

impl<'c> Asked<'c> {
    /// XREAD [COUNT n] [BLOCK ms] STREAMS key .. id ..
    pub(crate) fn parse(command: &'c Command) -> Result<Self, Refusal> {
        let (mut most, mut block) = (usize::MAX, None);
        let mut at = 1;
        loop {
            let option = command.get(at).ok_or_else(Refusal::syntax)?.to_ascii_lowercase();
            let argument = command.get(at + 1).ok_or_else(Refusal::syntax)?;
            match option.as_slice() {
                b"count" => {
                    // As in Redis: none means all.
                    most = match count(argument)? {
                        0 => usize::MAX,
                        most => most,
                    };
                }
                b"block" => {
                    let wrong = || Refusal::wrong("timeout is not an integer or out of range");
                    let millis = integer(argument).ok_or_else(wrong)?;
                    let millis = u64::try_from(millis).map_err(|_| Refusal::wrong("timeout is negative"))?;
                    block = Some(Duration::from_millis(millis.min(LONGEST)));
                }
                b"streams" => break,
                _ => return Err(Refusal::syntax()),
            }
            at += 2;
        }
        let names = command.from(at + 1);
        if names.len() == 0 || !names.len().is_multiple_of(2) {
            return Err(Refusal::wrong(
                "Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
            ));
        }
        let half = names.len() / 2;
        if half > MOST_KEYS {
            return Err(Refusal::wrong(format!(
                "an XREAD reads {MOST_KEYS} streams at most; ask for them with several"
            )));
        }
        let start = |id: &[u8]| match id {
            b"$" => Ok(Start::New),
            b"+" => Ok(Start::Last),
            b">" => Err(Refusal::wrong(
                "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            )),
            id => Id::parse(id, 0).map(Start::After),
        };
        let ids = command.from(at + 1 + half).map(start).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            count: most,
            block,
            streams: command.from(at + 1).take(half).zip(ids).collect(),
        })
    }

    /// Whether it waits.
    pub(crate) fn blocks(&self) -> bool {
        self.block.is_some()
    }
}

/// Where reading goes on in a stream that is asked for.
struct Place<'c> {
    key: &'c [u8],
    start: Start,
    /// The stream, if there is one, and the offset that is next.
    at: Option<(Stream, Offset)>,
}

/// XREAD.
pub(crate) async fn xread(
    call: &Call<'_>,
    asked: &Asked<'_>,
    protocol: Protocol,
    room: &mut Room,
) -> Result<Reply, Refusal> {
    let shared = call.shared;
    let deadline = asked
        .block
        .filter(|block| !block.is_zero())
        .map(|block| Instant::now() + block);
    let mut places: Vec<_> = asked
        .streams
        .iter()
        .map(|(key, start)| Place {
            key,
            start: *start,
            at: None,
        })
        .collect();
    let mut changes = shared.changes.any();
    let mut first = true;
    loop {
        changes.mark_unchanged();
        let mut routes = shared.broker.routes().changed();
        for place in &mut places {
            place.look_up(call, first).await?;
        }
        first = false;
        let streams = || places.iter().filter_map(|place| place.at.as_ref());
        let partitions: Vec<PartitionId> = streams().map(|(stream, _)| stream.partition()).collect();
        // Before the look, so that nothing is missed between.
        let mut subscription = shared.broker.subscribe(&partitions);
        let found = read(call, asked, &mut places, room).await?;
        if !found.is_empty() {
            return Ok(written(&found, protocol));
        }
        // Who waits holds nothing.
        *room = Room::default();
        let left = match (asked.block, deadline) {
            (None, _) => Duration::ZERO,
            (Some(_), None) => Duration::MAX,
            (Some(_), Some(deadline)) => deadline.saturating_duration_since(Instant::now()),
        };
        if left.is_zero() || shared.stopping.is_cancelled() {
            return Ok(Reply::NullArray);
        }
        let elsewhere = heard_elsewhere(shared, &places, left.min(ASKED_WAIT));
        tokio::select! {
            () = subscription.changed() => {}
            () = elsewhere => {}
            // A topic may be there now, or gone, or the right to read it.
            _ = changes.changed() => {}
            _ = routes.changed() => {}
            () = until(deadline) => {}
            () = shared.stopping.cancelled() => {}
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Place<'_> {
    /// Looks the topic up, and with it whether it may be read. `first`: what `$` and `+` mean is settled now.
    async fn look_up(&mut self, call: &Call<'_>, first: bool) -> Result<(), Refusal> {
        let key = Key::parse(self.key)?;
        let Some(topic) = call.topic(Action::Read, self.key)? else {
            self.at = None;
            return Ok(());
        };
        let index = key.stream_of(&topic)?;
        let known = self.at.as_ref().filter(|(stream, _)| stream.topic.id == topic.id);
        let next = match (known, self.start) {
            (Some((_, next)), _) => *next,
            (None, Start::After(id)) => id.after(index),
            // It came after the command did: all of it is new.
            (None, Start::New | Start::Last) if !first => 0,
            (None, Start::New | Start::Last) => {
                let stream = Stream {
                    topic: topic.clone(),
                    index,
                };
                stream.led(call.shared).await?;
                let looked = call.shared.broker.look_into(&topic, index, Look::Marks).await?;
                let end = looked.marks.high_watermark;
                if self.start == Start::New { end } else { end - 1 }
            }
        };
        self.at = Some((Stream { topic, index }, next.max(0)));
        Ok(())
    }
}

/// Reads each stream; those that have something. Ends behind the first ones where the answer is full, the client has gone
/// or the node stops: what follows is there for the next XREAD.
async fn read<'c>(
    call: &Call<'_>,
    asked: &Asked<'_>,
    places: &mut [Place<'c>],
    room: &mut Room,
) -> Result<Vec<(&'c [u8], Taken)>, Refusal> {
    let mut found: Vec<(&[u8], Taken)> = Vec::new();
    let shared = call.shared;
    let most = shared.config.answer_bytes;
    let mut size = 0;
    let count = places.len();
    for (at, place) in places.iter_mut().enumerate() {
        let ends = size >= most || call.peer.has_ended.load(Relaxed);
        if shared.stopping.is_cancelled() || (ends && !found.is_empty()) {
            break;
        }
        let Some((stream, next)) = &mut place.at else { continue };
        stream.led(shared).await?;
        let span = Span {
            from: *next,
            to: Offset::MAX,
            count: asked.count,
            // A share of what is left: the first ones must not keep the others from their turn.
            bytes: most.saturating_sub(size) / (count - at),
            first_whole: found.is_empty(),
        };
        let taken = stream.take(call, span, size, room).await?;
        *next = taken.next;
        size += taken.size();
        if taken.len() > 0 {
            found.push((place.key, taken));
        }
    }
    Ok(found)
}

fn written(found: &[(&[u8], Taken)], protocol: Protocol) -> Reply {
    let size: usize = found.iter().map(|(key, taken)| key.len() + taken.size() + 64).sum();
    let mut out = Vec::with_capacity(size);
    let (kind, each): (char, &[u8]) = match protocol {
        Protocol::Two => ('*', b"*2\r\n"),
        Protocol::Three => ('%', b""),
    };
    out.extend_from_slice(format!("{kind}{}\r\n", found.len()).as_bytes());
    for (key, taken) in found {
        out.extend_from_slice(each);
        bulk(&mut out, key);
        taken.write(&mut out);
    }
    Reply::Written(out)
}

/// Resolves when a stream that another member leads may hold what is waited for; never where none is led elsewhere.
async fn heard_elsewhere(shared: &Arc<Shared>, places: &[Place<'_>], wait: Duration) {
    let mut leaders: BTreeMap<NodeId, Vec<(PartitionId, FetchFrom)>> = BTreeMap::new();
    for (stream, next) in places.iter().filter_map(|place| place.at.as_ref()) {
        if let Some(node) = shared.broker.led_elsewhere(&stream.topic, stream.index) {
            let from = FetchFrom {
                offset: *next,
                max_bytes: 1,
                leader_epoch: -1,
                last_fetched_epoch: -1,
            };
            leaders.entry(node).or_default().push((stream.partition(), from));
        }
    }
    let words: Vec<BoxFuture<'_, ()>> = leaders
        .into_iter()
        .map(|(node, parts)| heard_of(shared, node, parts, wait).boxed())
        .collect();
    match words.is_empty() {
        true => std::future::pending().await,
        false => drop(select_all(words).await),
    }
}

/// Waits at another member, and for a moment where it can't be asked. What it sends is read again afterwards.
async fn heard_of(shared: &Arc<Shared>, node: NodeId, parts: Vec<(PartitionId, FetchFrom)>, wait: Duration) {
    let asked = FetchAsked {
        wait,
        min_bytes: 1,
        max_bytes: 1,
        first_whole: true,
        parts,
    };
    match shared.broker.fetch_elsewhere(node, asked).await {
        Ok(mut fetch) => loop {
            match fetch.next().await {
                Ok(Some(Heard::Pass(answers))) => {
                    if answers.iter().flatten().any(|fetched| fetched.slice.bytes > 0) {
                        return;
                    }
                    if answers.iter().any(Result::is_err) {
                        break;
                    }
                }
                Ok(Some(Heard::Begins(_))) => {}
                Ok(Some(Heard::More(_)) | None) => return,
                Err(lost) => {
                    tracing::debug!(%lost, "XREAD");
                    break;
                }
            }
        },
        Err(lost) => tracing::debug!(%lost, "XREAD"),
    }
    tokio::time::sleep(LOST_PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::super::decode::{CommandLimits, Decoder};
    use super::*;
    use bytes::BytesMut;

    fn command(line: &str) -> Command {
        let limits = CommandLimits {
            bytes: 1 << 20,
            arguments: 10_000,
        };
        let mut buffer = BytesMut::from(format!("{line}\n").as_bytes());
        Decoder::default().next(&mut buffer, limits).unwrap().unwrap()
    }

    #[test]
    fn options_come_in_any_order_and_each_stream_has_its_id() {
        let command = command("xread BLOCK 50 count 7 STREAMS a b/2 c 5-1 $ +");
        let asked = Asked::parse(&command).unwrap();
        assert_eq!((asked.count, asked.block), (7, Some(Duration::from_millis(50))));
        assert_eq!(
            asked.streams,
            [
                (&b"a"[..], Start::After(Id::parse(b"5-1", 0).unwrap())),
                (b"b/2", Start::New),
                (b"c", Start::Last)
            ]
        );
    }

    #[test]
    fn what_is_not_asked_that_way_is_refused() {
        for line in [
            "xread STREAMS a",
            "xread STREAMS a b 0",
            "xread COUNT 1 a 0",
            "xread COUNT x STREAMS a 0",
            "xread BLOCK -1 STREAMS a 0",
            "xread BLOCK +5 STREAMS a 0",
            "xread BLOCK 0009 STREAMS a 0",
            "xread BLOCK 9223372036854775808 STREAMS a 0",
            "xread COUNT +5 STREAMS a 0",
            "xread COUNT 05 STREAMS a 0",
            "xread BLOCK 1 STREAMS",
            "xread STREAMS a >",
            "xread STREAMS a x",
            "xread GROUP g c STREAMS a 0",
        ] {
            assert!(Asked::parse(&command(line)).is_err(), "{line}");
        }
        assert!(Asked::parse(&command("xread COUNT 0 STREAMS a 0")).is_ok_and(|asked| asked.count == usize::MAX));
        let most = format!("xread BLOCK {} STREAMS a 0", i64::MAX);
        assert!(Asked::parse(&command(&most)).is_ok_and(|asked| asked.blocks()));
    }

    #[test]
    fn thousands_of_streams_are_refused() {
        let line = |streams: usize| format!("xread STREAMS {}{}", "a ".repeat(streams), "0 ".repeat(streams));
        assert!(Asked::parse(&command(&line(MOST_KEYS))).is_ok());
        let refusal = Asked::parse(&command(&line(MOST_KEYS + 1))).err().unwrap();
        assert!(refusal.to_string().contains("1000 streams at most"), "{refusal}");
    }
}
