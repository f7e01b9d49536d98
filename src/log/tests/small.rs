//! Pieces, retention, idle partitions, many at once.

use super::*;
use cluster::fs::{Disk, MemoryFs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn memory() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFs::new(1))
}

fn fill(log: &PartitionLog, count: i64, size: usize) {
    let end = log.log_end();
    for n in end..end + count {
        log.append(batch(n, 1, size, 1, n, n));
    }
}

#[test]
fn what_is_in_one_file_comes_as_one_piece() {
    let fs = memory();
    let large = LogConfig {
        segment_bytes: 1 << 20,
        ..config("/logs")
    };
    let logs = open(&fs, &large, &[]);
    let log = logs.partition(id(0));
    for _ in 0..3 {
        fill(&log, 20, 500);
        checkpoint(&logs, &[id(0)]).unwrap();
        let slice = log.read(0, 1 << 20, true).unwrap();
        assert!(
            matches!(&slice.pieces[..], [Piece::File { .. }]),
            "{} pieces",
            slice.pieces.len()
        );
        assert_eq!(slice.next, log.log_end());
    }
}

#[test]
fn pieces_stay_readable_when_their_segment_goes() {
    let dir = tempfile::tempdir().unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(Disk);
    let logs = open(&fs, &config(dir.path()), &[]);
    let log = logs.partition(id(0));
    fill(&log, 100, 500);
    checkpoint(&logs, &[id(0)]).unwrap();
    let before = log.read(0, 1 << 20, true).unwrap();
    let bytes = fetched(&before);
    assert_eq!(before.next, 100);
    log.trim(60);
    logs.drop_partition(id(0));
    logs.close();
    assert!(fs.list(dir.path()).unwrap().is_empty());
    assert!(fetched(&before) == bytes);
}

#[test]
fn a_partition_that_never_held_a_record_has_no_file_and_little_memory() {
    let fs = memory();
    let logs = open(&fs, &config("/logs"), &[]);
    let ids: Vec<PartitionId> = (0..1000).map(id).collect();
    let at = checkpoint(&logs, &ids).unwrap();
    assert!(fs.list(Path::new("/logs")).unwrap().is_empty());
    // The log, the counts beside it, its entry in the map at the map's emptiest.
    let entry = size_of::<(PartitionId, Arc<PartitionLog>)>() + 1;
    assert!(size_of::<PartitionLog>() + 16 + entry * 16 / 7 < 300);
    drop(logs);
    let logs = open(&fs, &config("/logs"), &at);
    assert!(logs.get(id(999)).is_some() && logs.get(id(1000)).is_none());
    assert_eq!(logs.partition(id(5)).read(0, 1, true).unwrap().next, 0);
}

#[test]
fn checkpoints_of_many_partitions_are_durable() {
    for seed in 0..8 {
        let memory = MemoryFs::new(seed);
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let logs = open(&fs, &config("/logs"), &[]);
        let ids: Vec<PartitionId> = (0..40).map(id).collect();
        ids.iter().for_each(|id| fill(&logs.partition(*id), 20, 300));
        let syncs = memory.syncs();
        let at = checkpoint(&logs, &ids).unwrap();
        assert_eq!(memory.syncs(), syncs + 1, "the volume, once");
        memory.crash();
        let logs = open(&fs, &config("/logs"), &at);
        for id in &ids {
            let log = logs.partition(*id);
            assert_eq!(fetched(&log.read(0, 1 << 20, true).unwrap()).len(), 20 * 361);
        }
        memory.fail_sync(0);
        ids.iter().for_each(|id| fill(&logs.partition(*id), 1, 1));
        assert!(checkpoint(&logs, &ids).is_err());
        assert!(matches!(&*logs.health().borrow(), Health::Failed(_)));
    }
}

#[test]
fn retention_lets_whole_segments_go() {
    let fs = memory();
    let logs = open(&fs, &config("/logs"), &[]);
    let log = logs.partition(id(0));
    // Seven batches of 561 bytes in each segment; batch n came at n ms.
    fill(&log, 30, 500);
    let at = checkpoint(&logs, &[id(0)]).unwrap();
    drop(logs);
    let logs = open(&fs, &config("/logs"), &at);
    let log = logs.partition(id(0));
    assert_eq!(log.size(), 30 * 561);
    let by_time = |now, age| log.retention_point(now, Some(age), None);
    assert_eq!(by_time(100, 100), 0);
    assert_eq!(by_time(100, 94), 0, "the sixth came 94 ms ago, which is not more");
    assert_eq!(by_time(101, 94), 7);
    assert_eq!(by_time(100, 80), 14);
    assert_eq!(by_time(100, 71), 28, "the newest came 71 ms ago");
    assert_eq!(by_time(100, 70), 30, "all of it is too old");
    assert_eq!(by_time(100, u64::MAX), 0);
    let by_bytes = |bytes| log.retention_point(100, None, Some(bytes));
    assert_eq!(by_bytes(30 * 561), 0);
    assert_eq!(by_bytes(23 * 561), 7);
    assert_eq!(by_bytes(23 * 561 + 1), 0);
    assert_eq!(by_bytes(0), 28, "the segment being written stays");
    assert_eq!(log.retention_point(100, Some(80), Some(10 * 561)), 14);
    assert_eq!(log.retention_point(100, None, None), 0);

    log.trim(17);
    assert_eq!((log.log_start(), log.size()), (17, 16 * 561));
    log.trim(3);
    assert_eq!(log.log_start(), 17);
    log.trim(1000);
    assert_eq!((log.log_start(), log.log_end(), log.size()), (30, 30, 0));
    fill(&log, 1, 10);
    assert_eq!(log.read(30, 1000, true).unwrap().next, 31);
    logs.close();
    assert!(
        fs.list(Path::new("/logs"))
            .unwrap()
            .iter()
            .all(|e| e.name.contains("00000030."))
    );
}

#[test]
fn a_quiet_partition_rolls_by_age_and_size() {
    let fs = memory();
    let logs = open(&fs, &config("/logs"), &[]);
    let log = logs.partition(id(0));
    let segments = || {
        checkpoint(&logs, &[id(0)]).unwrap();
        fs.list(Path::new("/logs")).unwrap().len() / 2
    };
    log.roll_if(1000, Some(0), Some(0));
    fill(&log, 2, 10);
    log.roll_if(10, Some(10), Some(143));
    fill(&log, 1, 10);
    assert_eq!(segments(), 1);
    log.roll_if(11, Some(10), None);
    fill(&log, 1, 10);
    assert_eq!(segments(), 2);
    log.roll_if(11, None, Some(71));
    log.roll_if(11, None, Some(71));
    fill(&log, 1, 10);
    assert_eq!(segments(), 3);
}

#[test]
fn a_large_index_is_searched() {
    const BATCHES: i64 = 2_000;
    let fs = memory();
    let large = LogConfig {
        segment_bytes: 1 << 20,
        index_interval: 1,
        ..config("/logs")
    };
    let mut logs = open(&fs, &large, &[]);
    // Batches of different sizes, three records each; timestamps in pairs, some of them late.
    let made: Vec<StampedBatch> = (0..BATCHES)
        .map(|n| batch(n * 3, 3, (n * 37 % 101) as usize, 1, n, n / 2 * 10 - n % 7))
        .collect();
    for batch in &made[..1_950] {
        logs.partition(id(0)).append(batch.clone());
    }
    let at = checkpoint(&logs, &[id(0)]).unwrap();
    for reopened in [false, true] {
        if reopened {
            drop(logs);
            logs = open(&fs, &large, &at);
        }
        // Some entries are in the file, some not yet.
        let log = logs.partition(id(0));
        for batch in &made[1_950..] {
            log.append(batch.clone());
        }
        let mut steps = [1usize, 13, 57, 211, 997].into_iter().cycle();
        let mut from = 0;
        for max in [500, 3_000, 20_000, 90_000].into_iter().cycle().take(60) {
            from = (from + steps.next().unwrap()) % made.len();
            let mut n = from;
            // A few reads on from there, as a consumer would.
            for _ in 0..4 {
                let Some(first) = made.get(n) else { break };
                let slice = log.read(first.base_offset + 1, max, true).unwrap();
                let bytes = fetched(&slice);
                let end = made
                    .iter()
                    .position(|b| b.base_offset == slice.next)
                    .unwrap_or(made.len());
                assert!(bytes == made[n..end].iter().flat_map(content).collect::<Vec<u8>>());
                assert!(bytes.len() <= max && end > n);
                let next = made.get(end).map_or(0, |b| content(b).len());
                assert!(
                    end == made.len() || bytes.len() + next > max,
                    "{} of {max}",
                    bytes.len()
                );
                n = end;
            }
            assert_eq!(
                log.append_ms(made[from].last_offset).unwrap(),
                Some(made[from].append_ms)
            );
            let timestamp = made[from].max_timestamp;
            let wanted = made.iter().find(|b| b.max_timestamp >= timestamp).unwrap();
            let found = log.batch_by_timestamp(timestamp).unwrap().unwrap();
            assert_eq!(
                (found.base_offset, found.append_ms),
                (wanted.base_offset, wanted.append_ms)
            );
        }
    }
}

#[test]
fn a_batch_larger_than_a_segment_has_one_of_its_own() {
    let fs = memory();
    let logs = open(&fs, &config("/logs"), &[]);
    let log = logs.partition(id(0));
    for size in [100, 10_000, 100] {
        fill(&log, 1, size);
    }
    checkpoint(&logs, &[id(0)]).unwrap();
    assert_eq!(fs.list(Path::new("/logs")).unwrap().len(), 6);
    let slice = log.read(1, 10, true).unwrap();
    assert_eq!((slice.bytes, slice.next), (10_061, 2));
    assert_eq!(log.read(1, 10, false).unwrap().bytes, 0);
}

#[test]
fn readers_follow_a_writer_while_old_segments_go() {
    const BATCHES: i64 = 4_000;
    let dir = tempfile::tempdir().unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(Disk);
    let small = LogConfig {
        segment_bytes: 40_000,
        tail_bytes: 20_000,
        ..config(dir.path())
    };
    let logs = open(&fs, &small, &[]);
    let log = logs.partition(id(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for max in [1, 3_000, 30_000] {
            let log = &log;
            scope.spawn(move || {
                let mut at = 0;
                while at < BATCHES {
                    let slice = match log.read(at, max, true) {
                        Ok(slice) => slice,
                        Err(ReadError::OutOfRange { log_start, .. }) => {
                            at = log_start;
                            continue;
                        }
                        Err(e) => panic!("{e}"),
                    };
                    let wanted: Vec<u8> = (at..slice.next)
                        .flat_map(|n| content(&batch(n, 1, (n * 7 % 400) as usize, 1, n, n)))
                        .collect();
                    assert!(fetched(&slice) == wanted, "from {at}");
                    at = slice.next;
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                checkpoint(&logs, &[id(0)]).unwrap();
                log.trim(log.log_end() - 1_000);
                let (start, end) = log.bounds();
                if start < end {
                    assert_eq!(log.append_ms(end - 1).unwrap(), Some(end - 1));
                    assert!(
                        log.batch_by_timestamp(start)
                            .unwrap()
                            .is_some_and(|b| b.base_offset >= start)
                    );
                }
            }
        });
        for n in 0..BATCHES {
            log.append(batch(n, 1, (n * 7 % 400) as usize, 1, n, n));
        }
        done.store(true, Ordering::Release);
    });
}
