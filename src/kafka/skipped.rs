//! What a batch behind a refused one is answered.
//!
//! A client has several batches of a partition on their way. While the lead moves, the first may be refused and those behind
//! it reach the new leader, where a sequence is missing before them. A broker of Apache Kafka refuses all of them alike, as
//! not the leader. Told OUT_OF_ORDER_SEQUENCE_NUMBER instead, librdkafka gives its producer a new epoch and sends all that is
//! not acknowledged again under it, on every partition: what was stored there and not yet answered is then stored twice. So
//! they are refused as the first one was, and come again behind it.

use crate::record::BatchHeader;
use cluster::ids::PartitionId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Most producers and partitions that a connection remembers.
const MOST: usize = 4096;

/// Where an idempotent batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequenced {
    partition: PartitionId,
    producer: i64,
    epoch: i16,
    first: i32,
}

/// A missing batch.
#[derive(Debug)]
struct Missing {
    epoch: i16,
    first: i32,
}

/// The first batch that each producer of a connection was refused, by partition, until it is stored.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    missing: Mutex<HashMap<(PartitionId, i64), Missing>>,
}

impl Sequenced {
    /// `None` for a batch without a sequence.
    pub(crate) fn new(partition: PartitionId, header: &BatchHeader) -> Option<Self> {
        (header.producer_id >= 0).then_some(Self {
            partition,
            producer: header.producer_id,
            epoch: header.producer_epoch,
            first: header.base_sequence,
        })
    }

    fn key(&self) -> (PartitionId, i64) {
        (self.partition, self.producer)
    }
}

impl Skipped {
    /// The client is told to send the batch again. What it sent behind it is missing it.
    pub(crate) fn refused(&self, batch: Sequenced) {
        let mut missing = self.missing.lock();
        let full = missing.len() >= MOST;
        let this = Missing {
            epoch: batch.epoch,
            first: batch.first,
        };
        match missing.entry(batch.key()) {
            Entry::Occupied(mut there) if there.get().epoch < batch.epoch => drop(there.insert(this)),
            // One before it is missing already.
            Entry::Occupied(_) => {}
            Entry::Vacant(new) if !full => drop(new.insert(this)),
            Entry::Vacant(_) => {}
        }
    }

    /// The batch is stored.
    pub(crate) fn stored(&self, batch: Sequenced) {
        let mut missing = self.missing.lock();
        if let Entry::Occupied(there) = missing.entry(batch.key())
            && (there.get().epoch, there.get().first) == (batch.epoch, batch.first)
        {
            there.remove();
        }
    }

    /// Whether the batch was refused, for want of the one at `expected`, only because that one was refused here: it, or, where
    /// it was not known what became of those behind it either, one of them.
    pub(crate) fn explains(&self, batch: Sequenced, expected: i32) -> bool {
        let missing = self.missing.lock();
        missing
            .get(&batch.key())
            .is_some_and(|m| m.epoch == batch.epoch && distance(m.first, expected) < distance(m.first, batch.first))
    }
}

/// How far `to` is ahead. After `i32::MAX` comes 0.
fn distance(from: i32, to: i32) -> i32 {
    to.wrapping_sub(from) & i32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::ids::TopicId;

    fn batch(epoch: i16, first: i32) -> Sequenced {
        Sequenced {
            partition: PartitionId {
                topic: TopicId(1),
                index: 1,
            },
            producer: 7,
            epoch,
            first,
        }
    }

    #[test]
    fn what_follows_a_refused_batch_is_refused_like_it_until_it_is_stored() {
        let skipped = Skipped::default();
        let one = batch(0, 10);
        let [two, three] = [12, 14].map(|first| Sequenced { first, ..one });
        assert!(!skipped.explains(two, 10), "nothing was refused");
        skipped.refused(one);
        skipped.refused(two);
        assert!(skipped.explains(two, 10));
        assert!(skipped.explains(three, 10));
        assert!(!skipped.explains(three, 9), "another one is missing");
        skipped.stored(two);
        assert!(skipped.explains(three, 10));
        skipped.stored(one);
        assert!(!skipped.explains(three, 10), "a gap of the client's own");
    }

    #[test]
    fn producers_and_epochs_are_told_apart() {
        let skipped = Skipped::default();
        let old = batch(3, 10);
        let new = Sequenced {
            epoch: 4,
            first: 0,
            ..old
        };
        skipped.refused(old);
        assert!(!skipped.explains(Sequenced { first: 2, ..new }, 0));
        assert!(!skipped.explains(
            Sequenced {
                producer: 8,
                first: 12,
                ..old
            },
            10
        ));
        skipped.refused(new);
        assert!(skipped.explains(Sequenced { first: 2, ..new }, 0));
        assert!(!skipped.explains(Sequenced { first: 12, ..old }, 10));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let skipped = Skipped::default();
        let one = batch(0, 0);
        for producer in 0..2 * MOST as i64 {
            skipped.refused(Sequenced { producer, ..one });
        }
        assert_eq!(skipped.missing.lock().len(), MOST);
    }

    /// Of four batches nobody knew what had become of them; three were stored, and the fifth was refused for want of the fourth.
    /// librdkafka, told that it was out of order, sent the three again under a new epoch.
    #[test]
    fn what_follows_several_whose_outcome_is_not_known_is_refused_like_the_one_that_was_not_stored() {
        let skipped = Skipped::default();
        let [one, two, three, four, five] = [10, 12, 14, 16, 18].map(|first| batch(0, first));
        [one, two, three, four].into_iter().for_each(|one| skipped.refused(one));
        assert!(skipped.explains(five, 16));
        assert!(!skipped.explains(five, 18), "nothing before it is missing");
        assert!(!skipped.explains(batch(1, 18), 16), "another epoch");
        skipped.refused(batch(2, i32::MAX - 1));
        assert!(skipped.explains(batch(2, 5), 0), "0 comes after the largest sequence");
    }
}
