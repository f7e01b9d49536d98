//! The write-ahead log against a bare pwritev + fdatasync on the same disk, side by side in one run.
//!
//! ```text
//! cargo run --release -p cluster --example wal_vs_raw -- [dir] [MiB per figure]
//! ```
//!
//! Each figure alternates short turns of both and takes medians, so that what else the machine does meets both alike.
//! `raw appended` grows a file, `raw overwritten` writes over blocks written before; the log does the latter once its
//! segments have been used. With more than one entry in flight the raw side writes them with one call and one sync, and
//! the log is kept at that many, each waiting for its own answer. At the end: what three resting ranges cost.

use bytes::Bytes;
use cluster::fs::{Disk, File, FileSystem};
use cluster::ids::{NodeId, RangeId};
use cluster::machine::{At, CheckpointJob, Fetch, Machine, Payload};
use cluster::raft::{HostConfig, RangeHost, Start};
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

    fn hand_over(&mut self, entry: &Bytes, done: &mpsc::Sender<()>) {
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
        let told = Box::new(move |result: Result<(), _>| {
            result.expect("durable");
            done.send(()).expect("told");
        });
        self.group.append(vec![Entry { id, body }], told).expect("append");
        self.next += 1;
    }

    /// Keeps `flight` entries on their way until `count` are durable.
    fn write(&mut self, entry: &Bytes, flight: usize, count: usize) {
        let (done, durable) = mpsc::channel();
        for n in 0..count {
            self.hand_over(entry, &done);
            if n + 1 >= flight {
                durable.recv().expect("told");
            }
        }
        for _ in 1..flight.min(count) {
            durable.recv().expect("told");
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
    fn snapshot(&mut self) -> std::io::Result<Bytes> {
        Ok(Bytes::new())
    }

    fn install(&mut self, _snapshot: Bytes, marker: Vec<u8>, _fetch: Box<dyn Fetch>) -> std::io::Result<CheckpointJob> {
        Ok(self.checkpoint(marker))
    }

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
        log.write(&warm, 1, 1);
    }
    println!("entry      in flight   raw overwritten MB/s   log MB/s   ratio");
    for kib in [16, 64, 256, 1024] {
        let entry = Bytes::from(vec![1; kib << 10]);
        for flight in [1, 16] {
            // Each turn is long against what else may happen in it, and short against the whole.
            let count = ((4 << 10) / kib).clamp(flight, 64).next_multiple_of(flight);
            let turns = ((mib << 10) / (kib * count)).clamp(11, 200);
            let (mut raw, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..turns {
                let begin = Instant::now();
                (0..count / flight).for_each(|_| overwritten.write(&entry, flight));
                raw.push(begin.elapsed());
                let begin = Instant::now();
                log.write(&entry, flight, count);
                ours.push(begin.elapsed());
            }
            let bytes = (count * entry.len()) as f64 / 1e6;
            let rate = |times: &mut Vec<Duration>| bytes / percentile(times, 50).as_secs_f64();
            let (raw, ours) = (rate(&mut raw), rate(&mut ours));
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
        .block_on(host.start(RangeId(1), Box::new(Nothing), Start::Bootstrap))
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
    for _ in 0..200 {
        for (n, times) in times.iter_mut().enumerate() {
            let mut each = |op: &mut dyn FnMut()| {
                for _ in 0..10 {
                    let begin = Instant::now();
                    op();
                    times.push(begin.elapsed());
                }
            };
            match n {
                0 => each(&mut || appended.write(&entry, 1)),
                1 => each(&mut || overwritten.write(&entry, 1)),
                2 => each(&mut || log.write(&entry, 1, 1)),
                _ => {
                    let spent = runtime.block_on(async {
                        let task = tokio::spawn({
                            let (range, commands) = (range.clone(), (0..10).map(|_| command()).collect::<Vec<_>>());
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
    idle(&runtime, &host);
    runtime.block_on(host.shutdown());
}

/// Processor time of this process so far, from `/proc`, in ticks of 10 ms; and resident memory in pages of 4 KiB.
fn usage() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let number = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (number(13) + number(14), number(23))
}

fn idle(runtime: &tokio::runtime::Runtime, host: &RangeHost) {
    for id in 2..4 {
        runtime
            .block_on(host.start(RangeId(id), Box::new(Nothing), Start::Bootstrap))
            .expect("range");
    }
    let (before, _) = usage();
    std::thread::sleep(Duration::from_secs(5));
    let (after, pages) = usage();
    let percent = (after - before) as f64 * 10.0 / 5000.0 * 100.0;
    println!(
        "\nthree resting ranges: {percent:.2} % of a core, {} MiB resident in all",
        pages * 4 / 1024
    );
}
