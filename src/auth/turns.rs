//! Whose password is looked at next: a fair line. No clock and no threads in here.
//!
//! ```text
//!   known good lately    o o o            --+ 3 of 4 turns     each lane: addresses take turns,
//!   strangers            o o o o o o o ...--+ 1 of 4           and within an address its names
//! ```
//!
//! A turn that one lane has no use for is the other's. So a flood waits behind itself: whoever comes from elsewhere, or was
//! let in before, passes it. Who comes from where a flood comes from, by a balancer perhaps, is served before what waits
//! there already, since the newest names of a crowd go first; in a crowd most are not served in time in any order.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Names waiting from one address from which on the newest go first.
const CROWD: usize = 16;
/// Of so many turns one is the strangers'.
const ROUND: u8 = 4;

/// Whom a try counts for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// Where it comes from; IPv6 by its /64, which is one customer's.
    address: Option<IpAddr>,
    name: Arc<str>,
}

impl Place {
    /// Of a name tried from an address.
    pub(super) fn new(address: Option<IpAddr>, name: &str) -> Self {
        let network = |address: IpAddr| match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::from((u128::from(v6) >> 64 << 64).to_be_bytes()),
            v4 => v4,
        };
        Self {
            address: address.map(network),
            name: name.into(),
        }
    }

    /// Of the node's own users' statements.
    pub(super) fn inside() -> Self {
        Self::new(None, "")
    }
}

/// Which lane a try waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Signed in from there lately, or is signed in.
    Known,
    /// Anybody.
    Stranger,
}

/// Those who wait.
pub(super) struct Line<T> {
    known: Lane<T>,
    strangers: Lane<T>,
    turn: u8,
    next: u64,
}

struct Lane<T> {
    most: usize,
    waiting: usize,
    crowds: VecDeque<Crowd<T>>,
}

/// Those of one address.
struct Crowd<T> {
    address: Option<IpAddr>,
    waiting: usize,
    flows: VecDeque<Flow<T>>,
}

/// Those of one name, first come first.
struct Flow<T> {
    name: Arc<str>,
    waiting: VecDeque<(u64, T)>,
}

impl<T> Line<T> {
    /// At most so many in each lane; at least one.
    pub(super) fn new(most_known: usize, most_strangers: usize) -> Self {
        Self {
            known: Lane::new(most_known.max(1)),
            strangers: Lane::new(most_strangers.max(1)),
            turn: 0,
            next: 0,
        }
    }

    /// Waits from now on; answers its ticket and, where that is one too many, who no longer waits for it: one of the
    /// address with most, which may be this one.
    pub(super) fn join(&mut self, class: Class, place: &Place, waiter: T) -> (u64, Option<T>) {
        let ticket = self.next;
        self.next += 1;
        let lane = match class {
            Class::Known => &mut self.known,
            Class::Stranger => &mut self.strangers,
        };
        lane.push(place, VecDeque::from([(ticket, waiter)]));
        let shed = (lane.waiting > lane.most).then(|| lane.shed()).flatten();
        (ticket, shed)
    }

    /// No longer waits.
    pub(super) fn leave(&mut self, place: &Place, ticket: u64) -> Option<T> {
        let left = self.strangers.take(place, |(number, _)| *number == ticket);
        left.or_else(|| self.known.take(place, |(number, _)| *number == ticket))
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self) -> Option<T> {
        self.turn = (self.turn + 1) % ROUND;
        match self.turn {
            0 => self.strangers.next().or_else(|| self.known.next()),
            _ => self.known.next().or_else(|| self.strangers.next()),
        }
    }

    /// The place is known good from now on, and so are those that wait for the same.
    pub(super) fn know(&mut self, place: &Place) {
        if let Some(flow) = self.strangers.take_flow(place) {
            self.known.push(place, flow.waiting);
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.known.waiting + self.strangers.waiting
    }
}

impl<T> Lane<T> {
    fn new(most: usize) -> Self {
        Self {
            most,
            waiting: 0,
            crowds: VecDeque::new(),
        }
    }

    fn push(&mut self, place: &Place, mut more: VecDeque<(u64, T)>) {
        self.waiting += more.len();
        let at = self.crowds.iter().position(|crowd| crowd.address == place.address);
        let at = at.unwrap_or_else(|| {
            self.crowds.push_back(Crowd {
                address: place.address,
                waiting: 0,
                flows: VecDeque::new(),
            });
            self.crowds.len() - 1
        });
        let crowd = &mut self.crowds[at];
        crowd.waiting += more.len();
        match crowd.flows.iter_mut().find(|flow| flow.name == place.name) {
            Some(flow) => flow.waiting.append(&mut more),
            None => crowd.flows.push_back(Flow {
                name: place.name.clone(),
                waiting: more,
            }),
        }
    }

    fn next(&mut self) -> Option<T> {
        let mut crowd = self.crowds.pop_front()?;
        self.waiting -= 1;
        let next = crowd.next();
        if crowd.waiting > 0 {
            self.crowds.push_back(crowd);
        }
        next
    }

    /// The longest crowd gives up the newest of its longest name; of names alike the one that would be served last.
    fn shed(&mut self) -> Option<T> {
        let crowd = self.crowds.iter_mut().max_by_key(|crowd| crowd.waiting)?;
        let lengths = crowd.flows.iter().enumerate();
        // `max_by_key` answers the last of those alike.
        let (at, _) = lengths.rev().max_by_key(|(_, flow)| flow.waiting.len())?;
        let (_, shed) = crowd.flows[at].waiting.pop_back()?;
        crowd.waiting -= 1;
        if crowd.flows[at].waiting.is_empty() {
            crowd.flows.remove(at);
        }
        self.waiting -= 1;
        self.crowds.retain(|crowd| crowd.waiting > 0);
        Some(shed)
    }

    fn take(&mut self, place: &Place, which: impl Fn(&(u64, T)) -> bool) -> Option<T> {
        let at = self.crowds.iter().position(|crowd| crowd.address == place.address)?;
        let crowd = &mut self.crowds[at];
        let flow_at = crowd.flows.iter().position(|flow| flow.name == place.name)?;
        let flow = &mut crowd.flows[flow_at];
        let (_, taken) = flow
            .waiting
            .iter()
            .position(which)
            .and_then(|at| flow.waiting.remove(at))?;
        if flow.waiting.is_empty() {
            crowd.flows.remove(flow_at);
        }
        crowd.waiting -= 1;
        self.waiting -= 1;
        if crowd.waiting == 0 {
            self.crowds.remove(at);
        }
        Some(taken)
    }

    fn take_flow(&mut self, place: &Place) -> Option<Flow<T>> {
        let at = self.crowds.iter().position(|crowd| crowd.address == place.address)?;
        let crowd = &mut self.crowds[at];
        let flow = crowd.flows.iter().position(|flow| flow.name == place.name)?;
        let flow = crowd.flows.remove(flow)?;
        crowd.waiting -= flow.waiting.len();
        self.waiting -= flow.waiting.len();
        if crowd.waiting == 0 {
            self.crowds.remove(at);
        }
        Some(flow)
    }
}

impl<T> Crowd<T> {
    fn next(&mut self) -> Option<T> {
        let crowded = self.flows.len() > CROWD;
        let mut flow = match crowded {
            true => self.flows.pop_back(),
            false => self.flows.pop_front(),
        }?;
        let next = flow.waiting.pop_front();
        self.waiting -= 1;
        if !flow.waiting.is_empty() {
            // Where it is the others' turn before its own again.
            match crowded {
                true => self.flows.push_front(flow),
                false => self.flows.push_back(flow),
            }
        }
        next.map(|(_, waiter)| waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Known, Stranger};

    fn place(address: u8, name: &str) -> Place {
        Place::new(Some(IpAddr::from([10, 0, 0, address])), name)
    }

    /// Who is served, in order.
    fn served(line: &mut Line<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| line.next()).collect()
    }

    fn flood(line: &mut Line<&'static str>, names: usize) {
        for n in 0..names {
            line.join(Stranger, &place(1, &format!("name{n}")), "flood");
        }
    }

    fn turn_of(line: &mut Line<&'static str>, whose: &str) -> usize {
        let turns = served(line).into_iter();
        turns.enumerate().find(|(_, name)| *name == whose).expect("served").0
    }

    #[test]
    fn who_comes_from_elsewhere_passes_a_flood() {
        let mut line = Line::new(1000, 1000);
        flood(&mut line, 500);
        line.join(Stranger, &place(2, "ada"), "ada");
        assert!(turn_of(&mut line, "ada") < 2);
    }

    #[test]
    fn who_comes_from_where_a_flood_comes_from_goes_before_what_waits() {
        let mut line = Line::new(1000, 1000);
        flood(&mut line, 500);
        line.join(Stranger, &place(1, "ada"), "ada");
        flood(&mut line, 3);
        assert!(turn_of(&mut line, "ada") < 5);
    }

    #[test]
    fn the_known_have_three_turns_of_four_and_nobody_all() {
        let mut line = Line::new(1000, 1000);
        flood(&mut line, 100);
        for _ in 0..100 {
            line.join(Known, &place(1, "ada"), "ada");
        }
        let first: Vec<_> = (0..40).filter_map(|_| line.next()).collect();
        assert_eq!(first.iter().filter(|who| **who == "ada").count(), 30);
        assert_eq!(first.iter().filter(|who| **who == "flood").count(), 10);
        assert_eq!(
            served(&mut line).len(),
            160,
            "a turn nobody of one lane wants is the other's"
        );
    }

    #[test]
    fn those_who_wait_for_a_name_that_proves_good_are_known_with_it() {
        let mut line = Line::new(1000, 1000);
        for _ in 0..3 {
            line.join(Stranger, &place(1, "ada"), "ada");
        }
        flood(&mut line, 100);
        line.know(&place(1, "ada"));
        let first: Vec<_> = (0..4).filter_map(|_| line.next()).collect();
        assert_eq!(first.iter().filter(|who| **who == "ada").count(), 3, "{first:?}");
        assert_eq!(served(&mut line).len(), 99);
    }

    #[test]
    fn one_too_many_costs_who_has_most() {
        let mut line = Line::new(10, 10);
        for n in 0..10 {
            let name: &'static str = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"][n];
            assert_eq!(line.join(Stranger, &place(1, name), name).1, None);
        }
        // Others' room is the flood's loss, its oldest first.
        assert_eq!(line.join(Stranger, &place(2, "ada"), "ada").1, Some("a0"));
        assert_eq!(line.join(Stranger, &place(2, "bob"), "bob").1, Some("a1"));
        // Of a name that is tried over and over, its newest.
        let mut line = Line::new(3, 3);
        line.join(Stranger, &place(1, "ada"), "ada");
        line.join(Stranger, &place(1, "bob"), "bob 1");
        line.join(Stranger, &place(1, "bob"), "bob 2");
        assert_eq!(line.join(Stranger, &place(1, "bob"), "bob 3").1, Some("bob 3"));
        assert_eq!(line.waiting(), 3);
        assert_eq!(served(&mut line), ["ada", "bob 1", "bob 2"]);
    }

    #[test]
    fn names_of_an_address_take_turns() {
        let mut line = Line::new(100, 100);
        for _ in 0..3 {
            line.join(Stranger, &place(1, "ada"), "ada");
        }
        line.join(Stranger, &place(1, "bob"), "bob");
        assert_eq!(served(&mut line), ["ada", "bob", "ada", "ada"]);
        // In a crowd, too.
        flood(&mut line, 50);
        for _ in 0..3 {
            line.join(Stranger, &place(1, "ada"), "ada");
        }
        let turns = served(&mut line);
        assert_eq!((turns.len(), turns[0], turns[1]), (53, "ada", "flood"));
    }

    #[test]
    fn who_leaves_takes_nobody_along() {
        let mut line = Line::new(100, 100);
        let (first, _) = line.join(Stranger, &place(1, "ada"), "first");
        let (second, _) = line.join(Stranger, &place(1, "ada"), "second");
        let (known, _) = line.join(Known, &place(1, "ada"), "known");
        assert_eq!(line.leave(&place(1, "ada"), first), Some("first"));
        assert_eq!(line.leave(&place(1, "ada"), first), None);
        assert_eq!(line.leave(&place(1, "ada"), known), Some("known"));
        assert_eq!(line.leave(&place(9, "ada"), second), None);
        assert_eq!(served(&mut line), ["second"]);
        assert_eq!(line.leave(&place(1, "ada"), second), None);
        assert_eq!(line.waiting(), 0);
        assert!(line.strangers.crowds.is_empty() && line.known.crowds.is_empty());
    }

    #[test]
    fn an_address_is_a_network_of_version_6_and_one_of_version_4_however_written() {
        let of = |text: &str| Place::new(Some(text.parse().unwrap()), "ada");
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.2"), of("10.0.0.1"));
    }
}
