//! What is taken of producers, and what is refused.

use super::*;

/// F21: a small batch of gigabytes is refused quickly and harms nobody.
#[test]
fn a_bomb_is_refused() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let before = memory_kib(&node);
    // One record whose value is 256 MiB of zeros: what a consumer would have to inflate.
    let value = vec![0u8; 256 << 20];
    let mut builder = BatchBuilder::new().compression(Compression::Zstd);
    builder
        .push(NewRecord {
            timestamp: 1,
            value: Some(&value),
            ..Default::default()
        })
        .expect("a record");
    let bomb = builder.build().expect("a batch");
    assert!(bomb.len() < 64 << 10, "{} bytes", bomb.len());
    assert_eq!(produce_one(&mut wire, "t", bomb), (87, -1));
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 0));
    let grown = memory_kib(&node).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for a bomb");
}

/// F22: acks=0 is never answered; a failure closes the connection.
#[test]
fn acks_0_is_silent_and_closes_on_error() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    wire.send(ApiKey::Produce, 9, &produce_request(0, "t", &[(0, batch(2))]));
    let metadata = wire.send(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let _: MetadataResponse = wire.receive(ApiKey::Metadata, 9, metadata);
    assert_eq!(list_offset(&mut wire, "t", -1), (0, 2, -1));
    wire.send(ApiKey::Produce, 9, &produce_request(0, "missing", &[(0, batch(2))]));
    assert!(wire.is_closed());
}

#[test]
fn acks_that_are_none_are_refused() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let response: ProduceResponse = wire.call(ApiKey::Produce, 9, &produce_request(2, "t", &[(0, batch(1))]));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 21);
    assert_eq!(list_offset(&mut wire, "t", -1).1, 0);
}

/// F25: a batch too large concerns its own partition.
#[test]
fn a_large_batch_is_refused_alone() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 2, &[("max.message.bytes", "51200")]);
    let answers = produce(&mut wire, "t", &[(0, large(10 << 20)), (1, batch(1))]);
    let codes: Vec<_> = answers.iter().map(|a| (a.error_code, a.base_offset)).collect();
    assert_eq!(codes, [(10, -1), (0, 0)]);
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 0));
}

/// F26: header and content that disagree.
#[test]
fn lying_batches_are_refused() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    // What is changed, and whether the CRC is made right again.
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, i16, bool, Change); 12] = [
        ("base offset", 87, false, |b| b[7] = 1),
        ("length beyond", 87, false, |b| b[11] += 1),
        ("length cut", 2, false, |b| b[11] -= 1),
        ("magic 0", 87, false, |b| b[16] = 0),
        ("magic 1", 87, false, |b| b[16] = 1),
        ("magic 3", 2, false, |b| b[16] = 3),
        ("crc", 2, false, |b| b[17] ^= 1),
        ("a record's byte", 2, false, |b| *b.last_mut().expect("bytes") ^= 1),
        ("control", 87, true, |b| b[22] |= 0x20),
        ("delta", 87, true, |b| b[26] += 1),
        ("count", 87, true, |b| b[60] += 1),
        ("codec 5", 87, true, |b| b[22] |= 5),
    ];
    for (what, code, seal, change) in cases {
        let mut bytes = batch(3).to_vec();
        change(&mut bytes);
        if seal {
            let crc = batch_crc(&bytes);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        assert_eq!(produce_one(&mut wire, "t", bytes.into()), (code, -1), "{what}");
    }
    let two = [batch(1), batch(1)].concat();
    for (what, bytes) in [
        ("nothing", Bytes::new()),
        ("two batches", two.into()),
        ("half", batch(1).slice(..50)),
    ] {
        assert_eq!(produce_one(&mut wire, "t", bytes), (87, -1), "{what}");
    }
    assert_eq!(list_offset(&mut wire, "t", -1), (0, 0, -1));
    // What is a batch, though a bad one, is answered with the log start; what is none, without.
    let mut control = batch(1).to_vec();
    control[22] |= 0x20;
    let crc = batch_crc(&control);
    control[17..21].copy_from_slice(&crc.to_be_bytes());
    for (bytes, start) in [(control.into(), 0), (batch(1).slice(..50), -1)] {
        let told = &produce(&mut wire, "t", &[(0, bytes)])[0];
        assert_eq!((told.error_code, told.log_start_offset), (87, start));
    }
    // Transactions are refused, by id and by attribute.
    let mut bytes = batch(1).to_vec();
    bytes[22] |= 0x10;
    let crc = batch_crc(&bytes);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(produce_one(&mut wire, "t", bytes.into()).0, 53);
    let request = produce_request(-1, "t", &[(0, batch(1))]).with_transactional_id(Some(TransactionalId(text("mine"))));
    let response: ProduceResponse = wire.call(ApiKey::Produce, 9, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 53);
}

/// F29, F33: five batches are remembered, gaps are refused, a producer begins at 0.
#[test]
fn an_idempotent_producer_writes_once() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let told: InitProducerIdResponse = wire.call(ApiKey::InitProducerId, 4, &init);
    assert_eq!((told.error_code, told.producer_epoch), (0, 0));
    let other: InitProducerIdResponse = wire.call(ApiKey::InitProducerId, 4, &init);
    assert_ne!(told.producer_id, other.producer_id);
    let sequenced = |sequence: i32| {
        let mut builder = BatchBuilder::new().producer(told.producer_id.0, 0, sequence);
        builder
            .push(NewRecord {
                timestamp: 1,
                value: Some(b"v"),
                ..Default::default()
            })
            .expect("a record");
        builder.build().expect("a batch")
    };
    assert_eq!(
        produce_one(&mut wire, "t", sequenced(5)).0,
        45,
        "a new partition begins at 0"
    );
    for sequence in 0..5 {
        assert_eq!(
            produce_one(&mut wire, "t", sequenced(sequence)),
            (0, i64::from(sequence))
        );
    }
    for sequence in 0..5 {
        assert_eq!(
            produce_one(&mut wire, "t", sequenced(sequence)),
            (0, i64::from(sequence)),
            "a repeat"
        );
    }
    assert_eq!(produce_one(&mut wire, "t", sequenced(6)).0, 45, "a gap");
    assert_eq!(list_offset(&mut wire, "t", -1).1, 5);
    let transactional = init.clone().with_transactional_id(Some(TransactionalId(text("mine"))));
    let refused: InitProducerIdResponse = wire.call(ApiKey::InitProducerId, 4, &transactional);
    assert_eq!((refused.error_code, refused.producer_id.0), (53, -1));
}

/// F45: zstd is refused below version 7, and taken from there on.
#[test]
fn zstd_needs_version_7() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let zstd = batch_of(&[1, 2], Compression::Zstd);
    for (version, code) in [(6, 76), (7, 0)] {
        let response: ProduceResponse = wire.call(
            ApiKey::Produce,
            version,
            &produce_request(-1, "t", &[(0, zstd.clone())]),
        );
        assert_eq!(response.responses[0].partition_responses[0].error_code, code);
    }
}

/// A batch marked LogAppendTime: the topic's type counts, and time look-ups find what the records say.
#[test]
fn a_producer_cannot_choose_the_append_time() {
    let (_node, mut wire) = node();
    create(&mut wire, "plain", 1, &[]);
    create(&mut wire, "stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let mut marked = batch_of(&[100, 300, 200], Compression::None).to_vec();
    marked[22] |= 0x08;
    // Its header claims a time that no record has.
    marked[35..43].copy_from_slice(&900i64.to_be_bytes());
    let crc = batch_crc(&marked);
    marked[17..21].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(produce_one(&mut wire, "stamped", marked.clone().into()).0, 32);
    assert_eq!(produce_one(&mut wire, "plain", marked.into()), (0, 0));
    let stored = fetch_one(&mut wire, "plain", 0);
    let header = tessaridb::record::BatchHeader::parse(records(&stored)).expect("a batch");
    assert_eq!((header.attributes, header.max_timestamp), (0, 300));
    assert_eq!(list_offset(&mut wire, "plain", -3), (0, 1, 300));
    assert_eq!(list_offset(&mut wire, "plain", 301), (0, -1, -1));
    assert_eq!(produce_one(&mut wire, "stamped", batch(2)), (0, 0));
    let (code, offset, time) = list_offset(&mut wire, "stamped", 2);
    assert!(
        code == 0 && offset == 0 && time > 1_000_000_000_000,
        "{code} {offset} {time}"
    );
}
