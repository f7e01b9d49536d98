//! One record in flight at a time.

use crate::client::{delivered, now_ns, producer};
use crate::meter::{Meter, percentiles};
use crate::workload::Load;
use serde_json::{Map, Value, json};

pub fn run(load: &Load) -> anyhow::Result<Value> {
    let client = producer(&load.bootstrap, "0", &load.properties)?;
    if load.create {
        client.create_topic(&load.topic, load.partitions)?;
    }
    let topic = client.topic(&load.topic)?;
    let pool = load.payloads();
    let warm = (load.records / 10).min(200);
    let mut times = Vec::with_capacity(load.records as usize);
    let mut meter = Meter::start(&load.pid);
    for i in 0..load.records + warm {
        if i == warm {
            meter = Meter::start(&load.pid);
        }
        let start = now_ns();
        let partition = (i % u64::from(load.partitions)) as i32;
        anyhow::ensure!(
            client.send(topic, partition, &pool[i as usize % pool.len()], true)?,
            "the queue is full"
        );
        while delivered().0 + delivered().1 <= i {
            client.poll(1000);
        }
        if i >= warm {
            times.push(now_ns() - start);
        }
    }
    let mut out = Map::new();
    out.insert("mode".into(), json!("latency"));
    out.insert("records".into(), json!(load.records));
    out.insert("failed".into(), json!(delivered().1));
    out.insert("size".into(), json!(load.size));
    percentiles(times, &mut out);
    meter.report(0.0, &mut out);
    Ok(Value::Object(out))
}
