//! What one member's broker asks of another's, as bytes.
//!
//! ```text
//!   question  0 version u8 | 1 kind u8 | fields of the kind
//!   1 Fetch        wait_ms u32 | min_bytes u64 | max_bytes u64 | first_whole u8 | count u32 | count x
//!                  (partition | offset i64 | max_bytes u32 | leader_epoch i32 | last_fetched_epoch i32)
//!   2 Look         count u32 | count x (partition | look u8 | argument i64)
//!     look         0 marks    1 earliest    2 by timestamp: argument    3 largest timestamp    4 end of epoch: argument
//!   3 Run          partition | offset i64 | max_bytes u32
//!   4 Positions    namespace u32 | reader str
//!   5 Readers      namespace u32
//!   6 PositionsIn  namespace u32 | topic u64
//!   7 Declared     index u64 | count u32 | count x topic u64
//! ```
//!
//! All numbers are big-endian; `partition` and `str` are those of `encoding.rs`.

use crate::broker::encoding::{
    Malformed, PARTITION_LEN, finish, get_count, get_flag, get_namespace, get_partition, get_str, put_count,
    put_partition, put_str,
};
use crate::broker::fetch::FetchFrom;
use crate::broker::look::Look;
use crate::log::Offset;
use bytes::{Buf, BufMut};
use cluster::ids::{NamespaceId, PartitionId, TopicId};

const VERSION: u8 = 1;
const FETCH: u8 = 1;
const LOOK: u8 = 2;
const RUN: u8 = 3;
const POSITIONS: u8 = 4;
const READERS: u8 = 5;
const POSITIONS_IN: u8 = 6;
const DECLARED: u8 = 7;

const FETCH_PART_LEN: usize = PARTITION_LEN + 8 + 4 + 4 + 4;
const LOOK_LEN: usize = PARTITION_LEN + 1 + 8;

/// A fetch of partitions that the other member leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct FetchQuestion {
    /// How long to wait for `min_bytes`, milliseconds.
    pub wait_ms: u32,
    pub min_bytes: u64,
    pub max_bytes: u64,
    /// The first batch comes whatever its size.
    pub first_whole: bool,
    /// In the order in which they are served.
    pub parts: Vec<(PartitionId, FetchFrom)>,
}

/// A question to another member's broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Question {
    Fetch(FetchQuestion),
    Look(Vec<(PartitionId, Look)>),
    /// Stored batches with the time each was appended.
    Run {
        partition: PartitionId,
        offset: Offset,
        max_bytes: u32,
    },
    /// One reader's positions.
    Positions {
        namespace: NamespaceId,
        reader: String,
    },
    /// Names of readers.
    Readers(NamespaceId),
    /// All readers' positions in a topic.
    PositionsIn(NamespaceId, TopicId),
    /// Whether the member comes to know this of the catalog in the time that the asker waits, and who leads these topics'
    /// partitions. The answer is a byte: 1, or 0.
    Declared {
        index: u64,
        topics: Vec<TopicId>,
    },
}

impl Question {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.items() * FETCH_PART_LEN);
        out.put_u8(VERSION);
        match self {
            Self::Fetch(fetch) => {
                out.put_u8(FETCH);
                out.put_u32(fetch.wait_ms);
                out.put_u64(fetch.min_bytes);
                out.put_u64(fetch.max_bytes);
                out.put_u8(fetch.first_whole.into());
                put_count(&mut out, fetch.parts.len());
                for (partition, from) in &fetch.parts {
                    put_partition(&mut out, *partition);
                    out.put_i64(from.offset);
                    out.put_u32(u32::try_from(from.max_bytes).unwrap_or(u32::MAX));
                    out.put_i32(from.leader_epoch);
                    out.put_i32(from.last_fetched_epoch);
                }
            }
            Self::Look(looks) => {
                out.put_u8(LOOK);
                put_count(&mut out, looks.len());
                for (partition, look) in looks {
                    put_partition(&mut out, *partition);
                    let (kind, argument) = match *look {
                        Look::Marks => (0, 0),
                        Look::Earliest => (1, 0),
                        Look::ByTimestamp(timestamp) => (2, timestamp),
                        Look::MaxTimestamp => (3, 0),
                        Look::EpochEnd(epoch) => (4, i64::from(epoch)),
                    };
                    out.put_u8(kind);
                    out.put_i64(argument);
                }
            }
            Self::Run {
                partition,
                offset,
                max_bytes,
            } => {
                out.put_u8(RUN);
                put_partition(&mut out, *partition);
                out.put_i64(*offset);
                out.put_u32(*max_bytes);
            }
            Self::Positions { namespace, reader } => {
                out.put_u8(POSITIONS);
                out.put_u32(namespace.0);
                put_str(&mut out, reader);
            }
            Self::Readers(namespace) => {
                out.put_u8(READERS);
                out.put_u32(namespace.0);
            }
            Self::PositionsIn(namespace, topic) => {
                out.put_u8(POSITIONS_IN);
                out.put_u32(namespace.0);
                out.put_u64(topic.0);
            }
            Self::Declared { index, topics } => {
                out.put_u8(DECLARED);
                out.put_u64(*index);
                put_count(&mut out, topics.len());
                topics.iter().for_each(|topic| out.put_u64(topic.0));
            }
        }
        out
    }

    fn items(&self) -> usize {
        match self {
            Self::Fetch(fetch) => fetch.parts.len(),
            Self::Look(looks) => looks.len(),
            Self::Declared { topics, .. } => topics.len(),
            _ => 1,
        }
    }

    pub fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let input = &mut input;
        if input.try_get_u8()? != VERSION {
            return Err(Malformed("a version of a newer node"));
        }
        let question = match input.try_get_u8()? {
            FETCH => Self::Fetch(fetch(input)?),
            LOOK => {
                let count = get_count(input, LOOK_LEN)?;
                Self::Look((0..count).map(|_| look(input)).collect::<Result<_, _>>()?)
            }
            RUN => Self::Run {
                partition: get_partition(input)?,
                offset: input.try_get_i64()?,
                max_bytes: input.try_get_u32()?,
            },
            POSITIONS => Self::Positions {
                namespace: get_namespace(input)?,
                reader: get_str(input)?,
            },
            READERS => Self::Readers(get_namespace(input)?),
            POSITIONS_IN => Self::PositionsIn(get_namespace(input)?, TopicId(input.try_get_u64()?)),
            DECLARED => {
                let index = input.try_get_u64()?;
                let count = get_count(input, 8)?;
                let topics = (0..count).map(|_| Ok(TopicId(input.try_get_u64()?)));
                Self::Declared {
                    index,
                    topics: topics.collect::<Result<_, Malformed>>()?,
                }
            }
            _ => return Err(Malformed("a question of an unknown kind")),
        };
        finish(input)?;
        Ok(question)
    }
}

fn fetch(input: &mut &[u8]) -> Result<FetchQuestion, Malformed> {
    let wait_ms = input.try_get_u32()?;
    let min_bytes = input.try_get_u64()?;
    let max_bytes = input.try_get_u64()?;
    let first_whole = get_flag(input)?;
    let count = get_count(input, FETCH_PART_LEN)?;
    let parts = (0..count).map(|_| {
        let partition = get_partition(input)?;
        let from = FetchFrom {
            offset: input.try_get_i64()?,
            max_bytes: input.try_get_u32()? as usize,
            leader_epoch: input.try_get_i32()?,
            last_fetched_epoch: input.try_get_i32()?,
        };
        Ok((partition, from))
    });
    Ok(FetchQuestion {
        parts: parts.collect::<Result<_, Malformed>>()?,
        wait_ms,
        min_bytes,
        max_bytes,
        first_whole,
    })
}

fn look(input: &mut &[u8]) -> Result<(PartitionId, Look), Malformed> {
    let partition = get_partition(input)?;
    let (kind, argument) = (input.try_get_u8()?, input.try_get_i64()?);
    let look = match kind {
        0 => Look::Marks,
        1 => Look::Earliest,
        2 => Look::ByTimestamp(argument),
        3 => Look::MaxTimestamp,
        4 => Look::EpochEnd(i32::try_from(argument).map_err(|_| Malformed("an epoch beyond 32 bits"))?),
        _ => return Err(Malformed("a look of an unknown kind")),
    };
    Ok((partition, look))
}
