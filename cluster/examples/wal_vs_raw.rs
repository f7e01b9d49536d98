//! The write-ahead log against a bare pwritev + fdatasync on the same disk, side by side in one run.
//!
//! ```text
//! cargo run --release -p cluster --example wal_vs_raw -- [dir] [MiB per figure]
//! ```
//!
//! Each figure alternates short turns of both, so that what else the machine does meets both alike. `raw appended` grows
//! a file, `raw overwritten` writes over blocks written before; the log does the latter once its segments have been used.

use bytes::Bytes;
use cluster::fs::{Disk, File, FileSystem};
use cluster::ids::{NodeId, RangeId};
use cluster::machine::{At, CheckpointJob, Machine, Payload};
use cluster::raft::{HostConfig, RangeHost};
use cluster::wal::{Body, Entry, Group, LogId, Wal, WalConfig};
use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const RAW_BYTES: u64 = 64 << 20;

/// A file written with one pwritev and one fdatasync per turn.
struct Raw {
    file: Arc<dyn File>,
    at: u64,
    wraps: bool,
}

impl Raw {
    fn new(dir: &Path, name: &str, wraps: bool) -> Self {
        let file = Disk.create(&dir.join(name)).expect("create");
        if wraps {
            let zeros = vec![0; 1 << 20];
            for n in 0..RAW_BYTES >> 20 {
                file.write_all_at(&zeros, n << 20).expect("fill");
            }
        }
        file.sync_data().expect("sync");
        Self { file, at: 0, wraps }
    }

    fn write(&mut self, entry: &Bytes, count: usize) {
        let mut slices = vec![IoSlice::new(entry); count];
        let len = (entry.len() * count) as u64;
        if self.wraps && self.at + len > RAW_BYTES {
            self.at = 0;
        }
        self.file.write_all_vectored_at(&mut slices, self.at).expect("write");
        self.file.sync_data().expect("sync");
        self.at += len;
    }
}

struct Log {
    wal: Wal,
    group: Group,
    next: u64,
}

impl Log {
    fn new(dir: &Path) -> Self {
        let wal = Wal::open(Arc::new(Disk), &dir.join("wal"), WalConfig::default()).expect("open");
        let group = wal.group(RangeId(1));
        Self { wal, group, next: 0 }
    }

    /// Hands over `count` entries one by one and waits for all.
    fn write(&mut self, entry: &Bytes, count: usize) {
        let (done, all) = mpsc::channel();
        for _ in 0..count {
            let payload = Payload {
                head: Bytes::from_static(b"head"),
                parts: Arc::from([entry.clone()]),
            };
            let id = LogId {
                term: 1,
                index: self.next,
            };
            let body = Body::Normal(payload);
            let done = done.clone();
            let told = Box::new(move |result: Result<(), _>| done.send(result).expect("told"));
            self.group.append(vec![Entry { id, body }], told).expect("append");
            self.next += 1;
        }
        for _ in 0..count {
            all.recv().expect("told").expect("durable");
        }
        self.group.applied(self.next);
        if self.wal.span() > 64 << 20 {
            self.group.purge(LogId {
                term: 1,
                index: self.next - 1,
            });
        }
    }
}

struct Nothing;

impl Machine for Nothing {
    fn apply(&mut self, _at: At, _command: Payload) -> Bytes {
        Bytes::new()
    }

    fn recovered(&self) -> Option<Vec<u8>> {
        None
    }

    fn checkpoint(&mut self, _marker: Vec<u8>) -> CheckpointJob {
        Box::new(|| Ok(()))
    }
}

fn percentile(times: &mut [Duration], p: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * p / 100).min(times.len() - 1)]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let base = args.next().unwrap_or_else(|| ".".into());
    let mib: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(256);
    let dir = Path::new(&base).join(format!("wal-bench-{}", std::process::id()));
    Disk.create_dir(&dir).expect("dir");
    run(&dir, mib);
    Disk.remove_dir(&dir).expect("clean");
}

fn run(dir: &Path, mib: usize) {
    let mut appended = Raw::new(dir, "appended", false);
    let mut overwritten = Raw::new(dir, "overwritten", true);
    let mut log = Log::new(dir);
    // Once around, so that the log's segments have been used.
    let warm = Bytes::from(vec![7; 1 << 20]);
    for _ in 0..160 {
        log.write(&warm, 1);
    }
    println!("entry      in flight   raw overwritten MB/s   log MB/s   ratio");
    for kib in [16, 64, 256, 1024] {
        let entry = Bytes::from(vec![1; kib << 10]);
        for flight in [1, 16] {
            let turn = ((4 << 10) / kib / flight).max(1);
            let turns = (mib << 10) / (turn * kib * flight);
            let (mut raw, mut ours) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..turns.max(4) {
                let begin = Instant::now();
                (0..turn).for_each(|_| overwritten.write(&entry, flight));
                raw += begin.elapsed();
                let begin = Instant::now();
                (0..turn).for_each(|_| log.write(&entry, flight));
                ours += begin.elapsed();
            }
            let bytes = (turns.max(4) * turn * flight * entry.len()) as f64 / 1e6;
            let (raw, ours) = (bytes / raw.as_secs_f64(), bytes / ours.as_secs_f64());
            println!("{kib:>4} KiB {flight:>12} {raw:>22.0} {ours:>10.0} {:>7.2}", ours / raw);
        }
    }
    small(dir, &mut appended, &mut overwritten, &mut log);
}

fn small(dir: &Path, appended: &mut Raw, overwritten: &mut Raw, log: &mut Log) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runtime");
    let host = runtime
        .block_on(RangeHost::open(
            Arc::new(Disk),
            &dir.join("ranges"),
            NodeId(1),
            HostConfig::default(),
        ))
        .expect("host");
    let range = runtime
        .block_on(host.start(RangeId(1), Box::new(Nothing), true))
        .expect("range");
    let entry = Bytes::from(vec![1; 4 << 10]);
    let command = || Payload {
        head: Bytes::from_static(b"head"),
        parts: Arc::from([entry.clone()]),
    };
    // As above: once around.
    let big = Bytes::from(vec![1; 1 << 20]);
    for _ in 0..160 {
        let payload = Payload {
            head: Bytes::new(),
            parts: Arc::from([big.clone()]),
        };
        runtime.block_on(range.propose(payload)).expect("proposed");
    }
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..40 {
        for (n, times) in times.iter_mut().enumerate() {
            let mut each = |op: &mut dyn FnMut()| {
                for _ in 0..50 {
                    let begin = Instant::now();
                    op();
                    times.push(begin.elapsed());
                }
            };
            match n {
                0 => each(&mut || appended.write(&entry, 1)),
                1 => each(&mut || overwritten.write(&entry, 1)),
                2 => each(&mut || log.write(&entry, 1)),
                _ => {
                    let spent = runtime.block_on(async {
                        let task = tokio::spawn({
                            let (range, commands) = (range.clone(), (0..50).map(|_| command()).collect::<Vec<_>>());
                            async move {
                                let mut spent = Vec::new();
                                for command in commands {
                                    let begin = Instant::now();
                                    range.propose(command).await.expect("proposed");
                                    spent.push(begin.elapsed());
                                }
                                spent
                            }
                        });
                        task.await.expect("task")
                    });
                    times.extend(spent);
                }
            }
        }
    }
    println!("\n4 KiB, one in flight        p50 us    p99 us   p50 / raw appended");
    let base = percentile(&mut times[0].clone(), 50);
    for (name, mut times) in ["raw appended", "raw overwritten", "log", "range (proposed, applied)"]
        .into_iter()
        .zip(times)
    {
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        let ratio = p50.as_secs_f64() / base.as_secs_f64();
        println!("{name:<26} {:>7} {:>9} {ratio:>20.2}", p50.as_micros(), p99.as_micros());
    }
    runtime.block_on(host.shutdown());
}
