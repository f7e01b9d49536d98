//! Commands over a socket, of streams that three members lead, asked of one.

mod greedy;

use super::{CommandLimits, RespConfig, RespServer};
use crate::auth::{Auth, AuthConfig};
use crate::broker::tests::trio::{Trio, until};
use crate::ql::exec::{Engine, Settings};
use crate::tls::Door;
use cluster::ids::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(90);

/// Member 1's port.
async fn open(trio: &Trio, config: RespConfig) -> RespServer {
    let broker = trio.get(1).broker.clone();
    let auth = Arc::new(Auth::new(broker.catalog().clone(), AuthConfig::default()));
    let settings = Settings {
        node: NodeId(1),
        max_message_bytes: 1 << 20,
    };
    let engine = Arc::new(Engine::new(broker.clone(), auth.clone(), settings));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    RespServer::start(listener, Door::plain(), config, broker, engine, auth).unwrap()
}

struct Client(TcpStream);

impl Client {
    async fn new(server: &RespServer) -> Self {
        Self(TcpStream::connect(server.local_addr()).await.unwrap())
    }

    async fn send(&mut self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let mut out = format!("*{}\r\n", words.len());
        for word in words {
            out += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.write_all(out.as_bytes()).await.unwrap();
    }

    /// What comes next, as long as what is expected; lines end with a space here.
    async fn answer(&mut self, expected: &str) {
        let expected = expected.replace(' ', "\r\n") + "\r\n";
        let mut got = Vec::new();
        let read = async {
            while got.len() < expected.len() {
                let left = expected.len() - got.len();
                let mut part = vec![0; left];
                let n = self.0.read(&mut part).await.unwrap();
                if n == 0 {
                    break;
                }
                got.extend_from_slice(&part[..n]);
                if !expected.as_bytes().starts_with(&got) {
                    break;
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, read).await.is_ok();
        assert_eq!(String::from_utf8_lossy(&got), expected, "in time: {in_time}");
    }

    async fn ask(&mut self, command: &str, expected: &str) {
        self.send(command).await;
        self.answer(expected).await;
    }

    async fn is_closed(&mut self) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut rest)).await;
        // Reset, where it sent more than was read.
        let _ = read.expect("closed");
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }
}

fn entry(id: &str, value: &str) -> String {
    format!("*2 $3 {id} *2 $1 a ${} {value}", value.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_appends_to_and_reads_the_streams_of_all() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let server = open(&trio, RespConfig::default()).await;
    let mut client = Client::new(&server).await;
    let key = |index: u32| format!("{}/{index}", topic.full_name());
    for index in 0..6 {
        for (position, value) in [(1, "x"), (2, "y")] {
            let id = format!("{position}-{index}");
            client
                .ask(&format!("XADD {} * a {value}", key(index)), &format!("$3 {id}"))
                .await;
        }
        let two = [entry(&format!("1-{index}"), "x"), entry(&format!("2-{index}"), "y")];
        client
            .ask(
                &format!("XRANGE {} - +", key(index)),
                &format!("*2 {} {}", two[0], two[1]),
            )
            .await;
        client
            .ask(
                &format!("XREVRANGE {} + - COUNT 1", key(index)),
                &format!("*1 {}", two[1]),
            )
            .await;
        client
            .ask(
                &format!("XREAD STREAMS {} 1-{index}", key(index)),
                &format!("*1 *2 ${} {} *1 {}", key(index).len(), key(index), two[1]),
            )
            .await;
    }
    client.ask(&format!("XLEN {}", topic.full_name()), ":12").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_hears_of_what_any_member_appends() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let server = open(&trio, RespConfig::default()).await;
    let (mut reader, mut writer) = (Client::new(&server).await, Client::new(&server).await);
    for member in 1..=3 {
        let index = trio.partition_of(&topic, member);
        let broker = &trio.get(member).broker;
        let keys = (0..6).map(|index| format!("{}/{index}", topic.full_name()));
        let keys = keys.collect::<Vec<_>>().join(" ");
        reader.send(&format!("XREAD BLOCK 0 STREAMS {keys} $ $ $ $ $ $")).await;
        // The wait reaches the leader, or there would be nothing to wake.
        until("the read waits at its leader", || broker.waiting() > 0).await;
        let id = format!("1-{index}");
        let key = format!("{}/{index}", topic.full_name());
        writer.ask(&format!("XADD {key} * a x"), &format!("$3 {id}")).await;
        let told = format!("*1 *2 ${} {key} *1 {}", key.len(), entry(&id, "x"));
        reader.answer(&told).await;
        until("nobody waits", || {
            (1..=3).all(|member| trio.get(member).broker.waiting() == 0)
        })
        .await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_ends_with_its_client_and_with_the_port() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let server = open(&trio, RespConfig::default()).await;
    let broker = &trio.get(1).broker;
    let wait = format!(
        "XREAD BLOCK 0 STREAMS {}/{} $",
        topic.full_name(),
        trio.partition_of(&topic, 1)
    );
    let mut gone = Client::new(&server).await;
    gone.send(&wait).await;
    until("it waits", || broker.waiting() > 0).await;
    drop(gone);
    until("it waits no more", || broker.waiting() == 0).await;
    let mut stays = Client::new(&server).await;
    stays.send(&wait).await;
    until("it waits", || broker.waiting() > 0).await;
    server.stop().await;
    stays.answer("*-1").await;
    stays.is_closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_sent_together_are_stored_and_answered_in_order() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let config = RespConfig {
        pipeline: 4,
        ..RespConfig::default()
    };
    let server = open(&trio, config).await;
    for member in [1, 2] {
        let mut client = Client::new(&server).await;
        let key = format!("{}/{}", topic.full_name(), trio.partition_of(&topic, member));
        let partition = trio.partition_of(&topic, member);
        for n in 1..=9 {
            client.send(&format!("XADD {key} * a {n}")).await;
        }
        // One that fails has its place, too; a read behind them sees them all.
        client.send(&format!("XADD {key} 5-1 a x")).await;
        client.send(&format!("XLEN {key}")).await;
        for n in 1..=9 {
            client.answer(&format!("$3 {n}-{partition}")).await;
        }
        let refusal = "-ERR the store gives each entry its id: its position in the stream; XADD takes * alone\r\n";
        let mut told = vec![0; refusal.len()];
        client.0.read_exact(&mut told).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&told), refusal);
        client.answer(":9").await;
        for n in 1..=9 {
            let id = format!("{n}-{partition}");
            client
                .ask(
                    &format!("XRANGE {key} {id} {id}"),
                    &format!("*1 {}", entry(&id, &n.to_string())),
                )
                .await;
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_no_command_ends_the_connection_alone() {
    let trio = Trio::new().await;
    let config = RespConfig {
        limits: CommandLimits {
            bytes: 100,
            arguments: 5,
        },
        max_connections: 3,
        ..RespConfig::default()
    };
    let server = open(&trio, config).await;
    for (bytes, says) in [
        (&b"*1\r\n$1000\r\n"[..], "a command has 100 bytes at most here"),
        (b"*6\r\n", "a command has 5 arguments at most here"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
    ] {
        let mut client = Client::new(&server).await;
        client.0.write_all(bytes).await.unwrap();
        let told = format!("-ERR Protocol error: {says}\r\n");
        let mut got = vec![0; told.len()];
        client.0.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&got), told);
        client.is_closed().await;
    }
    until("their places are free", || server.connections() == 0).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = Client::new(&server).await;
        client.ask("PING", "+PONG").await;
        open.push(client);
    }
    let mut more = Client::new(&server).await;
    let told = "-ERR max number of clients reached\r\n";
    let mut got = vec![0; told.len()];
    more.0.read_exact(&mut got).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&got), told);
    for client in &mut open {
        client.ask("PING", "+PONG").await;
    }
    server.stop().await;
}
