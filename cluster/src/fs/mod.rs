//! The file-system seam: the only code of the store that touches files.
//!
//! ```text
//!   wal, meta, partition logs ---> FileSystem ---> Disk      (std + libc)
//!                                             \--> MemoryFs  (feature `testing`: faults, crashes)
//! ```
//!
//! All calls block. What survives a crash, and what an implementation may lose:
//!
//! * bytes and length of a file: as of its last `sync_data` that returned `Ok`; of anything later any part, in any order;
//! * names (create, rename, remove): as of the last `sync_dir` of their directory; of later ones any first few.
//!
//! [`Volume::sync`] is a sync of all files and directories. An error of any sync means that earlier writes may be gone although they can still be read. Callers
//! stop writing for good; they never retry the sync.

mod disk;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod pages;
#[cfg(test)]
mod tests;

pub use disk::Disk;
#[cfg(any(test, feature = "testing"))]
pub use memory::MemoryFs;
pub use pages::{PAGE, Pages};

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// What a directory holds under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name within the directory. Names that are not UTF-8 are never the store's own and are left out.
    pub name: String,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// An exclusive claim to a directory, held until dropped.
pub struct Lock {
    _held: Box<dyn Send + Sync>,
}

impl Lock {
    pub(crate) fn new(held: impl Send + Sync + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lock")
    }
}

/// A whole file system of the operating system, to be held from before the first write.
pub struct Volume {
    sync: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl Volume {
    pub(crate) fn new(sync: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { sync: Box::new(sync) }
    }

    /// Makes bytes, lengths and names of all files on the volume durable (syncfs), also those of others: for many files
    /// cheaper than a sync of each, since the volume's journal commits once. An error is any file's.
    pub fn sync(&self) -> io::Result<()> {
        (self.sync)()
    }
}

impl Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Volume")
    }
}

/// Directories, names and space. Shared by everybody on a node as `Arc<dyn FileSystem>`.
pub trait FileSystem: Debug + Send + Sync + 'static {
    /// A new empty file for reading and writing. `AlreadyExists` where the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// An existing file for reading and writing. `NotFound` where there is none.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name in one step, replacing what has that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name; open handles go on working.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory and its parents where missing, durably.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything below it. `Ok` where there is none.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// What is in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes the names in a directory durable: to be called after create, rename and remove.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Claims a directory for this process through a file in it. `WouldBlock` while another holder lives.
    fn lock(&self, path: &Path) -> io::Result<Lock>;

    /// The volume that `dir` is on, where all of it can be made durable at once and errors of earlier writes are told;
    /// `None` elsewhere: sync files one by one.
    fn volume(&self, dir: &Path) -> io::Result<Option<Volume>> {
        let _ = dir;
        Ok(None)
    }

    /// Bytes that can still be written below `dir`.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file. Every call takes its own offset, so that a handle may be shared between threads.
pub trait File: Debug + Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buf.len()` bytes; fewer at the end of the file (0 beyond it) or at the system's whim.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some first part of `bufs` (not empty unless `bufs` is) and says how many bytes.
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// Makes bytes and length durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts or extends (with zeros) to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes disk blocks for `offset .. offset + len`, extending the file. `StorageFull` where they are not to be had.
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// A hint to begin writing back dirty pages of `offset .. offset + len` now; promises nothing.
    fn write_back(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Whether bytes of the file can likely be had without waiting for the disk; looks at the last of the range.
    fn is_cached(&self, offset: u64, len: u64) -> bool {
        let _ = (offset, len);
        true
    }

    /// Brings bytes of the file into memory, waiting for the disk; promises nothing.
    fn warm(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// The descriptor behind a real file, for the kernel to send from; owned by this handle.
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Fills `buf`; `UnexpectedEof` where the file ends before.
    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes all of `buf`.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_vectored_at(&mut [IoSlice::new(buf)], offset)
    }

    /// Writes whole pages at a multiple of [`PAGE`], past the page cache where the system can: for what is rarely read back.
    /// No more durable before a sync than any other write. After an error any part may have been written.
    fn write_pages_at(&self, pages: &Pages, offset: u64) -> io::Result<()> {
        self.write_all_at(pages, offset)
    }

    /// Writes all of `bufs`, in as few calls as the system allows. After an error any part may have been written.
    fn write_all_vectored_at(&self, mut bufs: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        IoSlice::advance_slices(&mut bufs, 0);
        while !bufs.is_empty() {
            match self.write_vectored_at(bufs, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    IoSlice::advance_slices(&mut bufs, n);
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }
}

/// Whether an error says that the disk (or the owner's quota) is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Writes a small file so that after a crash either the old or the new content is there, whole.
pub fn replace(fs: &dyn FileSystem, path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".tmp");
    let draft = dir.join(name);
    match fs.remove(&draft) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = fs.create(&draft)?;
    file.write_all_at(content, 0)?;
    file.sync_data()?;
    fs.rename(&draft, path)?;
    fs.sync_dir(dir)
}

/// Reads a whole file, refusing one longer than `limit` bytes with `InvalidData`.
pub fn read(fs: &dyn FileSystem, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = fs.open(path)?;
    let len = file.len()?;
    if len > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} has {len} bytes, more than {limit}", path.display()),
        ));
    }
    let mut content = vec![0; len as usize];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}
