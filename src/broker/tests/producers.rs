//! The producer table against a model that remembers everything.

use crate::broker::producers::{Claim, Judgement, ProducerTable, WINDOW};
use proptest::collection::vec;
use proptest::prelude::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn claim(epoch: i16, first: i32, count: i32) -> Claim {
    Claim {
        producer_id: 7,
        epoch,
        first,
        delta: count - 1,
    }
}

/// A partition: gives offsets, remembers its producers, and all that was ever stored.
#[derive(Default)]
struct Partition {
    table: ProducerTable,
    log_end: i64,
    stored: Vec<(Claim, i64)>,
}

impl Partition {
    /// Of before what was forgotten was noted: anybody may have written.
    fn of_old(log_end: i64) -> Self {
        Self {
            table: ProducerTable::decode(&0u32.to_be_bytes()).unwrap(),
            log_end,
            ..Self::default()
        }
    }

    fn append_at(&mut self, claim: Claim, now_ms: i64) -> Judgement {
        let judgement = self.table.judge(claim, now_ms, DAY_MS);
        if judgement == Judgement::Accept {
            self.table.record(claim, self.log_end, now_ms, DAY_MS);
            self.stored.push((claim, self.log_end));
            self.log_end += i64::from(claim.delta) + 1;
        }
        judgement
    }

    fn append(&mut self, claim: Claim) -> Judgement {
        self.append_at(claim, 0)
    }
}

fn repeat(base_offset: i64) -> Judgement {
    Judgement::Repeat {
        base_offset,
        append_ms: 0,
    }
}

fn out_of_order(expected: i32) -> Judgement {
    Judgement::OutOfOrder { expected }
}

#[test]
fn each_of_the_last_five_batches_is_answered_again_with_its_offset() {
    let mut partition = Partition::default();
    for sequence in 0..7 {
        assert_eq!(partition.append(claim(0, sequence * 10, 10)), Judgement::Accept);
    }
    for sequence in 2..7 {
        assert_eq!(
            partition.append(claim(0, sequence * 10, 10)),
            repeat(i64::from(sequence) * 10)
        );
    }
    assert_eq!(partition.append(claim(0, 10, 10)), Judgement::TooOld);
    assert_eq!(partition.append(claim(0, 80, 10)), out_of_order(70));
    assert_eq!(
        partition.append(claim(0, 65, 10)),
        out_of_order(70),
        "part of it is stored"
    );
    assert_eq!(
        partition.append(claim(0, 60, 5)),
        out_of_order(70),
        "not the batch that was stored"
    );
    assert_eq!(partition.log_end, 70);
}

#[test]
fn an_empty_partition_takes_the_first_sequence_only() {
    let mut partition = Partition::default();
    assert_eq!(partition.append(claim(0, 17, 1)), out_of_order(0));
    assert_eq!(partition.append(claim(0, 0, 17)), Judgement::Accept);
    assert_eq!(partition.append(claim(0, 17, 1)), Judgement::Accept);
}

#[test]
fn a_producer_that_may_have_been_forgotten_may_begin_anywhere() {
    let mut partition = Partition::of_old(100);
    assert_eq!(partition.append(claim(3, 17, 3)), Judgement::Accept);
    assert_eq!(partition.append(claim(3, 20, 3)), Judgement::Accept);
    // What was before 17 is not known: to call it stored could lose it.
    assert_eq!(partition.append(claim(3, 10, 7)), out_of_order(23));
    assert_eq!(partition.append(claim(3, -1, 1)), out_of_order(23));
}

/// The first of two batches met a leader that was just losing the lead, the second the new one.
#[test]
fn a_second_batch_does_not_shut_out_the_first_that_a_former_leader_refused() {
    let mut partition = Partition::default();
    let other = Claim {
        producer_id: 3,
        ..claim(0, 0, 9)
    };
    assert_eq!(partition.append(other), Judgement::Accept, "the log holds records");
    assert_eq!(partition.append(claim(0, 134, 6)), out_of_order(0));
    assert_eq!(partition.append(claim(0, 0, 134)), Judgement::Accept);
    assert_eq!(partition.append(claim(0, 134, 6)), Judgement::Accept);
}

#[test]
fn only_ids_up_to_the_last_that_was_forgotten_may_have_written() {
    let mut partition = Partition::default();
    let of = |producer_id, first| Claim {
        producer_id,
        ..claim(0, first, 1)
    };
    assert_eq!(partition.append_at(of(5, 0), 0), Judgement::Accept);
    assert_eq!(partition.append_at(of(9, 0), 1 + DAY_MS), Judgement::Accept);
    let mut encoded = Vec::new();
    partition.table.encode(&mut encoded);
    partition.table = ProducerTable::decode(&encoded).unwrap();
    assert_eq!(partition.append_at(of(6, 3), 1 + DAY_MS), out_of_order(0));
    assert_eq!(partition.append_at(of(4, 3), 1 + DAY_MS), Judgement::Accept);
    assert_eq!(partition.append_at(of(5, 1), 1 + DAY_MS), Judgement::Accept);
}

#[test]
fn an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() {
    let mut partition = Partition::default();
    partition.append(claim(1, 0, 5));
    assert_eq!(partition.append(claim(0, 5, 1)), Judgement::Fenced { current: 1 });
    assert_eq!(partition.append(claim(2, 5, 1)), out_of_order(0));
    assert_eq!(
        partition.append(claim(2, 0, 5)),
        Judgement::Accept,
        "no repeat: another epoch"
    );
    assert_eq!(partition.append(claim(1, 0, 5)), Judgement::Fenced { current: 2 });
    assert_eq!(partition.append(claim(2, 0, 5)), repeat(5));
    assert_eq!(partition.append(claim(2, 5, 1)), Judgement::Accept);
}

#[test]
fn sequences_go_on_at_zero_after_the_largest() {
    let mut partition = Partition::of_old(1);
    let near = i32::MAX - 4;
    assert_eq!(partition.append(claim(0, near, 3)), Judgement::Accept);
    // Sequences near+3, near+4 (the largest), 0, 1.
    assert_eq!(partition.append(claim(0, near + 3, 4)), Judgement::Accept);
    assert_eq!(partition.append(claim(0, near + 3, 4)), repeat(4));
    assert_eq!(partition.append(claim(0, 3, 1)), out_of_order(2));
    assert_eq!(partition.append(claim(0, 2, 1)), Judgement::Accept);

    let mut exact = Partition::of_old(1);
    assert_eq!(exact.append(claim(0, i32::MAX, 1)), Judgement::Accept);
    assert_eq!(exact.append(claim(0, 1, 1)), out_of_order(0));
    assert_eq!(exact.append(claim(0, 0, 1)), Judgement::Accept);
}

#[test]
fn a_gap_across_the_wrap_is_not_taken_for_old() {
    let mut table = ProducerTable::default();
    // From zero in one batch of all sequences but the last few.
    table.record(claim(0, 0, i32::MAX - 100), 0, 0, DAY_MS);
    table.record(claim(0, i32::MAX - 100, 101), 0, 0, DAY_MS);
    let judge = |first, count| table.judge(claim(0, first, count), 0, DAY_MS);
    assert_eq!(judge(0, 10), Judgement::Accept);
    assert_eq!(judge(10, 10), out_of_order(0));
}

#[test]
fn a_producer_is_forgotten_by_time_alone() {
    let mut partition = Partition::default();
    assert_eq!(partition.append_at(claim(0, 0, 5), 1000), Judgement::Accept);
    let idle = 1000 + DAY_MS;
    assert!(matches!(
        partition.append_at(claim(0, 0, 5), idle),
        Judgement::Repeat { .. }
    ));
    assert_eq!(partition.append_at(claim(0, 90, 5), idle), out_of_order(5));
    assert_eq!(partition.append_at(claim(0, 90, 5), idle + 1), Judgement::Accept);
    assert_eq!(
        partition.append_at(claim(0, 90, 5), idle + 2),
        Judgement::Repeat {
            base_offset: 5,
            append_ms: idle + 1
        }
    );
}

#[test]
fn expired_producers_leave_the_table() {
    let mut table = ProducerTable::default();
    let of = |producer_id| Claim {
        producer_id,
        ..claim(0, 0, 1)
    };
    for id in 0..100 {
        table.record(of(id), id, id, DAY_MS);
    }
    table.record(of(500), 100, 60 + DAY_MS, DAY_MS);
    let mut encoded = Vec::new();
    table.encode(&mut encoded);
    assert_eq!(
        u32::from_be_bytes(*encoded.first_chunk().unwrap()),
        41,
        "60 to 99, and the new one"
    );
}

/// What a client of the model does.
#[derive(Clone, Debug)]
enum Step {
    /// The next batch in order.
    Next(i32),
    /// Sends again what was stored so many batches ago.
    Again(usize),
    /// Leaves a gap.
    Gap(i32, i32),
    /// Begins a new epoch.
    Bump(i32),
    /// An old instance sends.
    Stale(i32),
    /// The node restarts from a checkpoint.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..50i32).prop_map(Step::Next),
        4 => (0..9usize).prop_map(Step::Again),
        2 => (1..50i32, 1..50i32).prop_map(|(gap, count)| Step::Gap(gap, count)),
        1 => (1..50i32).prop_map(Step::Bump),
        1 => (1..50i32).prop_map(Step::Stale),
        1 => Just(Step::Restart),
    ]
}

fn after(sequence: i32, steps: i32) -> i32 {
    ((i64::from(sequence) + i64::from(steps)) % (1 << 31)) as i32
}

proptest! {
    #[test]
    fn nothing_is_stored_twice_out_of_order_or_refused_in_order(
        start in prop_oneof![Just(0), 1..i32::MAX, (i32::MAX - 200)..=i32::MAX],
        steps in vec(step(), 1..60),
    ) {
        let mut partition = Partition::of_old(1);
        let (mut epoch, mut next) = (0i16, start);
        // Stored under the current epoch: (claim, base offset), oldest first.
        let mut stored: Vec<(Claim, i64)> = Vec::new();
        for step in steps {
            match step {
                Step::Next(count) => {
                    let claim = claim(epoch, next, count);
                    let base = partition.log_end;
                    prop_assert_eq!(partition.append(claim), Judgement::Accept);
                    stored.push((claim, base));
                    next = after(next, count);
                }
                Step::Again(ago) if ago < stored.len() => {
                    let (claim, base) = stored[stored.len() - 1 - ago];
                    let judgement = partition.append(claim);
                    if ago < WINDOW {
                        prop_assert_eq!(judgement, repeat(base));
                    } else {
                        prop_assert!(
                            judgement == Judgement::TooOld || judgement == out_of_order(next),
                            "{:?}", judgement
                        );
                    }
                }
                Step::Gap(gap, count) if !stored.is_empty() => {
                    // Never stored, so it must never be called stored.
                    prop_assert_eq!(partition.append(claim(epoch, after(next, gap), count)), out_of_order(next));
                }
                Step::Bump(count) if !stored.is_empty() => {
                    epoch += 1;
                    prop_assert_eq!(partition.append(claim(epoch, count, 1)), out_of_order(0));
                    stored = vec![(claim(epoch, 0, count), partition.log_end)];
                    prop_assert_eq!(partition.append(claim(epoch, 0, count)), Judgement::Accept);
                    next = count;
                }
                Step::Stale(count) if epoch > 0 => {
                    let fenced = Judgement::Fenced { current: epoch };
                    prop_assert_eq!(partition.append(claim(epoch - 1, next, count)), fenced);
                }
                Step::Restart => {
                    let mut encoded = Vec::new();
                    partition.table.encode(&mut encoded);
                    let table = ProducerTable::decode(&encoded).unwrap();
                    prop_assert_eq!(&table, &partition.table);
                    partition.table = table;
                }
                _ => {}
            }
        }
        let records: i64 = partition.stored.iter().map(|(c, _)| i64::from(c.delta) + 1).sum();
        prop_assert_eq!(partition.log_end, 1 + records);
    }

    /// A client with five batches in flight, over a wire that loses requests, loses answers and repeats: every batch is
    /// stored once, in order, and each acknowledged offset is where it lies.
    #[test]
    fn a_retrying_client_stores_each_batch_once(faults in vec(0..4u8, 0..200)) {
        let mut partition = Partition::default();
        let batches: Vec<Claim> = (0..20).map(|i| claim(0, i * 3, 3)).collect();
        let mut acknowledged: Vec<Option<i64>> = vec![None; batches.len()];
        let mut faults = faults.into_iter();
        while let Some(oldest) = acknowledged.iter().position(Option::is_none) {
            for at in oldest..(oldest + WINDOW).min(batches.len()) {
                if acknowledged[at].is_some() {
                    continue;
                }
                let fault = faults.next().unwrap_or(0);
                if fault == 1 {
                    continue; // the request is lost
                }
                let judgement = partition.append(batches[at]);
                if fault == 2 {
                    continue; // the answer is lost
                }
                match judgement {
                    Judgement::Accept => acknowledged[at] = Some(partition.stored.last().unwrap().1),
                    Judgement::Repeat { base_offset, .. } => acknowledged[at] = Some(base_offset),
                    Judgement::OutOfOrder { .. } => {} // sent again later
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
        let stored: Vec<Claim> = partition.stored.iter().map(|(c, _)| *c).collect();
        prop_assert_eq!(stored, batches);
        for (at, base) in acknowledged.iter().enumerate() {
            prop_assert_eq!(*base, Some(at as i64 * 3));
        }
    }

    #[test]
    fn any_bytes_are_a_table_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = ProducerTable::decode(&bytes);
    }
}
