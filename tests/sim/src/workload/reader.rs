//! The reader of a partition: reads all of it, from the beginning on, each time through another node.

use super::{Clients, Stage};
use std::hash::{DefaultHasher, Hasher};
use tessaridb::broker::{AccessError, Run};
use tessaridb::log::ReadError;
use tessaridb::record::{BatchHeader, RecordReader};

/// Most bytes of one read.
const BYTES: usize = 4 << 10;

/// Reads until all is produced and read.
pub async fn run(clients: Clients, partition: u32) {
    let doors = clients.doors.clone();
    let mut position = 0;
    loop {
        let last = *clients.stage.borrow() == Stage::Produced;
        let node = doors.some();
        let topic = clients.topic.clone();
        let before = doors
            .history
            .tell(|i| Ok(i.watermarks.before(partition)))
            .unwrap_or_default();
        // Some look at what they have read already.
        let from = match doors.any(4) {
            0 => (position - 10).max(0),
            _ => position,
        };
        let run = doors.ask(node, move |life| async move {
            let broker = life.node().broker.clone();
            broker.run(&topic, partition, from, BYTES).await
        });
        match run.await {
            Ok(Ok(run)) => {
                let marks = run.marks;
                doors.history.tell(|i| {
                    let (high, start) = (marks.high_watermark, marks.log_start);
                    i.watermarks.show(partition, &before, marks.leader_epoch, high, start)
                });
                let to = take(&clients, partition, node, &run, position);
                if to > position {
                    doors
                        .history
                        .note(format_args!("partition {partition} read to {to} through {node}"));
                }
                position = to;
                clients.shared.read.lock().insert(partition, position);
                if last && position >= marks.high_watermark && ends(&clients, partition, position) {
                    return;
                }
            }
            Ok(Err(AccessError::Read(ReadError::Storage {
                file,
                position: at,
                why,
            }))) => {
                clients.wrong(
                    "reader",
                    format!("partition {partition} from {from}: {file} at {at}: {why}"),
                );
            }
            // Not led there; or a leader that was replaced and does not know it has not all that was read.
            Ok(Err(_)) | Err(_) => {}
        }
        doors.pause(100).await;
    }
}

/// Whether all that was acknowledged was read: the end may be that of a leader that was replaced and does not know it.
fn ends(clients: &Clients, partition: u32, position: i64) -> bool {
    let history = &clients.doors.history;
    let end = history.tell(|i| Ok(i.watermarks.acknowledged(partition)));
    end.is_some_and(|end| position >= end)
}

/// Takes in what was read; how far it goes.
fn take(clients: &Clients, partition: u32, node: usize, run: &Run, mut position: i64) -> i64 {
    let history = &clients.doors.history;
    for (_, batch) in &run.batches {
        let mut hasher = DefaultHasher::new();
        hasher.write(batch);
        let sum = hasher.finish();
        let base = match BatchHeader::parse(batch) {
            Ok(header) => header.base_offset,
            Err(error) => {
                clients.wrong("reader", format!("partition {partition}: {error}"));
                return position;
            }
        };
        history.tell(|i| i.offsets.read(partition, base, sum, node as u128 + 1));
        let Ok(mut records) = RecordReader::new(batch, 1 << 20) else {
            clients.wrong(
                "reader",
                format!("partition {partition}: the batch at {base} can't be read"),
            );
            return position;
        };
        loop {
            match records.next() {
                Ok(Some(record)) => {
                    if record.offset < position {
                        continue;
                    }
                    let text = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                    let Some((producer, number)) = parse(&text) else {
                        clients.wrong(
                            "reader",
                            format!("partition {partition}: {text:?} at {}", record.offset),
                        );
                        return position;
                    };
                    let offset = record.offset;
                    if history
                        .tell(|i| i.acknowledged.read(partition, offset, producer, number))
                        .is_none()
                    {
                        return position;
                    }
                    position = offset + 1;
                }
                Ok(None) => break,
                Err(error) => {
                    clients.wrong("reader", format!("partition {partition}: {error}"));
                    return position;
                }
            }
        }
    }
    position
}

fn parse(text: &str) -> Option<(u32, u64)> {
    let (producer, number) = text.split_once(' ')?;
    Some((producer.parse().ok()?, number.parse().ok()?))
}
