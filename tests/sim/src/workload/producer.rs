//! An idempotent producer: batches in order, several on their way, sent again until they are acknowledged.

use super::{Clients, is_retriable};
use crate::door::Gone;
use bytes::Bytes;
use cluster::ids::PartitionId;
use std::collections::VecDeque;
use tessaridb::broker::{AppendBatch, AppendError, Appended};
use tessaridb::record::{BatchBuilder, BatchHeader, NewRecord};

/// A batch that is not acknowledged.
#[derive(Clone)]
struct Batch {
    /// Number of its first record, which is its sequence.
    first: u64,
    count: u64,
    bytes: Bytes,
}

/// Sends to two partitions until the faults are over and all is acknowledged.
pub async fn run(clients: Clients, producer: u32) {
    let id = loop {
        let got = clients.doors.ask(clients.doors.some(), |life| async move {
            life.node().broker.producer_id().await
        });
        match got.await {
            Ok(Ok(id)) => break id,
            _ => clients.doors.pause(100).await,
        }
    };
    let partitions = clients.plan.partitions;
    let both: std::collections::BTreeSet<u32> = [producer % partitions, (producer + 1) % partitions].into();
    futures::future::join_all(both.into_iter().map(|partition| {
        let sends = Sends {
            clients: clients.clone(),
            producer,
            id,
            partition,
        };
        sends.run()
    }))
    .await;
}

/// Number of a node's prober among the producers.
const PROBER: u32 = 100;

/// Has every partition take a record through one node.
pub async fn probe(clients: Clients, node: usize) {
    let producer = PROBER + node as u32;
    let id = loop {
        let got = clients
            .doors
            .ask(node, |life| async move { life.node().broker.producer_id().await });
        match got.await {
            Ok(Ok(id)) => break id,
            _ => clients.doors.pause(100).await,
        }
    };
    for partition in 0..clients.plan.partitions {
        let sends = Sends {
            clients: clients.clone(),
            producer,
            id,
            partition,
        };
        let mut window = VecDeque::from([sends.batch(0, 1)]);
        clients.shared.sent.lock().insert((partition, producer), 1);
        while !sends.send(node, &mut window).await {
            clients.doors.pause(100).await;
        }
    }
}

struct Sends {
    clients: Clients,
    producer: u32,
    id: i64,
    partition: u32,
}

impl Sends {
    async fn run(self) {
        let doors = self.clients.doors.clone();
        let mut next = 0;
        while !self.clients.is_over() {
            let mut window = VecDeque::new();
            for _ in 0..=doors.any(4) {
                let count = 1 + doors.any(3);
                window.push_back(self.batch(next, count));
                next += count;
            }
            self.clients
                .shared
                .sent
                .lock()
                .insert((self.partition, self.producer), next);
            let mut node = doors.some();
            while !window.is_empty() {
                if !self.send(node, &mut window).await {
                    doors.pause(200).await;
                    node = doors.some();
                }
            }
            doors.pause(self.clients.plan.pause).await;
        }
    }

    fn batch(&self, first: u64, count: u64) -> Batch {
        let mut builder = BatchBuilder::new().producer(self.id, 0, first as i32);
        for number in first..first + count {
            let value = format!("{} {number}", self.producer);
            let record = NewRecord {
                timestamp: number as i64,
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            };
            builder.push(record).expect("a small record");
        }
        Batch {
            first,
            count,
            bytes: builder.build().expect("a small batch"),
        }
    }

    /// Sends what is not acknowledged, each batch as soon as the order of the one before is fixed. Whether all were.
    async fn send(&self, node: usize, window: &mut VecDeque<Batch>) -> bool {
        let doors = &self.clients.doors;
        let topic = &self.clients.topic;
        let batches: Vec<AppendBatch> = window
            .iter()
            .map(|batch| AppendBatch {
                partition: PartitionId {
                    topic: topic.id,
                    index: self.partition,
                },
                range: topic.partitions[self.partition as usize],
                header: BatchHeader::parse(&batch.bytes).expect("a header"),
                bytes: batch.bytes.clone(),
                log_append_time: false,
            })
            .collect();
        let answers = doors.ask(node, |life| async move {
            let broker = life.node().broker.clone();
            let mut answers = Vec::new();
            for batch in batches {
                answers.push(broker.append(vec![batch]).await);
            }
            futures::future::join_all(answers).await
        });
        let answers = match answers.await {
            Ok(answers) => answers,
            Err(gone) => {
                if gone == Gone::Unknown {
                    doors.history.note(format_args!("producer {} unknown", self.producer));
                }
                return false;
            }
        };
        let mut left = VecDeque::new();
        for (batch, answer) in window.drain(..).zip(answers.into_iter().flatten()) {
            if !self.is_acknowledged(&batch, answer) {
                left.push_back(batch);
            }
        }
        *window = left;
        window.is_empty()
    }

    fn is_acknowledged(&self, batch: &Batch, answer: Result<Appended, AppendError>) -> bool {
        let history = &self.clients.doors.history;
        match answer {
            Ok(Appended { base_offset, .. }) => {
                history.note(format_args!(
                    "producer {} partition {}: {} +{} at {base_offset}",
                    self.producer, self.partition, batch.first, batch.count
                ));
                for n in 0..batch.count {
                    let record = (self.partition, self.producer, batch.first + n);
                    history.tell(|i| i.acknowledged.acknowledge(record, base_offset + n as i64));
                }
                let end = base_offset + batch.count as i64;
                history.tell(|i| {
                    i.watermarks.acknowledge(self.partition, end);
                    Ok(())
                });
                true
            }
            Err(AppendError::Propose(error)) if is_retriable(&error) => false,
            // One before it is not stored yet, and comes first when they are sent again.
            Err(AppendError::OutOfOrderSequence { expected, got }) if expected < got => false,
            Err(error) => {
                let what = format!(
                    "partition {}: batch {} +{}: {error}",
                    self.partition, batch.first, batch.count
                );
                self.clients.wrong(&format!("producer {}", self.producer), what);
                true
            }
        }
    }
}
