use super::*;

#[test]
fn every_codec_and_form() {
    for codec in CODECS {
        for form in [SnappyForm::Raw, SnappyForm::Xerial] {
            let batch = three(
                BatchBuilder::new()
                    .compression(codec)
                    .snappy_form(form)
                    .producer(7, 1, 40),
            );
            let validated = validate(&batch, &Limits::default()).unwrap();
            assert_eq!(validated.compression, codec);
            assert_eq!(validated.len, batch.len());
            assert_eq!(validated.max_timestamp, 3000);
            let header = validated.header;
            assert_eq!(
                (header.producer_id, header.producer_epoch, header.base_sequence),
                (7, 1, 40)
            );
            assert_eq!((header.record_count, header.last_offset_delta), (3, 2));
        }
    }
}

#[test]
fn bytes_that_cannot_be_a_batch_follow_it_and_are_not_counted() {
    let batch = three(BatchBuilder::new());
    for stray in 1..17 {
        let mut sent = batch.to_vec();
        sent.resize(batch.len() + stray, 0xee);
        assert_eq!(validate(&sent, &Limits::default()).unwrap().len, batch.len());
    }
}

#[test]
fn leader_epoch_is_not_looked_at() {
    let mut batch = three(BatchBuilder::new()).to_vec();
    batch[12..16].copy_from_slice(&77i32.to_be_bytes());
    validate(&batch, &Limits::default()).unwrap();
}

#[test]
fn a_largest_timestamp_that_lies_is_found_out() {
    let mut batch = three(BatchBuilder::new()).to_vec();
    batch[35..43].copy_from_slice(&i64::MAX.to_be_bytes());
    seal(&mut batch);
    let validated = validate(&batch, &Limits::default()).unwrap();
    assert_eq!(
        (validated.header.max_timestamp, validated.max_timestamp),
        (i64::MAX, 3000)
    );
    let stamped = restamp_time(&batch.into(), TimestampType::CreateTime, validated.max_timestamp)
        .unwrap()
        .to_bytes();
    assert_eq!(
        validate(&stamped, &Limits::default()).unwrap().header.max_timestamp,
        3000
    );
}

#[test]
fn timestamps_zero_and_now_in_one_batch() {
    let mut builder = BatchBuilder::new();
    for timestamp in [1_790_000_000_000, 0, -1] {
        builder
            .push(NewRecord {
                timestamp,
                ..NewRecord::default()
            })
            .unwrap();
    }
    let batch = builder.build().unwrap();
    assert_eq!(
        validate(&batch, &Limits::default()).unwrap().max_timestamp,
        1_790_000_000_000
    );
    let mut reader = RecordReader::new(&batch, 0).unwrap();
    for timestamp in [1_790_000_000_000, 0, -1] {
        assert_eq!(reader.next().unwrap().unwrap().timestamp, timestamp);
    }
}

#[test]
fn transactional_is_left_to_the_caller() {
    let batch = three(BatchBuilder::new().producer(1, 0, 0).attributes(0x10));
    assert!(validate(&batch, &Limits::default()).unwrap().header.is_transactional());
}

#[test]
fn header_only_does_not_look_at_records() {
    let batch = with_records(&three(BatchBuilder::new()), b"garbage");
    let limits = Limits {
        walk: false,
        ..Limits::default()
    };
    assert_eq!(validate(&batch, &limits).unwrap().max_timestamp, 3000);
    assert!(validate(&batch, &Limits::default()).is_err());
}

#[test]
fn a_header_key_split_over_chunks() {
    // 64 KiB chunks: the three-byte character lies over each possible boundary for one of the keys.
    for pad in 65_500..65_540 {
        let value = vec![b'v'; pad];
        let mut builder = BatchBuilder::new().compression(Compression::Zstd);
        let headers: [(&str, Option<&[u8]>); 1] = [("\u{20ac}\u{20ac}\u{20ac}\u{20ac}", Some(b"x"))];
        builder
            .push(NewRecord {
                value: Some(&value),
                headers: &headers,
                ..NewRecord::default()
            })
            .unwrap();
        validate(&builder.build().unwrap(), &Limits::default()).unwrap();
    }
}
