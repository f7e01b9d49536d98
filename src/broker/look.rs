//! Looking: where something lies in a partition, wherever it is led.

use super::{AccessError, Broker, Marks};
use crate::log::Offset;
use cluster::catalog::Topic;
use std::sync::Arc;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The marks alone.
    Marks,
    /// The log start, and the epoch of the record there.
    Earliest,
    /// The first record at or after a timestamp.
    ByTimestamp(i64),
    /// The record with the largest timestamp.
    MaxTimestamp,
    /// The largest epoch not above this one, and the first offset after it (KIP-320).
    EpochEnd(i32),
}

impl Look {
    /// May read from disk, and decompress a batch.
    fn is_slow(self) -> bool {
        matches!(self, Self::ByTimestamp(_) | Self::MaxTimestamp)
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The partition's marks, taken first.
    pub marks: Marks,
    /// (offset, timestamp or -1, leader epoch) of what was looked for, where it is there.
    pub found: Option<(Offset, i64, i32)>,
}

/// A partition to look into.
#[derive(Clone, Debug)]
pub struct LookInto {
    /// Its topic.
    pub topic: Arc<Topic>,
    /// Its number.
    pub index: u32,
    /// What for.
    pub look: Look,
}

impl Broker {
    /// Looks into partitions, each where it is led; answers in their order. Those that another member leads are asked of it
    /// together. Never waits for an election: a partition without a leader is answered as not led.
    pub async fn look(self: &Arc<Self>, looks: Vec<LookInto>) -> Vec<Result<Looked, AccessError>> {
        let slow = looks
            .iter()
            .any(|into| into.look.is_slow() && self.leads(&into.topic, into.index));
        let answers = match slow {
            false => looks.iter().map(|into| self.look_here(into)).collect(),
            true => {
                let (broker, all) = (self.clone(), looks.clone());
                let read = move || all.iter().map(|into| broker.look_here(into)).collect();
                match cluster::threads::blocking(read).await {
                    Ok(answers) => answers,
                    // A panic, which was told of where it came.
                    Err(_) => return looks.iter().map(|_| Err(AccessError::NotLeader)).collect(),
                }
            }
        };
        self.look_elsewhere(&looks, answers).await
    }

    /// [`Broker::look`] into one partition.
    pub async fn look_into(
        self: &Arc<Self>,
        topic: &Arc<Topic>,
        index: u32,
        look: Look,
    ) -> Result<Looked, AccessError> {
        let topic = topic.clone();
        let mut answers = self.look(vec![LookInto { topic, index, look }]).await;
        answers.pop().unwrap_or(Err(AccessError::NotLeader))
    }

    /// Looks into a partition that this node leads.
    pub(super) fn look_here(&self, into: &LookInto) -> Result<Looked, AccessError> {
        let LookInto { topic, index, look } = into;
        let marks = self.marks(topic, *index)?;
        let found = match *look {
            Look::Marks => None,
            Look::Earliest => Some((marks.log_start, -1, self.epoch_of_start(topic, *index, &marks)?)),
            Look::ByTimestamp(timestamp) => self.offset_by_timestamp(topic, *index, timestamp)?,
            Look::MaxTimestamp => self.offset_of_max_timestamp(topic, *index)?,
            Look::EpochEnd(epoch) => {
                let end = self.epoch_end(topic, *index, epoch)?;
                end.map(|(epoch, offset)| (offset, -1, epoch))
            }
        };
        Ok(Looked { marks, found })
    }

    /// The epoch of the first record held: the smallest whose end lies beyond it. Ends grow with epochs.
    fn epoch_of_start(&self, topic: &Topic, index: u32, marks: &Marks) -> Result<i32, AccessError> {
        let (mut low, mut high) = (0, marks.leader_epoch);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.epoch_end(topic, index, middle)? {
                Some((_, end)) if end > marks.log_start => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(low)
    }
}
