//! What is on disk is not what was written: named, never served, never quietly taken for less.

use super::*;
use cluster::fs::MemoryFs;
use format::{ENTRY_LEN, FILE_HEADER};
use std::path::Path;

const DIR: &str = "/logs";

/// A stopped store with one partition of `batches` batches of 300 bytes over several segments.
fn stored(memory: &MemoryFs, batches: i64) -> (Vec<StampedBatch>, Vec<(PartitionId, LogCheckpoint)>) {
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let logs = open(&fs, &config(DIR), &[]);
    let written: Vec<StampedBatch> = (0..batches).map(|n| batch(n * 2, 2, 239, 1, n / 3, n)).collect();
    let log = logs.partition(id(0));
    for batch in &written {
        log.append(batch.clone());
    }
    let at = checkpoint(&logs, &[id(0)]).unwrap();
    logs.close();
    (written, at)
}

fn names(memory: &MemoryFs, extension: &str) -> Vec<String> {
    let mut names: Vec<String> = memory
        .list(Path::new(DIR))
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .filter(|name| name.ends_with(extension))
        .collect();
    names.sort();
    names
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn refusal(memory: &MemoryFs, at: &[(PartitionId, LogCheckpoint)]) -> String {
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let error = Logs::open(fs, config(DIR), at.iter().cloned()).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    error.to_string()
}

#[test]
fn a_flipped_bit_in_a_batch_is_named_and_never_served() {
    let memory = MemoryFs::new(1);
    let (written, at) = stored(&memory, 40);
    let first = names(&memory, ".log").remove(0);
    let second_batch = FILE_HEADER + 300;
    // In every field and in the records; not in those that are stamped after the checksum was made and not checked by
    // the chain of offsets (the leader epoch).
    for byte in (0..300).filter(|byte| !(12..16).contains(byte)) {
        let bit = (second_batch + byte) * 8 + byte % 8;
        memory.flip_bit(&path(&first), bit).unwrap();
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let logs = open(&fs, &config(DIR), &at);
        let log = logs.partition(id(0));
        let slice = log.read(0, 1 << 20, true).unwrap();
        assert_eq!((slice.next, fetched(&slice)), (2, content(&written[0])), "byte {byte}");
        let error = log.read(2, 1 << 20, true).err().unwrap();
        match error {
            ReadError::Storage { file, position, .. } => {
                assert_eq!((file, position), (first.clone(), second_batch), "byte {byte}");
            }
            other => panic!("byte {byte}: {other}"),
        }
        memory.flip_bit(&path(&first), bit).unwrap();
    }
    // The same read, undamaged, brings all; the second time too, when nothing is verified any more.
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let logs = open(&fs, &config(DIR), &at);
    for _ in 0..2 {
        let all = fetched(&logs.partition(id(0)).read(0, 1 << 20, true).unwrap());
        assert!(all == written.iter().flat_map(content).collect::<Vec<u8>>());
    }
}

#[test]
fn a_damaged_index_costs_no_data() {
    let memory = MemoryFs::new(2);
    let (written, at) = stored(&memory, 40);
    for name in names(&memory, ".index") {
        let len = memory.open(&path(&name)).unwrap().len().unwrap();
        // The file header, the first entry, the last entry.
        for byte in [3, FILE_HEADER + 9, len - ENTRY_LEN as u64 + 9] {
            memory.flip_bit(&path(&name), byte * 8).unwrap();
        }
    }
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let logs = open(&fs, &config(DIR), &at);
    let log = logs.partition(id(0));
    for batch in &written {
        let slice = log.read(batch.last_offset, 0, true).unwrap();
        assert!(fetched(&slice) == content(batch));
    }
    assert_eq!(log.batch_by_timestamp(30).unwrap().map(|b| b.base_offset), Some(60));
    let next = batch(80, 1, 10, 1, 99, 99);
    log.append(next.clone());
    assert_eq!(log.append_ms(80).unwrap(), Some(99));
    checkpoint(&logs, &[id(0)]).unwrap();
    assert!(fetched(&log.read(80, 0, true).unwrap()) == content(&next));
}

#[test]
fn a_segment_with_a_damaged_index_still_goes_by_age() {
    let memory = MemoryFs::new(6);
    let (_, at) = stored(&memory, 40);
    memory.flip_bit(&path(&names(&memory, ".index")[0]), 8).unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let logs = open(&fs, &config(DIR), &at);
    let log = logs.partition(id(0));
    // The first segment holds batches 0 to 12; the next segment's first came at 4 ms.
    assert_eq!(log.retention_point(1_000, Some(996), None), 0);
    drop(logs);
    let logs = open(&fs, &config(DIR), &at);
    let log = logs.partition(id(0));
    assert_eq!(log.retention_point(1_000, Some(995), None), 26);
}

#[test]
fn lost_bytes_keep_the_store_from_opening() {
    let memory = MemoryFs::new(3);
    let (_, at) = stored(&memory, 40);
    let files = names(&memory, ".log");
    let newest = files.last().unwrap();
    let file = memory.open(&path(newest)).unwrap();
    file.set_len(file.len().unwrap() - 1).unwrap();
    assert!(refusal(&memory, &at).contains(newest));
    memory.remove(&path(newest)).unwrap();
    assert!(refusal(&memory, &at).contains(newest));
}

#[test]
fn a_file_of_another_format_is_refused() {
    let memory = MemoryFs::new(4);
    let (_, at) = stored(&memory, 5);
    let name = names(&memory, ".log").remove(0);
    memory.flip_bit(&path(&name), 8 * 11).unwrap();
    assert!(refusal(&memory, &at).contains(&name));
}

#[test]
fn files_no_checkpoint_names_are_removed_and_strangers_left_alone() {
    let memory = MemoryFs::new(5);
    let (written, at) = stored(&memory, 40);
    memory.create(&path("README")).unwrap();
    memory.create(&path("9-0-00000000000000000000.log")).unwrap();
    memory.create(&path("1-0-00000000000000009999.log")).unwrap();
    memory.create(&path("1-0-00000000000000009999.index")).unwrap();
    let before = names(&memory, "");
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let logs = open(&fs, &config(DIR), &at);
    assert!(fetched(&logs.partition(id(0)).read(0, 1 << 20, true).unwrap()).len() == written.len() * 300);
    let after = names(&memory, "");
    assert_eq!(after.len(), before.len() - 3);
    assert!(after.contains(&"README".to_owned()));
    drop(logs);
    drop(open(&fs, &config(DIR), &[]));
    assert_eq!(names(&memory, ""), ["README"]);
}
