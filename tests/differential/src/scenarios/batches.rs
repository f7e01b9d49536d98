//! Batches: every rule of the format broken, one at a time; every codec, and what may be wrong inside it.

use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::{Batch, Codec, Record, varint, zstd_bomb};
use crate::session::Session;
use anyhow::{Result, ensure};
use bytes::Bytes;

pub const SCENARIOS: &[Scenario] = &[
    scenario("batch_headers", headers),
    scenario("batch_lengths", lengths),
    scenario("batch_counts", counts),
    scenario("codecs", codecs),
    scenario("codecs_of_topics", recompressed),
    scenario("codecs_broken", broken_codecs),
    scenario("codecs_counts", codec_counts),
    scenario("codecs_bombs", bombs),
];

/// A name and a change that makes a batch lie.
type Lie = (&'static str, Box<dyn Fn(&mut Batch)>);

/// A topic in which each batch has a partition of its own, so that one taken or refused moves no other's offset.
pub(super) struct Bench {
    topic: Topic,
    used: i32,
    partitions: i32,
}

impl Bench {
    /// A topic with room for `partitions` batches.
    pub(super) fn new(s: &mut Session, partitions: i32) -> Result<Self> {
        let name = s.topic("t", partitions)?;
        let topic = Topic {
            id: s.topic_id(&name)?,
            name,
        };
        Ok(Bench {
            topic,
            used: 0,
            partitions,
        })
    }

    /// Sends `records` once in each version, each time to a fresh partition.
    pub(super) fn send(&mut self, s: &mut Session, what: &str, records: &Bytes, versions: &[i16]) -> Result<()> {
        for version in versions {
            ensure!(self.used < self.partitions, "more batches than partitions");
            s.call(
                format!("v{version} {what}"),
                *version,
                &produce(&self.topic, self.used, records.clone()),
            )?;
            self.used += 1;
        }
        Ok(())
    }

    /// Fetches what the partitions hold.
    pub(super) fn held(&self, s: &mut Session) -> Result<()> {
        let all: Vec<(i32, i64)> = (0..self.used).map(|partition| (partition, 0)).collect();
        s.call("what is held", 12, &fetch_all(&self.topic, &all))?;
        Ok(())
    }
}

fn headers(s: &mut Session) -> Result<()> {
    let mut bench = Bench::new(s, 60)?;
    let good = Batch::of(s.time(), &["a", "b", "c"]);
    let changes: Vec<Lie> = vec![
        ("base offset 5", Box::new(|b| b.base_offset = 5)),
        ("base offset -1", Box::new(|b| b.base_offset = -1)),
        ("a leader epoch", Box::new(|b| b.leader_epoch = 12)),
        ("magic 0", Box::new(|b| b.magic = 0)),
        ("magic 1", Box::new(|b| b.magic = 1)),
        ("magic 3", Box::new(|b| b.magic = 3)),
        ("magic -1", Box::new(|b| b.magic = -1)),
        ("magic 127", Box::new(|b| b.magic = 127)),
        ("a bad checksum", Box::new(|b| b.crc_lie = 1)),
        ("a checksum with its top bit wrong", Box::new(|b| b.crc_lie = 1 << 31)),
        ("the control bit", Box::new(|b| b.attributes = 32)),
        (
            "the control bit of a producer",
            Box::new(|b| (b.attributes, b.producer_id, b.producer_epoch) = (32, 5, 0)),
        ),
        (
            "the transactional bit without a producer",
            Box::new(|b| b.attributes = 16),
        ),
        ("unused attribute bits", Box::new(|b| b.attributes = 0x700)),
        ("the delete horizon bit", Box::new(|b| b.attributes = 64)),
        ("a sequence without a producer", Box::new(|b| b.base_sequence = 3)),
        (
            "a producer without a sequence",
            Box::new(|b| (b.producer_id, b.producer_epoch) = (5, 0)),
        ),
        (
            "a producer without an epoch",
            Box::new(|b| (b.producer_id, b.base_sequence) = (5, 0)),
        ),
        (
            "a negative producer",
            Box::new(|b| (b.producer_id, b.producer_epoch, b.base_sequence) = (-2, 0, 0)),
        ),
    ];
    for (what, change) in &changes {
        let records = good.clone().with(change).encode()?;
        bench.send(s, what, &records, &[3, 9, 12])?;
    }
    bench.held(s)?;
    Ok(())
}

fn lengths(s: &mut Session) -> Result<()> {
    let mut bench = Bench::new(s, 60)?;
    let good = Batch::of(s.time(), &["a", "b", "c"]).encode()?;
    let join = |parts: &[&[u8]]| Bytes::from(parts.concat());
    let lie = |by: i32| {
        Batch::of(s.time(), &["a", "b", "c"])
            .with(|b| b.length_lie = by)
            .encode()
    };
    for (what, records) in [
        ("two batches", join(&[&good, &good])),
        ("three batches", join(&[&good, &good, &good])),
        ("a batch and a half", join(&[&good, &good[..40]])),
        ("five stray bytes behind it", join(&[&good, b"stray"])),
        ("sixty stray bytes behind it", join(&[&good, &[0; 60]])),
        ("seventy stray bytes behind it", join(&[&good, &[7; 70]])),
        ("half a batch", good.slice(..good.len() / 2)),
        ("one byte short", good.slice(..good.len() - 1)),
        ("a header alone", good.slice(..61)),
        ("sixty bytes", good.slice(..60)),
        ("seventeen bytes", good.slice(..17)),
        ("twelve bytes", good.slice(..12)),
        ("eleven bytes", good.slice(..11)),
        ("one byte", good.slice(..1)),
        ("a length one too great", lie(1)?),
        ("a length one too small", lie(-1)?),
        ("a length ten too small", lie(-10)?),
        ("a length of zero", lie(-(good.len() as i32) + 12)?),
        ("a length below zero", lie(-(good.len() as i32) + 11)?),
        ("the greatest length", lie(i32::MAX - good.len() as i32 + 12)?),
        ("a length below a header's", lie(-(good.len() as i32) + 12 + 48)?),
        ("a length of a header", lie(-(good.len() as i32) + 12 + 49)?),
        (
            "letters",
            Bytes::from_static(b"these are the letters of no batch at all, but there are more than sixty-one of them"),
        ),
        ("zeros", Bytes::from_static(&[0; 100])),
        ("a good batch behind a broken one", {
            let broken = Batch::of(s.time(), &["a"]).with(|b| b.crc_lie = 1).encode()?;
            join(&[&broken, &good])
        }),
        ("a broken batch behind a good one", {
            let broken = Batch::of(s.time(), &["a"]).with(|b| b.crc_lie = 1).encode()?;
            join(&[&good, &broken])
        }),
    ] {
        bench.send(s, what, &records, &[3, 9])?;
    }
    bench.held(s)?;
    Ok(())
}

/// Lies about how many records there are and what offsets they have.
fn lies() -> Vec<Lie> {
    vec![
        ("no records", Box::new(|b| b.records.clear())),
        (
            "no records, offset delta 0",
            Box::new(|b| (b.records, b.last_offset_delta) = (vec![], Some(0))),
        ),
        ("count 0", Box::new(|b| b.count = Some(0))),
        ("count -1", Box::new(|b| b.count = Some(-1))),
        ("count 2 of 3", Box::new(|b| b.count = Some(2))),
        (
            "count 2 of 3, delta 1",
            Box::new(|b| (b.count, b.last_offset_delta) = (Some(2), Some(1))),
        ),
        ("count 4 of 3", Box::new(|b| b.count = Some(4))),
        (
            "count 4 of 3, delta 3",
            Box::new(|b| (b.count, b.last_offset_delta) = (Some(4), Some(3))),
        ),
        ("the greatest count", Box::new(|b| b.count = Some(i32::MAX))),
        (
            "the greatest count and delta",
            Box::new(|b| {
                (b.count, b.last_offset_delta) = (Some(i32::MAX), Some(i32::MAX - 1));
            }),
        ),
        ("last offset delta 1 of 2", Box::new(|b| b.last_offset_delta = Some(1))),
        ("last offset delta 3 of 2", Box::new(|b| b.last_offset_delta = Some(3))),
        ("last offset delta -1", Box::new(|b| b.last_offset_delta = Some(-1))),
        ("last offset delta 100", Box::new(|b| b.last_offset_delta = Some(100))),
        (
            "offset deltas 0 0 0",
            Box::new(|b| b.records.iter_mut().for_each(|r| r.offset_delta = Some(0))),
        ),
        ("offset deltas 0 1 5", Box::new(|b| b.records[2].offset_delta = Some(5))),
        (
            "offset deltas 2 1 0",
            Box::new(|b| {
                for (record, delta) in b.records.iter_mut().zip([2, 1, 0]) {
                    record.offset_delta = Some(delta);
                }
            }),
        ),
        (
            "offset deltas from 1",
            Box::new(|b| {
                for (record, delta) in b.records.iter_mut().zip(1..) {
                    record.offset_delta = Some(delta);
                }
            }),
        ),
        (
            "a negative offset delta",
            Box::new(|b| b.records[1].offset_delta = Some(-7)),
        ),
        ("a byte behind the records", Box::new(|b| b.plain_tail = vec![0])),
        ("ten bytes behind the records", Box::new(|b| b.plain_tail = vec![9; 10])),
        ("a varint that never ends", Box::new(|b| b.plain_tail = vec![0xff; 12])),
    ]
}

fn counts(s: &mut Session) -> Result<()> {
    let mut bench = Bench::new(s, 48)?;
    let good = Batch::of(s.time(), &["a", "b", "c"]);
    for (what, change) in lies() {
        let records = good.clone().with(change).encode()?;
        bench.send(s, what, &records, &[3, 9])?;
    }
    bench.held(s)?;
    Ok(())
}

fn codecs(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let values = [
        "a",
        "bb",
        "the third value is a little longer than the others",
        "the third value once more",
    ];
    let good = Batch::of(s.time(), &values);
    for codec in Codec::ALL {
        for version in 3..=13 {
            let records = good.clone().codec(codec).encode()?;
            s.call(format!("v{version} {codec:?}"), version, &produce(&topic, 0, records))?;
        }
    }
    for version in 4..=17 {
        s.call(format!("fetch v{version}"), version, &fetch(&topic, 0, 0))?;
    }
    let large = "lorem ipsum dolor sit amet ".repeat(10_000);
    for codec in Codec::ALL {
        let records = Batch::of(s.time(), &[&large]).codec(codec).encode()?;
        s.call(format!("270 kB in {codec:?}"), 9, &produce(&topic, 0, records))?;
    }
    Ok(())
}

/// What a topic may say about compression.
fn recompressed(s: &mut Session) -> Result<()> {
    let good = Batch::of(s.time(), &["a", "b"]);
    for setting in ["producer", "uncompressed", "gzip"] {
        let Some(name) = s.topic_or_refusal(setting, 1, &[("compression.type", setting)])? else {
            continue;
        };
        let topic = Topic {
            id: s.topic_id(&name)?,
            name,
        };
        for codec in [Codec::None, Codec::Gzip] {
            let records = good.clone().codec(codec).encode()?;
            s.call(
                format!("{codec:?} to compression.type={setting}"),
                9,
                &produce(&topic, 0, records),
            )?;
        }
    }
    Ok(())
}

fn broken_codecs(s: &mut Session) -> Result<()> {
    let mut bench = Bench::new(s, 90)?;
    let good = Batch::of(s.time(), &["a", "b", "c"]);
    let long = Batch::of(s.time(), &[&"abcdefghij".repeat(500)]);
    for codec in [
        Codec::Gzip,
        Codec::SnappyFramed,
        Codec::SnappyRaw,
        Codec::Lz4,
        Codec::Zstd,
    ] {
        let whole = codec.compress(&good.plain())?;
        let long_whole = codec.compress(&long.plain())?;
        let with = |payload: Vec<u8>| good.clone().codec(codec).with(|b| b.payload = Some(payload)).encode();
        let long_with = |payload: Vec<u8>| long.clone().codec(codec).with(|b| b.payload = Some(payload)).encode();
        let flipped = |at: usize| {
            let mut bytes = long_whole.clone();
            bytes[at] ^= 0x40;
            bytes
        };
        let half = good.records.iter().take(1).cloned().collect::<Vec<Record>>();
        let first = good.clone().with(|b| b.records = half).plain();
        let rest = good.plain()[first.len()..].to_vec();
        for (what, records) in [
            ("letters", with(b"these letters are no compressed data".to_vec())?),
            ("nothing", with(vec![])?),
            ("one zero", with(vec![0])?),
            ("uncompressed records", with(good.plain())?),
            ("cut in half", with(whole[..whole.len() / 2].to_vec())?),
            ("one byte short", with(whole[..whole.len() - 1].to_vec())?),
            (
                "five bytes short, long",
                long_with(long_whole[..long_whole.len() - 5].to_vec())?,
            ),
            ("its first byte flipped", long_with(flipped(0))?),
            ("a byte within flipped", long_with(flipped(long_whole.len() / 2))?),
            ("its last byte flipped", long_with(flipped(long_whole.len() - 1))?),
            ("stray bytes behind it", with([&whole[..], b"stray"].concat())?),
            ("the records in two streams", {
                with([codec.compress(&first)?, codec.compress(&rest)?].concat())?
            }),
            (
                "a second stream behind it",
                with([&whole[..], &codec.compress(b"more")?].concat())?,
            ),
        ] {
            bench.send(s, &format!("{codec:?}: {what}"), &records, &[7])?;
        }
    }
    for bits in [5, 6, 7] {
        let records = good.clone().with(|b| b.codec_bits = Some(bits)).encode()?;
        bench.send(s, &format!("codec {bits}"), &records, &[3, 9])?;
    }
    for (what, codec, bits) in [
        ("gzip said to be zstd", Codec::Gzip, 4),
        ("zstd said to be lz4", Codec::Zstd, 3),
        ("lz4 said to be gzip", Codec::Lz4, 1),
        ("snappy said to be plain", Codec::SnappyRaw, 0),
    ] {
        let records = good.clone().codec(codec).with(|b| b.codec_bits = Some(bits)).encode()?;
        bench.send(s, what, &records, &[7])?;
    }
    for (what, info) in [
        (
            "linked blocks",
            lz4_flex::frame::FrameInfo::new().block_mode(lz4_flex::frame::BlockMode::Linked),
        ),
        (
            "a content checksum",
            lz4_flex::frame::FrameInfo::new().content_checksum(true),
        ),
        (
            "block checksums",
            lz4_flex::frame::FrameInfo::new().block_checksums(true),
        ),
        (
            "its content size",
            lz4_flex::frame::FrameInfo::new().content_size(Some(good.plain().len() as u64)),
        ),
    ] {
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        std::io::Write::write_all(&mut encoder, &good.plain())?;
        let payload = encoder.finish()?;
        let records = good
            .clone()
            .codec(Codec::Lz4)
            .with(|b| b.payload = Some(payload))
            .encode()?;
        bench.send(s, &format!("Lz4 with {what}"), &records, &[7])?;
    }
    bench.held(s)?;
    Ok(())
}

/// The lies of [`lies`], told under compression.
fn codec_counts(s: &mut Session) -> Result<()> {
    let mut bench = Bench::new(s, 120)?;
    let good = Batch::of(s.time(), &["a", "b", "c"]);
    for codec in [Codec::Gzip, Codec::SnappyFramed, Codec::Lz4, Codec::Zstd] {
        for (what, change) in lies() {
            let records = good.clone().codec(codec).with(change).encode()?;
            bench.send(s, &format!("{codec:?} {what}"), &records, &[9])?;
        }
        for (what, change) in [
            (
                "a record's length too great",
                (|r: &mut Record| r.length_lie = 1) as fn(&mut Record),
            ),
            ("a record's length too small", |r| r.length_lie = -1),
            ("a record's length below zero", |r| r.length_lie = -500),
            ("a claim of very many headers", |r| {
                r.header_count_lie = Some(i64::from(i32::MAX))
            }),
            ("a claim of headers below zero", |r| r.header_count_lie = Some(-1)),
        ] {
            let records = good.clone().codec(codec).with(|b| change(&mut b.records[1])).encode()?;
            bench.send(s, &format!("{codec:?} {what}"), &records, &[9])?;
        }
    }
    bench.held(s)?;
    Ok(())
}

/// Small batches that unfold to much.
fn bombs(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 3)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let empty = Batch::of(s.time(), &[""]).codec(Codec::Zstd);
    let zeros = empty.clone().with(|b| b.payload = Some(zstd_bomb(b"", 1 << 30)));
    s.call("a gigabyte of zeros", 9, &produce(&topic, 0, zeros.encode()?))?;
    for (partition, what, size) in [
        (1, "a record of a gigabyte", 1_usize << 30),
        (2, "a record of 64 MiB", 64 << 20),
    ] {
        // attributes, time, offset, null key, then the value's length; one byte for no headers.
        let mut inner = vec![0, 0, 0, 1];
        varint(size as i64 - 1, &mut inner);
        let mut head = Vec::new();
        varint((inner.len() + size) as i64, &mut head);
        head.extend(&inner);
        let batch = empty.clone().with(|b| b.payload = Some(zstd_bomb(&head, size)));
        s.call(what, 9, &produce(&topic, partition, batch.encode()?))?;
        s.call(
            format!("the end after {what}"),
            7,
            &list_offsets(&topic.name, &[(partition, -1)]),
        )?;
    }
    Ok(())
}
