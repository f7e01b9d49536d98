//! What partition logs reach: appends, reads, checkpoints and opening, beside plain writes and reads of the same bytes.
//!
//! ```text
//! cargo run --release --example log_throughput -- [folder] [MiB] [bytes per batch] [partitions]
//! ```
//!
//! CPU is the whole process's, in seconds per GB.

use bytes::Bytes;
use cluster::fs::{Disk, FileSystem};
use cluster::ids::{PartitionId, TopicId};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tessaridb::log::{LogCheckpoint, LogConfig, Logs, Piece, StampedBatch};

const MIB: usize = 1 << 20;
const CHECKPOINT: usize = 64 * MIB;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "target/log_throughput".to_owned()));
    let total = args.next().map_or(2048, |n| n.parse().expect("MiB")) * MIB;
    let mut only = args.map(|n| n.parse().expect("a number"));
    let sizes = only
        .next()
        .map_or_else(|| vec![1024, 16 * 1024, 256 * 1024], |n| vec![n]);
    let counts = only.next().map_or_else(|| vec![1, 12, 1000], |n| vec![n]);
    for size in sizes {
        raw(&dir, total, size);
        for partitions in counts.iter().copied() {
            logs(&dir, total, size, partitions);
        }
    }
    clear(&dir);
}

fn clear(dir: &Path) {
    Disk.remove_dir(dir).expect("remove");
}

fn cpu() -> f64 {
    // SAFETY: plain data, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Has the system give out the memory that the page cache will take, so that nobody pays for the first touch of it (on
/// virtual machines several times the cost of a write).
fn warm(dir: &Path, total: usize) {
    clear(dir);
    Disk.create_dir(dir).expect("folder");
    let path = dir.join("warm");
    let file = Disk.create(&path).expect("file");
    let part = vec![7; MIB];
    for n in 0..total / MIB {
        file.write_all_at(&part, (n * MIB) as u64).expect("write");
    }
    Disk.remove(&path).expect("remove");
}

/// Runs and prints MB/s and CPU s/GB.
fn measure<T>(what: &str, bytes: usize, run: impl FnOnce() -> T) -> T {
    let (began, cpu_began) = (Instant::now(), cpu());
    let result = run();
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu() - cpu_began);
    let gb = bytes as f64 / 1e9;
    println!("{what:<60} {:>8.0} MB/s {:>7.3} CPU s/GB", gb * 1e3 / seconds, cpu / gb);
    result
}

/// The least that has to be done: 1 MiB per write, written back as it goes, synced at checkpoints.
fn raw(dir: &Path, total: usize, size: usize) {
    warm(dir, total);
    let file = Disk.create(&dir.join("raw")).expect("file");
    let part = vec![7; size];
    let parts = MIB / size;
    measure(&format!("raw writes of {parts} x {size}"), total, || {
        for n in 0..total / MIB {
            let mut slices: Vec<IoSlice<'_>> = (0..parts).map(|_| IoSlice::new(&part)).collect();
            file.write_all_vectored_at(&mut slices, (n * MIB) as u64)
                .expect("write");
            if n % 4 == 3 {
                file.write_back(((n - 3) * MIB) as u64, 4 * MIB as u64);
            }
            if ((n + 1) * MIB).is_multiple_of(CHECKPOINT) {
                file.sync_data().expect("sync");
            }
        }
    });
    let mut buf = vec![0; MIB];
    measure("raw reads of 1 MiB", total, || {
        for n in 0..total / MIB {
            file.read_exact_at(&mut buf, (n * MIB) as u64).expect("read");
        }
    });
}

fn logs(dir: &Path, total: usize, size: usize, partitions: usize) {
    warm(dir, total);
    let fs: Arc<dyn FileSystem> = Arc::new(Disk);
    let config = LogConfig {
        dir: dir.to_owned(),
        segment_bytes: 512 * MIB as u64,
        index_interval: 4096,
        tail_bytes: 64 * MIB,
    };
    let name = |what: &str| format!("{what}, batches of {size}, {partitions} partitions");
    let logs = Logs::open(fs.clone(), config.clone(), Vec::new()).expect("open");
    let ids: Vec<PartitionId> = (0..partitions as u32)
        .map(|index| PartitionId {
            topic: TopicId(1),
            index,
        })
        .collect();
    let each: Vec<_> = ids.iter().map(|id| logs.partition(*id)).collect();
    let batch = Batch::new(size);
    let batches = total / size;
    let mut ends = vec![0; partitions];
    let mut sync_seconds = Vec::new();
    let began = Instant::now();
    let mut checkpoints = measure(&name("append with checkpoints"), total, || {
        let mut job = None;
        for n in 0..batches {
            let p = n % partitions;
            let append_ms = began.elapsed().as_millis() as i64;
            each[p].append(batch.stamped(ends[p], append_ms));
            ends[p] += 1;
            if ((n + 1) * size).is_multiple_of(CHECKPOINT) {
                finish(job.take(), &mut sync_seconds);
                let sync = logs.sync_job(ids.clone());
                job = Some(std::thread::spawn(move || {
                    let began = Instant::now();
                    sync().expect("sync");
                    began.elapsed().as_secs_f64()
                }));
            }
        }
        finish(job, &mut sync_seconds);
        checkpoint(&logs, &ids)
    });
    sync_seconds.sort_by(f64::total_cmp);
    if let Some(most) = sync_seconds.last() {
        let median = sync_seconds[sync_seconds.len() / 2];
        println!(
            "    checkpoint of 64 MiB: p50 {:.1} ms, most {:.1} ms",
            median * 1e3,
            most * 1e3
        );
    }
    for max in [64 * 1024, MIB] {
        measure(&name(&format!("find {max} at a time")), total, || {
            consume(&each, max, &mut [])
        });
    }
    let mut buf = vec![0; 2 * MIB];
    measure(&name("find and read 1 MiB at a time"), total, || {
        consume(&each, MIB, &mut buf)
    });
    drop(each);
    logs.close();
    drop(logs);
    for kind in ["as closed", "1 MiB more than the checkpoint"] {
        let began = Instant::now();
        let logs = Logs::open(fs.clone(), config.clone(), checkpoints.clone()).expect("open");
        println!("    open, {kind}: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
        let each: Vec<_> = ids.iter().map(|id| logs.partition(*id)).collect();
        measure(&name("first read after open"), total, || consume(&each, MIB, &mut []));
        checkpoints = checkpoint(&logs, &ids);
        for n in 0..MIB.max(partitions * size) / size {
            let p = n % partitions;
            each[p].append(batch.stamped(each[p].log_end(), 0));
        }
        logs.close();
    }
}

/// One batch to be stamped again and again.
struct Batch {
    head: [u8; 61],
    body: Bytes,
}

impl Batch {
    fn new(size: usize) -> Self {
        let body = Bytes::from(vec![7u8; size - 61]);
        let mut head = [0; 61];
        head[8..12].copy_from_slice(&(size as u32 - 12).to_be_bytes());
        head[16] = 2;
        head[57..].copy_from_slice(&1u32.to_be_bytes());
        let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        crc.update(&head[21..]);
        crc.update(&body);
        head[17..21].copy_from_slice(&(crc.finalize() as u32).to_be_bytes());
        Self { head, body }
    }

    fn stamped(&self, base: i64, append_ms: i64) -> StampedBatch {
        let mut head = self.head;
        head[..8].copy_from_slice(&base.to_be_bytes());
        StampedBatch {
            head: Bytes::copy_from_slice(&head),
            rest: self.body.clone(),
            base_offset: base,
            last_offset: base,
            leader_epoch: 0,
            append_ms,
            max_timestamp: 0,
        }
    }
}

fn finish(job: Option<std::thread::JoinHandle<f64>>, seconds: &mut Vec<f64>) {
    if let Some(job) = job {
        seconds.push(job.join().expect("sync"));
    }
}

fn checkpoint(logs: &Logs, ids: &[PartitionId]) -> Vec<(PartitionId, LogCheckpoint)> {
    let sync = logs.sync_job(ids.to_vec());
    let at = ids.iter().map(|id| (*id, logs.partition(*id).checkpoint())).collect();
    sync().expect("sync");
    at
}

/// Reads all partitions from start to end, `max` bytes at a time; into `buf` unless that is empty.
fn consume(logs: &[Arc<tessaridb::log::PartitionLog>], max: usize, buf: &mut [u8]) {
    for log in logs {
        let mut at = log.log_start();
        while at < log.log_end() {
            let slice = log.read(at, max, true).expect("read");
            at = slice.next;
            for piece in &slice.pieces {
                if let (Piece::File { file, position, len }, false) = (piece, buf.is_empty()) {
                    file.read_exact_at(&mut buf[..*len], *position).expect("read");
                }
            }
        }
    }
}
