//! From produce to consume at a steady rate; each record carries the moment it was handed to the client.

use crate::client::{consumer, delivered, now_ns, producer};
use crate::meter::{Meter, percentiles, round};
use crate::workload::Load;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

pub fn run(load: &Load) -> anyhow::Result<Value> {
    let size = load.size.max(16);
    let sender = producer(&load.bootstrap, "0", &load.properties)?;
    if load.create {
        sender.create_topic(&load.topic, load.partitions)?;
    }
    let topic = sender.topic(&load.topic)?;
    let reader = consumer(&load.bootstrap, &[])?;
    reader.assign(&load.topic, load.partitions, true)?;
    let wanted = load.records as usize;
    let received = std::thread::spawn(move || {
        let mut times = Vec::with_capacity(wanted);
        let mut idle = 0;
        while times.len() < wanted && idle < 100 {
            let n = reader.receive(100, 1, |value| {
                if let Some(sent) = value.first_chunk::<8>() {
                    times.push(now_ns().saturating_sub(u64::from_le_bytes(*sent)));
                }
            });
            idle = if n == 0 { idle + 1 } else { 0 };
        }
        times
    });
    // The consumer's first fetch must be waiting before the clock runs.
    std::thread::sleep(Duration::from_millis(1500));
    let meter = Meter::start(&load.pid);
    let start = Instant::now();
    let mut body = load.payloads().swap_remove(0);
    body.resize(size, b' ');
    for i in 0..load.records {
        let due = Duration::from_nanos(i * 1_000_000_000 / load.rate);
        while let Some(wait) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(wait);
        }
        body[..8].copy_from_slice(&now_ns().to_le_bytes());
        let partition = (i % u64::from(load.partitions)) as i32;
        anyhow::ensure!(sender.send(topic, partition, &body, true)?, "the queue is full");
        sender.poll(0);
    }
    let limit = Duration::from_secs(load.seconds);
    while delivered().0 + delivered().1 < load.records && start.elapsed() < limit {
        sender.poll(10);
    }
    let seconds = start.elapsed().as_secs_f64();
    let times = received.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?;
    let mut out = Map::new();
    out.insert("mode".into(), json!("e2e"));
    out.insert("records".into(), json!(times.len()));
    out.insert("failed".into(), json!(wanted - times.len()));
    out.insert("rate".into(), json!(load.rate));
    out.insert("size".into(), json!(size));
    percentiles(times, &mut out);
    meter.report(0.0, &mut out);
    if let Some(cpu) = out.get("broker_cpu_s").and_then(Value::as_f64) {
        out.insert("broker_cores".into(), json!(round(cpu / seconds, 3)));
    }
    Ok(Value::Object(out))
}
