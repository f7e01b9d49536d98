//! Fetches: bounds, waiting, sessions, epochs, and offsets by time.

use super::*;

/// F48: an offset within a batch brings that batch.
#[test]
fn an_offset_within_a_batch_brings_the_batch() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    assert_eq!(produce_one(&mut wire, "t", batch(10)), (0, 0));
    assert_eq!(produce_one(&mut wire, "t", batch(10)), (0, 10));
    for offset in 0..20 {
        let partition = fetch_one(&mut wire, "t", offset);
        let expected: &[_] = if offset < 10 { &[(0, 9), (10, 19)] } else { &[(10, 19)] };
        assert_eq!(batches(records(&partition)), expected, "from {offset}");
        assert_eq!((partition.high_watermark, partition.last_stable_offset), (20, 20));
        assert_eq!(partition.log_start_offset, 0);
    }
    let end = fetch_one(&mut wire, "t", 20);
    assert_eq!((end.error_code, records(&end).len()), (0, 0));
    for beyond in [21, -1] {
        assert_eq!(fetch_one(&mut wire, "t", beyond).error_code, 1, "at {beyond}");
    }
}

/// F50: an answer holds what the client can take.
#[test]
fn an_answer_stays_within_its_bounds() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 100, &[("max.message.bytes", "2000000")]);
    let one = large(1 << 20);
    for partition in 0..100 {
        let answer = &produce(&mut wire, "t", &[(partition, one.clone())])[0];
        assert_eq!(answer.error_code, 0);
    }
    let all = |max: i32| (0..100).map(move |p| fetch_partition(p, 0, max)).collect::<Vec<_>>();
    let ask = |wire: &mut Wire, max_bytes: i32, partition_max: i32| -> Vec<usize> {
        let request = fetch_request(vec![fetch_topic("t", all(partition_max))]).with_max_bytes(max_bytes);
        let response: FetchResponse = wire.call(ApiKey::Fetch, 11, &request);
        let partitions = &response.responses[0].partitions;
        assert_eq!(partitions.len(), 100);
        partitions.iter().map(|p| records(p).len()).collect()
    };
    let sizes = ask(&mut wire, 4 << 20, 2 << 20);
    let total: usize = sizes.iter().sum();
    assert!(total <= (4 << 20) + one.len(), "{total} bytes");
    assert!(total >= 3 << 20, "{total} bytes");
    // The first batch comes whatever its size, and then nothing more.
    let sizes = ask(&mut wire, 1, 1);
    assert_eq!(sizes.iter().sum::<usize>(), one.len());
}

/// F51: a waiting fetch is woken by a produce, and otherwise waits its time.
#[test]
fn a_waiting_fetch_is_woken() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 40, &[]);
    let mut producer = Wire::connect(node.kafka);
    // One partition, and more than fit a list of single waits.
    for (partitions, version) in [(1, 4), (1, 17), (40, 12)] {
        let id = topic_id(&mut wire, "t");
        let wanted = (0..partitions).map(|p| {
            let end = if p == 0 {
                list_offset(&mut producer, "t", -1).1
            } else {
                0
            };
            fetch_partition(p, end, 1 << 20)
        });
        let mut topic = fetch_topic("t", wanted.collect());
        if version >= 13 {
            topic = topic.with_topic_id(id);
        }
        let request = fetch_request(vec![topic]).with_max_wait_ms(60_000);
        let waiting = wire.send(ApiKey::Fetch, version, &request);
        assert_eq!(produce_one(&mut producer, "t", batch(2)).0, 0);
        let start = Instant::now();
        let response: FetchResponse = wire.receive(ApiKey::Fetch, version, waiting);
        assert!(start.elapsed() < Duration::from_secs(30), "woken, not timed out");
        assert_eq!(batches(records(&response.responses[0].partitions[0])).len(), 1);
    }
    let quiet = fetch_request(vec![fetch_topic("t", vec![fetch_partition(5, 0, 1000)])]).with_max_wait_ms(200);
    let start = Instant::now();
    let response: FetchResponse = wire.call(ApiKey::Fetch, 11, &quiet);
    assert!(start.elapsed() >= Duration::from_millis(200), "waits its time");
    assert!(records(&response.responses[0].partitions[0]).is_empty());
}

/// A fetch waits for min_bytes over all its partitions.
#[test]
fn min_bytes_count_over_all_partitions() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 2, &[]);
    let mut producer = Wire::connect(node.kafka);
    let one = batch(1);
    let wanted = vec![fetch_partition(0, 0, 1 << 20), fetch_partition(1, 0, 1 << 20)];
    let request = fetch_request(vec![fetch_topic("t", wanted)])
        .with_max_wait_ms(60_000)
        .with_min_bytes(2 * one.len() as i32);
    let waiting = wire.send(ApiKey::Fetch, 11, &request);
    produce(&mut producer, "t", &[(0, one.clone())]);
    produce(&mut producer, "t", &[(1, one.clone())]);
    let response: FetchResponse = wire.receive(ApiKey::Fetch, 11, waiting);
    let sizes: Vec<_> = response.responses[0]
        .partitions
        .iter()
        .map(|p| records(p).len())
        .collect();
    assert_eq!(sizes, [one.len(), one.len()]);
}

/// F53: an unknown partition is told at once and keeps nothing from the others.
#[test]
fn an_unknown_partition_holds_up_nobody() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    produce_one(&mut wire, "t", batch(1));
    let topics = vec![
        fetch_topic("t", vec![fetch_partition(0, 0, 1000), fetch_partition(9, 0, 1000)]),
        fetch_topic("missing", vec![fetch_partition(0, 0, 1000)]),
    ];
    let request = fetch_request(topics).with_max_wait_ms(60_000).with_min_bytes(1_000_000);
    let start = Instant::now();
    let response: FetchResponse = wire.call(ApiKey::Fetch, 11, &request);
    assert!(start.elapsed() < Duration::from_secs(30));
    let told: Vec<_> = response
        .responses
        .iter()
        .flat_map(|t| &t.partitions)
        .map(|p| (p.error_code, records(p).is_empty(), p.high_watermark))
        .collect();
    assert_eq!(told, [(0, false, 1), (3, true, -1), (3, true, -1)]);
}

/// F55: fetch sessions, step by step.
#[test]
fn fetch_sessions_follow_their_epochs() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 3, &[]);
    let three = (0..3).map(|p| fetch_partition(p, 0, 1000)).collect();
    let full = fetch_request(vec![fetch_topic("t", three)]).with_session_epoch(0);
    let first: FetchResponse = wire.call(ApiKey::Fetch, 11, &full);
    assert_ne!(first.session_id, 0);
    assert_eq!(first.responses[0].partitions.len(), 3);
    let next = |epoch: i32| {
        fetch_request(vec![])
            .with_session_id(first.session_id)
            .with_session_epoch(epoch)
    };
    let told = |response: &FetchResponse| -> Vec<(i32, i16)> {
        let partitions = response.responses.iter().flat_map(|t| &t.partitions);
        partitions.map(|p| (p.partition_index, p.error_code)).collect()
    };
    let quiet: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(1));
    assert_eq!(
        (quiet.error_code, quiet.session_id, told(&quiet)),
        (0, first.session_id, vec![])
    );
    produce(&mut wire, "t", &[(1, batch(1))]);
    let changed: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(2));
    assert_eq!(told(&changed), [(1, 0)]);
    let repeated: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(2));
    assert_eq!(repeated.error_code, 71);
    // Not moved on, so the same records come again; partition 2 is forgotten and 9 is named.
    let forget = ForgottenTopic::default()
        .with_topic(topic_name("t"))
        .with_partitions(vec![2]);
    let mixed = next(3)
        .with_forgotten_topics_data(vec![forget])
        .with_topics(vec![fetch_topic("t", vec![fetch_partition(9, 0, 1000)])]);
    produce(&mut wire, "t", &[(2, batch(1)), (0, batch(1))]);
    let mixed: FetchResponse = wire.call(ApiKey::Fetch, 11, &mixed);
    let mut partitions = told(&mixed);
    partitions.sort_unstable();
    assert_eq!(partitions, [(0, 0), (1, 0), (9, 3)]);
    let unknown: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(1).with_session_id(first.session_id ^ 1));
    assert_eq!((unknown.error_code, unknown.session_id), (70, 0));
    // A full fetch with epoch -1 ends the session it names.
    let last: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(-1));
    assert_eq!((last.error_code, last.session_id), (0, 0));
    let gone: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(5));
    assert_eq!(gone.error_code, 70);
}

/// KIP-320: an old epoch is fenced and a future one unknown, for fetches and offsets alike.
#[test]
fn leader_epochs_are_checked() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let metadata: MetadataResponse = wire.call(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let epoch = metadata.topics[0].partitions[0].leader_epoch;
    for (asked, code) in [
        (epoch, 0),
        (epoch + 1, 75),
        (epoch - 1, if epoch > 0 { 74 } else { 0 }),
        (-1, 0),
    ] {
        let partition = fetch_partition(0, 0, 1000).with_current_leader_epoch(asked);
        let response: FetchResponse = wire.call(
            ApiKey::Fetch,
            11,
            &fetch_request(vec![fetch_topic("t", vec![partition])]),
        );
        assert_eq!(
            response.responses[0].partitions[0].error_code, code,
            "epoch {asked} of {epoch}"
        );
    }
    let end = |wire: &mut Wire, epoch: i32| {
        let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default().with_leader_epoch(epoch);
        let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let response: OffsetForLeaderEpochResponse = wire.call(ApiKey::OffsetForLeaderEpoch, 3, &request);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.leader_epoch, partition.end_offset)
    };
    produce_one(&mut wire, "t", batch(4));
    assert_eq!(end(&mut wire, epoch), (0, epoch, 4));
    assert_eq!(end(&mut wire, epoch + 1), (0, -1, -1));
}

/// F62: offsets by time.
#[test]
fn offsets_by_time() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    for empty in [-1, -2] {
        assert_eq!(list_offset(&mut wire, "t", empty), (0, 0, -1));
    }
    assert_eq!(list_offset(&mut wire, "t", 5), (0, -1, -1));
    assert_eq!(list_offset(&mut wire, "t", -3), (0, -1, -1));
    produce_one(&mut wire, "t", batch_of(&[2, 4], Compression::Gzip));
    produce_one(&mut wire, "t", batch_of(&[6, 8], Compression::None));
    for (time, offset, at) in [
        (1, 0, 2),
        (2, 0, 2),
        (3, 1, 4),
        (4, 1, 4),
        (5, 2, 6),
        (6, 2, 6),
        (7, 3, 8),
        (8, 3, 8),
        (9, -1, -1),
    ] {
        assert_eq!(list_offset(&mut wire, "t", time), (0, offset, at), "at {time}");
    }
    assert_eq!(list_offset(&mut wire, "t", -3), (0, 3, 8));
    assert_eq!(list_offset(&mut wire, "t", -4), (0, 0, -1));
    assert_eq!(list_offset(&mut wire, "t", -5), (0, -1, -1));
    assert_eq!(list_offset(&mut wire, "t", -9).0, 35);
}

/// What was stored is served from files as well as from memory, after a restart.
#[test]
fn stored_bytes_come_back_from_files() {
    let mut node = Process::start(&["--kafka-database", "shop.orders", "--segment-bytes", "1048576"]);
    node.script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
    let mut wire = Wire::connect(node.kafka);
    create(&mut wire, "t", 1, &[]);
    let sent: Vec<Bytes> = (0..40).map(|n| large(100_000 + n)).collect();
    for (batch, offset) in sent.iter().zip(0..) {
        assert_eq!(produce_one(&mut wire, "t", batch.clone()), (0, offset));
    }
    let read = |wire: &mut Wire| {
        let (mut out, mut offset) = (Vec::new(), 0);
        while offset < 40 {
            let partition = fetch_one(wire, "t", offset);
            assert_eq!(partition.error_code, 0);
            let found = batches(records(&partition));
            offset = found.last().expect("something").1 + 1;
            out.extend_from_slice(records(&partition));
        }
        out
    };
    let before = read(&mut wire);
    node.terminate();
    node.restart();
    let mut wire = Wire::connect(node.kafka);
    assert!(read(&mut wire) == before);
    // The payload is what was sent: only base offset and leader epoch are the store's.
    let mut rest = &before[..];
    for batch in &sent {
        assert!(rest[16..batch.len()] == batch[16..]);
        rest = &rest[batch.len()..];
    }
}
