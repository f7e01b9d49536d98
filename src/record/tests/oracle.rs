//! Against kafka-protocol's own encoder and decoder.

use super::stored::read_all;
use super::*;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records as theirs;

fn their_codec(codec: Compression) -> theirs::Compression {
    match codec {
        Compression::None => theirs::Compression::None,
        Compression::Gzip => theirs::Compression::Gzip,
        Compression::Snappy => theirs::Compression::Snappy,
        Compression::Lz4 => theirs::Compression::Lz4,
        Compression::Zstd => theirs::Compression::Zstd,
    }
}

fn their_record(n: i64) -> theirs::Record {
    let mut headers = IndexMap::new();
    for header in 0..n % 3 {
        let value = (header == 0).then(|| Bytes::from_static(b"web"));
        headers.insert(StrBytes::from_string(format!("header {header}")), value);
    }
    theirs::Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 4000,
        producer_epoch: 2,
        timestamp_type: theirs::TimestampType::Creation,
        offset: n,
        sequence: 10 + n as i32,
        timestamp: 1_790_000_000_000 + n * 7,
        key: (n % 4 != 0).then(|| format!("key {n}").into()),
        value: (n % 5 != 0).then(|| "value ".repeat(n as usize).into()),
        headers,
    }
}

#[test]
fn their_batches_are_accepted_and_read() {
    let records: Vec<_> = (0..200).map(their_record).collect();
    for codec in CODECS {
        let mut out = bytes::BytesMut::new();
        let options = theirs::RecordEncodeOptions {
            version: 2,
            compression: their_codec(codec),
        };
        theirs::RecordBatchEncoder::encode(&mut out, &records, &options).unwrap();
        let batch = out.freeze();
        let validated = validate(&batch, &Limits::default()).unwrap();
        assert_eq!(validated.header.producer_id, 4000);
        assert_eq!(validated.header.base_sequence, 10);
        for (read, sent) in read_all(&batch).into_iter().zip(&records) {
            let headers: Vec<_> = sent
                .headers
                .iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.as_ref().map(|value| value.to_vec())))
                .collect();
            assert_eq!(
                read,
                (
                    sent.offset,
                    sent.timestamp,
                    sent.key.as_ref().map(|key| key.to_vec()),
                    sent.value.as_ref().map(|value| value.to_vec()),
                    headers
                )
            );
        }
    }
}

#[test]
fn our_batches_decode_there() {
    for codec in CODECS {
        for form in [SnappyForm::Raw, SnappyForm::Xerial] {
            let mut builder = BatchBuilder::new()
                .compression(codec)
                .snappy_form(form)
                .producer(4000, 2, 10);
            let records: Vec<_> = (0..200).map(their_record).collect();
            for record in &records {
                let headers: Vec<(&str, Option<&[u8]>)> = record
                    .headers
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_deref()))
                    .collect();
                builder
                    .push(NewRecord {
                        timestamp: record.timestamp,
                        key: record.key.as_deref(),
                        value: record.value.as_deref(),
                        headers: &headers,
                    })
                    .unwrap();
            }
            let mut batch = builder.build().unwrap();
            let decoded = theirs::RecordBatchDecoder::decode(&mut batch).unwrap();
            assert_eq!(decoded.records, records, "{codec:?} {form:?}");
        }
    }
}
