//! Readers that ask for much, take little, or leave.

use super::super::call::{Call, Peer};
use super::super::decode::{Command, CommandLimits, Decoder};
use super::super::reply::{Protocol, Reply};
use super::super::xread::{Asked, xread};
use super::super::{RespConfig, RespServer};
use super::{Client, Trio, entry, open, until};
use crate::connections::{Budget, Room};
use bytes::BytesMut;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::TcpSocket;

/// A client whose socket takes little of what it does not read.
async fn lazy(server: &RespServer) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    Client(socket.connect(server.local_addr()).await.unwrap())
}

fn metrics(server: &RespServer) -> String {
    let mut out = String::new();
    server.collector()(&mut out);
    out
}

/// Member 1's port, and a key with eight entries of 900,000 bytes.
async fn with_large_entries(trio: &Trio) -> (RespServer, String) {
    let topic = trio.topic("t").await;
    let config = RespConfig {
        budget: Budget::new(16 << 20),
        answer_bytes: 8 << 20,
        // Nobody is closed for standing still alone.
        max_stall: Duration::from_secs(1000),
        ..RespConfig::default()
    };
    let server = open(trio, config).await;
    let index = trio.partition_of(&topic, 1);
    let key = format!("{}/{index}", topic.full_name());
    let mut writer = Client::new(&server).await;
    let value = "x".repeat(900_000);
    for n in 1..=8 {
        writer
            .ask(&format!("XADD {key} * a {value}"), &format!("$3 {n}-{index}"))
            .await;
    }
    (server, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_take_no_answers_do_not_keep_the_others_waiting() {
    let trio = Trio::new().await;
    let (server, key) = with_large_entries(&trio).await;
    let mut greedy = Vec::new();
    for _ in 0..6 {
        let mut client = lazy(&server).await;
        client.send(&format!("XRANGE {key} - +")).await;
        greedy.push(client);
    }
    until("memory is used up", || server.shared.answers.are_short()).await;
    let index = key.rsplit('/').next().unwrap();
    let value = "x".repeat(900_000);
    let mut all = "*8".to_owned();
    for n in 1..=8 {
        all += &format!(" {}", entry(&format!("{n}-{index}"), &value));
    }
    let mut honest = Client::new(&server).await;
    honest.ask(&format!("XREAD BLOCK 1 STREAMS {key} $"), "*-1").await;
    honest.ask(&format!("XRANGE {key} - +"), &all).await;
    until("those are closed that held it", || {
        let closed = "tessaridb_resp_connections_closed_total{reason=\"slow_reader\"} ";
        let metrics = metrics(&server);
        let count = metrics.lines().find_map(|line| line.strip_prefix(closed));
        count.is_some_and(|count| count != "0")
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_wait_hold_no_memory() {
    let trio = Trio::new().await;
    let (server, key) = with_large_entries(&trio).await;
    let broker = &trio.get(1).broker;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        let mut client = Client::new(&server).await;
        client.send(&format!("XREAD BLOCK 0 STREAMS {key} $")).await;
        waiting.push(client);
    }
    until("all wait", || broker.waiting() == 40).await;
    let mut one = Client::new(&server).await;
    one.ask(&format!("XREAD STREAMS {key} $"), "*-1").await;
    assert!(!server.shared.answers.are_short());
    server.stop().await;
}

fn command(line: &str) -> Command {
    let limits = CommandLimits {
        bytes: 1 << 20,
        arguments: 10_000,
    };
    let mut buffer = BytesMut::from(format!("{line}\n").as_bytes());
    Decoder::default().next(&mut buffer, limits).unwrap().unwrap()
}

/// XREAD as a connection does it that its client has ended, or not; the answer as it is written.
async fn xread_of(server: &RespServer, ended: bool, line: &str) -> String {
    let purse = server.shared.answers.purse([127, 0, 0, 1].into());
    let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), purse));
    peer.has_ended.store(ended, Relaxed);
    let command = command(line);
    let call = Call {
        shared: &server.shared,
        peer: &peer,
        name: "xread",
        number: 0,
    };
    let asked = Asked::parse(&command).unwrap();
    let reply = xread(&call, &asked, Protocol::Two, &mut Room::default()).await;
    let mut out = Vec::new();
    reply.unwrap_or_else(Reply::Refused).write(Protocol::Two, &mut out);
    String::from_utf8(out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_many_streams_ends_where_its_answer_is_full() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let config = RespConfig {
        answer_bytes: 500,
        ..RespConfig::default()
    };
    let server = open(&trio, config).await;
    let (index, broker) = (trio.partition_of(&topic, 1), &trio.get(1).broker);
    let key = format!("{}/{index}", topic.full_name());
    let mut client = Client::new(&server).await;
    let value = "x".repeat(1000);
    client
        .ask(&format!("XADD {key} * a {value}"), &format!("$3 1-{index}"))
        .await;
    let read = || broker.metrics().read_bytes.load(Relaxed);
    let before = read();
    let (keys, ids) = (format!("{key} ").repeat(200), "0 ".repeat(200));
    let answer = xread_of(&server, false, &format!("XREAD STREAMS {keys}{ids}")).await;
    assert!(answer.starts_with("*1\r\n"), "{answer}");
    let bytes = read() - before;
    assert!(bytes < 10 * 1000, "{bytes} bytes were read");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_many_streams_ends_early_for_a_client_that_has_ended_and_for_a_stop() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let server = open(&trio, RespConfig::default()).await;
    let index = trio.partition_of(&topic, 1);
    let key = format!("{}/{index}", topic.full_name());
    let mut client = Client::new(&server).await;
    client.ask(&format!("XADD {key} * a x"), &format!("$3 1-{index}")).await;
    // Nothing is found in the first one.
    let line = format!("XREAD STREAMS {key} {key} {key} $ 0 0");
    for (ended, streams) in [(false, "*2\r\n"), (true, "*1\r\n")] {
        let answer = xread_of(&server, ended, &line).await;
        assert!(answer.starts_with(streams), "{ended}: {answer}");
    }
    // Who has sent all it has to send gets its answer.
    let told = format!("*1 *2 ${} {key} *1 {}", key.len(), entry(&format!("1-{index}"), "x"));
    client.send(&format!("XREAD STREAMS {key} 0")).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.0).await.unwrap();
    client.answer(&told).await;
    client.is_closed().await;
    server.shared.stopping.cancel();
    assert_eq!(xread_of(&server, false, &line).await, "*-1\r\n");
    server.stop().await;
}
