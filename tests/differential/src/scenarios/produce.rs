//! Produce: what a request may ask for. What a batch may be is in `batches`.

use super::batches::Bench;
use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::{Batch, Record};
use crate::session::Session;
use anyhow::Result;
use bytes::Bytes;
use std::time::Duration;
use uuid::Uuid;

pub const SCENARIOS: &[Scenario] = &[
    scenario("produce", versions),
    scenario("produce_many", many),
    scenario("produce_twice", twice),
    scenario("produce_sizes", sizes),
    scenario("produce_times", times),
    scenario("produce_append_time", append_time),
    scenario("produce_records", records),
    scenario("produce_compacted", compacted),
    scenario("produce_null", null_records),
];

fn versions(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 2)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name: name.clone(),
    };
    let missing = Topic {
        name: s.name("missing"),
        id: Uuid::from_u128(5),
    };
    let good = Batch::of(s.time(), &["a", "b", "c"]).encode()?;
    for version in 3..=13 {
        for (what, request) in [
            ("acks all", produce(&topic, 0, good.clone())),
            ("acks one", produce(&topic, 1, good.clone()).with_acks(1)),
            ("acks two", produce(&topic, 0, good.clone()).with_acks(2)),
            ("acks -2", produce(&topic, 0, good.clone()).with_acks(-2)),
            ("an unknown partition", produce(&topic, 2, good.clone())),
            ("a negative partition", produce(&topic, -1, good.clone())),
            ("an unknown topic", produce(&missing, 0, good.clone())),
            ("no bytes", produce(&topic, 0, Bytes::new())),
            ("no partitions", produce_all(&topic, vec![])),
            ("no topics", produce_all(&topic, vec![]).with_topic_data(vec![])),
            ("a timeout of zero", produce(&topic, 0, good.clone()).with_timeout_ms(0)),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
    }
    let apart = s.topic("transactional", 1)?;
    let apart = Topic {
        id: s.topic_id(&apart)?,
        name: apart,
    };
    let transactional = produce(&apart, 0, good.clone()).with_transactional_id(Some(text("tx").into()));
    s.call("a transactional id, a plain batch", 9, &transactional)?;
    let within = Batch::of(s.time(), &["a"])
        .from_producer(4_000, 0, 0)
        .with(|batch| batch.attributes = 16);
    s.call(
        "a batch of a transaction unknown",
        9,
        &produce(&topic, 0, within.encode()?),
    )?;
    for name in ["", "d.d.a b", "produce_bare", "d.d.a.b", "nowhere.d.t"] {
        let topic = Topic {
            name: topic_name(name),
            id: Uuid::nil(),
        };
        s.call(format!("a topic named {name:?}"), 9, &produce(&topic, 0, good.clone()))?;
    }
    let nil = Topic {
        name: name.clone(),
        id: Uuid::nil(),
    };
    s.call("the zero id", 13, &produce(&nil, 0, good.clone()))?;
    for partition in [0, 1] {
        s.call(format!("what {partition} holds"), 12, &fetch(&topic, partition, 0))?;
    }
    s.call("the ends", 7, &list_offsets(&name, &[(0, -1), (1, -1)]))?;
    Ok(())
}

/// Several partitions and topics in one request, each with a fate of its own.
fn many(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 3)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name: name.clone(),
    };
    let other = s.topic("u", 1)?;
    let other = Topic {
        id: s.topic_id(&other)?,
        name: other,
    };
    let missing = Topic {
        name: s.name("missing"),
        id: Uuid::from_u128(5),
    };
    let good = Batch::of(s.time(), &["a", "b"]).encode()?;
    let bad = Batch::of(s.time(), &["a", "b"])
        .with(|batch| batch.crc_lie = 9)
        .encode()?;
    for version in [3, 8, 12, 13] {
        let batches = vec![
            (0, Some(good.clone())),
            (1, Some(bad.clone())),
            (2, Some(good.clone())),
            (7, Some(good.clone())),
        ];
        s.call(
            format!("v{version} good, bad, good, unknown"),
            version,
            &produce_all(&topic, batches),
        )?;
        let mut request = produce(&topic, 0, good.clone());
        request.topic_data.extend(produce(&missing, 0, good.clone()).topic_data);
        request.topic_data.extend(produce(&other, 0, good.clone()).topic_data);
        s.call(format!("v{version} three topics, one unknown"), version, &request)?;
    }
    s.call("what is held", 12, &fetch_all(&topic, &[(0, 0), (1, 0), (2, 0)]))?;
    Ok(())
}

/// A partition, or its topic, named twice in one request.
fn twice(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 16)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let first = Batch::of(s.time(), &["a", "b"]).encode()?;
    let second = Batch::of(s.time(), &["c"]).encode()?;
    let mut fresh = (0..).step_by(4);
    for version in [3, 8, 12, 13] {
        let at = fresh.next().unwrap_or_default();
        let both = produce_all(&topic, vec![(at, Some(first.clone())), (at, Some(second.clone()))]);
        s.call(format!("v{version} a partition twice"), version, &both)?;
        let mut request = produce(&topic, at + 1, first.clone());
        request
            .topic_data
            .extend(produce(&topic, at + 2, first.clone()).topic_data);
        s.call(format!("v{version} a topic twice"), version, &request)?;
        s.call(
            format!("v{version} what is held"),
            12,
            &fetch_all(&topic, &[(at, 0), (at + 1, 0), (at + 2, 0)]),
        )?;
    }
    Ok(())
}

fn sizes(s: &mut Session) -> Result<()> {
    let time = s.time();
    let name = s.topic_with("t", 2, &[("max.message.bytes", "2000")])?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let batch = |size: usize| Batch::of(time, &[&"x".repeat(size)]).encode();
    let overhead = batch(1_500)?.len() - 1_500;
    let (fits, over, far) = (batch(2_000 - overhead)?, batch(2_001 - overhead)?, batch(100_000)?);
    for version in [3, 7, 9, 12] {
        for (what, records) in [
            ("just fits", &fits),
            ("is one too long", &over),
            ("is far too long", &far),
        ] {
            s.call(
                format!("v{version} a batch that {what}"),
                version,
                &produce(&topic, 0, records.clone()),
            )?;
        }
        let both = produce_all(&topic, vec![(0, Some(far.clone())), (1, Some(fits.clone()))]);
        s.call(format!("v{version} too long for one of two"), version, &both)?;
    }
    let squeezed = Batch::of(s.time(), &[&"x".repeat(100_000)])
        .codec(crate::batch::Codec::Gzip)
        .encode()?;
    s.call("long but for its compression", 9, &produce(&topic, 0, squeezed))?;
    let name = s.topic("u", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let batch = |size: usize| Batch::of(time, &[&"x".repeat(size)]).encode();
    s.call("a megabyte less a little", 9, &produce(&topic, 0, batch(1_000_000)?))?;
    s.call("a megabyte and a little", 9, &produce(&topic, 0, batch(1_050_000)?))?;
    s.call("the ends", 7, &list_offsets(&topic.name, &[(0, -1)]))?;
    Ok(())
}

fn times(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let now = s.time() + crate::normal::DAY;
    let hour = 3_600_000;
    for version in [7, 9] {
        for (what, batch) in [
            ("an hour and a half ahead", Batch::of(now + hour + hour / 2, &["a"])),
            ("half an hour ahead", Batch::of(now + hour / 2, &["a"])),
            ("no time", Batch::of(-1, &["a"])),
            (
                "no time, several",
                Batch::of(-1, &["a", "b"]).with(|b| b.records[1].timestamp_delta = 0),
            ),
            ("time zero", Batch::of(0, &["a"])),
            ("before 1970", Batch::of(-5_000, &["a"])),
            (
                "zero and now in one batch",
                Batch::of(0, &["a", "b"]).with(|b| b.records[1].timestamp_delta = now),
            ),
            (
                "backwards",
                Batch::of(s.time(), &["a", "b"]).with(|b| b.records[1].timestamp_delta = -5_000),
            ),
            (
                "a greatest time too low",
                Batch::of(s.time(), &["a", "b"]).with(|b| b.max_timestamp = Some(s.time())),
            ),
            ("a greatest time too high", {
                let high = s.time() + 60_000;
                Batch::of(s.time(), &["a", "b"]).with(|b| b.max_timestamp = Some(high))
            }),
            (
                "a greatest time of -1",
                Batch::of(s.time(), &["a"]).with(|b| b.max_timestamp = Some(-1)),
            ),
            ("beyond the end of time", {
                Batch::of(i64::MAX - 1, &["a", "b"]).with(|b| b.records[1].timestamp_delta = 5)
            }),
            ("the far future by one record", {
                Batch::of(s.time(), &["a", "b"]).with(|b| b.records[1].timestamp_delta = 40 * 24 * hour)
            }),
        ] {
            s.call(
                format!("v{version} {what}"),
                version,
                &produce(&topic, 0, batch.encode()?),
            )?;
        }
    }
    let ten = Batch::of(now + 2 * hour, &["a", "b"]).codec(crate::batch::Codec::Gzip);
    s.call("ahead and compressed", 9, &produce(&topic, 0, ten.encode()?))?;
    Ok(())
}

/// A topic whose records are stamped when they are stored.
fn append_time(s: &mut Session) -> Result<()> {
    let name = s.topic_with("t", 1, &[("message.timestamp.type", "LogAppendTime")])?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let plain = Batch::of(s.time(), &["a", "b"]);
    for version in [3, 9, 12] {
        s.call(
            format!("v{version} plain"),
            version,
            &produce(&topic, 0, plain.encode()?),
        )?;
    }
    s.call(
        "gzip",
        9,
        &produce(&topic, 0, plain.clone().codec(crate::batch::Codec::Gzip).encode()?),
    )?;
    let marked = plain.clone().with(|batch| batch.attributes = 8);
    s.call("marked by the producer", 9, &produce(&topic, 0, marked.encode()?))?;
    let ahead = Batch::of(4_000_000_000_000, &["a"]);
    s.call("far ahead", 9, &produce(&topic, 0, ahead.encode()?))?;
    s.call("what is held", 12, &fetch(&topic, 0, 0))?;
    s.call(
        "the first after a time long ago",
        7,
        &list_offsets(&topic.name, &[(0, 1_000)]),
    )?;
    let name = s.topic("u", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    s.call(
        "marked by the producer against the topic",
        9,
        &produce(&topic, 0, marked.encode()?),
    )?;
    s.call("what the other holds", 12, &fetch(&topic, 0, 0))?;
    Ok(())
}

/// What a record may be.
fn records(s: &mut Session) -> Result<()> {
    let mut bench = Bench::new(s, 40)?;
    let time = s.time();
    let one = |change: &dyn Fn(&mut Record)| {
        Batch::of(time, &["value"])
            .with(|batch| change(&mut batch.records[0]))
            .encode()
    };
    for (what, records) in [
        ("a null key", one(&|r| r.key = None)?),
        ("a null value", one(&|r| r.value = None)?),
        ("neither", one(&|r| (r.key, r.value) = (None, None))?),
        (
            "empty key and value",
            one(&|r| (r.key, r.value) = (Some(vec![]), Some(vec![])))?,
        ),
        (
            "a header",
            one(&|r| r.headers = vec![(b"h".to_vec(), Some(b"v".to_vec()))])?,
        ),
        (
            "a header twice",
            one(&|r| r.headers = vec![(b"h".to_vec(), None), (b"h".to_vec(), Some(vec![1]))])?,
        ),
        (
            "a header whose name is no text",
            one(&|r| r.headers = vec![(vec![0xff, 0xfe], Some(vec![]))])?,
        ),
        (
            "a header without a name",
            one(&|r| r.headers = vec![(vec![], Some(vec![]))])?,
        ),
        ("a claim of more headers", one(&|r| r.header_count_lie = Some(3))?),
        (
            "a claim of headers below zero",
            one(&|r| r.header_count_lie = Some(-1))?,
        ),
        (
            "a claim of very many headers",
            one(&|r| r.header_count_lie = Some(i64::from(i32::MAX)))?,
        ),
        ("a length too great", one(&|r| r.length_lie = 1)?),
        ("a length too small", one(&|r| r.length_lie = -1)?),
        ("a length below zero", one(&|r| r.length_lie = -1_000)?),
        (
            "a length beyond all",
            one(&|r| r.length_lie = i64::from(i32::MAX) - 100)?,
        ),
    ] {
        bench.send(s, what, &records, &[3, 9])?;
    }
    bench.held(s)?;
    Ok(())
}

/// Keys are asked for where a topic is compacted.
fn compacted(s: &mut Session) -> Result<()> {
    let time = s.time();
    let one = |change: &dyn Fn(&mut Record)| {
        Batch::of(time, &["value"])
            .with(|batch| change(&mut batch.records[0]))
            .encode()
    };
    let Some(name) = s.topic_or_refusal("t", 1, &[("cleanup.policy", "compact")])? else {
        return Ok(());
    };
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    for version in [3, 8, 12] {
        s.call(
            format!("v{version} a null key on a compacted topic"),
            version,
            &produce(&topic, 0, one(&|r| r.key = None)?),
        )?;
        let second = Batch::of(s.time(), &["a", "b"])
            .with(|batch| batch.records[1].key = None)
            .encode()?;
        s.call(
            format!("v{version} the second's key null there"),
            version,
            &produce(&topic, 0, second),
        )?;
        s.call(
            format!("v{version} a key there"),
            version,
            &produce(&topic, 0, one(&|_| ())?),
        )?;
    }
    Ok(())
}

fn null_records(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    s.patience(Duration::from_secs(3));
    for version in [3, 9] {
        s.call(
            format!("v{version} null"),
            version,
            &produce_all(&topic, vec![(0, None)]),
        )?;
    }
    Ok(())
}
