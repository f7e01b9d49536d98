//! Many members that join, crash, restart, leave, stall and pass time in any order.

use super::*;
use crate::groups::{Join, Protocol};
use proptest::prelude::*;
use std::collections::HashSet;

const PARTITIONS: usize = 12;
const SESSION: u32 = 10_000;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Whatever the client does next: join, sync, heartbeat.
    Go(usize),
    /// A heartbeat whose answer is not heeded.
    Stall(usize),
    /// Joins again whatever it is doing.
    JoinAgain(usize),
    /// Vanishes without a word.
    Crash(usize),
    Leave(usize),
    Store(bool),
    Pass(u16),
}

fn acts() -> impl Strategy<Value = Act> {
    let who = 0..CLIENTS;
    prop_oneof![
        10 => who.clone().prop_map(Act::Go),
        2 => who.clone().prop_map(Act::Stall),
        1 => who.clone().prop_map(Act::JoinAgain),
        1 => who.clone().prop_map(Act::Crash),
        1 => who.prop_map(Act::Leave),
        4 => prop::bool::weighted(0.9).prop_map(Act::Store),
        3 => (0..8_000u16).prop_map(Act::Pass),
    ]
}

const CLIENTS: usize = 8;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Out,
    Joining(Ticket),
    Joined,
    Syncing(Ticket),
    Member,
}

struct Client {
    instance: Option<Arc<str>>,
    modern: bool,
    id: Arc<str>,
    generation: i32,
    leads: Option<Vec<Arc<str>>>,
    phase: Phase,
}

struct World {
    group: Group,
    now: Millis,
    next: u64,
    clients: Vec<Client>,
    stores: Vec<i32>,
    open: HashSet<Ticket>,
    /// Generation to leader.
    leaders: HashMap<i32, Arc<str>>,
    /// Generation to the members that were answered it.
    answered: HashMap<i32, HashSet<Arc<str>>>,
    /// Generations that were stored.
    durable: HashSet<i32>,
    rebalance_timeout: u32,
    /// Generation to the owner of each partition: a static name where there is one, since a restart inherits.
    owners: HashMap<i32, HashMap<u8, Arc<str>>>,
    newest: i32,
}

impl World {
    fn new(delay: Millis, rebalance_timeout: u32) -> Self {
        let limits = Limits {
            initial_rebalance_delay: delay,
            new_member_timeout: 300_000,
            max_members: CLIENTS - 1,
        };
        let clients = (0..CLIENTS)
            .map(|n| Client {
                instance: (n % 3 == 0).then(|| Arc::from(format!("static-{n}"))),
                modern: n % 2 == 0,
                id: Arc::from(""),
                generation: -1,
                leads: None,
                phase: Phase::Out,
            })
            .collect();
        Self {
            group: Group::new(limits, 0, None),
            now: 0,
            next: 0,
            clients,
            stores: Vec::new(),
            open: HashSet::new(),
            leaders: HashMap::new(),
            answered: HashMap::new(),
            durable: HashSet::new(),
            rebalance_timeout,
            owners: HashMap::new(),
            newest: 0,
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.open.insert(ticket);
        ticket
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Go(n) => self.go(n),
            Act::JoinAgain(n) => self.join(n),
            Act::Stall(n) => {
                let client = &self.clients[n];
                let instance = client.instance.as_deref();
                let _ = self.group.heartbeat(&client.id, instance, client.generation, self.now);
            }
            Act::Crash(n) => {
                let client = &mut self.clients[n];
                client.id = Arc::from("");
                client.phase = Phase::Out;
            }
            Act::Leave(n) => {
                let leaving = Leaving {
                    member_id: self.clients[n].id.clone(),
                    instance: self.clients[n].instance.clone(),
                };
                let mut out = Vec::new();
                self.group.leave(&[leaving], self.now, &mut out);
                self.take(out);
                self.clients[n].id = Arc::from("");
                self.clients[n].phase = Phase::Out;
            }
            Act::Store(good) => {
                if !self.stores.is_empty() {
                    let generation = self.stores.remove(0);
                    if good {
                        self.durable.insert(generation);
                    }
                    let outcome = if good { Ok(()) } else { Err(Refusal::NotCoordinator) };
                    let mut out = Vec::new();
                    self.group.stored(generation, outcome, self.now, &mut out);
                    self.take(out);
                }
            }
            Act::Pass(ms) => self.pass(Millis::from(ms)),
        }
        self.check();
    }

    fn pass(&mut self, ms: Millis) {
        let until = self.now + ms;
        let mut ticks = 0;
        while self.group.wake() <= until {
            ticks += 1;
            assert!(ticks < 10_000, "the timer spins");
            self.now = self.now.max(self.group.wake());
            let mut out = Vec::new();
            self.group.tick(self.now, &mut out);
            self.take(out);
        }
        self.now = until;
    }

    fn go(&mut self, n: usize) {
        match self.clients[n].phase {
            Phase::Out => self.join(n),
            Phase::Joined => self.sync(n),
            Phase::Member => self.heartbeat(n),
            Phase::Joining(_) | Phase::Syncing(_) => {}
        }
    }

    fn join(&mut self, n: usize) {
        let ticket = self.ticket();
        let client = &mut self.clients[n];
        client.phase = Phase::Joining(ticket);
        let join = Join {
            member_id: client.id.clone(),
            fresh_id: Arc::from(format!("client-{n}-{}", ticket.0)),
            instance: client.instance.clone(),
            client_id: Arc::from("c"),
            client_host: Arc::from("h"),
            session_timeout: SESSION,
            rebalance_timeout: self.rebalance_timeout,
            protocol_type: Arc::from("consumer"),
            protocols: vec![Protocol {
                name: Arc::from("range"),
                metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t"),
            }],
            requires_known_id: client.modern,
            can_skip_assignment: client.modern,
        };
        let mut out = Vec::new();
        self.group.join(join, ticket, self.now, &mut out);
        self.take(out);
    }

    fn sync(&mut self, n: usize) {
        let ticket = self.ticket();
        let client = &mut self.clients[n];
        client.phase = Phase::Syncing(ticket);
        let members = client.leads.take().unwrap_or_default();
        let assignments = members
            .iter()
            .enumerate()
            .map(|(i, id)| {
                let share: Vec<u8> = (0..PARTITIONS)
                    .filter(|p| p % members.len() == i)
                    .map(|p| p as u8)
                    .collect();
                (id.clone(), Bytes::from(share))
            })
            .collect();
        let (id, instance, generation) = (client.id.clone(), client.instance.clone(), client.generation);
        let mut out = Vec::new();
        self.group.sync(
            &id,
            instance.as_deref(),
            generation,
            Some("consumer"),
            Some("range"),
            assignments,
            ticket,
            self.now,
            &mut out,
        );
        self.take(out);
    }

    fn heartbeat(&mut self, n: usize) {
        let client = &mut self.clients[n];
        let beat = self
            .group
            .heartbeat(&client.id, client.instance.as_deref(), client.generation, self.now);
        match beat {
            Ok(()) => assert_eq!(client.generation, self.group.generation),
            Err(Refusal::UnknownMember) => {
                client.id = Arc::from("");
                client.phase = Phase::Out;
            }
            Err(Refusal::FencedInstance) => panic!("only one client uses each name"),
            Err(_) => client.phase = Phase::Out,
        }
    }

    fn take(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Store { generation } => self.stores.push(generation),
                Output::Joined(ticket, answer) => {
                    assert!(self.open.remove(&ticket), "{ticket:?} answered twice");
                    self.joined(ticket, answer);
                }
                Output::Synced(ticket, answer) => {
                    assert!(self.open.remove(&ticket), "{ticket:?} answered twice");
                    self.synced(ticket, answer);
                }
            }
        }
    }

    fn joined(&mut self, ticket: Ticket, answer: JoinAnswer) {
        if answer.error.is_none() {
            assert!(answer.generation >= self.newest, "a generation came back");
            self.newest = answer.generation;
            if answer.leader == answer.member_id && !answer.skip_assignment {
                let leader = self
                    .leaders
                    .entry(answer.generation)
                    .or_insert_with(|| answer.leader.clone());
                assert_eq!(*leader, answer.leader, "two leaders in one generation");
                assert!(answer.members.iter().any(|m| m.id == answer.leader));
            }
            let answered = self.answered.entry(answer.generation).or_default();
            answered.insert(answer.member_id.clone());
        }
        let waiting = self.clients.iter_mut().find(|c| c.phase == Phase::Joining(ticket));
        let Some(client) = waiting else { return };
        match answer.error {
            None => {
                client.id = answer.member_id.clone();
                client.generation = answer.generation;
                let leads = answer.leader == answer.member_id && !answer.skip_assignment;
                client.leads = leads.then(|| answer.members.into_iter().map(|m| m.id).collect());
                client.phase = Phase::Joined;
            }
            Some(Refusal::MemberIdRequired) => {
                client.id = answer.member_id;
                client.phase = Phase::Out;
            }
            Some(Refusal::UnknownMember) => {
                client.id = Arc::from("");
                client.phase = Phase::Out;
            }
            Some(_) => client.phase = Phase::Out,
        }
    }

    fn synced(&mut self, ticket: Ticket, answer: SyncAnswer) {
        let waiting = self.clients.iter_mut().find(|c| c.phase == Phase::Syncing(ticket));
        let Some(client) = waiting else { return };
        match answer.error {
            None => {
                client.phase = Phase::Member;
                assert!(self.durable.contains(&client.generation), "told before it was stored");
                assert_eq!(client.generation, self.group.generation);
                let owner = client.instance.clone().unwrap_or_else(|| client.id.clone());
                let owners = self.owners.entry(client.generation).or_default();
                for partition in answer.assignment {
                    let had = owners.insert(partition, owner.clone());
                    assert!(
                        had.is_none_or(|h| h == owner),
                        "partition {partition} has two owners in one generation"
                    );
                }
            }
            Some(Refusal::UnknownMember) => {
                client.id = Arc::from("");
                client.phase = Phase::Out;
            }
            Some(_) => client.phase = Phase::Out,
        }
    }

    fn check(&self) {
        let group = &self.group;
        let joining = group.members.values().filter(|m| m.joining.is_some()).count();
        assert_eq!(joining, group.joining);
        let waiting = group
            .members
            .values()
            .flat_map(|m| [m.joining, m.syncing])
            .flatten()
            .count();
        assert_eq!(
            waiting,
            self.open.len(),
            "every request is answered or waits in a member"
        );
        assert_eq!(group.members.is_empty(), group.leader.is_none());
        if let Some(leader) = &group.leader {
            assert!(group.members.contains_key(leader));
        }
        for (instance, id) in &group.statics {
            assert_eq!(group.members[id].instance.as_ref(), Some(instance));
        }
        let bytes: usize = group.members.values().map(Member::bytes).sum();
        assert_eq!(bytes, group.bytes);
        match group.state {
            GroupState::Empty => assert!(group.members.is_empty()),
            GroupState::Stable | GroupState::CompletingRebalance => {
                assert!(!group.members.is_empty());
                assert_eq!(group.join_deadline, NEVER);
                let answered = &self.answered[&group.generation];
                let dynamic = group.members.values().filter(|m| m.instance.is_none());
                for member in dynamic {
                    assert!(
                        answered.contains(&member.id),
                        "{} never joined this generation",
                        member.id
                    );
                }
            }
            GroupState::PreparingRebalance => assert_ne!(group.join_deadline, NEVER, "nothing would end this"),
            GroupState::Dead => unreachable!(),
        }
        let earliest = group
            .members
            .values()
            .map(|m| m.deadline)
            .chain(group.pending.values().copied());
        let earliest = earliest
            .chain([group.join_deadline, group.sync_deadline])
            .min()
            .unwrap();
        assert!(group.wake <= earliest, "the timer would be late");
    }

    /// From here on every client behaves; the group must come to rest with just them.
    fn settle(&mut self, alive: usize) {
        for _ in 0..120 {
            while !self.stores.is_empty() {
                self.act(Act::Store(true));
            }
            for n in 0..alive {
                self.act(Act::Go(n));
            }
            self.act(Act::Pass(1_000));
        }
        while !self.stores.is_empty() {
            self.act(Act::Store(true));
        }
        assert_eq!(self.group.state, GroupState::Stable);
        assert_eq!(self.group.members.len(), alive);
        let owned: HashSet<u8> = self.owners[&self.group.generation].keys().copied().collect();
        assert_eq!(owned.len(), PARTITIONS, "every partition has an owner");
        assert!(self.clients[..alive].iter().all(|c| c.phase == Phase::Member));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn members_in_any_disorder(
        acts in prop::collection::vec(acts(), 1..250),
        delay in prop_oneof![Just(0u64), Just(3_000)],
        rebalance_timeout in prop_oneof![Just(5_000u32), Just(20_000)],
        alive in 1..CLIENTS,
    ) {
        let mut world = World::new(delay, rebalance_timeout);
        for act in acts {
            world.act(act);
        }
        // The rest are gone for good; the living start over if they must.
        for n in alive..CLIENTS {
            world.act(Act::Crash(n));
        }
        world.settle(alive);
        for n in 0..alive {
            world.act(Act::Leave(n));
        }
        world.act(Act::Pass(60_000));
        prop_assert!(world.open.is_empty());
        prop_assert_eq!(world.group.state(), GroupState::Empty);
        prop_assert_eq!(world.group.bytes(), 0);
    }
}
