//! Commands and answers survive their encoding, and no bytes harm the decoder.

use crate::broker::command::{
    Append, AppendItem, Command, Verdict, VerdictReader, VerdictWriter, dropped, not_understood, positions_changed,
    read_dropped, read_positions_changed, read_trimmed, trimmed,
};
use crate::broker::{Position, PositionChange};
use cluster::ids::{NamespaceId, PartitionId, TopicId};
use proptest::collection::vec;
use proptest::prelude::*;

fn partition() -> impl Strategy<Value = PartitionId> {
    any::<(u64, u32)>().prop_map(|(topic, index)| PartitionId {
        topic: TopicId(topic),
        index,
    })
}

fn position() -> impl Strategy<Value = Position> {
    (0..=i64::MAX, any::<i32>(), any::<i64>(), "\\PC{0,40}").prop_map(|(offset, leader_epoch, commit_ms, metadata)| {
        Position {
            offset,
            leader_epoch,
            metadata,
            commit_ms,
        }
    })
}

fn change() -> impl Strategy<Value = PositionChange> {
    prop_oneof![
        (partition(), position()).prop_map(|(id, p)| PositionChange::Set(id, p)),
        (partition(), proptest::option::of(0..=i64::MAX), position())
            .prop_map(|(id, seen, p)| PositionChange::SetIf(id, seen, p)),
        partition().prop_map(PositionChange::Delete),
        Just(PositionChange::DeleteAll),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let item = (partition(), any::<bool>()).prop_map(|(partition, split)| AppendItem { partition, split });
    prop_oneof![
        (any::<(i64, i64)>(), vec(item, 0..20)).prop_map(|((append_ms, producer_expiry_ms), items)| {
            Command::Append(Append {
                append_ms,
                producer_expiry_ms,
                items,
            })
        }),
        vec((partition(), any::<i64>()), 0..20).prop_map(Command::TrimLogStart),
        (any::<u32>(), "\\PC{0,40}", vec(change(), 0..20)).prop_map(|(namespace, reader, changes)| {
            Command::ChangePositions {
                namespace: NamespaceId(namespace),
                reader,
                changes,
            }
        }),
        any::<u64>().prop_map(|topic| Command::DropTopic(TopicId(topic))),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        any::<(i64, i64, i64, bool)>().prop_map(|(base_offset, append_ms, log_start, repeat)| Verdict::Stored {
            base_offset,
            append_ms,
            log_start,
            repeat,
        }),
        any::<(i32, i32)>().prop_map(|(expected, got)| Verdict::OutOfOrder { expected, got }),
        any::<(i16, i16)>().prop_map(|(current, got)| Verdict::Fenced { current, got }),
        Just(Verdict::TooOld),
        Just(Verdict::Gone),
        Just(Verdict::Unreadable),
    ]
}

proptest! {
    #[test]
    fn a_command_reads_as_it_was_written(command in command()) {
        let bytes = command.encode();
        prop_assert_eq!(Command::decode(&bytes), Ok(command));
    }

    #[test]
    fn a_command_cut_short_or_with_more_behind_is_refused(command in command(), cut in any::<prop::sample::Index>()) {
        let mut bytes = command.encode();
        prop_assert!(Command::decode(&bytes[..cut.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(Command::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..200), kind in 0..6u8) {
        let _ = Command::decode(&bytes);
        if bytes.len() >= 2 {
            (bytes[0], bytes[1]) = (kind, 1);
            let _ = Command::decode(&bytes);
        }
        if let Ok(mut verdicts) = VerdictReader::new(&bytes) {
            while verdicts.next().is_ok() {}
        }
        let _ = read_trimmed(&bytes, 3);
    }

    #[test]
    fn verdicts_read_as_they_were_written(verdicts in vec(verdict(), 0..30)) {
        let mut writer = VerdictWriter::new(verdicts.len());
        verdicts.iter().for_each(|v| writer.push(*v));
        let answer = writer.finish();
        let mut reader = VerdictReader::new(&answer).unwrap();
        for verdict in verdicts {
            prop_assert_eq!(reader.next(), Ok(verdict));
        }
        prop_assert!(reader.finish().is_ok());
    }

    #[test]
    fn trims_are_answered_one_by_one(starts in vec(proptest::option::of(0..=i64::MAX), 0..30)) {
        let answer = trimmed(&starts);
        prop_assert!(read_trimmed(&answer, starts.len() + 1).is_err());
        prop_assert_eq!(read_trimmed(&answer, starts.len()), Ok(starts));
    }
}

#[test]
fn a_count_beyond_the_bytes_takes_no_memory() {
    let mut bytes = Command::Append(Append {
        append_ms: 0,
        producer_expiry_ms: 0,
        items: vec![],
    })
    .encode();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(Command::decode(&bytes).is_err());
}

#[test]
fn an_answer_to_something_else_is_no_answer() {
    assert_eq!(read_positions_changed(&positions_changed(true)), Ok(true));
    assert_eq!(read_positions_changed(&positions_changed(false)), Ok(false));
    assert_eq!(read_dropped(&dropped()), Ok(()));
    for answer in [not_understood(), dropped()] {
        assert!(VerdictReader::new(&answer).is_err());
        assert!(read_positions_changed(&answer).is_err());
        assert!(read_trimmed(&answer, 0).is_err());
    }
    assert!(read_dropped(&not_understood()).is_err());
}
