//! Threads as coroutines of one thread, for simulations: each runs until it waits, and goes on when its runtime's task is
//! polled again. Nothing runs beside anything else, so the order of all that happens is the runtime's.
//!
//! A coroutine must not wait for a lock that another one holds while it waits: the rooms hold none over the ways to wait
//! that are in this room.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use parking_lot::MutexGuard;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// Bytes of a coroutine's stack; taken as they are used.
const STACK: usize = 4 << 20;

/// What a coroutine waits for. Lies on its stack.
type Wait = *mut (dyn Future<Output = ()> + 'static);

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    /// The coroutine that runs now.
    static RUNS: Cell<*const Yielder<(), Wait>> = const { Cell::new(ptr::null()) };
}

/// From now on this thread, and nothing else, does all that would be done by threads that are begun on it. For a thread
/// that drives runtimes of its own, each with a single thread.
pub fn simulate() {
    ON.set(true);
}

pub(super) fn is_on() -> bool {
    ON.get()
}

struct Job {
    coroutine: Coroutine<(), Wait, (), DefaultStack>,
    waits: Option<Wait>,
}

// SAFETY: a job is spawned on a runtime that the simulating thread drives alone, so it never leaves that thread.
unsafe impl Send for Job {}

impl Job {
    fn new(run: impl FnOnce() + Send + 'static) -> Self {
        let stack = DefaultStack::new(STACK).expect("a coroutine's stack");
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Wait>, ()| {
            RUNS.set(yielder);
            run();
        });
        Self { coroutine, waits: None }
    }
}

impl Future for Job {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(waits) = self.waits {
                // SAFETY: the future lies pinned on the coroutine's stack, which stands still while the coroutine waits.
                let waits = unsafe { Pin::new_unchecked(&mut *waits) };
                if waits.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.waits = None;
            }
            let outer = RUNS.replace(ptr::null());
            let went = self.coroutine.resume(());
            RUNS.set(outer);
            match went {
                CoroutineResult::Yield(waits) => self.waits = Some(waits),
                CoroutineResult::Return(()) => return Poll::Ready(()),
            }
        }
    }
}

pub(super) fn blocking<T, F>(job: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (send, done) = tokio::sync::oneshot::channel();
    let run = Job::new(move || {
        // Who asked may be gone.
        let _ = send.send(job());
    });
    tokio::spawn(async move {
        // A panic of the job is one of this task.
        run.await;
        done.await.expect("a job that ended has sent its answer")
    })
}

/// Whether a thread has come to its end.
#[derive(Debug)]
pub(super) struct Ended(watch::Receiver<bool>);

pub(super) fn spawn(run: impl FnOnce() + Send + 'static) -> Ended {
    let (send, ended) = watch::channel(false);
    tokio::spawn(Job::new(move || {
        run();
        send.send_replace(true);
    }));
    Ended(ended)
}

impl Ended {
    /// Outside a coroutine nobody can wait, nor needs to: that is where a node is dropped whole.
    pub fn join(mut self) -> bool {
        if RUNS.get().is_null() {
            return true;
        }
        // The other end of a thread that panicked is gone.
        wait_for(async { self.0.wait_for(|ended| *ended).await.is_ok() })
    }
}

/// Waits within a coroutine; elsewhere, not at all.
pub(super) fn wait_here(until: impl Future<Output = ()>) {
    if !RUNS.get().is_null() {
        wait_for(until);
    }
}

pub(super) fn wait_for<F: Future>(until: F) -> F::Output {
    let runs = RUNS.get();
    assert!(!runs.is_null(), "only a simulated thread may wait");
    let mut answer = None;
    {
        let waits = pin!(async { answer = Some(until.await) });
        let waits: Pin<&mut dyn Future<Output = ()>> = waits;
        // SAFETY: only its place is taken. Nobody polls it after it was ready, or after this stack was unwound, so that
        // the lifetime that is forgotten here is kept.
        let waits: Wait =
            unsafe { std::mem::transmute(Pin::into_inner_unchecked(waits) as *mut dyn Future<Output = ()>) };
        // SAFETY: the yielder lives as long as its coroutine, on whose stack this runs.
        unsafe { &*runs }.suspend(waits);
        RUNS.set(runs);
    }
    answer.expect("a coroutine goes on once what it waits for is there")
}

/// Waits to be notified with the lock free; whether the time was over first.
pub(super) fn listen<T>(bell: &Notify, guard: &mut MutexGuard<'_, T>, most: Option<Duration>) -> bool {
    let mut rung = pin!(bell.notified());
    rung.as_mut().enable();
    MutexGuard::unlocked(guard, || match most {
        None => {
            wait_for(rung);
            false
        }
        Some(most) => wait_for(async { tokio::time::timeout(most, rung).await.is_err() }),
    })
}
