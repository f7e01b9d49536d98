//! What each client produced, in each compression, each client reads.

use super::record::{Consume, Produce, Read, Record};
use super::stock::Client;
use super::stored::batches;
use crate::process::Process;
use std::collections::BTreeMap;
use tessaridb::record::Compression;

const CODECS: [(&str, Compression); 5] = [
    ("none", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];
const PARTITIONS: i32 = 3;
const PER_CLIENT: i32 = 60;

fn topic(codec: &str) -> String {
    format!("shop.orders.sent_{codec}")
}

/// Compressible, so that no client thinks compression a waste; with null keys, values and header values where the client can
/// say them, and texts beyond ASCII.
fn records(client: Client) -> Vec<Record> {
    let name = client.name();
    let plain = client == Client::Kcat;
    let record = |n: i32| Record {
        partition: n % PARTITIONS,
        key: (plain || n % 7 != 0 || n % 11 == 0).then(|| format!("{name} schl\u{fc}ssel {n}")),
        value: (plain || n % 11 != 0).then(|| format!("{name} {n} \u{1f600} ").repeat(20)),
        headers: if plain {
            vec![("source".to_owned(), Some("web".to_owned()))]
        } else {
            // kafka-python reads null header values, but doesn't write them.
            let second = (client == Client::KafkaPython).then(String::new);
            let twice = [Some("\u{e9}".to_owned()), second];
            twice
                .into_iter()
                .take(n as usize % 3)
                .map(|value| ("same".to_owned(), value))
                .collect()
        },
        timestamp: (!plain).then(|| 1_790_000_000_000 + i64::from(n % 5) * 1000),
    };
    (0..PER_CLIENT).map(record).collect()
}

#[test]
fn every_client_reads_what_every_client_wrote_in_every_compression() {
    let node = Process::with_database();
    for (codec, _) in CODECS {
        node.script(&format!(
            "USE NAMESPACE shop DATABASE orders; DEFINE TOPIC sent_{codec} PARTITIONS {PARTITIONS} BY key;"
        ));
    }
    exchange(&node.bootstrap());
}

fn exchange(bootstrap: &str) {
    let clients = Client::all();
    let mut expected: BTreeMap<i32, Vec<Record>> = BTreeMap::new();
    for client in &clients {
        let tasks: Vec<_> = CODECS
            .iter()
            .map(|(codec, _)| Produce {
                topic: topic(codec),
                codec,
                records: records(*client),
            })
            .collect();
        client.produce(bootstrap, &tasks);
        for record in records(*client) {
            expected.entry(record.partition).or_default().push(record);
        }
    }
    for (codec, compression) in CODECS {
        for partition in 0..PARTITIONS {
            let stored = batches(bootstrap, &topic(codec), partition);
            assert!(stored.len() >= clients.len(), "{codec}: {stored:?}");
            let compressed = stored.iter().any(|header| header.compression() == Some(compression));
            assert!(compressed, "{codec}: {stored:?}");
            // Clients send as it is what compression would not make smaller, as is a record alone in its batch.
            let several = stored.iter().filter(|header| header.record_count > 1);
            for header in several {
                assert_eq!(header.compression(), Some(compression), "stored as sent: {header:?}");
            }
        }
    }
    let counts: Vec<i64> = expected.values().map(|records| records.len() as i64).collect();
    let tasks: Vec<_> = CODECS
        .iter()
        .map(|(codec, _)| Consume {
            topic: topic(codec),
            counts: counts.clone(),
        })
        .collect();
    for client in &clients {
        for (task, consumed) in tasks.iter().zip(client.consume(bootstrap, &tasks)) {
            let what = format!("{} reading {}", client.name(), task.topic);
            assert_eq!(consumed.topic, task.topic);
            check(&what, &expected, consumed.records);
        }
    }
}

/// Each partition's records, once, in order, as they were sent.
fn check(what: &str, expected: &BTreeMap<i32, Vec<Record>>, read: Vec<Read>) {
    let mut by_partition: BTreeMap<i32, Vec<Read>> = BTreeMap::new();
    for read in read {
        by_partition.entry(read.record.partition).or_default().push(read);
    }
    assert_eq!(by_partition.len(), expected.len(), "{what}");
    for (partition, expected) in expected {
        let read = &by_partition[partition];
        assert_eq!(read.len(), expected.len(), "{what}, partition {partition}");
        for (offset, (read, sent)) in (0..).zip(read.iter().zip(expected)) {
            let mut read = read.clone();
            if sent.timestamp.is_none() {
                assert!(read.record.timestamp > Some(0), "{what}: {read:?}");
                read.record.timestamp = None;
            }
            let sent = Read {
                offset,
                record: sent.clone(),
            };
            assert_eq!(read, sent, "{what}");
        }
    }
}
