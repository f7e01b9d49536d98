//! The real file system.

use super::{DirEntry, File, FileSystem, Lock, Pages, Volume};
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Buffers one `pwritev` takes at most (`IOV_MAX` on Linux).
const MAX_SLICES: usize = 1024;

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// An operating system file.
#[derive(Debug)]
struct DiskFile {
    file: fs::File,
    /// The same file once more, to be written past the page cache.
    #[cfg(target_os = "linux")]
    direct: OnceLock<Option<fs::File>>,
    /// Whether the file system refused to be written so after all.
    #[cfg(target_os = "linux")]
    refused: AtomicBool,
}

impl DiskFile {
    fn shared(file: fs::File) -> Arc<dyn File> {
        Arc::new(Self {
            file,
            #[cfg(target_os = "linux")]
            direct: OnceLock::new(),
            #[cfg(target_os = "linux")]
            refused: AtomicBool::new(false),
        })
    }

    /// Made when first asked for, from the open file and not from a name that may be another's by now.
    #[cfg(target_os = "linux")]
    fn direct(&self) -> Option<&fs::File> {
        use std::os::unix::fs::OpenOptionsExt;
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let open = || {
            let again = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let mut options = fs::OpenOptions::new();
            options.write(true).custom_flags(libc::O_DIRECT).open(again).ok()
        };
        self.direct.get_or_init(open).as_ref()
    }
}

impl FileSystem for Disk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(DiskFile::shared(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        Ok(DiskFile::shared(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let missing: Vec<PathBuf> = path
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_path_buf)
            .collect();
        fs::create_dir_all(path)?;
        for dir in missing {
            match dir.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent)?,
                _ => self.sync_dir(Path::new("."))?,
            }
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let meta = match entry.metadata() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            let is_dir = meta.is_dir();
            let len = if is_dir { 0 } else { meta.len() };
            entries.push(DirEntry { name, len, is_dir });
        }
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    #[cfg(target_os = "linux")]
    fn volume(&self, dir: &Path) -> io::Result<Option<Volume>> {
        if !syncfs_tells_errors() {
            return Ok(None);
        }
        let dir = fs::File::open(dir)?;
        // SAFETY: statfs is plain data, for which zeros are a value.
        let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor, and the struct outlives the call.
        check(unsafe { libc::fstatfs(dir.as_raw_fd(), &mut stat) })?;
        // Only where it is known to flush the device too, and was measured.
        if stat.f_type != libc::EXT4_SUPER_MAGIC {
            return Ok(None);
        }
        // SAFETY: a plain call on a descriptor that the closure keeps open.
        let sync = move || check(unsafe { libc::syncfs(dir.as_raw_fd()) });
        Ok(Some(Volume::new(sync)))
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let path = std::ffi::CString::new(dir.as_os_str().as_bytes())?;
        // SAFETY: statvfs is plain data, for which zeros are a value.
        let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path is NUL-terminated and the struct outlives the call.
        check(unsafe { libc::statvfs(path.as_ptr(), &mut stat) })?;
        #[allow(clippy::unnecessary_cast)] // the widths differ between systems
        Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
    }
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bufs = &bufs[..bufs.len().min(MAX_SLICES)];
        let offset = to_off(offset)?;
        loop {
            // SAFETY: IoSlice has the layout of iovec; the buffers are borrowed for the whole call.
            let n = unsafe { libc::pwritev(self.file.as_raw_fd(), bufs.as_ptr().cast(), bufs.len() as i32, offset) };
            if n >= 0 {
                return Ok(n as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn write_pages_at(&self, pages: &Pages, offset: u64) -> io::Result<()> {
        if let Some(direct) = self.direct() {
            match direct.write_all_at(pages, offset) {
                // Not all file systems say when the file is opened that they can't, and a disk may have larger blocks.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => self.refused.store(true, Ordering::Relaxed),
                done => return done,
            }
        }
        self.write_all_at(pages, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    #[cfg(target_os = "linux")]
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let (offset, len) = (to_off(offset)?, to_off(len)?);
        loop {
            // SAFETY: a plain call on an open descriptor.
            match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), offset, len) } {
                0 => return Ok(()),
                libc::EINTR => {}
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.saturating_add(len);
        if end > self.len()? { self.set_len(end) } else { Ok(()) }
    }

    fn write_back(&self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        if let (Ok(offset), Ok(len)) = (to_off(offset), to_off(len)) {
            // SAFETY: a plain call on an open descriptor; an error only means that the hint was not taken.
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, offset: u64, len: u64) -> bool {
        let Ok(last) = to_off(offset.saturating_add(len.max(1)) - 1) else {
            return true;
        };
        let mut byte = [0u8; 1];
        let into = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        // SAFETY: one vector of one byte that outlives the call. By number, as not every libc has a wrapper.
        let n = unsafe {
            let (low, high) = (last as libc::c_long, 0 as libc::c_long);
            libc::syscall(
                libc::SYS_preadv2,
                self.file.as_raw_fd(),
                &into,
                1,
                low,
                high,
                libc::RWF_NOWAIT,
            )
        };
        // Any other error: the file system can't tell.
        n >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN)
    }

    #[cfg(target_os = "linux")]
    fn warm(&self, offset: u64, len: u64) {
        if let (Ok(at), Ok(size)) = (to_off(offset), usize::try_from(len)) {
            // SAFETY: a plain call on an open descriptor; an error only means that the hint was not taken.
            unsafe { libc::readahead(self.file.as_raw_fd(), at, size) };
        }
        // What is read in order has come when its last byte has.
        let _ = self.read_at(&mut [0], offset.saturating_add(len.max(1)) - 1);
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }
}

fn to_off(n: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(n).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether `syncfs` tells of earlier write-back errors: Linux 5.8 and later.
#[cfg(target_os = "linux")]
fn syncfs_tells_errors() -> bool {
    // SAFETY: utsname is plain data, for which zeros are a value, and is filled by the call.
    let release = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        if libc::uname(&mut name) != 0 {
            return false;
        }
        name.release
    };
    let text: String = release
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8 as char)
        .collect();
    let mut numbers = text.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= (5, 8),
        _ => false,
    }
}
