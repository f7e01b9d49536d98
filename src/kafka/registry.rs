//! The connections that are open: how many, from where, and which of them to give up.

use super::pulse::{Patience, Pulse, Tired};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A connection too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// In all.
    #[error("{0} connections are open")]
    All(usize),
    /// From one address.
    #[error("{0} connections are open from this address")]
    Address(usize),
}

/// The connections of a port.
pub(crate) struct Registry {
    open: Mutex<Open>,
    most: usize,
    most_per_address: usize,
    complaints: Mutex<Complaints>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, (Arc<Pulse>, CancellationToken)>,
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
    held_back: u64,
}

/// A connection's place; given up when dropped.
pub(crate) struct Entry {
    registry: Arc<Registry>,
    number: u64,
    address: IpAddr,
}

impl Registry {
    /// At most so many connections, in all and from one address.
    pub(crate) fn new(most: usize, most_per_address: usize) -> Self {
        Self {
            open: Mutex::default(),
            most,
            most_per_address,
            complaints: Mutex::default(),
        }
    }

    /// Takes a place.
    pub(crate) fn enter(
        registry: &Arc<Self>,
        address: IpAddr,
        pulse: Arc<Pulse>,
        close: CancellationToken,
    ) -> Result<Entry, Full> {
        let mut open = registry.open.lock();
        if open.by_number.len() >= registry.most {
            return Err(Full::All(open.by_number.len()));
        }
        let from_there = open.by_address.entry(address).or_insert(0);
        if *from_there >= registry.most_per_address {
            return Err(Full::Address(*from_there));
        }
        *from_there += 1;
        let number = open.next;
        open.next += 1;
        open.by_number.insert(number, (pulse, close));
        Ok(Entry {
            registry: registry.clone(),
            number,
            address,
        })
    }

    /// Connections open now.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().by_number.len()
    }

    /// Closes connections that are idle or stuck.
    pub(crate) fn reap(&self, patience: Patience) {
        for (pulse, close) in self.open.lock().by_number.values() {
            match pulse.tired(patience) {
                None => {}
                Some(Tired::Idle) => close.cancel(),
                Some(why @ (Tired::HalfFrame | Tired::SlowReader)) => {
                    close.cancel();
                    self.complain(|more| tracing::warn!(?why, more, "a connection that no longer moves is closed"));
                }
            }
        }
    }

    /// Logs at most once a second, with the number of complaints held back since.
    pub(crate) fn complain(&self, log: impl FnOnce(u64)) {
        let mut complaints = self.complaints.lock();
        let now = Instant::now();
        if complaints.last.is_some_and(|last| now - last < Duration::from_secs(1)) {
            complaints.held_back += 1;
            return;
        }
        complaints.last = Some(now);
        let more = std::mem::take(&mut complaints.held_back);
        drop(complaints);
        log(more);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.registry.open.lock();
        open.by_number.remove(&self.number);
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn limits_in_all_and_per_address() {
        let registry = Arc::new(Registry::new(3, 2));
        let enter = |address: &str| {
            Registry::enter(
                &registry,
                address.parse().unwrap(),
                Arc::new(Pulse::new()),
                CancellationToken::new(),
            )
        };
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("10.0.0.1").unwrap();
        assert_eq!(enter("10.0.0.1").err(), Some(Full::Address(2)));
        let _third = enter("10.0.0.2").unwrap();
        assert_eq!(enter("10.0.0.3").err(), Some(Full::All(3)));
        drop(first);
        assert_eq!(registry.count(), 2);
        let _again = enter("10.0.0.1").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_and_complaints_held_back() {
        let registry = Arc::new(Registry::new(3, 3));
        let close = CancellationToken::new();
        let _entry = Registry::enter(
            &registry,
            "10.0.0.1".parse().unwrap(),
            Arc::new(Pulse::new()),
            close.clone(),
        );
        let patience = Patience {
            idle: Duration::from_secs(10),
            stall: Duration::from_secs(5),
        };
        registry.reap(patience);
        assert!(!close.is_cancelled());
        tokio::time::advance(Duration::from_secs(11)).await;
        registry.reap(patience);
        assert!(close.is_cancelled());
        let mut logged = Vec::new();
        for _ in 0..3 {
            registry.complain(|more| logged.push(more));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        registry.complain(|more| logged.push(more));
        assert_eq!(logged, [0, 2]);
    }
}
