//! Versions, framing, order of answers.

use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::Batch;
use crate::normal::Projection;
use crate::session::{MAIN, Session, frame};
use anyhow::Result;
use bytes::BytesMut;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Encodable;
use std::time::Duration;

pub const SCENARIOS: &[Scenario] = &[
    scenario("api_versions", api_versions),
    scenario("unadvertised", unadvertised),
    scenario("frames", frames),
    scenario("headers", headers),
    scenario("pipeline", pipeline),
    scenario("acks_none", acks_none),
];

fn api_versions(s: &mut Session) -> Result<()> {
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("differential"))
        .with_client_software_version(text("1.0"));
    for version in 0..=4 {
        let request = if version < 3 {
            ApiVersionsRequest::default()
        } else {
            request.clone()
        };
        s.call(format!("v{version}"), version, &request)?;
    }
    s.look(Projection::hide(&[
        "api_keys",
        "supported_features",
        "finalized_features",
    ]));
    for version in 3..=4 {
        for (what, name, number) in [
            ("empty", "", ""),
            ("a bad name", "no good", "1"),
            ("a bad version", "good", "1 2"),
            ("dashes and dots", "a-b.c", "1-2.3"),
            ("a leading dash", "-a", "1"),
            ("letters of other scripts", "é", "1"),
        ] {
            let request = ApiVersionsRequest::default()
                .with_client_software_name(text(name))
                .with_client_software_version(text(number));
            s.call(format!("v{version} software {what}"), version, &request)?;
        }
    }
    for version in [5_i16, 99, i16::MAX, -1] {
        s.look(Projection::default());
        let mut frame = Vec::new();
        frame.extend(18_i16.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(77_i32.to_be_bytes());
        frame.extend(b"\0\x01x\0");
        frame.extend(b"\x05body");
        s.call_frame::<ApiVersionsRequest>(format!("unknown version {version}"), &frame, 77, 0)?;
        s.look(Projection::hide(&[
            "api_keys",
            "supported_features",
            "finalized_features",
        ]));
        s.call(format!("after unknown version {version}"), 3, &request)?;
    }
    s.call("again", 4, &request)?;
    Ok(())
}

/// Keys and versions nobody offers: the connection ends.
fn unadvertised(s: &mut Session) -> Result<()> {
    let pairs: [(i16, i16); 46] = [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 14),
        (0, -1),
        (1, 0),
        (1, 3),
        (1, 30),
        (2, 0),
        (2, 12),
        (3, 14),
        (3, -1),
        (4, 0),
        (5, 0),
        (6, 0),
        (7, 0),
        (8, 0),
        (8, 1),
        (8, 11),
        (9, 0),
        (9, 11),
        (10, 7),
        (11, 10),
        (12, 5),
        (13, 6),
        (14, 6),
        (15, 7),
        (16, 6),
        (19, 0),
        (19, 1),
        (19, 8),
        (20, 0),
        (20, 7),
        (21, 3),
        (22, 7),
        (23, 0),
        (23, 1),
        (23, 5),
        (32, 0),
        (32, 5),
        (35, 0),
        (37, 4),
        (52, 0),
        (53, 0),
        (999, 0),
        (-1, 0),
    ];
    for (key, version) in pairs {
        let mut frame = Vec::new();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(5_i32.to_be_bytes());
        frame.extend(b"\0\x01x");
        frame.extend([0; 16]);
        s.call_frame::<MetadataRequest>(format!("key {key} version {version}"), &frame, 5, 1)?;
    }
    Ok(())
}

fn frames(s: &mut Session) -> Result<()> {
    s.patience(Duration::from_millis(1_500));
    for (what, bytes) in [
        ("nothing but a length of zero", &b"\0\0\0\0"[..]),
        ("a negative length", b"\xff\xff\xff\xff"),
        ("the lowest length", b"\x80\0\0\0"),
        ("the greatest length", b"\x7f\xff\xff\xff"),
        ("a length of one", b"\0\0\0\x01\0"),
        ("half a header", b"\0\0\0\x04\0\x03\0\x01"),
        ("no client id", b"\0\0\0\x08\0\x03\0\x01\0\0\0\x01"),
        ("a TLS hello", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"),
        ("a request in HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("three bytes", b"\0\0\0"),
    ] {
        s.raw(what, bytes)?;
    }
    s.call("others are served still", 4, &metadata(&[]))?;
    Ok(())
}

fn headers(s: &mut Session) -> Result<()> {
    let head = |key: i16, version: i16, rest: &[u8]| {
        let mut frame = Vec::new();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(9_i32.to_be_bytes());
        frame.extend(rest);
        frame
    };
    let none = b"\0\0\0\0";
    for (what, client) in [
        ("null", &b"\xff\xff"[..]),
        ("empty", b"\0\0"),
        ("latin", b"\0\x02\xe9\xe9"),
        ("long", &[0; 0]),
    ] {
        let mut rest = client.to_vec();
        if what == "long" {
            rest.extend(30_000_u16.to_be_bytes());
            rest.extend([b'x'; 30_000]);
        }
        rest.extend(none);
        s.call_frame::<MetadataRequest>(format!("client id {what}, plain header"), &head(3, 1, &rest), 9, 1)?;
        let mut rest = client.to_vec();
        if what == "long" {
            rest.extend(30_000_u16.to_be_bytes());
            rest.extend([b'x'; 30_000]);
        }
        rest.extend(b"\0\x01\0\0\0\0");
        s.call_frame::<MetadataRequest>(format!("client id {what}, flexible header"), &head(3, 9, &rest), 9, 9)?;
    }
    for (what, rest) in [
        ("a client id longer than the frame", &b"\x7f\xff"[..]),
        ("a client id of length -2", b"\xff\xfe\0\0\0\0"),
    ] {
        s.call_frame::<MetadataRequest>(what, &head(3, 1, rest), 9, 1)?;
    }
    for (what, rest) in [
        ("an unknown tag in the header", &b"\0\0\x01\x09\x02ab\x01\0\0\0\0"[..]),
        ("a tag twice in the header", b"\0\0\x02\x09\x01a\x09\x01a\x01\0\0\0\0"),
        ("more tags than bytes", b"\0\0\xff\xff\xff\xff\x07"),
        ("a tag longer than the frame", b"\0\0\x01\x09\x7f"),
        ("an unknown tag in the body", b"\0\0\0\x01\0\0\0\x01\x09\x02ab"),
        ("a varint that never ends", b"\0\0\0\xff\xff\xff\xff\xff\xff\xff"),
    ] {
        s.call_frame::<MetadataRequest>(what, &head(3, 9, rest), 9, 9)?;
    }
    Ok(())
}

/// Answers come in the order of the requests, though the first one waits.
fn pipeline(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name: name.clone(),
    };
    let records = Batch::of(s.time(), &["a", "b"]).encode()?;
    s.call("produce", 7, &produce(&topic, 0, records.clone()))?;
    let waiting = fetch(&topic, 0, 2).with_max_wait_ms(700).with_min_bytes(1_000_000);
    s.send_on(MAIN, "a fetch that waits", 11, &waiting)?;
    s.send_on(MAIN, "metadata behind it", 5, &metadata(std::slice::from_ref(&name)))?;
    s.send_on(MAIN, "produce behind it", 7, &produce(&topic, 0, records.clone()))?;
    s.send_on(MAIN, "list offsets behind it", 5, &list_offsets(&name, &[(0, -1)]))?;
    // Whether the produce behind it may run before the fetch ends is the broker's affair.
    s.look(Projection::hide(&["records", "high_watermark", "last_stable_offset"]));
    s.receive_on::<FetchRequest>(MAIN)?;
    s.look(Projection::default());
    s.receive_on::<MetadataRequest>(MAIN)?;
    s.receive_on::<ProduceRequest>(MAIN)?;
    s.receive_on::<ListOffsetsRequest>(MAIN)?;
    for round in 0..20 {
        s.send_on(
            MAIN,
            format!("produce {round}"),
            7,
            &produce(&topic, 0, records.clone()),
        )?;
    }
    for _ in 0..20 {
        if s.pending(MAIN) > 0 {
            s.receive_on::<ProduceRequest>(MAIN)?;
        }
    }
    s.call("all of it in order", 11, &fetch(&topic, 0, 0))?;
    // What follows a request that ends the connection is not answered.
    s.send_on(MAIN, "before the end", 5, &metadata(std::slice::from_ref(&name)))?;
    s.send_body_on::<ProduceRequest>(MAIN, "the end", 7, b"\x7f")?;
    s.send_on(MAIN, "after the end", 5, &metadata(&[name]))?;
    s.receive_on::<MetadataRequest>(MAIN)?;
    if s.pending(MAIN) > 0 {
        s.receive_on::<ProduceRequest>(MAIN)?;
    }
    Ok(())
}

/// A produce with acks 0 has no answer; an error ends the connection.
fn acks_none(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name: name.clone(),
    };
    let unknown = Topic {
        name: s.name("missing"),
        id: uuid::Uuid::from_u128(7),
    };
    let good = Batch::of(s.time(), &["a"]).encode()?;
    let broken = Batch::of(s.time(), &["a"]).with(|batch| batch.crc_lie = 1).encode()?;
    for version in [3, 8, 9, 12, 13] {
        for (what, topic, partition, records) in [
            ("good", &topic, 0, &good),
            ("an unknown partition", &topic, 9, &good),
            ("an unknown topic", &unknown, 0, &good),
            ("a broken batch", &topic, 0, &broken),
        ] {
            // The metadata request's answer comes first, or the connection ends: both are answers to what came before.
            let mut body = BytesMut::new();
            produce(topic, partition, records.clone())
                .with_acks(0)
                .encode(&mut body, version)?;
            let produce = frame::<ProduceRequest>(version, 1, &body)?;
            let mut body = BytesMut::new();
            metadata(&[]).encode(&mut body, 4)?;
            let metadata = frame::<MetadataRequest>(4, 6, &body)?;
            let mut both = (produce.len() as u32).to_be_bytes().to_vec();
            both.extend(produce);
            both.extend((metadata.len() as u32).to_be_bytes());
            both.extend(metadata);
            s.call_framed::<MetadataRequest>(format!("v{version} {what}, then metadata"), &both, 6, 4)?;
        }
    }
    s.until("the records are there", |s| {
        let end = s.quiet(5, &list_offsets(&name, &[(0, -1)]))?;
        Ok(end
            .topics
            .iter()
            .all(|topic| topic.partitions.iter().all(|partition| partition.offset >= 5)))
    })?;
    s.call("what was stored", 11, &fetch(&topic, 0, 0))?;
    Ok(())
}
