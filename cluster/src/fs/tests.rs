//! One suite for every file system, and what only the faulty one does.

use super::*;
use std::path::PathBuf;

fn suite(fs: &dyn FileSystem, root: PathBuf) {
    let dir = root.join("a/b");
    fs.create_dir(&dir).unwrap();
    let path = dir.join("one");
    assert_eq!(fs.open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    let file = fs.create(&path).unwrap();
    assert_eq!(fs.create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);

    let parts: Vec<Vec<u8>> = (0..3000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
    file.write_all_vectored_at(&mut slices, 10).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.len().unwrap(), 10 + 12_000);
    let mut back = vec![1; 12_010];
    fs.open(&path).unwrap().read_exact_at(&mut back, 0).unwrap();
    assert_eq!(back[..10], [0; 10]);
    assert_eq!(back[10..], parts.concat());
    assert_eq!(file.read_at(&mut back, 12_010).unwrap(), 0);
    assert_eq!(
        file.read_exact_at(&mut back, 1).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );

    file.set_len(5).unwrap();
    file.preallocate(0, 4096).unwrap();
    assert_eq!(file.len().unwrap(), 4096);
    let mut tail = vec![1; 4091];
    file.read_exact_at(&mut tail, 5).unwrap();
    assert!(tail.iter().all(|b| *b == 0));

    // Pages past the cache and bytes through it are the same file.
    file.write_all_at(&[7; 3 * PAGE], 0).unwrap();
    let mut pages = Pages::new(2 * PAGE).unwrap();
    assert_eq!(pages.fill(&[8; PAGE + 1]), PAGE + 1);
    assert_eq!(pages.fill(&[9; 2 * PAGE]), PAGE - 1);
    assert!(pages.is_full());
    file.write_pages_at(&pages, PAGE as u64).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[6; 10], PAGE as u64).unwrap();
    let mut back = vec![1; 3 * PAGE];
    file.read_exact_at(&mut back, 0).unwrap();
    let expected = [&[7; PAGE][..], &[6; 10], &[8; PAGE - 9], &[9; PAGE - 1]].concat();
    assert!(back == expected);
    file.write_pages_at(&Pages::zeros(PAGE).unwrap(), PAGE as u64).unwrap();
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back[PAGE..2 * PAGE].iter().all(|b| *b == 0) && back[2 * PAGE..] == expected[2 * PAGE..]);
    file.set_len(4096).unwrap();

    replace(fs, &dir.join("small"), b"first").unwrap();
    replace(fs, &dir.join("small"), b"second").unwrap();
    assert_eq!(read(fs, &dir.join("small"), 6).unwrap(), b"second");
    assert_eq!(
        read(fs, &dir.join("small"), 5).unwrap_err().kind(),
        io::ErrorKind::InvalidData
    );

    fs.rename(&path, &dir.join("two")).unwrap();
    let mut names: Vec<_> = fs.list(&dir).unwrap().into_iter().map(|e| (e.name, e.len)).collect();
    names.sort();
    assert_eq!(names, [("small".to_owned(), 6), ("two".to_owned(), 4096)]);
    assert!(fs.list(&root.join("a")).unwrap()[0].is_dir);
    fs.remove(&dir.join("two")).unwrap();
    fs.sync_dir(&dir).unwrap();
    assert_eq!(fs.list(&dir).unwrap().len(), 1);
    assert_eq!(file.len().unwrap(), 4096);

    let lock = fs.lock(&root.join("lock")).unwrap();
    assert_eq!(
        fs.lock(&root.join("lock")).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    drop(lock);
    fs.lock(&root.join("lock")).unwrap();
    assert!(fs.free_space(&root).unwrap() > 0);

    fs.remove_dir(&root.join("a")).unwrap();
    fs.remove_dir(&root.join("a")).unwrap();
    assert_eq!(fs.list(&dir).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn disk_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    suite(&Disk, dir.path().to_path_buf());
}

#[test]
fn memory_keeps_the_contract() {
    suite(&MemoryFs::new(1), PathBuf::from("/data"));
}

#[test]
fn memory_keeps_the_contract_with_short_writes() {
    let fs = MemoryFs::new(2);
    fs.short_writes(true);
    suite(&fs, PathBuf::from("/data"));
}

#[test]
fn a_crash_keeps_what_was_synced_and_may_tear_the_rest() {
    let (mut lost, mut torn, mut nameless) = (0, 0, 0);
    for seed in 0..64 {
        let fs = MemoryFs::new(seed);
        let path = Path::new("/file");
        let file = fs.create(path).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        file.write_all_at(&[1; 2048], 0).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(&[2; 2048], 1024).unwrap();
        fs.create(Path::new("/late")).unwrap();
        fs.crash();
        assert!(file.len().is_err(), "an old handle must be dead");
        let now = read(&fs, path, 4096).unwrap();
        assert_eq!(now[..1024], [1; 1024]);
        lost += usize::from(!now.contains(&2));
        torn += usize::from(now.contains(&2) && now.len() + now.iter().filter(|b| **b == 2).count() != 3072 + 2048);
        nameless += usize::from(fs.open(Path::new("/late")).is_err());
    }
    assert!(lost > 0 && torn > 0 && nameless > 0 && nameless < 64);
}

#[test]
fn faults_strike_where_they_are_set() {
    let fs = MemoryFs::new(7);
    let file = fs.create(Path::new("/file")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs.fail_sync(1);
    file.sync_data().unwrap();
    file.write_all_at(b"gone", 0).unwrap();
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    file.sync_data().unwrap();
    fs.set_capacity(6);
    assert!(is_full(&file.write_all_at(b"toolong", 0).unwrap_err()));
    file.write_all_at(b"fits", 0).unwrap();
    fs.fail_write(0);
    assert!(file.write_all_at(b"fits", 0).is_err());
    fs.power_off_at_sync(0);
    assert!(file.sync_data().is_err() && fs.is_off());
    assert!(fs.open(Path::new("/file")).is_err());
    fs.crash();
    assert!(fs.open(Path::new("/file")).is_ok());
}

#[test]
fn a_volume_sync_keeps_files_and_names() {
    for seed in 0..16 {
        let fs = MemoryFs::new(seed);
        let volume = fs.volume(Path::new("/")).unwrap().unwrap();
        let file = fs.create(Path::new("/one")).unwrap();
        file.write_all_at(&[1; 2048], 0).unwrap();
        fs.create(Path::new("/two")).unwrap();
        volume.sync().unwrap();
        fs.crash();
        assert_eq!(read(&fs, Path::new("/one"), 4096).unwrap(), [1; 2048]);
        assert!(fs.open(Path::new("/two")).is_ok());
    }
    let dir = tempfile::tempdir().unwrap();
    if let Some(volume) = Disk.volume(dir.path()).unwrap() {
        volume.sync().unwrap();
    }
}

#[test]
fn who_is_killed_loses_its_handles_and_locks_and_nothing_that_it_wrote() {
    let memory = MemoryFs::new(1);
    let fs: &dyn FileSystem = &memory;
    let (path, lock) = (PathBuf::from("/one"), PathBuf::from("/lock"));
    let held = fs.lock(&lock).unwrap();
    let file = fs.create(&path).unwrap();
    file.write_all_at(b"unsynced", 0).unwrap();
    memory.kill();
    file.write_all_at(b"late", 0).unwrap_err();
    let next = fs.lock(&lock).unwrap();
    // The dead one's does not free it.
    drop(held);
    assert_eq!(fs.lock(&lock).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(next);
    assert_eq!(read(fs, &path, 8).unwrap(), b"unsynced");
}
