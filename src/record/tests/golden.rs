//! Batches written by Apache Kafka's own client library (tests/data/record/GoldenBatches.java).

use super::stored::read_all;
use super::*;

fn golden(codec: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/record/java-{codec}.bin", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a golden batch")
}

#[test]
fn java_batches_are_accepted_and_read() {
    for (name, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().zip(CODECS) {
        let batch = golden(name);
        let validated = validate(&batch, &Limits::default()).unwrap();
        assert_eq!((validated.compression, validated.len), (codec, batch.len()));
        let header = validated.header;
        assert_eq!(
            (header.producer_id, header.producer_epoch, header.base_sequence),
            (4000, 3, 17)
        );
        assert_eq!(
            (header.record_count, header.leader_epoch, header.max_timestamp),
            (100, -1, 1_790_000_006_000)
        );
        assert_eq!(validated.max_timestamp, header.max_timestamp);
        let records = read_all(&batch);
        assert_eq!(records.len(), 100);
        for (n, (offset, timestamp, key, value, headers)) in (0..100i64).zip(records) {
            assert_eq!((offset, timestamp), (n, 1_790_000_000_000 + n % 7 * 1000));
            assert_eq!(key, (n % 4 != 0).then(|| format!("schl\u{fc}ssel-{n}").into_bytes()));
            assert_eq!(
                value,
                (n % 5 != 0).then(|| "0123456789".repeat(n as usize).into_bytes())
            );
            let sent = [(b"same".to_vec(), Some(vec![n as u8])), (b"same".to_vec(), None)];
            assert_eq!(headers, sent[..n as usize % 3]);
        }
    }
}

#[test]
fn ours_is_java_s_byte_for_byte() {
    let mut builder = BatchBuilder::new().producer(4000, 3, 17);
    for n in 0..100i64 {
        let (key, value) = (format!("schl\u{fc}ssel-{n}"), "0123456789".repeat(n as usize));
        let first = [n as u8];
        let sent: [(&str, Option<&[u8]>); 2] = [("same", Some(&first)), ("same", None)];
        builder
            .push(NewRecord {
                timestamp: 1_790_000_000_000 + n % 7 * 1000,
                key: (n % 4 != 0).then_some(key.as_bytes()),
                value: (n % 5 != 0).then_some(value.as_bytes()),
                headers: &sent[..n as usize % 3],
            })
            .unwrap();
    }
    assert_eq!(builder.build().unwrap(), golden("none"));
}
