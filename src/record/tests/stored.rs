//! Batches as they lie in the log: stamped, read back, searched by time, built from documents.

use super::*;
use proptest::prelude::*;

type Owned = (
    i64,
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

pub(super) fn read_all(batch: &[u8]) -> Vec<Owned> {
    let mut reader = RecordReader::new(batch, 64 << 20).unwrap();
    let mut out = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let headers = record
            .headers
            .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)));
        out.push((
            record.offset,
            record.timestamp,
            record.key.map(<[u8]>::to_vec),
            record.value.map(<[u8]>::to_vec),
            headers.collect(),
        ));
    }
    out
}

fn stamped(batch: &Bytes, offset: i64) -> Vec<u8> {
    let stamped = stamp(batch, offset, 9).unwrap();
    [&stamped.head[..], &stamped.rest].concat()
}

#[test]
fn stamping_needs_no_new_crc_and_shares_the_rest() {
    let batch = three(BatchBuilder::new());
    let parts = stamp(&batch, 1 << 40, 9).unwrap();
    assert_eq!(parts.rest.as_ptr(), batch[STAMP_LEN..].as_ptr());
    let whole = stamped(&batch, 1 << 40);
    let header = BatchHeader::parse(&whole).unwrap();
    assert_eq!(
        (header.base_offset, header.leader_epoch, header.batch_len()),
        (1 << 40, 9, batch.len() as i64)
    );
    assert_eq!(batch_crc(&whole), header.crc);
    assert!(stamp(&batch.slice(..60), 0, 0).is_err());
}

#[test]
fn records_come_back_with_doubled_and_null_headers() {
    for codec in CODECS {
        let batch = stamped(&three(BatchBuilder::new().compression(codec)), 100);
        let records = read_all(&batch);
        let doubled = "h\u{e9}".as_bytes().to_vec();
        assert_eq!(
            records,
            [
                (100, 1000, Some(b"c-17".to_vec()), Some(b"120.00".to_vec()), vec![]),
                (
                    101,
                    3000,
                    Some(b"c-42".to_vec()),
                    None,
                    vec![(doubled.clone(), Some(b"1".to_vec())), (doubled, Some(b"2".to_vec()))]
                ),
                (102, 2000, None, Some(vec![]), vec![(b"n".to_vec(), None)]),
            ]
        );
    }
}

#[test]
fn append_time_overrides_every_record() {
    let batch = three(BatchBuilder::new().compression(Compression::Lz4));
    let restamped = restamp_time(&batch, TimestampType::LogAppendTime, 777).unwrap();
    assert_eq!(restamped.rest.as_ptr(), batch[HEADER_LEN..].as_ptr());
    let batch = restamped.to_bytes();
    let validated = validate(&batch, &Limits::default()).unwrap();
    assert_eq!(validated.header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(
        (validated.max_timestamp, validated.compression),
        (777, Compression::Lz4)
    );
    assert!(read_all(&batch).iter().all(|record| record.1 == 777));
    let back = restamp_time(&batch, TimestampType::CreateTime, 3000)
        .unwrap()
        .to_bytes();
    assert_eq!(back, three(BatchBuilder::new().compression(Compression::Lz4)));
}

#[test]
fn first_record_at_or_after_a_time() {
    let mut builder = BatchBuilder::new();
    for timestamp in [2, 6, 4, 8, 8] {
        builder
            .push(NewRecord {
                timestamp,
                ..NewRecord::default()
            })
            .unwrap();
    }
    let batch = stamped(&builder.build().unwrap(), 50);
    let found: Vec<_> = (1..=9)
        .map(|time| find_by_timestamp(&batch, time, 0).unwrap())
        .collect();
    let (two, six, eight) = (Some((50, 2)), Some((51, 6)), Some((53, 8)));
    assert_eq!(found, [two, two, six, six, six, six, eight, eight, None]);
    let appended = restamp_time(&batch.into(), TimestampType::LogAppendTime, 7)
        .unwrap()
        .to_bytes();
    assert_eq!(find_by_timestamp(&appended, 7, 0).unwrap(), Some((50, 7)));
    assert_eq!(find_by_timestamp(&appended, 8, 0).unwrap(), None);
}

#[test]
fn documents_have_no_key_and_the_append_time() {
    let values: [&[u8]; 2] = [br#"{"customer":"c-42","total":19.99}"#, b"1"];
    let batch = build_documents(values, 1_790_000_000_123).unwrap();
    let header = BatchHeader::parse(&batch).unwrap();
    assert!(header.is_documents());
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    let expected: Vec<Owned> = (0..)
        .zip(values)
        .map(|(n, value)| (n, 1_790_000_000_123, None, Some(value.to_vec()), vec![]))
        .collect();
    assert_eq!(read_all(&batch), expected);
    // Ours alone: from a client it is refused.
    assert_eq!(refusal(&batch), Refusal::Documents);
    assert!(matches!(build_documents([], 0), Err(BuildError::Empty)));
}

#[test]
fn a_reader_of_broken_bytes_ends() {
    let batch = three(BatchBuilder::new());
    for len in HEADER_LEN..batch.len() {
        let mut reader = RecordReader::new(&batch[..len], 1 << 20).unwrap();
        let mut errors = 0;
        while let Ok(Some(_)) | Err(_) = reader.next().map_err(|_| errors += 1) {}
        assert!(errors > 0, "{len}");
    }
}

proptest! {
    #[test]
    fn what_was_built_is_accepted_and_read(
        records in prop::collection::vec(
            (
                0..i64::MAX / 2,
                prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
                prop::collection::vec((".{0,8}", prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 0..4),
            ),
            1..60,
        ),
        codec in 0..5usize,
        xerial: bool,
    ) {
        let form = if xerial { SnappyForm::Xerial } else { SnappyForm::Raw };
        let mut builder = BatchBuilder::new().compression(CODECS[codec]).snappy_form(form);
        for (timestamp, key, value, headers) in &records {
            let headers: Vec<_> = headers.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
            builder.push(NewRecord { timestamp: *timestamp, key: key.as_deref(), value: value.as_deref(), headers: &headers }).unwrap();
        }
        let batch = builder.build().unwrap();
        let validated = validate(&batch, &Limits::default()).unwrap();
        prop_assert_eq!(validated.max_timestamp, records.iter().map(|record| record.0).max().unwrap());
        let read = read_all(&batch);
        prop_assert_eq!(read.len(), records.len());
        for (n, (read, sent)) in read.into_iter().zip(records).enumerate() {
            let headers = sent.3.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
            prop_assert_eq!(read, (n as i64, sent.0, sent.1, sent.2, headers));
        }
    }

    /// Whatever the bytes: no panic, and what is accepted is readable to the end with the promised count.
    #[test]
    fn accepted_is_readable(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        codec in 0..5usize,
    ) {
        let mut batch = three(BatchBuilder::new().compression(CODECS[codec])).to_vec();
        for (at, byte) in edits {
            let at = 21 + at.index(batch.len() - 21);
            batch[at] = byte;
        }
        batch.truncate(HEADER_LEN + cut.index(batch.len() - HEADER_LEN + 1));
        seal(&mut batch);
        let limits = Limits { max_decompressed_bytes: 1 << 20, ..Limits::default() };
        if let Ok(validated) = validate(&batch, &limits) {
            prop_assert_eq!(read_all(&batch).len(), validated.header.record_count as usize);
        }
    }
}
