//! Runs: stored batches of a partition with the time each was appended, wherever it is led. For readers that decode.

use super::{AccessError, Broker, Marks};
use crate::log::{Offset, Piece, ReadError, Slice};
use crate::record::{BatchHeader, HEADER_LEN, TimestampType};
use bytes::Bytes;
use cluster::catalog::Topic;
use std::sync::Arc;

/// Batches that follow each other.
#[derive(Clone, Debug)]
pub struct Run {
    /// Taken before the read.
    pub marks: Marks,
    /// Where reading began: the offset asked for, or the log start where that was beyond it.
    pub from: Offset,
    /// (when the leader took it in milliseconds since the epoch, the batch); none at the end of the log.
    pub batches: Vec<(i64, Bytes)>,
}

impl Broker {
    /// Batches from the one that contains `offset` on: the first whatever its size, and what of the next ones stays within
    /// `max_bytes`. Blocks: it may read from disk. In a partition that this node leads.
    pub fn run_here(&self, topic: &Topic, index: u32, offset: Offset, max_bytes: usize) -> Result<Run, AccessError> {
        loop {
            let marks = self.marks(topic, index)?;
            let from = offset.max(marks.log_start);
            if from >= marks.high_watermark {
                return Ok(Run {
                    marks,
                    from,
                    batches: Vec::new(),
                });
            }
            let slice = match self.read(topic, index, from, max_bytes, true) {
                Ok((_, slice)) => slice,
                // Retention was faster: look again where the log begins now.
                Err(AccessError::Read(ReadError::OutOfRange { .. })) if self.marks(topic, index)?.log_start > from => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut rest = gather(&slice).map_err(|why| damaged(from, why))?;
            let mut batches = Vec::new();
            while !rest.is_empty() {
                let header = BatchHeader::parse(&rest).map_err(|why| damaged(from, why))?;
                let len = usize::try_from(header.batch_len()).unwrap_or(0);
                if len < HEADER_LEN || len > rest.len() {
                    return Err(damaged(from, "a batch is cut short"));
                }
                let append_ms = match header.timestamp_type() {
                    TimestampType::LogAppendTime => Some(header.max_timestamp),
                    TimestampType::CreateTime => match self.append_ms(topic, index, from.max(header.base_offset)) {
                        Err(AccessError::Read(ReadError::OutOfRange { .. })) => None,
                        append_ms => append_ms?,
                    },
                };
                batches.push((append_ms.unwrap_or(header.max_timestamp), rest.split_to(len)));
            }
            return Ok(Run { marks, from, batches });
        }
    }

    /// [`Broker::run_here`], asked of the member that leads the partition where that is another.
    pub async fn run(
        self: &Arc<Self>,
        topic: &Arc<Topic>,
        index: u32,
        offset: Offset,
        max_bytes: usize,
    ) -> Result<Run, AccessError> {
        if let Some(node) = self.led_elsewhere(topic, index) {
            return self.run_elsewhere(node, topic, index, offset, max_bytes).await;
        }
        let (broker, topic) = (self.clone(), topic.clone());
        let read = move || broker.run_here(&topic, index, offset, max_bytes);
        // A panic was told of where it came.
        cluster::threads::blocking(read)
            .await
            .unwrap_or(Err(AccessError::NotLeader))
    }
}

fn damaged(offset: Offset, why: impl std::fmt::Display) -> AccessError {
    AccessError::Read(super::read::storage(offset, why))
}

/// The bytes of a slice in one piece.
fn gather(slice: &Slice) -> std::io::Result<Bytes> {
    if let [Piece::Memory(bytes)] = &slice.pieces[..] {
        return Ok(bytes.clone());
    }
    let mut out = Vec::with_capacity(slice.bytes);
    for piece in &slice.pieces {
        match piece {
            Piece::Memory(bytes) => out.extend_from_slice(bytes),
            Piece::File { file, position, len } => {
                let start = out.len();
                out.resize(start + len, 0);
                file.read_exact_at(&mut out[start..], *position)?;
            }
        }
    }
    Ok(out.into())
}
