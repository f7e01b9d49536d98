//! The contract of the log, over real files and over files that fail and crash.

use super::*;
use crate::fs::{self, Disk, MemoryFs};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;

fn small() -> WalConfig {
    WalConfig {
        segment_bytes: 64 << 10,
        spare_segments: 2,
        live_segments: 6,
        cache_bytes: 4 << 10,
        headroom: 0,
    }
}

/// Nothing but the log's own writes and syncs touches the files.
fn alone() -> WalConfig {
    WalConfig {
        spare_segments: 0,
        ..small()
    }
}

fn id(term: u64, index: u64) -> LogId {
    LogId { term, index }
}

fn entry(term: u64, index: u64, size: usize) -> Entry {
    let part = |n: usize, fill: u64| Bytes::from(vec![fill as u8; n]);
    let body = match index % 7 {
        0 => Body::Blank,
        1 => Body::Membership(part(size, index)),
        _ => Body::Normal(Payload {
            head: part(size % 50, index),
            parts: Arc::from([part(size, index), Bytes::new(), part(size / 2, term)]),
        }),
    };
    Entry {
        id: id(term, index),
        body,
    }
}

fn vote(term: u64) -> Vote {
    Vote {
        term,
        node: NodeId(u128::from(term) << 64 | 5),
        committed: term.is_multiple_of(2),
    }
}

/// Appends in either way and waits.
fn append(group: &Group, entries: Vec<Entry>) -> Result<(), WalError> {
    let (told, done) = mpsc::channel();
    let told = Box::new(move |r| told.send(r).unwrap());
    match entries.first().is_some_and(|entry| entry.id.index.is_multiple_of(3)) {
        true => group.append(entries, told)?,
        false => group.append_here(entries, told)?,
    }
    done.recv().unwrap()
}

fn save_vote(group: &Group, vote: Vote) -> Result<(), WalError> {
    let (told, done) = mpsc::channel();
    group.save_vote(vote, Box::new(move |r| told.send(r).unwrap()));
    done.recv().unwrap()
}

fn all(group: &Group) -> Vec<Entry> {
    group.read(0, u64::MAX, usize::MAX).unwrap()
}

fn suite(files: Arc<dyn FileSystem>, dir: PathBuf) {
    let open = || Wal::open(files.clone(), &dir, small()).unwrap();
    let wal = open();
    let (one, two) = (wal.group(RangeId(1)), wal.group(RangeId(2)));
    assert_eq!(one.state(), GroupState::default());
    save_vote(&one, vote(3)).unwrap();
    append(&one, (0..10).map(|n| entry(1, n, 100)).collect()).unwrap();
    append(&two, vec![entry(1, 0, 5)]).unwrap();
    append(&one, (10..20).map(|n| entry(2, n, 3000)).collect()).unwrap();
    let expected: Vec<_> = (0..20)
        .map(|n| entry(if n < 10 { 1 } else { 2 }, n, if n < 10 { 100 } else { 3000 }))
        .collect();
    assert_eq!(all(&one), expected);
    assert_eq!(one.term_ends(0, 15), [id(1, 9), id(2, 15)]);
    assert_eq!(one.term_ends(10, 99), [id(2, 19)]);
    assert_eq!((one.term(9), one.term(10), one.term(20)), (Some(1), Some(2), None));

    // Reads are bounded, from memory and from disk alike.
    one.applied(20);
    assert!(!one.is_cached(19));
    assert_eq!(all(&one), expected);
    assert_eq!(one.read(10, 20, 1).unwrap(), expected[10..11]);
    assert_eq!(one.read(5, 8, usize::MAX).unwrap(), expected[5..8]);
    assert_eq!(one.read(20, 30, usize::MAX).unwrap(), []);

    assert!(matches!(append(&one, vec![entry(2, 21, 1)]), Err(WalError::Invalid(_))));
    one.cut(15);
    append(&one, vec![entry(4, 15, 9)]).unwrap();
    one.purge(id(1, 3));
    save_vote(&two, vote(8)).unwrap();
    one.save_committed(Some(id(1, 7)));
    let expected: Vec<_> = expected[4..15].iter().cloned().chain([entry(4, 15, 9)]).collect();
    assert_eq!(all(&one), expected);
    wal.close();
    assert!(matches!(append(&one, vec![entry(4, 16, 1)]), Err(WalError::Closed)));
    drop(wal);

    let wal = open();
    let (one, two) = (wal.group(RangeId(1)), wal.group(RangeId(2)));
    assert_eq!(all(&one), expected);
    assert_eq!(
        one.state(),
        GroupState {
            vote: Some(vote(3)),
            purged: Some(id(1, 3)),
            last: Some(id(4, 15)),
            committed: Some(id(1, 7)),
        }
    );
    assert_eq!((two.state().vote, all(&two)), (Some(vote(8)), vec![entry(1, 0, 5)]));
    assert_eq!(wal.groups(), [RangeId(1), RangeId(2)]);

    // Purged whole, and beyond the end, as after a snapshot from elsewhere.
    one.purge(id(9, 100));
    assert_eq!(all(&one), []);
    append(&one, vec![entry(9, 101, 50)]).unwrap();
    let (told, done) = mpsc::channel();
    two.remove(Box::new(move |r| told.send(r).unwrap()));
    done.recv().unwrap().unwrap();
    drop(wal);
    let wal = open();
    assert_eq!(wal.groups(), [RangeId(1)]);
    assert_eq!(all(&wal.group(RangeId(1))), [entry(9, 101, 50)]);
    assert_eq!(wal.group(RangeId(1)).state().purged, Some(id(9, 100)));

    // A record longer than a segment, and many segments, used again and again.
    let one = wal.group(RangeId(1));
    append(&one, vec![entry(9, 102, 300 << 10)]).unwrap();
    for n in 103..400 {
        append(&one, vec![entry(9, n, 2000)]).unwrap();
        if n % 20 == 0 {
            one.applied(n);
            one.purge(id(9, n - 5));
        }
    }
    assert_eq!(all(&one), (376..400).map(|n| entry(9, n, 2000)).collect::<Vec<_>>());
    let disk: u64 = files.list(&dir).unwrap().iter().map(|e| e.len).sum();
    assert!(disk < 12 * (64 << 10), "{disk} bytes for a log of 24 entries");
    drop(wal);
    let wal = open();
    assert_eq!(all(&wal.group(RangeId(1))).len(), 24);
}

#[test]
fn the_log_on_a_disk_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    suite(Arc::new(Disk), dir.path().join("wal"));
}

#[test]
fn the_log_in_memory_keeps_the_contract() {
    suite(Arc::new(MemoryFs::new(1)), PathBuf::from("/wal"));
}

#[test]
fn the_log_keeps_the_contract_with_short_writes() {
    let files = MemoryFs::new(2);
    files.short_writes(true);
    suite(Arc::new(files), PathBuf::from("/wal"));
}

#[derive(Clone, Debug)]
enum Op {
    /// Group, entries, size.
    Append(u32, u64, usize),
    Vote(u32),
    Cut(u32, u64),
    Purge(u32, u64),
    /// Waits for everything before.
    Wait,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..3u32, 1..6u64, 0..6000usize).prop_map(|(g, n, s)| Op::Append(g, n, s)),
        1 => (0..3u32, 1..2u64, 50_000..120_000usize).prop_map(|(g, n, s)| Op::Append(g, n, s)),
        2 => (0..3u32).prop_map(Op::Vote),
        1 => (0..3u32, 0..4u64).prop_map(|(g, n)| Op::Cut(g, n)),
        3 => (0..3u32, 0..20u64).prop_map(|(g, n)| Op::Purge(g, n)),
        4 => Just(Op::Wait),
    ]
}

/// What a group should have.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    vote: Option<Vote>,
    purged: Option<LogId>,
    entries: Vec<Entry>,
}

type Models = BTreeMap<u32, Model>;

fn observed(wal: &Wal) -> Models {
    (0..3)
        .map(|g| {
            let group = wal.group(RangeId(g));
            let GroupState { vote, purged, .. } = group.state();
            let entries = all(&group);
            (g, Model { vote, purged, entries })
        })
        .collect()
}

/// Runs operations until they end or the power goes. Gives the states the log went through, one step at a time, and how
/// many of them were acknowledged.
fn drive(wal: &Wal, start: Models, ops: &[Op], term: u64) -> (Vec<Models>, usize) {
    let mut models = start;
    let mut history = vec![models.clone()];
    let (told, done) = mpsc::channel();
    let (mut waiting, mut acked) = (0, 0);
    let settle = |waiting: &mut usize, acked: &mut usize| {
        while *waiting > 0 {
            *waiting -= 1;
            let (at, result): (usize, Result<(), WalError>) = done.recv().unwrap();
            if result.is_ok() {
                *acked = at.max(*acked);
            }
        }
    };
    for op in ops {
        match *op {
            Op::Append(g, count, size) => {
                let model = models.get_mut(&g).unwrap();
                let next = match (model.entries.last(), model.purged) {
                    (Some(last), _) => last.id.index + 1,
                    (None, Some(purged)) => purged.index + 1,
                    (None, None) => 0,
                };
                let entries: Vec<_> = (next..next + count).map(|n| entry(term, n, size)).collect();
                for entry in &entries {
                    models.get_mut(&g).unwrap().entries.push(entry.clone());
                    history.push(models.clone());
                }
                let (told, at) = (told.clone(), history.len() - 1);
                let done = Box::new(move |r| told.send((at, r)).unwrap());
                let group = wal.group(RangeId(g));
                match size.is_multiple_of(2) {
                    true => group.append(entries, done).unwrap(),
                    false => group.append_here(entries, done).unwrap(),
                }
                waiting += 1;
            }
            Op::Vote(g) => {
                let vote = vote(term);
                models.get_mut(&g).unwrap().vote = Some(vote);
                history.push(models.clone());
                let (told, at) = (told.clone(), history.len() - 1);
                wal.group(RangeId(g))
                    .save_vote(vote, Box::new(move |r| told.send((at, r)).unwrap()));
                waiting += 1;
            }
            Op::Cut(g, back) => {
                let model = models.get_mut(&g).unwrap();
                let keep = model.entries.len().saturating_sub(back as usize);
                let first = model.entries.first().map(|e| e.id.index);
                let Some(first) = first.filter(|_| back > 0) else {
                    continue;
                };
                model.entries.truncate(keep);
                history.push(models.clone());
                wal.group(RangeId(g)).cut(first + keep as u64);
            }
            Op::Purge(g, count) => {
                let model = models.get_mut(&g).unwrap();
                let upto = model.entries.iter().take(count as usize).next_back().map(|e| e.id);
                let Some(upto) = upto else { continue };
                model.entries.retain(|e| e.id.index > upto.index);
                model.purged = Some(upto);
                history.push(models.clone());
                let group = wal.group(RangeId(g));
                group.applied(upto.index + 1);
                group.purge(upto);
            }
            Op::Wait => settle(&mut waiting, &mut acked),
        }
    }
    settle(&mut waiting, &mut acked);
    (history, acked)
}

fn empty() -> Models {
    (0..3).map(|g| (g, Model::default())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// The power goes at any sync, several times over: what was acknowledged is there, in order, and nothing else.
    #[test]
    fn a_crash_keeps_what_was_acknowledged(
        seed in any::<u64>(),
        lives in prop::collection::vec((prop::collection::vec(op(), 1..60), 0..40u64), 1..5),
    ) {
        let files = MemoryFs::new(seed);
        files.short_writes(seed % 3 == 0);
        let dir = Path::new("/wal");
        let mut now = empty();
        for (life, (ops, power)) in lives.into_iter().enumerate() {
            let wal = Wal::open(Arc::new(files.clone()), dir, small()).unwrap();
            prop_assert_eq!(&observed(&wal), &now);
            files.power_off_at_sync(power);
            let (history, acked) = drive(&wal, now, &ops, life as u64 + 1);
            if seed % 2 == 0 {
                // Without the clean end.
                files.crash();
            }
            drop(wal);
            files.crash();
            let wal = Wal::open(Arc::new(files.clone()), dir, small()).unwrap();
            let found = observed(&wal);
            prop_assert!(
                history[acked..].contains(&found),
                "life {}: {} states, {} acknowledged, found {:?}", life, history.len(), acked,
                history.iter().rposition(|state| *state == found)
            );
            now = found;
            drop(wal);
        }
    }

    /// One flipped bit anywhere: the log says so, or the bit was of no matter.
    #[test]
    fn a_flipped_bit_is_found(seed in any::<u64>(), ops in prop::collection::vec(op(), 5..40), place in any::<(prop::sample::Index, u64)>()) {
        let files = MemoryFs::new(seed);
        let dir = Path::new("/wal");
        let wal = Wal::open(Arc::new(files.clone()), dir, small()).unwrap();
        let (history, _) = drive(&wal, empty(), &ops, 1);
        drop(wal);
        let mut names = files.list(dir).unwrap();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let file = place.0.get(&names);
        files.flip_bit(&dir.join(&file.name), place.1 % (file.len * 8)).unwrap();
        match Wal::open(Arc::new(files.clone()), dir, small()) {
            Ok(wal) => prop_assert_eq!(Some(&observed(&wal)), history.last()),
            Err(error) => prop_assert!(matches!(error, OpenError::Corrupt(_)), "{}", error),
        }
    }
}

#[test]
fn a_flipped_bit_is_not_served() {
    let files = MemoryFs::new(3);
    let dir = Path::new("/wal");
    let wal = Wal::open(Arc::new(files.clone()), dir, small()).unwrap();
    let group = wal.group(RangeId(1));
    append(&group, (0..5).map(|n| entry(1, n, 1000)).collect()).unwrap();
    group.applied(5);
    let name = files.list(dir).unwrap().into_iter().map(|e| e.name).min().unwrap();
    files.flip_bit(&dir.join(&name), (4096 + 1500) * 8).unwrap();
    let error = group.read(0, 5, usize::MAX).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains(&name), "{error}");
}

#[test]
fn a_failed_sync_is_final() {
    let files = MemoryFs::new(4);
    let wal = Wal::open(Arc::new(files.clone()), Path::new("/wal"), alone()).unwrap();
    let group = wal.group(RangeId(1));
    append(&group, vec![entry(1, 0, 10)]).unwrap();
    files.fail_sync(0);
    assert!(matches!(
        append(&group, vec![entry(1, 1, 10)]),
        Err(WalError::Failed(_))
    ));
    assert!(matches!(
        append(&group, vec![entry(1, 2, 10)]),
        Err(WalError::Failed(_))
    ));
    assert!(matches!(
        save_vote(&wal.group(RangeId(2)), vote(1)),
        Err(WalError::Failed(_))
    ));
    assert!(wal.fatal().borrow().is_some());
    let syncs = files.syncs();
    drop(wal);
    assert_eq!(files.syncs(), syncs, "a failed sync must not be retried");
    files.crash();
    let wal = Wal::open(Arc::new(files), Path::new("/wal"), small()).unwrap();
    assert_eq!(all(&wal.group(RangeId(1)))[0], entry(1, 0, 10));
}

#[test]
fn a_failed_write_is_final() {
    let files = MemoryFs::new(5);
    let wal = Wal::open(Arc::new(files.clone()), Path::new("/wal"), alone()).unwrap();
    let group = wal.group(RangeId(1));
    append(&group, vec![entry(1, 0, 10)]).unwrap();
    files.fail_write(0);
    assert!(matches!(
        append(&group, vec![entry(1, 1, 10)]),
        Err(WalError::Failed(_))
    ));
    assert!(matches!(
        append(&group, vec![entry(1, 2, 10)]),
        Err(WalError::Failed(_))
    ));
}

#[test]
fn a_full_disk_leaves_room_for_the_commands_that_make_room() {
    let files = MemoryFs::new(9);
    let config = WalConfig {
        headroom: 1 << 20,
        ..small()
    };
    let wal = Wal::open(Arc::new(files.clone()), Path::new("/wal"), config).unwrap();
    let group = wal.group(RangeId(1));
    append(&group, vec![entry(1, 0, 10)]).unwrap();
    files.set_capacity(files.used() + (1 << 19));
    let mut n = 1;
    while wal.admits(true) {
        append(&group, vec![entry(1, n, 20_000)]).unwrap();
        n += 1;
    }
    assert!(wal.admits(false), "half the headroom is left");
    files.set_capacity(files.used());
    while wal.admits(false) {
        std::thread::yield_now();
    }
    files.set_capacity(u64::MAX);
    while !wal.admits(true) {
        std::thread::yield_now();
    }
}

#[test]
fn an_append_that_meets_a_full_disk_waits_for_space() {
    let files = MemoryFs::new(6);
    let wal = Wal::open(Arc::new(files.clone()), Path::new("/wal"), small()).unwrap();
    let group = wal.group(RangeId(1));
    append(&group, vec![entry(1, 0, 10)]).unwrap();
    files.set_capacity(0);
    let (told, done) = mpsc::channel();
    for n in 1..40 {
        let told = told.clone();
        group
            .append(vec![entry(1, n, 20_000)], Box::new(move |r| told.send(r).unwrap()))
            .unwrap();
    }
    // Not before there is space again; `admits` sees that there is none once a segment could not be had.
    while wal.admits(true) {
        std::thread::yield_now();
    }
    files.set_capacity(u64::MAX);
    for _ in 1..40 {
        done.recv().unwrap().unwrap();
    }
    while !wal.admits(true) {
        std::thread::yield_now();
    }
    drop(wal);
    let wal = Wal::open(Arc::new(files), Path::new("/wal"), small()).unwrap();
    let expected: Vec<_> = std::iter::once(entry(1, 0, 10))
        .chain((1..40).map(|n| entry(1, n, 20_000)))
        .collect();
    assert_eq!(all(&wal.group(RangeId(1))), expected);
}

#[test]
fn a_resting_group_holds_no_old_segment() {
    let files = MemoryFs::new(9);
    let dir = Path::new("/wal");
    let resting: Vec<_> = (0..40).map(|n| entry(1, n, 500)).collect();
    let mut next = 0;
    for life in 0..3 {
        let wal = Wal::open(Arc::new(files.clone()), dir, small()).unwrap();
        let (cold, hot) = (wal.group(RangeId(1)), wal.group(RangeId(2)));
        if life == 0 {
            save_vote(&cold, vote(1)).unwrap();
            append(&cold, resting.clone()).unwrap();
            cold.purge(id(1, 4));
            cold.applied(40);
        }
        for _ in 0..300 {
            append(&hot, vec![entry(2, next, 4000)]).unwrap();
            hot.applied(next + 1);
            hot.purge(id(2, next));
            next += 1;
        }
        assert_eq!(all(&cold), resting[5..]);
        // What was copied is dropped like anything else.
        if life == 1 {
            cold.cut(38);
            append(&cold, vec![entry(3, 38, 10)]).unwrap();
            cold.cut(38);
            append(&cold, resting[38..].to_vec()).unwrap();
        }
        // Segments are given back after the waiters are told: only once the writer has ended is it known what is held.
        wal.close();
        assert!(wal.span() <= 18 * (64 << 10), "{} bytes held", wal.span());
        drop(wal);
        files.crash();
        let wal = Wal::open(Arc::new(files.clone()), dir, small()).unwrap();
        assert_eq!(all(&wal.group(RangeId(1))), resting[5..]);
        assert_eq!(wal.group(RangeId(1)).state().vote, Some(vote(1)));
    }
}

#[test]
fn a_group_copied_in_pieces_still_rests() {
    let wal = Wal::open(Arc::new(MemoryFs::new(9)), Path::new("/wal"), small()).unwrap();
    let (cold, hot) = (wal.group(RangeId(1)), wal.group(RangeId(2)));
    let resting: Vec<_> = (0..40).map(|n| entry(1, n, 500)).collect();
    let mut next = 0;
    let mut run = |appends: u64| {
        for _ in 0..appends {
            append(&hot, vec![entry(2, next, 4000)]).unwrap();
            hot.applied(next + 1);
            hot.purge(id(2, next));
            next += 1;
        }
    };
    append(&cold, resting[..20].to_vec()).unwrap();
    run(50);
    append(&cold, resting[20..].to_vec()).unwrap();
    // Its two pieces are copied by turns; once they pushed each other ever further apart.
    run(3000);
    assert_eq!(all(&cold), resting);
    wal.close();
    assert!(wal.span() <= 18 * (64 << 10), "{} bytes held", wal.span());
}

#[test]
fn no_space_is_seen_before_the_disk_is_full() {
    let files = MemoryFs::new(7);
    let config = WalConfig {
        headroom: 100 << 10,
        ..small()
    };
    files.set_capacity(1 << 20);
    let wal = Wal::open(Arc::new(files.clone()), Path::new("/wal"), config).unwrap();
    let group = wal.group(RangeId(1));
    let mut next = 0;
    while wal.admits(true) {
        append(&group, vec![entry(1, next, 5000)]).unwrap();
        next += 1;
    }
    assert!(next > 50 && fs::read(&files, Path::new("/wal/x"), 0).is_err());
    // What was admitted before still fits.
    append(&group, vec![entry(1, next, 5000)]).unwrap();
}

#[test]
fn other_versions_are_refused() {
    let files = MemoryFs::new(8);
    let dir = Path::new("/wal");
    drop(Wal::open(Arc::new(files.clone()), dir, small()).unwrap());
    let name = files.list(dir).unwrap().into_iter().map(|e| e.name).min().unwrap();
    let file = files.open(&dir.join(name)).unwrap();
    let mut page = vec![0; 4096];
    file.read_exact_at(&mut page, 0).unwrap();
    page[8] = 9;
    let sum = format::crc(&[&page[..12], &page[16..32]]);
    page[12..16].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&page, 0).unwrap();
    let refused = Wal::open(Arc::new(files), dir, small());
    assert!(matches!(refused, Err(OpenError::Version { version: 9, .. })));
}

#[test]
fn decoding_never_panics_on_any_bytes() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
    runner
        .run(&prop::collection::vec(any::<u8>(), 0..200), |bytes| {
            let _ = format::Head::decode(&bytes);
            let _ = format::State::decode(&bytes);
            let _ = format::decode_entry(&Bytes::from(bytes.clone()));
            let _ = format::read_segment_header(&bytes);
            let _ = format::decode_cut(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_callers_and_the_thread_write_in_turn_is_all_there() {
    const ENTRIES: u64 = 300;
    let files = Arc::new(MemoryFs::new(11));
    let wal = Wal::open(files.clone(), Path::new("/wal"), small()).unwrap();
    std::thread::scope(|scope| {
        for n in 1..=4u32 {
            let group = wal.group(RangeId(n));
            scope.spawn(move || {
                let (told, done) = mpsc::channel();
                for index in 0..ENTRIES {
                    let told = told.clone();
                    let told = Box::new(move |r: Result<(), WalError>| told.send((index, r.is_ok())).unwrap());
                    let entries = vec![entry(n.into(), index, 900)];
                    match n {
                        1 => group.append(entries, told).unwrap(),
                        _ => group.append_here(entries, told).unwrap(),
                    }
                    // One of them never waits, the others do more or less often.
                    if index % u64::from(n) == 1 {
                        save_vote(&group, vote(index)).unwrap();
                    }
                }
                let told: Vec<_> = done.iter().take(ENTRIES as usize).collect();
                assert_eq!(told, (0..ENTRIES).map(|index| (index, true)).collect::<Vec<_>>());
            });
        }
    });
    drop(wal);
    let wal = Wal::open(files, Path::new("/wal"), small()).unwrap();
    for n in 1..=4u32 {
        let entries: Vec<_> = (0..ENTRIES).map(|index| entry(n.into(), index, 900)).collect();
        assert_eq!(all(&wal.group(RangeId(n))), entries);
    }
}
