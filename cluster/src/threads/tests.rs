//! Simulated threads.

use super::*;
use parking_lot::Mutex;
use std::sync::Arc;

/// Runs on a thread of its own, which simulates.
fn simulated<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let run = std::thread::spawn(|| {
        simulate();
        test()
    });
    run.join().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

#[test]
fn threads_that_wait_for_each_other_run_on_one_thread_in_simulated_time() {
    let order = simulated(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let told = order.clone();
        runtime().block_on(async move {
            let (bell, ready) = (Arc::new(Bell::default()), Arc::new(Mutex::new(false)));
            let here = std::thread::current().id();
            let waits = {
                let (bell, ready, told) = (bell.clone(), ready.clone(), told.clone());
                spawn("waits", move || {
                    assert_eq!(std::thread::current().id(), here);
                    let mut ready = ready.lock();
                    while !*ready {
                        bell.wait(&mut ready);
                    }
                    told.lock().push("rung");
                })
            };
            let rings = {
                let told = told.clone();
                blocking(move || {
                    sleep(Duration::from_secs(3600));
                    told.lock().push("slept");
                    *ready.lock() = true;
                    bell.ring();
                    let answer = wait(&Handle::current(), async {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                        7
                    });
                    assert!(waits.unwrap().join());
                    answer
                })
            };
            assert_eq!(rings.await.unwrap(), 7);
        });
        Arc::try_unwrap(order).unwrap().into_inner()
    });
    assert_eq!(order, ["slept", "rung"]);
}

#[test]
fn a_thread_that_is_dropped_while_it_waits_drops_what_it_has() {
    let has = Arc::new(());
    let left = simulated({
        let has = has.clone();
        move || {
            let (runtime, kept) = (runtime(), has.clone());
            runtime.block_on(async move {
                spawn("waits", move || {
                    sleep(Duration::from_secs(3600));
                    drop(kept);
                })
                .unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            });
            drop(runtime);
            Arc::strong_count(&has)
        }
    });
    assert_eq!(left, 2, "this one's, and the closure's");
}

#[test]
fn a_bell_that_nobody_rings_ends_with_its_time() {
    simulated(|| {
        runtime().block_on(async {
            let over = blocking(|| {
                let lock = Mutex::new(());
                Bell::default().wait_for(&mut lock.lock(), Duration::from_millis(5))
            });
            assert!(over.await.unwrap());
        });
    });
}
