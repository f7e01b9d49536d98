//! Each rule, failing on a history that was forged.

use crate::check::{Wrong, check};
use crate::history::Event;

/// Two members, one partition with two records, one group; all is well.
fn good() -> Vec<Event> {
    let group = || "g".to_owned();
    let mut history = vec![
        Event::Began {
            members: vec![0, 1],
            partitions: 1,
            groups: vec![group()],
        },
        acknowledged(10, 0, 0),
        committed(20, 1),
        position(25, 1),
        Event::Healed { at: 30 },
        acknowledged(40, 1, 1),
        Event::Sent { partition: 0, count: 2 },
        committed(45, 2),
        position(50, 2),
        led(0, 3, 7),
        led(1, 3, 7),
        led(1, 4, 8),
    ];
    for via in [0, 1] {
        history.push(Event::End {
            via,
            partition: 0,
            offset: 2,
        });
        history.push(read(via, 0, vec![0, 1]));
    }
    history
}

fn acknowledged(at: u64, number: u64, offset: i64) -> Event {
    Event::Acknowledged {
        at,
        partition: 0,
        number,
        offset,
    }
}

fn committed(at: u64, offset: i64) -> Event {
    Event::Committed {
        at,
        group: "g".into(),
        partition: 0,
        offset,
    }
}

fn position(asked: u64, offset: i64) -> Event {
    Event::Position {
        asked,
        at: asked + 1,
        via: 1,
        group: "g".into(),
        partition: 0,
        offset,
    }
}

fn led(via: u32, epoch: i32, leader: i32) -> Event {
    Event::Led {
        at: 60,
        via,
        partition: 0,
        epoch,
        leader,
    }
}

fn read(via: u32, first: i64, numbers: Vec<u64>) -> Event {
    Event::Read {
        at: 70,
        via: Some(via),
        partition: 0,
        first,
        numbers,
    }
}

/// The good history with other reads of both members.
fn with_reads(numbers: &[u64]) -> Vec<Event> {
    let mut history: Vec<Event> = good();
    history.retain(|event| !matches!(event, Event::Read { .. } | Event::End { .. }));
    for via in [0, 1] {
        history.push(Event::End {
            via,
            partition: 0,
            offset: numbers.len() as i64,
        });
        history.push(read(via, 0, numbers.to_vec()));
    }
    history
}

fn finds(history: &[Event], is_it: impl Fn(&Wrong) -> bool) {
    let wrong = check(history);
    assert!(wrong.iter().any(is_it), "{wrong:?}");
}

#[test]
fn nothing_is_wrong_with_a_good_history() {
    assert_eq!(check(&good()), []);
    assert_eq!(check(&[]), [Wrong::NoBeginning]);
}

#[test]
fn a_record_that_is_known_to_be_stored_but_not_where_is_no_fault() {
    let mut history = good();
    for event in &mut history {
        if let Event::Acknowledged { offset, .. } = event {
            *offset = -1001;
        }
    }
    assert_eq!(check(&history), []);
}

#[test]
fn a_lost_record_is_found() {
    finds(&with_reads(&[0]), |wrong| {
        *wrong
            == Wrong::Lost {
                partition: 0,
                number: 1,
                offset: 1,
            }
    });
}

#[test]
fn a_doubled_record_is_found() {
    finds(&with_reads(&[0, 1, 1]), |wrong| {
        *wrong
            == Wrong::Doubled {
                partition: 0,
                number: 1,
                offset: 2,
            }
    });
}

#[test]
fn records_out_of_order_are_found() {
    let mut history = with_reads(&[1, 0]);
    history.retain(|event| !matches!(event, Event::Acknowledged { .. }));
    finds(&history, |wrong| {
        *wrong
            == Wrong::Reordered {
                partition: 0,
                number: 0,
                after: 1,
            }
    });
}

#[test]
fn a_record_that_nobody_sent_is_found() {
    finds(&with_reads(&[0, 1, 2]), |wrong| {
        matches!(wrong, Wrong::NeverSent { number: 2, .. })
    });
}

#[test]
fn an_offset_that_changes_is_found() {
    let mut history = good();
    history.push(Event::Read {
        at: 15,
        via: None,
        partition: 0,
        first: 1,
        numbers: vec![0],
    });
    finds(&history, |wrong| {
        matches!(wrong, Wrong::OffsetDiffers { offset: 1, .. })
    });
    let mut history = good();
    history[1] = acknowledged(10, 0, 1);
    finds(&history, |wrong| {
        matches!(wrong, Wrong::OffsetDiffers { offset: 1, .. })
    });
}

#[test]
fn a_second_acknowledgement_is_found() {
    let mut history = good();
    history.push(acknowledged(80, 0, 0));
    finds(&history, |wrong| {
        matches!(wrong, Wrong::AcknowledgedTwice { number: 0, .. })
    });
}

#[test]
fn a_producer_that_gives_up_is_found() {
    let mut history = good();
    history.push(Event::GaveUp {
        at: 80,
        partition: 0,
        number: 1,
        why: "fenced".into(),
    });
    finds(&history, |wrong| matches!(wrong, Wrong::GaveUp { number: 1, .. }));
}

#[test]
fn a_member_that_holds_less_is_found() {
    let mut history = good();
    history.pop();
    history.push(read(1, 0, vec![0]));
    finds(&history, |wrong| {
        *wrong
            == Wrong::Unread {
                via: 1,
                partition: 0,
                offset: 1,
            }
    });
    let mut history = good();
    history.push(Event::End {
        via: 1,
        partition: 0,
        offset: 1,
    });
    finds(&history, |wrong| matches!(wrong, Wrong::EndsDiffer { .. }));
}

#[test]
fn two_leaders_in_an_epoch_are_found() {
    let mut history = good();
    history.push(led(0, 4, 7));
    finds(&history, |wrong| matches!(wrong, Wrong::TwoLeaders { epoch: 4, .. }));
}

#[test]
fn a_position_that_goes_back_is_found() {
    // A commit that was accepted is forgotten.
    let mut history = good();
    history.push(position(46, 1));
    finds(&history, |wrong| {
        matches!(wrong, Wrong::PositionBack { from: 2, to: 1, .. })
    });
    // One that was told is told no more; -1: there was none.
    let mut history = good();
    history.push(position(52, -1));
    finds(&history, |wrong| {
        matches!(wrong, Wrong::PositionBack { from: 2, to: -1, .. })
    });
    // Asked before the commit was answered: either is right.
    let mut history = good();
    history.push(position(44, 1));
    assert_eq!(check(&history), []);
}

#[test]
fn what_does_not_work_again_is_found() {
    let without = |gone: fn(&Event) -> bool| {
        let mut history = good();
        history.retain(|event| !gone(event));
        history
    };
    let dead = |wrong: &Wrong| matches!(wrong, Wrong::Dead { .. });
    finds(&without(|e| matches!(e, Event::Acknowledged { at: 40, .. })), dead);
    finds(&without(|e| matches!(e, Event::Led { via: 0, .. })), dead);
    finds(&without(|e| matches!(e, Event::Position { asked: 50, .. })), dead);
    finds(&without(|e| matches!(e, Event::End { via: 0, .. })), dead);
    finds(&without(|e| matches!(e, Event::Healed { .. })), dead);
}
