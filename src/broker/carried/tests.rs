//! Reads of what other members lead, over real sockets; and the bytes they travel as.

use super::*;
use crate::broker::look::Look;
use crate::broker::tests::store::{batch_at, content};
use crate::broker::tests::trio::{Trio, until};
use crate::broker::{Marks, PositionChange};
use crate::log::{Piece, ReadError, Slice};
use proptest::prelude::*;

fn from(offset: Offset) -> FetchFrom {
    FetchFrom {
        offset,
        max_bytes: 1 << 20,
        leader_epoch: -1,
        last_fetched_epoch: -1,
    }
}

fn asked(topic: &Topic, index: u32, offset: Offset, wait_ms: u64, min_bytes: usize) -> FetchAsked {
    let partition = PartitionId { topic: topic.id, index };
    FetchAsked {
        wait: Duration::from_millis(wait_ms),
        min_bytes,
        max_bytes: 1 << 20,
        first_whole: true,
        parts: vec![(partition, from(offset))],
    }
}

/// The next pass, whatever comes before it; `None` at the end.
async fn pass(fetch: &mut FetchElsewhere) -> Option<Result<Fetched, AccessError>> {
    loop {
        match fetch.next().await.unwrap()? {
            Heard::Pass(mut pass) => return Some(pass.remove(0)),
            Heard::Begins(_) | Heard::More(_) => {}
        }
    }
}

async fn first(trio: &Trio, by: u128, node: NodeId, ask: FetchAsked) -> Result<Fetched, AccessError> {
    let mut fetch = trio.get(by).broker.fetch_elsewhere(node, ask).await.unwrap();
    pass(&mut fetch).await.expect("a first pass")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_member_leads_reads_as_it_does_there() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    for at in 0..40 {
        trio.append(&topic, index, &[at; 5]).await;
    }
    let (there, here) = (&trio.get(2).broker, &trio.get(1).broker);
    assert_eq!(here.led_elsewhere(&topic, index), Some(NodeId(2)));
    assert!(matches!(here.marks(&topic, index), Err(AccessError::NotLeader)));

    let (marks, slice) = there.read(&topic, index, 7, 1 << 20, true).unwrap();
    let files = |piece: &Piece| matches!(piece, Piece::File { .. });
    assert!(slice.bytes > 3000, "over several segments");
    let fetched = first(&trio, 1, NodeId(2), asked(&topic, index, 7, 0, 1)).await.unwrap();
    assert_eq!(fetched.marks, marks);
    assert_eq!((fetched.slice.bytes, fetched.slice.next), (slice.bytes, slice.next));
    assert!(!fetched.slice.pieces.iter().any(files));
    assert_eq!(content(&fetched.slice), content(&slice));

    for look in [
        Look::Marks,
        Look::Earliest,
        Look::ByTimestamp(17),
        Look::MaxTimestamp,
        Look::EpochEnd(marks.leader_epoch),
    ] {
        let into = LookInto {
            topic: topic.clone(),
            index,
            look,
        };
        let looked = here.look_into(&topic, index, look).await.unwrap();
        assert_eq!(looked, there.look_here(&into).unwrap(), "{look:?}");
    }
    let run = here.run(&topic, index, 12, 600).await.unwrap();
    let same = there.run_here(&topic, index, 12, 600).unwrap();
    assert_eq!((run.from, run.marks), (12, marks));
    assert_eq!(run.batches, same.batches);
    assert!(run.batches.len() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaders_refusals_come_as_they_are() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 3);
    trio.append(&topic, index, &[1; 5]).await;
    let epoch = trio.get(3).broker.marks(&topic, index).unwrap().leader_epoch;
    let ask = |offset, leader_epoch| {
        let mut ask = asked(&topic, index, offset, 30_000, 1 << 20);
        ask.parts[0].1.leader_epoch = leader_epoch;
        first(&trio, 1, NodeId(3), ask)
    };
    let beyond = ask(9, -1).await.map(|_| ()).unwrap_err();
    let range = matches!(
        beyond,
        AccessError::Read(ReadError::OutOfRange {
            asked: 9,
            log_start: 0,
            log_end: 5
        })
    );
    assert!(range, "{beyond}");
    assert!(matches!(ask(0, epoch - 1).await, Err(AccessError::FencedEpoch)));
    assert!(matches!(ask(0, epoch + 1).await, Err(AccessError::UnknownEpoch)));
    assert!(ask(0, epoch).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_never_asked_on_but_teaches_who_leads() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    trio.append(&topic, index, &[1]).await;
    // A member that was told wrong.
    let (range, lost) = (topic.partitions[index as usize], &trio.get(1).broker);
    let term = trio.get(2).broker.marks(&topic, index).unwrap().leader_epoch as u64;
    lost.routes().hear(range, term + 1, Some(NodeId(3)));
    trio.get(3).broker.routes().hear(range, term + 2, Some(NodeId(2)));
    assert_eq!(lost.led_elsewhere(&topic, index), Some(NodeId(3)));
    let looked = lost.look_into(&topic, index, Look::Marks).await;
    assert!(matches!(looked, Err(AccessError::NotLeader)));
    assert_eq!(lost.led_elsewhere(&topic, index), Some(NodeId(2)));
    assert_eq!(
        lost.look_into(&topic, index, Look::Marks).await.unwrap().marks.log_end,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_waits_elsewhere_is_told_of_what_comes() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    let one = batch_at(&[5; 3]).len();
    let broker = &trio.get(1).broker;
    let ask = asked(&topic, index, 0, 60_000, 2 * one);
    let mut fetch = broker.fetch_elsewhere(NodeId(2), ask).await.unwrap();
    let empty = pass(&mut fetch).await.unwrap().unwrap();
    assert_eq!((empty.slice.bytes, empty.marks.high_watermark), (0, 0));
    trio.append(&topic, index, &[5; 3]).await;
    assert!(matches!(fetch.next().await, Ok(Some(Heard::More(bytes))) if bytes == one));
    trio.append(&topic, index, &[5; 3]).await;
    let full = pass(&mut fetch).await.unwrap().unwrap();
    assert_eq!((full.slice.bytes, full.marks.high_watermark), (2 * one, 6));
    assert!(matches!(fetch.next().await, Ok(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_vain_ends_without_telling_the_same_again() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    let broker = &trio.get(1).broker;
    let ask = asked(&topic, index, 0, 50, 1);
    let mut fetch = broker.fetch_elsewhere(NodeId(2), ask).await.unwrap();
    assert!(pass(&mut fetch).await.unwrap().is_ok());
    assert!(matches!(fetch.next().await, Ok(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_no_longer_is_not_waited_for_at_the_leader() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    let (there, here) = (trio.get(2).broker.clone(), &trio.get(1).broker);
    let ask = asked(&topic, index, 0, 600_000, 1);
    let mut fetch = here.fetch_elsewhere(NodeId(2), ask).await.unwrap();
    assert!(pass(&mut fetch).await.unwrap().is_ok());
    until("it waits", || there.wakeups.waiting() == 1).await;
    drop(fetch);
    until("nobody waits", || there.wakeups.waiting() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_is_noticed_by_who_waits() {
    let mut trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    let broker = trio.get(1).broker.clone();
    let ask = asked(&topic, index, 0, 600_000, 1);
    let mut fetch = broker.fetch_elsewhere(NodeId(2), ask).await.unwrap();
    assert!(pass(&mut fetch).await.unwrap().is_ok());
    trio.kill(2).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        // A leader that stops says what it has first.
        while let Ok(Some(_)) = fetch.next().await {}
    });
    ended.await.expect("an end");
    let looked = broker.look_into(&topic, index, Look::Marks).await;
    assert!(matches!(looked, Err(AccessError::NotLeader)));
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_the_same_from_every_member() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let position = Position {
        offset: 4,
        leader_epoch: 2,
        metadata: "as sent".into(),
        commit_ms: 77,
    };
    let id = PartitionId {
        topic: topic.id,
        index: 1,
    };
    let change = vec![PositionChange::Set(id, position.clone())];
    let namespace = topic.namespace;
    trio.get(3)
        .broker
        .change_positions(namespace, "r", change)
        .await
        .unwrap();
    for member in [1, 2, 3].map(|id| &trio.get(id).broker) {
        let positions = member.positions(namespace, "r").await.unwrap();
        assert_eq!(positions, [(id, position.clone())]);
        assert_eq!(member.positions(namespace, "nobody").await.unwrap(), []);
        assert_eq!(member.readers(namespace).await.unwrap(), ["r"]);
        let all = member.positions_in(&topic).await.unwrap();
        assert_eq!(all, [("r".to_owned(), 1, position.clone())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_deleted_from_any_member() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    trio.append(&topic, index, &[1; 9]).await;
    let broker = &trio.get(1).broker;
    assert_eq!(broker.delete_records(&topic, index, Some(4)).await.unwrap(), 4);
    assert!(broker.delete_records(&topic, index, Some(10)).await.is_err());
    assert_eq!(broker.delete_records(&topic, index, None).await.unwrap(), 9);
}

fn marks() -> impl Strategy<Value = Marks> {
    (0..50i64, 0..50i64, 0..50i64, any::<i32>(), any::<u64>()).prop_map(|(start, more, rest, leader_epoch, size)| {
        Marks {
            log_start: start,
            high_watermark: start + more,
            log_end: start + more + rest,
            leader_epoch,
            size,
        }
    })
}

fn told<T: Clone + std::fmt::Debug + 'static>(
    good: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Result<T, u8>> {
    prop_oneof![good.prop_map(Ok), (1..6u8).prop_map(Err)]
}

fn refused(kind: u8) -> (AccessError, answer::Hint) {
    let error = match kind {
        1 => return (AccessError::NotLeader, (9, Some(NodeId(3)))),
        2 => AccessError::FencedEpoch,
        3 => AccessError::UnknownEpoch,
        4 => AccessError::Read(ReadError::OutOfRange {
            asked: 1,
            log_start: 2,
            log_end: 3,
        }),
        _ => AccessError::Read(ReadError::Storage {
            file: "f".into(),
            position: 4,
            why: "torn".into(),
        }),
    };
    (error, (0, None))
}

fn look() -> impl Strategy<Value = Look> {
    prop_oneof![
        Just(Look::Marks),
        Just(Look::Earliest),
        any::<i64>().prop_map(Look::ByTimestamp),
        Just(Look::MaxTimestamp),
        any::<i32>().prop_map(Look::EpochEnd),
    ]
}

fn partition() -> impl Strategy<Value = PartitionId> {
    (any::<u64>(), any::<u32>()).prop_map(|(topic, index)| PartitionId {
        topic: cluster::ids::TopicId(topic),
        index,
    })
}

fn question() -> impl Strategy<Value = Question> {
    let part = (partition(), any::<i64>(), any::<u32>(), any::<i32>(), any::<i32>()).prop_map(
        |(partition, offset, max_bytes, leader_epoch, last_fetched_epoch)| {
            let from = FetchFrom {
                offset,
                max_bytes: max_bytes as usize,
                leader_epoch,
                last_fetched_epoch,
            };
            (partition, from)
        },
    );
    let fetch = (
        any::<u32>(),
        any::<u64>(),
        any::<u64>(),
        any::<bool>(),
        proptest::collection::vec(part, 0..4),
    );
    prop_oneof![
        fetch.prop_map(|(wait_ms, min_bytes, max_bytes, first_whole, parts)| {
            Question::Fetch(FetchQuestion {
                wait_ms,
                min_bytes,
                max_bytes,
                first_whole,
                parts,
            })
        }),
        proptest::collection::vec((partition(), look()), 0..4).prop_map(Question::Look),
        (partition(), any::<i64>(), any::<u32>()).prop_map(|(partition, offset, max_bytes)| Question::Run {
            partition,
            offset,
            max_bytes
        }),
        (any::<u32>(), ".{0,9}").prop_map(|(namespace, reader)| Question::Positions {
            namespace: NamespaceId(namespace),
            reader,
        }),
        any::<u32>().prop_map(|namespace| Question::Readers(NamespaceId(namespace))),
        (any::<u32>(), any::<u64>()).prop_map(|(n, t)| Question::PositionsIn(NamespaceId(n), cluster::ids::TopicId(t))),
        (any::<u64>(), proptest::collection::vec(any::<u64>(), 0..4)).prop_map(|(index, topics)| Question::Declared {
            index,
            topics: topics.into_iter().map(cluster::ids::TopicId).collect(),
        }),
    ]
}

proptest! {
    #[test]
    fn questions_come_as_they_were_asked(question in question(), cut in any::<proptest::sample::Index>()) {
        let bytes = question.encode();
        prop_assert_eq!(Question::decode(&bytes), Ok(question));
        let cut = cut.index(bytes.len());
        prop_assert!(Question::decode(&bytes[..cut]).is_err());
    }

    #[test]
    fn bytes_of_anybody_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), count in 0..9usize) {
        let _ = Question::decode(&bytes);
        let _ = answer::decode_pass(&mut &bytes[..], count);
        let _ = answer::decode_looks(&bytes, count);
        let _ = answer::decode_run(&Bytes::copy_from_slice(&bytes));
        let _ = answer::decode_rows::<(PartitionId, Position)>(&bytes);
        let _ = answer::decode_rows::<String>(&bytes);
        let _ = answer::decode_rows::<(String, u32, Position)>(&bytes);
    }

    #[test]
    fn passes_come_as_they_were_told(
        all in proptest::collection::vec(told((marks(), any::<Option<(i32, i64)>>(), any::<u16>())), 0..5),
    ) {
        let pass: Vec<Told<Fetched>> = all.iter().map(|told| match told {
            Ok((marks, diverging, bytes)) => Ok(Fetched {
                marks: *marks,
                diverging: *diverging,
                slice: Slice { pieces: Vec::new(), bytes: usize::from(*bytes), next: marks.log_end },
            }),
            Err(kind) => Err(refused(*kind)),
        }).collect();
        let bytes = answer::encode_pass(&pass);
        let mut input = &bytes[1..];
        let again = answer::decode_pass(&mut input, pass.len()).unwrap();
        prop_assert!(input.is_empty());
        for (a, b) in pass.iter().zip(&again) {
            match (a, b) {
                (Ok(a), Ok(b)) => {
                    prop_assert_eq!((a.marks, a.diverging), (b.marks, b.diverging));
                    prop_assert_eq!((a.slice.bytes, a.slice.next), (b.slice.bytes, b.slice.next));
                }
                (Err((a, hint)), Err((b, told))) => {
                    prop_assert_eq!(a.to_string(), b.to_string());
                    prop_assert_eq!(hint, told);
                }
                _ => prop_assert!(false),
            }
        }
    }

    #[test]
    fn looks_come_as_they_were_told(
        all in proptest::collection::vec(told((marks(), any::<Option<(i64, i64, i32)>>())), 0..5),
    ) {
        let looks: Vec<Told<Looked>> = all.iter().map(|told| match told {
            Ok((marks, found)) => Ok(Looked { marks: *marks, found: *found }),
            Err(kind) => Err(refused(*kind)),
        }).collect();
        let again = answer::decode_looks(&answer::encode_looks(&looks), looks.len()).unwrap();
        for (a, b) in looks.iter().zip(&again) {
            match (a, b) {
                (Ok(a), Ok(b)) => prop_assert_eq!(a, b),
                (Err((a, hint)), Err((b, told))) => {
                    prop_assert_eq!(a.to_string(), b.to_string());
                    prop_assert_eq!(hint, told);
                }
                _ => prop_assert!(false),
            }
        }
    }
}
