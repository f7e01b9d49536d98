//! As fast as the broker takes records.

use crate::client::{delivered, producer};
use crate::meter::{Meter, round};
use crate::workload::Load;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

pub fn run(load: &Load) -> anyhow::Result<Value> {
    let client = producer(&load.bootstrap, "5", &load.properties)?;
    if load.create {
        client.create_topic(&load.topic, load.partitions)?;
    }
    let topic = client.topic(&load.topic)?;
    // Never freed: queued records point into it.
    let pool: &'static [Vec<u8>] = load.payloads().leak();
    let meter = Meter::start(&load.pid);
    let start = Instant::now();
    let limit = Duration::from_secs(load.seconds);
    let mut sent = 0;
    'send: while sent < load.records {
        let value = &pool[sent as usize % pool.len()];
        let partition = if load.round_robin {
            (sent % u64::from(load.partitions)) as i32
        } else {
            -1
        };
        while !client.send(topic, partition, value, false)? {
            client.poll(5);
            if start.elapsed() > limit {
                break 'send;
            }
        }
        sent += 1;
        if sent % 1024 == 0 {
            client.poll(0);
        }
    }
    while delivered().0 + delivered().1 < sent && start.elapsed() < limit {
        client.poll(10);
    }
    let seconds = start.elapsed().as_secs_f64();
    let (acked, failed) = delivered();
    let bytes = acked as f64 * load.size as f64;
    let mut out = Map::new();
    out.insert("mode".into(), json!("produce"));
    out.insert("records".into(), json!(acked));
    out.insert("failed".into(), json!(failed + (sent - acked - failed)));
    out.insert("size".into(), json!(load.size));
    out.insert("partitions".into(), json!(load.partitions));
    out.insert("seconds".into(), json!(round(seconds, 3)));
    out.insert("records_s".into(), json!((acked as f64 / seconds).round()));
    out.insert("mb_s".into(), json!(round(bytes / 1e6 / seconds, 1)));
    meter.report(bytes, &mut out);
    Ok(Value::Object(out))
}
