//! Clock and randomness of the process, taken from the simulation.
//!
//! The standard library, and every crate, asks the C library for both. A symbol of the program goes before one of a shared
//! library, so the two functions here answer in its place: hash maps, ids, election times and wake-up orders then come from
//! the seed, and time passes only as the simulation says.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Seconds since the epoch when a simulation begins.
const BEGIN: u64 = 1_700_000_000;

static ON: AtomicBool = AtomicBool::new(false);
static NOW: AtomicU64 = AtomicU64::new(0);
static STATE: Mutex<u64> = Mutex::new(0);

/// From now on all randomness of this process comes from `seed`, and its clock stands still but for [`pass`].
pub fn begin(seed: u64) {
    *STATE.lock() = seed;
    ON.store(true, Ordering::SeqCst);
}

/// So much time has passed since the beginning.
pub fn pass(time: Duration) {
    NOW.store(time.as_nanos() as u64, Ordering::SeqCst);
}

/// SplitMix64.
fn next() -> u64 {
    let state = &mut *STATE.lock();
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The C library's.
///
/// # Safety
///
/// As the C library says: `time` points to a `timespec` that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let of_cpu = matches!(clock, libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID);
    if of_cpu || !ON.load(Ordering::SeqCst) {
        // SAFETY: the system call of that name, with its arguments.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int };
    }
    let now = Duration::from_nanos(NOW.load(Ordering::SeqCst)) + Duration::from_secs(BEGIN);
    // SAFETY: the caller's to write.
    unsafe {
        (*time).tv_sec = now.as_secs() as libc::time_t;
        (*time).tv_nsec = now.subsec_nanos() as libc::c_long;
    }
    0
}

/// The C library's.
///
/// # Safety
///
/// As the C library says: `len` bytes at `buffer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut libc::c_void, len: libc::size_t, flags: libc::c_uint) -> libc::ssize_t {
    if !ON.load(Ordering::SeqCst) {
        // SAFETY: the system call of that name, with its arguments.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, len, flags) as libc::ssize_t };
    }
    // SAFETY: the caller's to write.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
    len as libc::ssize_t
}
