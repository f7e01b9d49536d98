//! The connections that are open: how many, from where, and which of them to give up.

use super::counts::{Counts, Open as Summary, Reason};
use super::pulse::{HURRY, Patience, Pulse, Tired};
use crate::complaints::Complaints;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
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
    /// That are signing in.
    #[error("{0} connections are signing in")]
    Newcomers(usize),
}

/// How many connections a port takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// In all.
    pub all: usize,
    /// From one address.
    pub per_address: usize,
    /// That are not admitted yet.
    pub newcomers: usize,
}

/// The connections of a port.
pub(crate) struct Registry {
    open: Mutex<Open>,
    most: Most,
    counts: Arc<Counts>,
    complaints: Complaints,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, (Arc<Pulse>, CancellationToken)>,
    by_address: HashMap<IpAddr, usize>,
    /// Those that came in as newcomers, oldest first; may hold some that were admitted since.
    newcomers: BTreeSet<u64>,
    /// Bytes received and sent by connections that are gone.
    bytes: (u64, u64),
}

/// How a newcomer found its place.
enum Room {
    Free,
    /// Another was closed for it.
    Made,
}

/// A connection's place; given up when dropped.
pub(crate) struct Entry {
    registry: Arc<Registry>,
    number: u64,
    address: IpAddr,
}

impl Registry {
    pub(crate) fn new(most: Most, counts: Arc<Counts>) -> Self {
        Self {
            open: Mutex::default(),
            most,
            counts,
            complaints: Complaints::default(),
        }
    }

    /// Takes a place. A newcomer where there are too many of them takes that of the one that has been silent longest, as a
    /// flood of connections that never sign in must not keep out those that do.
    pub(crate) fn enter(
        registry: &Arc<Self>,
        address: IpAddr,
        pulse: Arc<Pulse>,
        close: CancellationToken,
    ) -> Result<Entry, Full> {
        let mut open = registry.open.lock();
        if open.by_number.len() >= registry.most.all {
            registry.counts.closed(Reason::Connections);
            return Err(Full::All(open.by_number.len()));
        }
        let from_there = open.by_address.get(&address).copied().unwrap_or(0);
        if from_there >= registry.most.per_address {
            registry.counts.closed(Reason::Address);
            return Err(Full::Address(from_there));
        }
        let number = open.next;
        if !pulse.is_admitted() {
            let room = open.make_room(registry.most.newcomers);
            if !matches!(room, Ok(Room::Free)) {
                registry.counts.closed(Reason::Unauthenticated);
            }
            if let Room::Made = room? {
                registry.complain(|more| tracing::warn!(more, "too many connections sign in: a silent one is closed"));
            }
            open.newcomers.insert(number);
        }
        *open.by_address.entry(address).or_insert(0) += 1;
        open.next += 1;
        open.by_number.insert(number, (pulse, close));
        registry.counts.accepted();
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

    /// For `/metrics`.
    pub(crate) fn summary(&self) -> Summary {
        let mut open = self.open.lock();
        open.forget_admitted();
        let (mut bytes_in, mut bytes_out) = open.bytes;
        for (pulse, _) in open.by_number.values() {
            let (received, sent) = pulse.bytes();
            bytes_in += received;
            bytes_out += sent;
        }
        Summary {
            connections: open.by_number.len(),
            newcomers: open.newcomers.len(),
            bytes_in,
            bytes_out,
        }
    }

    /// Closes connections that are idle or stuck.
    pub(crate) fn reap(&self, patience: Patience) {
        for (pulse, close) in self.open.lock().by_number.values() {
            let Some(why) = pulse.tired(patience).filter(|_| !close.is_cancelled()) else {
                continue;
            };
            close.cancel();
            self.counts.closed(match why {
                Tired::NotSignedIn => Reason::SignInTime,
                Tired::Idle => Reason::Idle,
                Tired::HalfFrame => Reason::HalfFrame,
                Tired::SlowReader => Reason::SlowReader,
            });
            match why {
                Tired::Idle => {}
                Tired::NotSignedIn => {
                    self.complain(|more| tracing::warn!(more, "a connection that does not sign in is closed"));
                }
                Tired::HalfFrame | Tired::SlowReader => {
                    self.complain(|more| tracing::warn!(?why, more, "a connection that no longer moves is closed"));
                }
            }
        }
    }

    /// Closes a quarter of the connections with a frame on its way, those whose frame claims most: the frames hold parts
    /// of each other's memory, and none gets on. Those begun a moment ago are left.
    pub(crate) fn relieve(&self) {
        let open = self.open.lock();
        let mut claims: Vec<_> = open
            .by_number
            .values()
            .filter(|(_, close)| !close.is_cancelled())
            .filter_map(|(pulse, close)| match pulse.claim() {
                (bytes @ 1.., age) if age > HURRY => Some((bytes, close)),
                _ => None,
            })
            .collect();
        claims.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, close) in &claims[..claims.len().div_ceil(4)] {
            close.cancel();
            self.counts.closed(Reason::HalfFrame);
            self.complain(|more| tracing::warn!(bytes, more, "half a request is given up, as others wait for memory"));
        }
    }

    /// Logs at most once a second, with the number of complaints held back since.
    pub(crate) fn complain(&self, log: impl FnOnce(u64)) {
        self.complaints.complain(log);
    }
}

impl Open {
    /// Leaves fewer than `most` newcomers, closing one where it must.
    fn make_room(&mut self, most: usize) -> Result<Room, Full> {
        if self.newcomers.len() < most {
            return Ok(Room::Free);
        }
        self.forget_admitted();
        if self.newcomers.len() < most {
            return Ok(Room::Free);
        }
        // One whose sign-in is being looked at has done its part.
        let silent = self.newcomers.iter().copied().find(|number| {
            let connection = self.by_number.get(number);
            connection.is_none_or(|(pulse, _)| pulse.open() == 0)
        });
        let Some(silent) = silent else {
            return Err(Full::Newcomers(self.newcomers.len()));
        };
        self.newcomers.remove(&silent);
        if let Some((_, close)) = self.by_number.get(&silent) {
            close.cancel();
        }
        Ok(Room::Made)
    }

    fn forget_admitted(&mut self) {
        let by_number = &self.by_number;
        self.newcomers
            .retain(|number| by_number.get(number).is_some_and(|(pulse, _)| !pulse.is_admitted()));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.registry.open.lock();
        if let Some((pulse, _)) = open.by_number.remove(&self.number) {
            let (received, sent) = pulse.bytes();
            open.bytes.0 += received;
            open.bytes.1 += sent;
        }
        open.newcomers.remove(&self.number);
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
    use std::time::Duration;

    fn registry(all: usize, per_address: usize, newcomers: usize) -> Arc<Registry> {
        let most = Most {
            all,
            per_address,
            newcomers,
        };
        Arc::new(Registry::new(most, Arc::default()))
    }

    fn printed(registry: &Registry) -> String {
        let mut out = String::new();
        registry.counts.print("tessaridb_port", &registry.summary(), &mut out);
        out
    }

    #[tokio::test]
    async fn limits_in_all_and_per_address() {
        let registry = registry(3, 2, 1);
        let enter = |address: &str| {
            Registry::enter(
                &registry,
                address.parse().unwrap(),
                Arc::new(Pulse::new(true)),
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
        let metrics = printed(&registry);
        for reason in ["connections", "address"] {
            assert!(metrics.contains(&format!("{{reason=\"{reason}\"}} 1")), "{metrics}");
        }
    }

    #[tokio::test]
    async fn a_newcomer_too_many_takes_the_place_of_the_oldest_that_is_silent() {
        let registry = registry(9, 9, 2);
        let enter = || {
            let (pulse, close) = (Arc::new(Pulse::new(false)), CancellationToken::new());
            let entry = Registry::enter(&registry, "10.0.0.1".parse().unwrap(), pulse.clone(), close.clone());
            entry.map(|entry| (entry, pulse, close))
        };
        let first = enter().unwrap();
        let second = enter().unwrap();
        // Its sign-in is under way.
        first.1.opened();
        let third = enter().unwrap();
        assert!(second.2.is_cancelled() && !first.2.is_cancelled());
        third.1.opened();
        assert_eq!(enter().err(), Some(Full::Newcomers(2)));
        // One that signs in, or goes, makes room without anybody's harm.
        third.1.admit();
        let fourth = enter().unwrap();
        drop(fourth);
        let fifth = enter().unwrap();
        assert!(!first.2.is_cancelled() && !third.2.is_cancelled() && !fifth.2.is_cancelled());
        assert_eq!(registry.summary().newcomers, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_claims_are_given_up_first() {
        let registry = registry(99, 99, 99);
        let connections: Vec<_> = (0..8usize)
            .map(|n| {
                let (pulse, close) = (Arc::new(Pulse::new(true)), CancellationToken::new());
                pulse.frame_claims(n * 1000);
                let address = "10.0.0.1".parse().unwrap();
                let entry = Registry::enter(&registry, address, pulse.clone(), close.clone());
                (entry, pulse, close)
            })
            .collect();
        let closed = || -> Vec<usize> {
            let closed = connections.iter().enumerate().filter(|(_, c)| c.2.is_cancelled());
            closed.map(|(n, _)| n).collect()
        };
        registry.relieve();
        assert_eq!(closed(), [0usize; 0], "they have just begun");
        tokio::time::advance(HURRY + Duration::from_millis(10)).await;
        connections[7].1.frame_claims(0);
        registry.relieve();
        assert_eq!(closed(), [5, 6]);
        registry.relieve();
        assert_eq!(closed(), [4, 5, 6]);
        assert!(printed(&registry).contains("{reason=\"half_frame\"} 3"));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_and_counted_once() {
        let registry = registry(3, 3, 3);
        let close = CancellationToken::new();
        let pulse = Arc::new(Pulse::new(true));
        let entry = Registry::enter(&registry, "10.0.0.1".parse().unwrap(), pulse.clone(), close.clone());
        let patience = Patience {
            idle: Duration::from_secs(10),
            stall: Duration::from_secs(5),
            sign_in: Duration::from_secs(5),
            pressed: false,
            answers_pressed: false,
        };
        registry.reap(patience);
        assert!(!close.is_cancelled());
        tokio::time::advance(Duration::from_secs(11)).await;
        registry.reap(patience);
        registry.reap(patience);
        assert!(close.is_cancelled());
        assert!(printed(&registry).contains("{reason=\"idle\"} 1"));
        pulse.received(5);
        pulse.sent(6);
        drop(entry);
        let summary = registry.summary();
        assert_eq!(
            (summary.bytes_in, summary.bytes_out),
            (5, 6),
            "they outlive the connection"
        );
    }
}
