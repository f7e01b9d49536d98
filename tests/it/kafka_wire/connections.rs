//! Connections: their limits, and a stop.

use super::*;

/// A connection that says nothing is closed, one that waits for an answer is not.
#[test]
fn an_idle_connection_is_closed() {
    let node = Process::start(&["--kafka-database", "shop.orders", "--idle-seconds", "1"]);
    node.script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
    let mut busy = Wire::connect(node.kafka);
    create(&mut busy, "t", 1, &[]);
    let request = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 1000)])]).with_max_wait_ms(3000);
    let waiting = busy.send(ApiKey::Fetch, 11, &request);
    let mut silent = Wire::connect(node.kafka);
    assert!(silent.is_closed());
    let _: FetchResponse = busy.receive(ApiKey::Fetch, 11, waiting);
}

#[test]
fn connections_from_one_address_are_limited() {
    let node = Process::start(&["--max-connections-per-address", "2"]);
    let ask =
        |wire: &mut Wire| -> ApiVersionsResponse { wire.call(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default()) };
    let mut first = Wire::connect(node.kafka);
    let mut second = Wire::connect(node.kafka);
    ask(&mut first);
    ask(&mut second);
    assert!(Wire::connect(node.kafka).is_closed());
    drop(first);
    // The place is free once the node has seen the end.
    let start = Instant::now();
    loop {
        let mut again = Wire::connect(node.kafka);
        let correlation = again.send(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default());
        if let Some(answer) = again.next() {
            assert_eq!(i32::from_be_bytes(*answer.first_chunk().expect("an id")), correlation);
            break;
        }
        assert!(start.elapsed() < crate::process::PATIENCE);
    }
    ask(&mut second);
}

/// A stop answers what waits, and then ends.
#[test]
fn a_stop_answers_what_waits() {
    let (mut node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let request = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 1000)])]).with_max_wait_ms(600_000);
    let received = || crate::abuse::metric(&node, "tessaridb_kafka_received_bytes_total");
    let before = received();
    let waiting = wire.send(ApiKey::Fetch, 11, &request);
    // What is not read yet need not be answered.
    let start = Instant::now();
    while received() == before {
        assert!(start.elapsed() < crate::process::PATIENCE, "the node does not read it");
    }
    let status = node.terminate();
    assert!(status.success(), "{status:?}");
    let response: FetchResponse = wire.receive(ApiKey::Fetch, 11, waiting);
    assert!(records(&response.responses[0].partitions[0]).is_empty());
    assert!(wire.is_closed());
}

/// A client that asks for much and reads nothing takes no memory to speak of.
#[test]
fn a_slow_reader_takes_no_memory() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 1, &[("max.message.bytes", "4000000")]);
    for offset in 0..8 {
        assert_eq!(produce_one(&mut wire, "t", large(3 << 20)), (0, offset));
    }
    let before = memory_kib(&node);
    let mut slow = Wire::connect(node.kafka);
    let sent: Vec<i32> = (0..40)
        .map(|_| {
            let request = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 20 << 20)])]);
            slow.send(ApiKey::Fetch, 11, &request)
        })
        .collect();
    // Others are served meanwhile.
    assert_eq!(list_offset(&mut wire, "t", -1), (0, 8, -1));
    let grown = memory_kib(&node).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for 40 answers of 18 MiB");
    for correlation in sent {
        let response: FetchResponse = slow.receive(ApiKey::Fetch, 11, correlation);
        assert_eq!(batches(records(&response.responses[0].partitions[0])).len(), 6);
    }
}
