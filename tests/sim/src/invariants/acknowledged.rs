//! What was acknowledged is read, once, in order; what a producer sent is read whole, as it tries until it is acknowledged.

use super::{Checked, check};
use std::collections::BTreeMap;

const NAME: &str = "acknowledged";

/// A record of a producer: its partition, the producer, its number.
pub type Record = (u32, u32, u64);

#[derive(Default)]
pub struct Acknowledged {
    /// Offsets that were acknowledged.
    acknowledged: BTreeMap<Record, i64>,
    /// Records of each partition, in the order they were read.
    read: BTreeMap<u32, Vec<(i64, u32, u64)>>,
    /// The next number of each producer in each partition.
    next: BTreeMap<(u32, u32), u64>,
}

impl Acknowledged {
    /// A producer was told that a record is stored at an offset.
    pub fn acknowledge(&mut self, record: Record, offset: i64) -> Checked {
        let before = self.acknowledged.insert(record, offset);
        check(NAME, before.is_none_or(|before| before == offset), || {
            format!("{record:?} was acknowledged at {before:?} and at {offset}")
        })
    }

    /// A partition's only reader read a record, going on where it was.
    pub fn read(&mut self, partition: u32, offset: i64, producer: u32, number: u64) -> Checked {
        let read = self.read.entry(partition).or_default();
        let expected = read.last().map_or(0, |(offset, ..)| offset + 1);
        check(NAME, offset == expected, || {
            format!("partition {partition}: {offset} was read after {}", expected - 1)
        })?;
        read.push((offset, producer, number));
        let next = self.next.entry((partition, producer)).or_default();
        let wanted = *next;
        *next = number + 1;
        check(NAME, number == wanted, || {
            let kind = if number < wanted { "again" } else { "too early" };
            format!(
                "partition {partition} offset {offset}: record {number} of producer {producer} comes {kind}, {wanted} is next"
            )
        })
    }

    /// Number of records acknowledged.
    pub fn count(&self) -> usize {
        self.acknowledged.len()
    }

    /// All was read that will be; `sent`: how many records each producer sent to each partition.
    pub fn end(&self, sent: &BTreeMap<(u32, u32), u64>) -> Checked {
        for ((partition, producer), sent) in sent {
            let next = self.next.get(&(*partition, *producer)).copied().unwrap_or(0);
            check(NAME, next == *sent, || {
                format!(
                    "partition {partition}: {next} records of producer {producer} were read, of {sent} acknowledged ones"
                )
            })?;
        }
        for ((partition, producer, number), offset) in &self.acknowledged {
            let read = self.read.get(partition).and_then(|read| read.get(*offset as usize));
            check(NAME, read == Some(&(*offset, *producer, *number)), || {
                format!(
                    "partition {partition}: record {number} of producer {producer} was acknowledged at {offset}, where {read:?} was read"
                )
            })?;
        }
        Ok(())
    }
}
