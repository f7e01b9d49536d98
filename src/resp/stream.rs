//! Entries out of a partition's stored batches, wherever it is led.

use super::call::{Call, Shared};
use super::errors::Refusal;
use super::reply::array;
use super::{entries, id};
use crate::connections::{Room, SMALL};
use crate::log::Offset;
use crate::record::{Limits, RecordReader};
use bytes::Bytes;
use cluster::catalog::Topic;
use cluster::ids::PartitionId;
use std::sync::Arc;

/// Bytes of stored batches asked for at a time.
const RUN_BYTES: usize = 1 << 20;
/// The same at first, and where few entries are wanted.
const FEW_BYTES: usize = SMALL / 2;
/// As many entries are few.
const FEW: usize = 16;

/// One partition.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub topic: Arc<Topic>,
    pub index: u32,
}

/// Which entries of a stream: from an offset to another one, which is excluded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub from: Offset,
    pub to: Offset,
    /// At most so many.
    pub count: usize,
    /// At most so many bytes of them.
    pub bytes: usize,
    /// The first one comes whatever its size.
    pub first_whole: bool,
}

/// Entries, written down.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<usize>,
    /// Where reading ended.
    pub next: Offset,
    /// More would have had its place in the span, but not in its bytes.
    pub is_cut: bool,
}

impl Taken {
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes that the entries take.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// As a list, the first one first.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        array(out, self.starts.len());
        out.extend_from_slice(&self.bytes);
    }

    /// As a list, the last one first.
    pub(crate) fn write_backwards(&self, out: &mut Vec<u8>) {
        array(out, self.starts.len());
        let mut end = self.bytes.len();
        for start in self.starts.iter().rev() {
            out.extend_from_slice(&self.bytes[*start..end]);
            end = *start;
        }
    }

    /// The first entry alone, if there is one.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        let end = self.starts.get(1).copied().unwrap_or(self.bytes.len());
        self.starts.first().map(|start| &self.bytes[*start..end])
    }
}

impl Stream {
    pub(crate) fn partition(&self) -> PartitionId {
        PartitionId {
            topic: self.topic.id,
            index: self.index,
        }
    }

    /// Waits, briefly, until somebody leads it: a topic just declared may have no leader for a moment.
    pub(crate) async fn led(&self, shared: &Shared) -> Result<(), Refusal> {
        match self.topic.partitions.get(self.index as usize) {
            Some(range) => shared.broker.led(*range).await.map(drop).map_err(Refusal::from),
            None => Err(Refusal::try_again("the topic has changed")),
        }
    }

    /// Reads a span, behind `before` bytes that the answer has by now. What is read is taken from the memory of answers,
    /// and held by `room`.
    pub(crate) async fn take(
        &self,
        call: &Call<'_>,
        span: Span,
        before: usize,
        room: &mut Room,
    ) -> Result<Taken, Refusal> {
        let (shared, purse) = (call.shared, &call.peer.purse);
        let most = shared.config.answer_bytes;
        let mut taken = Taken {
            next: span.from,
            ..Taken::default()
        };
        // Most reads find little: these must not wait for the memory of a large one.
        let mut ask = FEW_BYTES;
        while taken.next < span.to && taken.len() < span.count {
            purse.grow(room, before + taken.size() + ask, most).await;
            let run = shared.broker.run(&self.topic, self.index, taken.next, ask).await?;
            // What retention removed is not there.
            taken.next = taken.next.max(run.from);
            if run.batches.is_empty() {
                break;
            }
            let begun = taken.next;
            let (partition, batches) = (self.index, run.batches);
            // Batches may have to be decompressed.
            let work = move || taken.add(partition, batches, span).map(|()| taken);
            taken = tokio::task::spawn_blocking(work)
                .await
                .map_err(|_| Refusal::wrong("the read ended early"))??;
            purse.grow(room, before + taken.size(), most).await;
            if taken.is_cut {
                break;
            }
            if taken.next == begun {
                tracing::error!(
                    topic = self.topic.full_name(),
                    partition,
                    offset = begun,
                    "nothing readable there"
                );
                return Err(Refusal::wrong("the stored entries cannot be read"));
            }
            if span.count > FEW {
                ask = RUN_BYTES.min(span.bytes.max(FEW_BYTES));
            }
        }
        Ok(taken)
    }
}

impl Taken {
    fn add(&mut self, partition: u32, batches: Vec<(i64, Bytes)>, span: Span) -> Result<(), Refusal> {
        let unreadable = |error: &dyn std::fmt::Display| {
            tracing::error!(partition, %error, "a stored batch is not readable");
            Refusal::wrong("the stored entries cannot be read")
        };
        for (_, batch) in batches {
            let mut records = RecordReader::new(&batch, Limits::DEFAULT_MAX_DECOMPRESSED_BYTES)
                .map_err(|error| unreadable(&error))?;
            let header = *records.header();
            while let Some(record) = records.next().map_err(|error| unreadable(&error))? {
                if record.offset < self.next {
                    continue;
                }
                if record.offset >= span.to || self.len() == span.count {
                    return Ok(());
                }
                let start = self.bytes.len();
                let id = id::of(record.offset, partition);
                entries::write(&record, header.is_documents(), &id, &mut self.bytes);
                if self.bytes.len() > span.bytes && !(span.first_whole && start == 0) {
                    self.bytes.truncate(start);
                    self.is_cut = true;
                    return Ok(());
                }
                self.starts.push(start);
                self.next = record.offset + 1;
            }
            self.next = self.next.max(header.base_offset + header.offset_count());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BatchBuilder, NewRecord};

    fn batch(values: &[&str]) -> (i64, Bytes) {
        let mut builder = BatchBuilder::new();
        for value in values {
            let record = NewRecord {
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            };
            builder.push(record).unwrap();
        }
        (0, builder.build().unwrap())
    }

    const ALL: Span = Span {
        from: 0,
        to: Offset::MAX,
        count: usize::MAX,
        bytes: usize::MAX,
        first_whole: false,
    };

    fn taken(span: Span) -> Taken {
        let mut taken = Taken {
            next: span.from,
            ..Taken::default()
        };
        taken.add(2, vec![batch(&["{}", "{}", "{}"])], span).unwrap();
        taken
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_span_is_kept_to_and_can_be_told_backwards() {
        let one = |position: u32| format!("*2\r\n$3\r\n{position}-2\r\n*0\r\n");
        let all = taken(ALL);
        assert_eq!((all.len(), all.next, all.is_cut), (3, 3, false));
        assert_eq!(
            text(|out| all.write(out)),
            format!("*3\r\n{}{}{}", one(1), one(2), one(3))
        );
        assert_eq!(
            text(|out| all.write_backwards(out)),
            format!("*3\r\n{}{}{}", one(3), one(2), one(1))
        );
        assert_eq!(all.first(), Some(one(1).as_bytes()));
        let middle = taken(Span { from: 1, to: 2, ..ALL });
        assert_eq!(text(|out| middle.write(out)), format!("*1\r\n{}", one(2)));
        let counted = taken(Span { count: 2, ..ALL });
        assert_eq!((counted.len(), counted.next), (2, 2));
    }

    #[test]
    fn what_has_no_room_is_left_but_for_the_first_where_it_must_come() {
        let size = taken(ALL).first().unwrap().len();
        let two = taken(Span { bytes: 2 * size, ..ALL });
        assert_eq!((two.len(), two.next, two.is_cut), (2, 2, true));
        let none = taken(Span { bytes: 1, ..ALL });
        assert_eq!((none.len(), none.next, none.is_cut, none.size()), (0, 0, true, 0));
        let first = taken(Span {
            bytes: 1,
            first_whole: true,
            ..ALL
        });
        assert_eq!((first.len(), first.is_cut), (1, true));
    }
}
