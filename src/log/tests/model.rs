//! Random histories of appends, trims, rolls, checkpoints, crashes and restarts against a plain vector.

use super::*;
use cluster::fs::{Disk, MemoryFs};
use proptest::prelude::*;

const PARTITIONS: u32 = 3;

#[derive(Clone, Debug)]
enum Op {
    Append {
        partition: u32,
        count: i32,
        size: usize,
        epoch_up: bool,
        ms: i64,
        timestamp: i64,
    },
    Trim {
        partition: u32,
        /// Of the offsets held, in 1/256.
        part: u8,
    },
    Roll {
        partition: u32,
    },
    Drop {
        partition: u32,
    },
    Checkpoint,
    /// The power goes at the nth sync of a checkpoint.
    FailedCheckpoint(u64),
    /// The process dies; what was not synced may be gone.
    Crash,
    /// A clean stop after a checkpoint.
    Restart,
    Check,
}

fn op() -> impl Strategy<Value = Op> {
    let partition = 0..PARTITIONS;
    prop_oneof![
        20 => (partition.clone(), 1..5i32, 0..900usize, prop::bool::weighted(0.1), 0..3i64, 0..100i64).prop_map(
            |(partition, count, size, epoch_up, ms, timestamp)| Op::Append { partition, count, size, epoch_up, ms, timestamp }
        ),
        2 => (partition.clone(), any::<u8>()).prop_map(|(partition, part)| Op::Trim { partition, part }),
        1 => partition.clone().prop_map(|partition| Op::Roll { partition }),
        1 => partition.prop_map(|partition| Op::Drop { partition }),
        2 => Just(Op::Checkpoint),
        1 => (0..8u64).prop_map(Op::FailedCheckpoint),
        2 => Just(Op::Crash),
        1 => Just(Op::Restart),
        4 => Just(Op::Check),
    ]
}

/// What one partition must be.
#[derive(Clone, Default)]
struct Model {
    batches: Vec<StampedBatch>,
    log_start: Offset,
    log_end: Offset,
    epoch: i32,
}

impl Model {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Append(batch) => {
                self.log_end = batch.last_offset + 1;
                self.epoch = batch.leader_epoch;
                self.batches.push(batch.clone());
            }
            Change::Trim(to) => {
                self.log_start = self.log_start.max(*to);
                self.batches.retain(|b| b.last_offset >= self.log_start);
            }
            Change::Drop => *self = Self::default(),
        }
    }
}

/// What a range's log would hold.
#[derive(Clone)]
enum Change {
    Append(StampedBatch),
    Trim(Offset),
    Drop,
}

struct World {
    fs: Arc<dyn FileSystem>,
    memory: Option<MemoryFs>,
    config: LogConfig,
    logs: Arc<Logs>,
    models: Vec<Model>,
    durable: Vec<(PartitionId, LogCheckpoint)>,
    /// Since the last durable checkpoint.
    changes: Vec<(u32, Change)>,
    ms: i64,
}

impl World {
    fn new(fs: Arc<dyn FileSystem>, memory: Option<MemoryFs>, config: LogConfig) -> Self {
        Self {
            logs: open(&fs, &config, &[]),
            fs,
            memory,
            config,
            models: vec![Model::default(); PARTITIONS as usize],
            durable: Vec::new(),
            changes: Vec::new(),
            ms: 1_000,
        }
    }

    fn change(&mut self, partition: u32, change: Change) {
        self.models[partition as usize].apply(&change);
        apply(&self.logs, partition, &change);
        self.changes.push((partition, change));
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Append {
                partition,
                count,
                size,
                epoch_up,
                ms,
                timestamp,
            } => {
                let dropped = |(n, change): &(u32, Change)| n == partition && matches!(change, Change::Drop);
                if self.changes.iter().any(dropped) {
                    return;
                }
                let model = &self.models[*partition as usize];
                self.ms += ms;
                let epoch = model.epoch + i32::from(*epoch_up);
                let batch = batch(model.log_end, *count, *size, epoch, self.ms, *timestamp);
                self.change(*partition, Change::Append(batch));
            }
            Op::Trim { partition, part } => {
                let model = &self.models[*partition as usize];
                let to = model.log_start + (model.log_end - model.log_start) * i64::from(*part) / 255;
                self.change(*partition, Change::Trim(to));
            }
            Op::Roll { partition } => self.logs.partition(id(*partition)).roll_if(0, None, Some(1)),
            Op::Drop { partition } => self.change(*partition, Change::Drop),
            Op::Checkpoint => self.checkpoint().unwrap(),
            Op::FailedCheckpoint(n) => {
                if let Some(memory) = self.memory.clone() {
                    memory.power_off_at_sync(*n);
                    if self.checkpoint().is_ok() {
                        // It needed fewer syncs; the power goes now.
                        memory.power_off_at_sync(0);
                    }
                    self.crash();
                }
            }
            Op::Crash => self.crash(),
            Op::Restart => {
                self.checkpoint().unwrap();
                self.crash();
            }
            Op::Check => self.check(),
        }
    }

    fn checkpoint(&mut self) -> std::io::Result<()> {
        let ids: Vec<PartitionId> = (0..PARTITIONS).map(id).collect();
        self.durable = checkpoint(&self.logs, &ids)?;
        self.changes.clear();
        Ok(())
    }

    fn crash(&mut self) {
        if let Some(memory) = &self.memory {
            // Nothing the threads of the old life still do may reach the files of the new one.
            memory.power_off_at_sync(0);
            assert!(memory.sync_dir(std::path::Path::new("/")).is_err() && memory.is_off());
        }
        self.logs.close();
        if let Some(memory) = &self.memory {
            memory.crash();
        }
        self.logs = open(&self.fs, &self.config, &self.durable);
        for (partition, at) in &self.durable {
            let log = self.logs.partition(*partition);
            assert_eq!(log.log_end(), at.log_end);
            assert!((at.log_start..=at.log_end).contains(&log.log_start()));
        }
        for (partition, change) in &self.changes {
            apply(&self.logs, *partition, change);
        }
        self.check();
    }

    fn check(&self) {
        for (n, model) in self.models.iter().enumerate() {
            check(&self.logs.partition(id(n as u32)), model);
        }
    }
}

fn apply(logs: &Logs, partition: u32, change: &Change) {
    match change {
        Change::Append(batch) => logs.partition(id(partition)).append(batch.clone()),
        Change::Trim(to) => logs.partition(id(partition)).trim(*to),
        Change::Drop => logs.drop_partition(id(partition)),
    }
}

fn check(log: &PartitionLog, model: &Model) {
    assert_eq!(log.bounds(), (model.log_start, model.log_end));
    for (from, to) in [
        (model.log_start - 1, model.log_start),
        (model.log_end + 1, model.log_end),
    ] {
        let error = log.read(from, 1, true).err();
        assert!(
            matches!(error, Some(ReadError::OutOfRange { .. })),
            "{from} beside {to}"
        );
    }
    assert!(log.read(model.log_end, 1000, true).unwrap().pieces.is_empty());
    // A consumer from the start, for some sizes of fetch.
    for max in [1, 700, 5_000, 1 << 20] {
        let mut at = model.log_start;
        let mut wanted = model.batches.iter();
        while at < model.log_end {
            let slice = log.read(at, max, true).unwrap();
            let bytes = fetched(&slice);
            let first = wanted.next().unwrap();
            let mut expected = content(first);
            let mut next = first.last_offset + 1;
            while expected.len() < bytes.len() {
                let more = wanted.next().unwrap();
                expected.extend(content(more));
                next = more.last_offset + 1;
            }
            assert!(bytes == expected, "bytes from {at} differ");
            assert!(bytes.len() <= max || bytes.len() == content(first).len());
            assert_eq!(slice.next, next);
            at = next;
        }
        assert!(wanted.next().is_none());
    }
    for (n, batch) in model.batches.iter().enumerate() {
        let first = batch.base_offset.max(model.log_start);
        for offset in [first, batch.last_offset] {
            assert_eq!(log.append_ms(offset).unwrap(), Some(batch.append_ms), "offset {offset}");
            let slice = log.read(offset, 0, true).unwrap();
            assert!(fetched(&slice) == content(batch), "batch of {offset}");
            let small = log.read(offset, content(batch).len() - 1, false).unwrap();
            assert_eq!((small.bytes, small.next), (0, offset));
        }
        if n % 3 == 0 {
            let found = log.batch_by_timestamp(batch.max_timestamp).unwrap();
            let wanted = model.batches.iter().find(|b| b.max_timestamp >= batch.max_timestamp);
            assert_eq!(found, wanted.map(at));
        }
    }
    assert_eq!(log.append_ms(model.log_end).unwrap(), None);
    assert_eq!(log.batch_by_timestamp(i64::MAX).unwrap(), None);
    let max = model.batches.iter().map(|b| b.max_timestamp).max();
    let largest = model.batches.iter().find(|b| Some(b.max_timestamp) == max);
    assert_eq!(log.batch_with_max_timestamp().unwrap(), largest.map(at));
    if let Some(last) = model.batches.last() {
        assert_eq!(log.latest_epoch(), Some(last.leader_epoch));
        assert_eq!(
            log.epoch_end(last.leader_epoch),
            Some((last.leader_epoch, model.log_end))
        );
        assert_eq!(log.epoch_end(last.leader_epoch + 1), None);
        for pair in model
            .batches
            .windows(2)
            .filter(|p| p[0].leader_epoch < p[1].leader_epoch)
        {
            let end = (pair[0].leader_epoch, pair[1].base_offset);
            assert_eq!(log.epoch_end(pair[0].leader_epoch), Some(end));
        }
    }
    let held: usize = model.batches.iter().map(|b| content(b).len()).sum();
    assert!(log.size() >= held as u64);
}

fn at(batch: &StampedBatch) -> BatchAt {
    BatchAt {
        base_offset: batch.base_offset,
        append_ms: batch.append_ms,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn histories_with_crashes(ops in prop::collection::vec(op(), 1..150), seed: u64, short: bool) {
        let memory = MemoryFs::new(seed);
        memory.short_writes(short);
        let mut world = World::new(Arc::new(memory.clone()), Some(memory), config("/logs"));
        for op in &ops {
            world.run(op);
        }
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn histories_on_disk(ops in prop::collection::vec(op(), 1..150)) {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::new(Arc::new(Disk), None, config(dir.path().join("logs")));
        for op in &ops {
            world.run(op);
        }
        world.check();
    }
}
