//! As fast as the broker gives records.

use crate::client::consumer;
use crate::meter::{Meter, round};
use crate::workload::Load;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

pub fn run(load: &Load) -> anyhow::Result<Value> {
    let client = consumer(&load.bootstrap, &load.properties)?;
    let meter = Meter::start(&load.pid);
    let start = Instant::now();
    client.assign(&load.topic, load.partitions, false)?;
    let limit = Duration::from_secs(load.seconds);
    let (mut got, mut bytes, mut first) = (0u64, 0u64, 0.0);
    while got < load.records && start.elapsed() < limit {
        let n = client.receive(100, 10_000, |value| bytes += value.len() as u64);
        if got == 0 && n > 0 {
            // Rates count from the first record: librdkafka itself waits about half a second before its first fetch.
            first = start.elapsed().as_secs_f64();
        }
        got += n as u64;
    }
    let seconds = (start.elapsed().as_secs_f64() - first).max(1e-3);
    let mut out = Map::new();
    out.insert("mode".into(), json!("consume"));
    out.insert("records".into(), json!(got));
    out.insert("failed".into(), json!(load.records.saturating_sub(got)));
    out.insert("partitions".into(), json!(load.partitions));
    out.insert("seconds".into(), json!(round(seconds, 3)));
    out.insert("records_s".into(), json!((got as f64 / seconds).round()));
    out.insert("mb_s".into(), json!(round(bytes as f64 / 1e6 / seconds, 1)));
    meter.report(bytes as f64, &mut out);
    Ok(Value::Object(out))
}
