//! Floods, half requests and bombs: the node's memory stays bounded, and a client among them is served.
//!
//! Times are printed, not judged: `cargo test --test it abuse -- --nocapture` shows them (docs/performance.md).

use crate::kafka_wire::{batch, create, produce_one};
use crate::process::{PATIENCE, Process};
use crate::wire::Wire;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tessaridb::record::{BatchBuilder, HEADER_LEN, NewRecord, batch_crc};

/// Most memory a node may ever have held, in KiB: 300 MB.
const MOST: u64 = 300_000_000 / 1024;
/// Requests of the good client while an attack goes on.
const REQUESTS: usize = 300;

/// A node that takes every connection of a test, and a good client.
fn node() -> (Process, Wire) {
    // The test's own ends need descriptors too.
    tessaridb::descriptors::raise().expect("more descriptors");
    let node = Process::start(&[
        "--kafka-database",
        "shop.orders",
        "--max-connections",
        "12000",
        "--max-connections-per-address",
        "12000",
        // Of a busy machine, not of slow clients.
        "--sign-in-seconds",
        "300",
    ]);
    node.script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
    let mut good = Wire::connect(node.kafka);
    create(&mut good, "t", 1, &[]);
    (node, good)
}

/// Produces one record at a time; prints how long that took.
fn measure(what: &str, good: &mut Wire) {
    let mut times: Vec<Duration> = (0..REQUESTS)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(produce_one(good, "t", batch(1)).0, 0, "{what}");
            start.elapsed()
        })
        .collect();
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    println!("{what}: p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99));
}

fn check_memory(what: &str, node: &Process) {
    let peak = node.peak_memory_kib();
    println!("{what}: peak memory {:.0} MB", peak as f64 * 1024.0 / 1e6);
    assert!(peak < MOST, "{what}: {peak} KiB");
}

fn connect(port: u16) -> TcpStream {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            // The listener's queue is full for a moment.
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends as much as the connection takes at once.
fn push(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_nonblocking(true).expect("nonblocking");
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The value of a metric's line.
pub fn metric(node: &Process, line: &str) -> u64 {
    let text = node.get("/metrics").expect("metrics").1;
    let found = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
    found
        .unwrap_or_else(|| panic!("{line} in {text}"))
        .parse()
        .expect("a number")
}

#[test]
fn ten_thousand_silent_connections_take_little() {
    let (node, mut good) = node();
    measure("quiet", &mut good);
    let silent: Vec<_> = (0..10_000).map(|_| connect(node.kafka)).collect();
    let start = Instant::now();
    while metric(&node, "tessaridb_kafka_connections") < 10_001 {
        assert!(start.elapsed() < PATIENCE);
    }
    measure("10,000 silent connections", &mut good);
    check_memory("10,000 silent connections", &node);
    // One byte each, so that every connection begins to read.
    for mut stream in &silent {
        stream.write_all(&[0]).expect("a byte");
    }
    measure("10,000 connections of one byte", &mut good);
    check_memory("10,000 connections of one byte", &node);
}

#[test]
fn a_thousand_half_requests_do_not_starve_a_whole_one() {
    let (node, mut good) = node();
    measure("quiet", &mut good);
    // Each claims 100 MB; some bring nothing, some a little, some more than the node will hold of all together.
    let mut half: Vec<_> = (0..1000).map(|_| connect(node.kafka)).collect();
    let mut bytes = 104_000_000i32.to_be_bytes().to_vec();
    // A produce request's header, as far as it goes.
    bytes.extend_from_slice(&[0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b'x', 0]);
    bytes.resize(2 << 20, 7);
    for (n, stream) in half.iter_mut().enumerate() {
        let length = match n % 4 {
            0 => 4,
            1 => 1000,
            2 => 100_000,
            _ => bytes.len(),
        };
        push(stream, &bytes[..length]);
    }
    measure("1,000 half requests", &mut good);
    // Large requests find memory again once those that hold it are given up.
    let large = crate::kafka_wire::large(1_000_000);
    assert_eq!(produce_one(&mut good, "t", large).0, 0);
    assert!(metric(&node, "tessaridb_kafka_connections_closed_total{reason=\"half_frame\"}") > 0);
    measure("1,000 half requests, given up in part", &mut good);
    check_memory("1,000 half requests", &node);
}

#[test]
fn a_bomb_of_two_gibibytes_is_refused_in_little_memory() {
    let (node, mut good) = node();
    measure("quiet", &mut good);
    let bomb = bomb();
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (bomb, port) = (bomb.clone(), node.kafka);
            scope.spawn(move || {
                let mut wire = Wire::connect(port);
                for _ in 0..3 {
                    let (error, offset) = produce_one(&mut wire, "t", bomb.clone().into());
                    assert_eq!((error, offset), (87, -1));
                }
            });
        }
        measure("12 bombs by 4 clients", &mut good);
    });
    check_memory("12 bombs by 4 clients", &node);
}

/// A batch whose zstd frame stands for one record of nearly 2 GiB: runs of 128 KiB in four bytes each (RFC 8878).
fn bomb() -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    const BLOCKS: usize = 16_383;
    let block = |out: &mut Vec<u8>, kind: usize, size: usize, last: bool| {
        let header = (size << 3) | (kind << 1) | usize::from(last);
        out.extend_from_slice(&header.to_le_bytes()[..3]);
    };
    // A record's head: length, attributes, timestamp and offset delta, no key, and the value's length.
    let value = BLOCK * BLOCKS - 1;
    let mut fields = vec![0, 0, 0, 1];
    varint(&mut fields, value as i64);
    let mut head = Vec::new();
    varint(&mut head, (fields.len() + value + 1) as i64);
    head.append(&mut fields);
    // Magic, no content size or checksum, a window of 128 MiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3];
    block(&mut frame, 0, head.len(), false);
    frame.append(&mut head);
    for n in 0..BLOCKS {
        block(&mut frame, 1, BLOCK, n + 1 == BLOCKS);
        frame.push(0);
    }
    let mut builder = BatchBuilder::new();
    let record = NewRecord {
        timestamp: 1,
        value: Some(b"v"),
        ..Default::default()
    };
    builder.push(record).expect("a record");
    let mut batch = builder.build().expect("a batch")[..HEADER_LEN].to_vec();
    batch.append(&mut frame);
    let length = (batch.len() - 12) as u32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = 4;
    let crc = batch_crc(&batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// A zigzag varint, as records have them.
fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Half of them were closed without an answer, and whoever came then waited behind them or was closed, too.
#[test]
fn five_hundred_wrong_passwords_at_once_are_answered_and_stall_nobody() {
    let (node, open) = node();
    drop(open);
    let password = "correct horse";
    node.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{password}'"));
    for late in ["late", "later"] {
        let define = format!("DEFINE USER {late} ROLE viewer PASSWORD '{password}'");
        node.script_as("owner", password, &define);
    }
    let mut good = Wire::signed_in(node.kafka, "owner", password);
    measure("quiet", &mut good);
    let (sender, begun) = std::sync::mpsc::channel();
    let told = std::thread::scope(|scope| {
        let flood: Vec<_> = (0..500)
            .map(|n| {
                let (port, sender) = (node.kafka, sender.clone());
                scope.spawn(move || {
                    let mut wire = Wire::connect(port);
                    // Names of their own, so that the throttle does not spare the node the work.
                    let answer = wire.sign_in(&format!("user{n}"), "wrong");
                    assert_eq!(answer.error_code, 58);
                    assert!(wire.is_closed());
                    let _ = sender.send(());
                    answer.error_message.expect("a sentence").to_string()
                })
            })
            .collect();
        begun.recv_timeout(PATIENCE).expect("one of the flood is answered");
        // Who signed in before, and who did not, from the same address.
        for user in ["owner", "late"] {
            let start = Instant::now();
            let mut wire = Wire::signed_in(node.kafka, user, password);
            println!("{user} signs in among them: {:.0?}", start.elapsed());
            assert_eq!(
                produce_one(&mut wire, "t", batch(1)).0,
                if user == "owner" { 0 } else { 29 }
            );
        }
        let start = Instant::now();
        node.script_as("owner", password, "INFO FOR STORE");
        node.script_as("later", password, "INFO FOR STORE");
        println!("two over HTTP: {:.0?}", start.elapsed());
        measure("500 wrong passwords at once", &mut good);
        let told = flood.into_iter().map(|one| one.join().expect("an answer"));
        told.collect::<Vec<String>>()
    });
    let wrong = told.iter().filter(|why| why.contains("wrong")).count();
    assert!(wrong > 0);
    assert!(
        told.iter()
            .all(|why| why.contains("wrong") || why.contains("try again")),
        "{told:?}"
    );
    println!("{wrong} were looked at, the others told to come again");
    check_memory("500 wrong passwords at once", &node);
}

#[test]
fn http_connections_too_many_are_told_so() {
    let node = Process::start(&["--max-http-connections", "2"]);
    let start = Instant::now();
    // The connection that asked whether the node is ready may still be open.
    while metric(&node, "tessaridb_http_connections") > 1 {
        assert!(start.elapsed() < PATIENCE);
    }
    let open = |count: usize| -> Vec<TcpStream> { (0..count).map(|_| connect(node.http)).collect() };
    let held = open(2);
    let mut answer = String::new();
    while !answer.starts_with("HTTP/1.1 503") {
        assert!(start.elapsed() < PATIENCE, "{answer:?}");
        answer.clear();
        let mut third = connect(node.http);
        third
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("timeout");
        let _ = third.read_to_string(&mut answer);
    }
    assert!(answer.contains("too many connections"), "{answer}");
    drop(held);
    while node.get("/health").is_none_or(|(status, _)| status != 200) {
        assert!(start.elapsed() < PATIENCE);
    }
    let refused = metric(&node, "tessaridb_http_connections_closed_total{reason=\"connections\"}");
    assert!(refused > 0);
}

#[test]
fn a_node_takes_as_many_descriptors_as_it_may_have() {
    let node = Process::start_by("ulimit -Sn 256; exec \"$0\" \"$@\"", &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.pid())).expect("limits");
    let line = limits
        .lines()
        .find(|l| l.starts_with("Max open files"))
        .expect("a line");
    let numbers: Vec<&str> = line["Max open files".len()..].split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
    assert_ne!(numbers[0], "256");
}

#[test]
fn counters_show_what_clients_do() {
    let (node, mut good) = node();
    for _ in 0..5 {
        assert_eq!(produce_one(&mut good, "t", batch(1)).0, 0);
    }
    // A request is counted when its answer is out, which the client may see first.
    let start = Instant::now();
    while metric(&node, "tessaridb_kafka_request_seconds_count{api=\"Produce\"}") < 5 {
        assert!(start.elapsed() < PATIENCE);
    }
    assert_eq!(
        metric(
            &node,
            "tessaridb_kafka_request_seconds_bucket{api=\"Produce\",le=\"+Inf\"}"
        ),
        5
    );
    assert!(metric(&node, "tessaridb_kafka_received_bytes_total") > 5 * batch(1).len() as u64);
    assert!(metric(&node, "tessaridb_kafka_sent_bytes_total") > 5 * 40);
    assert_eq!(metric(&node, "tessaridb_kafka_connections"), 1);
}
