//! Full disks and failing ones.

use super::*;
use cluster::fs::MemoryFs;
use futures::executor::block_on;
use std::thread;

const DIR: &str = "/logs";

fn memory(seed: u64) -> (MemoryFs, Arc<dyn FileSystem>) {
    let memory = MemoryFs::new(seed);
    (memory.clone(), Arc::new(memory))
}

fn wait_for(logs: &Logs, wanted: impl FnMut(&Health) -> bool) {
    let mut health = logs.health();
    // The thread that changes it lives as long as `logs`.
    let _ = block_on(health.wait_for(wanted)).unwrap();
}

fn line(count: i64) -> Vec<StampedBatch> {
    (0..count).map(|n| batch(n, 1, 439, 1, n, n)).collect()
}

fn all(log: &PartitionLog) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = log.log_start();
    while at < log.log_end() {
        let slice = log.read(at, 5_000, true).unwrap();
        bytes.extend(fetched(&slice));
        at = slice.next;
    }
    bytes
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost_when_space_returns() {
    for capacity in [0, 30, 64, 500, 900, 4_000, 9_000] {
        let (memory, fs) = memory(capacity);
        let logs = open(&fs, &config(DIR), &[]);
        memory.set_capacity(capacity);
        let written = line(40);
        let log = logs.partition(id(0));
        for batch in &written {
            log.append(batch.clone());
        }
        wait_for(&logs, |health| *health == Health::Full);
        let wanted: Vec<u8> = written.iter().flat_map(content).collect();
        assert!(all(&log) == wanted, "readable while full");
        memory.set_capacity(u64::MAX);
        wait_for(&logs, |health| *health == Health::Good);
        let at = checkpoint(&logs, &[id(0)]).unwrap();
        memory.crash();
        logs.close();
        let logs = open(&fs, &config(DIR), &at);
        assert!(all(&logs.partition(id(0))) == wanted, "with {capacity} bytes");
    }
}

#[test]
fn appends_wait_for_room_and_go_on_when_space_returns() {
    let (memory, fs) = memory(1);
    let config = LogConfig {
        tail_bytes: 4_000,
        ..config(DIR)
    };
    let logs = open(&fs, &config, &[]);
    memory.set_capacity(0);
    let written = line(200);
    let log = logs.partition(id(0));
    let appender = thread::spawn({
        let (log, written) = (log.clone(), written.clone());
        move || written.into_iter().for_each(|batch| log.append(batch))
    });
    wait_for(&logs, |health| *health == Health::Full);
    // Room for 4,000 bytes and the batch that passes the bound.
    assert!(log.log_end() <= 8, "{} batches unwritten", log.log_end());
    memory.set_capacity(u64::MAX);
    appender.join().unwrap();
    assert!(all(&log) == written.iter().flat_map(content).collect::<Vec<u8>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_waiting_append_leaves_the_worker_to_others() {
    let (memory, fs) = memory(2);
    let config = LogConfig {
        tail_bytes: 4_000,
        ..config(DIR)
    };
    let logs = open(&fs, &config, &[]);
    memory.set_capacity(0);
    let log = logs.partition(id(0));
    let appender = tokio::spawn({
        let log = log.clone();
        async move { line(200).into_iter().for_each(|batch| log.append(batch)) }
    });
    // On the only worker, while the append waits on it.
    let mut health = logs.health();
    let other = tokio::spawn(async move {
        health.wait_for(|health| *health == Health::Full).await.unwrap();
        memory.set_capacity(u64::MAX);
    });
    other.await.unwrap();
    appender.await.unwrap();
    assert_eq!(log.log_end(), 200);
}

#[test]
fn closing_with_a_full_disk_does_not_wait_for_space() {
    let (memory, fs) = memory(3);
    let logs = open(&fs, &config(DIR), &[]);
    memory.set_capacity(0);
    logs.partition(id(0)).append(batch(0, 1, 100, 1, 1, 1));
    wait_for(&logs, |health| *health == Health::Full);
    let job = logs.sync_job(vec![id(0)]);
    let job = thread::spawn(job);
    logs.close();
    assert!(job.join().unwrap().is_err());
}

#[test]
fn a_failed_write_ends_writing_but_not_reading() {
    let (memory, fs) = memory(4);
    let config = LogConfig {
        tail_bytes: 4_000,
        ..config(DIR)
    };
    let logs = open(&fs, &config, &[]);
    let log = logs.partition(id(0));
    let written = line(100);
    log.append(written[0].clone());
    let at = checkpoint(&logs, &[id(0)]).unwrap();
    memory.fail_write(0);
    log.append(written[1].clone());
    wait_for(&logs, |health| matches!(health, Health::Failed(_)));
    // No append waits for a writer that is gone.
    written[2..].iter().for_each(|batch| log.append(batch.clone()));
    assert!(all(&log) == written.iter().flat_map(content).collect::<Vec<u8>>());
    for _ in 0..2 {
        assert!(checkpoint(&logs, &[id(0)]).is_err());
    }
    memory.crash();
    logs.close();
    let logs = open(&fs, &config, &at);
    assert!(all(&logs.partition(id(0))) == content(&written[0]));
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    // Of the segment, of the index, of the folder.
    for sync in 0..3 {
        let (memory, fs) = memory(5 + sync);
        let logs = open(&fs, &config(DIR), &[]);
        let log = logs.partition(id(0));
        log.append(batch(0, 1, 100, 1, 1, 1));
        memory.fail_sync(sync);
        assert!(checkpoint(&logs, &[id(0)]).is_err());
        assert!(matches!(&*logs.health().borrow(), Health::Failed(_)));
        let syncs = memory.syncs();
        assert!(checkpoint(&logs, &[id(0)]).is_err());
        assert_eq!(memory.syncs(), syncs);
    }
}
