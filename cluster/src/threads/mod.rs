//! Where work that blocks is done: threads that write files, jobs on the disk, and what they wait for.
//!
//! This is the only way by which the rooms begin a thread or a blocking job, and by which such work waits for something
//! other than a lock. So a simulation of many nodes (feature `testing`) can run all of it on the one thread of its runtime,
//! each piece as a coroutine, in an order that depends on nothing but its seed; the rooms' code is the same in both.
//!
//! * [`spawn`]: a thread; [`blocking`]: a job on a thread of the runtime's pool.
//! * [`Bell`]: what a thread waits for, as a condition variable; [`sleep`], [`wait`]: other ways to wait.
//! * [`patience`], [`at_once`]: how much a thread may presume of real time and of other cores.

#[cfg(feature = "testing")]
mod simulated;

#[cfg(feature = "testing")]
pub use simulated::simulate;

use parking_lot::{Condvar, MutexGuard};
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A thread that runs.
#[derive(Debug)]
pub struct Thread(Kind);

#[derive(Debug)]
enum Kind {
    Real(std::thread::JoinHandle<()>),
    #[cfg(feature = "testing")]
    Simulated(simulated::Ended),
}

/// Begins a thread with a name.
///
/// # Errors
///
/// The system refuses.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    #[cfg(feature = "testing")]
    if simulated::is_on() {
        return Ok(Thread(Kind::Simulated(simulated::spawn(run))));
    }
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(Thread(Kind::Real(thread)))
}

impl Thread {
    /// Waits until it has ended; `false` where it panicked.
    pub fn join(self) -> bool {
        match self.0 {
            Kind::Real(thread) => thread.join().is_ok(),
            #[cfg(feature = "testing")]
            Kind::Simulated(ended) => ended.join(),
        }
    }
}

/// Runs a job that may block, on a thread for such. Within a tokio runtime. Dropping the answer does not stop the job.
pub fn blocking<T, F>(job: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[cfg(feature = "testing")]
    if simulated::is_on() {
        return simulated::blocking(job);
    }
    tokio::task::spawn_blocking(job)
}

/// Stops this thread for so long. For threads and jobs of this room.
pub fn sleep(time: Duration) {
    #[cfg(feature = "testing")]
    if simulated::is_on() {
        simulated::wait_here(tokio::time::sleep(time));
        return;
    }
    std::thread::sleep(time);
}

/// Waits on this thread, which may block, for what happens in `runtime`.
pub fn wait<F: Future>(runtime: &Handle, until: F) -> F::Output {
    #[cfg(feature = "testing")]
    if simulated::is_on() {
        return simulated::wait_for(until);
    }
    runtime.block_on(until)
}

/// How long a thread may look again and again for something instead of sleeping: `time`, where time passes meanwhile.
pub fn patience(time: Duration) -> Duration {
    #[cfg(feature = "testing")]
    if simulated::is_on() {
        return Duration::ZERO;
    }
    time
}

/// How many threads do a job together: `most`, where there are threads.
pub fn at_once(most: usize) -> usize {
    #[cfg(feature = "testing")]
    if simulated::is_on() {
        return 1;
    }
    most
}

/// A condition variable: rung by who changes something, waited for by who looks again after each wake-up. May wake
/// without having been rung.
#[derive(Debug, Default)]
pub struct Bell {
    real: Condvar,
    #[cfg(feature = "testing")]
    simulated: tokio::sync::Notify,
}

impl Bell {
    /// Wakes one of those that wait, or more.
    pub fn ring_one(&self) {
        #[cfg(feature = "testing")]
        self.simulated.notify_waiters();
        self.real.notify_one();
    }

    /// Wakes all that wait.
    pub fn ring(&self) {
        #[cfg(feature = "testing")]
        self.simulated.notify_waiters();
        self.real.notify_all();
    }

    /// Waits to be rung; the lock is free meanwhile.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        #[cfg(feature = "testing")]
        if simulated::is_on() {
            simulated::listen(&self.simulated, guard, None);
            return;
        }
        self.real.wait(guard);
    }

    /// The same, for so long at most; whether the time was over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> bool {
        #[cfg(feature = "testing")]
        if simulated::is_on() {
            return simulated::listen(&self.simulated, guard, Some(time));
        }
        self.real.wait_for(guard, time).timed_out()
    }

    /// The same, until `end` at most; whether it was over.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()))
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
