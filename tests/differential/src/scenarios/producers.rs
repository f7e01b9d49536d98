//! Idempotent producers: ids, sequences, repeats, gaps, epochs.

use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::{Batch, Codec};
use crate::session::Session;
use anyhow::Result;
use kafka_protocol::messages::*;

pub const SCENARIOS: &[Scenario] = &[
    scenario("init_producer", init),
    scenario("idempotence", idempotence),
    scenario("idempotence_windows", windows),
    scenario("idempotence_gaps", gaps),
    scenario("idempotence_epochs", epochs),
    scenario("idempotence_wrap", wrap),
    scenario("idempotence_partitions", partitions),
];

fn init(s: &mut Session) -> Result<()> {
    for version in 0..=5 {
        let first = s.call(format!("v{version} a new id"), version, &init_producer())?;
        s.call(format!("v{version} another id"), version, &init_producer())?;
        if version >= 3 {
            let held = init_producer()
                .with_producer_id(first.producer_id)
                .with_producer_epoch(first.producer_epoch);
            s.call(format!("v{version} with an id held"), version, &held)?;
            s.call(
                format!("v{version} with an id and no epoch"),
                version,
                &held.clone().with_producer_epoch(-1),
            )?;
            s.call(
                format!("v{version} with an epoch and no id"),
                version,
                &init_producer().with_producer_epoch(0),
            )?;
            s.call(format!("v{version} with an id nobody gave"), version, &{
                init_producer()
                    .with_producer_id(ProducerId(987_654))
                    .with_producer_epoch(3)
            })?;
        }
        s.call(
            format!("v{version} a timeout of zero"),
            version,
            &init_producer().with_transaction_timeout_ms(0),
        )?;
        s.call(
            format!("v{version} a timeout below zero"),
            version,
            &init_producer().with_transaction_timeout_ms(-1),
        )?;
        let empty = init_producer().with_transactional_id(Some(text("").into()));
        s.call(format!("v{version} an empty transactional id"), version, &empty)?;
    }
    Ok(())
}

fn setup(s: &mut Session, suffix: &str, partitions: i32) -> Result<(Topic, i64, i16)> {
    let name = s.topic(suffix, partitions)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    let given = s.call(format!("an id for {suffix}"), 4, &init_producer())?;
    Ok((topic, given.producer_id.0, given.producer_epoch))
}

fn end(s: &mut Session, topic: &Topic, step: &str) -> Result<()> {
    s.call(step, 7, &list_offsets(&topic.name, &[(0, -1)]))?;
    Ok(())
}

/// Sends three records from `sequence` on; the step's name says what that is.
fn send(s: &mut Session, topic: &Topic, step: &str, producer: (i64, i16), sequence: i32) -> Result<()> {
    let batch = Batch::of(s.time(), &["a", "b", "c"]).from_producer(producer.0, producer.1, sequence);
    s.call(step, 9, &produce(topic, 0, batch.encode()?))?;
    Ok(())
}

fn idempotence(s: &mut Session) -> Result<()> {
    for version in [3, 7, 9, 11, 12, 13] {
        let (topic, id, epoch) = setup(s, &format!("v{version}"), 1)?;
        let batch =
            |sequence: i32, values: &[&str], time: i64| Batch::of(time, values).from_producer(id, epoch, sequence);
        let time = s.time();
        let mut sequence = 0;
        for round in 0..7 {
            let records = batch(sequence, &["a", "b"], time).encode()?;
            s.call(
                format!("v{version} batch {round}"),
                version,
                &produce(&topic, 0, records),
            )?;
            sequence += 2;
        }
        for round in 0..7 {
            let records = batch(round * 2, &["a", "b"], time).encode()?;
            s.call(
                format!("v{version} batch {round} again"),
                version,
                &produce(&topic, 0, records),
            )?;
        }
        for (what, sequence, values) in [
            ("a gap", sequence + 2, &["a", "b"][..]),
            ("half a repeat", sequence - 1, &["a", "b"]),
            ("a repeat of other size", sequence - 2, &["a", "b", "c"]),
            ("a repeat of one record", sequence - 2, &["a"]),
            ("a sequence below zero", -5, &["a"]),
            ("a restart", 0, &["a"]),
            ("the next", sequence, &["a", "b"]),
        ] {
            let records = batch(sequence, values, time).encode()?;
            s.call(format!("v{version} {what}"), version, &produce(&topic, 0, records))?;
        }
        let gzip = batch(sequence + 2, &["a", "b"], time).codec(Codec::Gzip);
        s.call(
            format!("v{version} compressed"),
            version,
            &produce(&topic, 0, gzip.encode()?),
        )?;
        s.call(
            format!("v{version} compressed again"),
            version,
            &produce(&topic, 0, gzip.encode()?),
        )?;
        let plain = batch(sequence + 2, &["c", "d"], time).encode()?;
        s.call(
            format!("v{version} the same sequences with other records"),
            version,
            &produce(&topic, 0, plain),
        )?;
        s.call(format!("v{version} the log"), 12, &fetch(&topic, 0, 0))?;
    }
    Ok(())
}

/// Five batches are remembered, no more; others' batches between don't matter.
fn windows(s: &mut Session) -> Result<()> {
    let (topic, id, epoch) = setup(s, "t", 1)?;
    let other = s.call("another producer's id", 4, &init_producer())?;
    let other = (other.producer_id.0, other.producer_epoch);
    for round in 0..6 {
        send(s, &topic, &format!("mine {round}"), (id, epoch), round * 3)?;
        send(s, &topic, &format!("the other's {round}"), other, round * 3)?;
        let plain = Batch::of(s.time(), &["x"]).encode()?;
        s.call(format!("nobody's {round}"), 9, &produce(&topic, 0, plain))?;
    }
    for round in 0..6 {
        send(s, &topic, &format!("mine {round} again"), (id, epoch), round * 3)?;
        send(s, &topic, &format!("the other's {round} again"), other, round * 3)?;
    }
    send(s, &topic, "mine goes on", (id, epoch), 18)?;
    send(s, &topic, "mine 1, no longer known", (id, epoch), 3)?;
    send(s, &topic, "mine 2, still known", (id, epoch), 6)?;
    end(s, &topic, "the end")
}

fn gaps(s: &mut Session) -> Result<()> {
    let (topic, id, epoch) = setup(s, "t", 1)?;
    send(s, &topic, "a first sequence of 17 on an empty log", (id, epoch), 17)?;
    send(s, &topic, "20 after it", (id, epoch), 20)?;
    send(s, &topic, "0 after it", (id, epoch), 0)?;
    end(s, &topic, "the end")?;
    let (topic, id, epoch) = setup(s, "u", 1)?;
    let plain = Batch::of(s.time(), &["x"]).encode()?;
    s.call("a record of nobody's", 9, &produce(&topic, 0, plain))?;
    send(
        s,
        &topic,
        "a first sequence of 17 on a log with records",
        (id, epoch),
        17,
    )?;
    send(s, &topic, "19, a gap backwards", (id, epoch), 19)?;
    send(s, &topic, "21, a gap", (id, epoch), 21)?;
    send(s, &topic, "20, the right one", (id, epoch), 20)?;
    send(s, &topic, "26, a gap", (id, epoch), 26)?;
    send(s, &topic, "23, the right one", (id, epoch), 23)?;
    end(s, &topic, "the end of u")?;
    let (topic, _, _) = setup(s, "v", 1)?;
    send(s, &topic, "an id nobody gave", (876_543, 0), 0)?;
    send(s, &topic, "an id nobody gave goes on", (876_543, 0), 3)?;
    send(s, &topic, "an epoch nobody gave", (876_544, 30_000), 0)?;
    end(s, &topic, "the end of v")
}

fn epochs(s: &mut Session) -> Result<()> {
    let (topic, id, epoch) = setup(s, "t", 1)?;
    send(s, &topic, "epoch 0", (id, epoch), 0)?;
    send(s, &topic, "epoch 0 goes on", (id, epoch), 3)?;
    send(s, &topic, "epoch 1 not from 0", (id, epoch + 1), 6)?;
    send(s, &topic, "epoch 1 from 0", (id, epoch + 1), 0)?;
    send(s, &topic, "epoch 1 again", (id, epoch + 1), 0)?;
    send(s, &topic, "epoch 0 is fenced", (id, epoch), 6)?;
    send(s, &topic, "a repeat of epoch 0 is fenced", (id, epoch), 3)?;
    send(s, &topic, "epoch 1 goes on", (id, epoch + 1), 3)?;
    send(s, &topic, "epoch 9 from 0", (id, epoch + 9), 0)?;
    send(s, &topic, "epoch 32767 from 0", (id, i16::MAX), 0)?;
    send(s, &topic, "epoch -1", (id, -1), 0)?;
    send(s, &topic, "epoch -2", (id, -2), 0)?;
    for version in 3..=5 {
        let given = s.call(format!("v{version} a fresh id"), version, &init_producer())?;
        let mine = (given.producer_id.0, given.producer_epoch);
        send(s, &topic, &format!("v{version} it sends"), mine, 0)?;
        let request = init_producer()
            .with_producer_id(given.producer_id)
            .with_producer_epoch(given.producer_epoch);
        let bumped = s.call(format!("v{version} it asks for the next epoch"), version, &request)?;
        let bumped = (bumped.producer_id.0, bumped.producer_epoch);
        send(s, &topic, &format!("v{version} it starts anew"), bumped, 0)?;
        send(s, &topic, &format!("v{version} its old epoch"), mine, 3)?;
    }
    s.call("the log", 12, &fetch(&topic, 0, 0))?;
    Ok(())
}

/// Sequences go on at 0 behind the greatest number.
fn wrap(s: &mut Session) -> Result<()> {
    let (topic, id, epoch) = setup(s, "t", 1)?;
    let plain = Batch::of(s.time(), &["x"]).encode()?;
    s.call("a record of nobody's", 9, &produce(&topic, 0, plain))?;
    send(s, &topic, "the last but one, and two more", (id, epoch), i32::MAX - 1)?;
    send(s, &topic, "1 after it", (id, epoch), 1)?;
    send(s, &topic, "4 after it", (id, epoch), 4)?;
    send(s, &topic, "the wrapping one again", (id, epoch), i32::MAX - 1)?;
    send(s, &topic, "1 again", (id, epoch), 1)?;
    let (topic, id, epoch) = setup(s, "u", 1)?;
    let plain = Batch::of(s.time(), &["x"]).encode()?;
    s.call("a record of nobody's on u", 9, &produce(&topic, 0, plain))?;
    send(s, &topic, "up to the greatest", (id, epoch), i32::MAX - 2)?;
    send(s, &topic, "0 after it", (id, epoch), 0)?;
    send(s, &topic, "up to the greatest again", (id, epoch), i32::MAX - 2)?;
    end(s, &topic, "the end of u")
}

/// Each partition counts for itself, and deleting records forgets no producer.
fn partitions(s: &mut Session) -> Result<()> {
    let (topic, id, epoch) = setup(s, "t", 3)?;
    let batch = |time: i64, sequence: i32| Batch::of(time, &["a", "b"]).from_producer(id, epoch, sequence).encode();
    let time = s.time();
    let all = |sequence: i32| -> Result<ProduceRequest> {
        Ok(produce_all(
            &topic,
            (0..3)
                .map(|p| Ok((p, Some(batch(time, sequence)?))))
                .collect::<Result<_>>()?,
        ))
    };
    s.call("0 to each", 9, &all(0)?)?;
    s.call("2 to the first", 9, &produce(&topic, 0, batch(time, 2)?))?;
    s.call("2 to each", 9, &all(2)?)?;
    s.call("4 to each", 9, &all(4)?)?;
    s.call("4 to each again", 9, &all(4)?)?;
    s.call("8 to each", 9, &all(8)?)?;
    let delete = kafka_protocol::messages::delete_records_request::DeleteRecordsTopic::default()
        .with_name(topic.name.clone())
        .with_partitions(vec![
            kafka_protocol::messages::delete_records_request::DeleteRecordsPartition::default()
                .with_partition_index(0)
                .with_offset(-1),
        ]);
    s.call(
        "records deleted",
        2,
        &DeleteRecordsRequest::default()
            .with_timeout_ms(5_000)
            .with_topics(vec![delete]),
    )?;
    s.call("4 to the first again", 9, &produce(&topic, 0, batch(time, 4)?))?;
    s.call("9 to the first", 9, &produce(&topic, 0, batch(time, 9)?))?;
    s.call("6 to the first", 9, &produce(&topic, 0, batch(time, 6)?))?;
    s.call("the first", 12, &fetch(&topic, 0, 6))?;
    Ok(())
}
