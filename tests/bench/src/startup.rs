//! From process start to the first acknowledged record.

use crate::client::{delivered, producer};
use crate::meter::{round, usage};
use crate::workload::Load;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub fn run(load: &Load) -> anyhow::Result<Value> {
    let command = load
        .spawn
        .as_deref()
        .ok_or_else(|| anyhow::anyhow!("startup needs --spawn"))?;
    let limit = Duration::from_secs(load.seconds);
    let start = Instant::now();
    let mut broker = Command::new("sh")
        .arg("-c")
        .arg(format!("exec {command}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    while std::net::TcpStream::connect(&load.bootstrap).is_err() {
        anyhow::ensure!(start.elapsed() < limit, "nothing listens on {}", load.bootstrap);
        std::thread::sleep(Duration::from_millis(1));
    }
    let listening = start.elapsed().as_secs_f64();
    let client = producer(&load.bootstrap, "0", &load.properties)?;
    if load.create {
        client.create_topic(&load.topic, load.partitions)?;
    }
    let topic = client.topic(&load.topic)?;
    client.send(topic, 0, b"hello", true)?;
    while delivered().0 + delivered().1 < 1 && start.elapsed() < limit {
        client.poll(10);
    }
    let first = start.elapsed().as_secs_f64();
    let used = usage(broker.id());
    let acked = delivered().0;
    broker.kill()?;
    broker.wait()?;
    Ok(json!({
        "mode": "startup", "failed": 1 - acked, "listening_s": round(listening, 3), "first_ack_s": round(first, 3),
        "rss_mb": used.map(|u| u.rss_mb.round()),
    }))
}
