//! The rules one by one, each against a small group driven by hand.

use super::*;
use crate::groups::{Join, Protocol};

const SESSION: u32 = 10_000;
const REBALANCE: u32 = 60_000;

fn limits() -> Limits {
    Limits {
        initial_rebalance_delay: 0,
        new_member_timeout: 300_000,
        max_members: 100,
    }
}

/// A group with a clock and the answers it gave.
struct Rig {
    group: Group,
    now: Millis,
    tickets: u64,
    joins: HashMap<Ticket, JoinAnswer>,
    syncs: HashMap<Ticket, SyncAnswer>,
    stores: Vec<i32>,
    auto_store: bool,
}

impl Rig {
    fn new(limits: Limits) -> Self {
        Self {
            group: Group::new(limits, 0, None),
            now: 1_000,
            tickets: 0,
            joins: HashMap::new(),
            syncs: HashMap::new(),
            stores: Vec::new(),
            auto_store: true,
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn take(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Joined(t, a) => assert!(self.joins.insert(t, a).is_none(), "{t:?} answered twice"),
                Output::Synced(t, a) => assert!(self.syncs.insert(t, a).is_none(), "{t:?} answered twice"),
                Output::Store { generation } => self.stores.push(generation),
            }
        }
        if self.auto_store {
            for generation in std::mem::take(&mut self.stores) {
                self.stored(generation, Ok(()));
            }
        }
    }

    fn stored(&mut self, generation: i32, outcome: Result<(), Refusal>) {
        let mut out = Vec::new();
        self.group.stored(generation, outcome, self.now, &mut out);
        self.take(out);
    }

    fn join(&mut self, join: Join) -> Ticket {
        let ticket = self.ticket();
        let mut out = Vec::new();
        self.group.join(join, ticket, self.now, &mut out);
        self.take(out);
        ticket
    }

    fn sync(&mut self, id: &str, assign: &[(&str, &str)]) -> Ticket {
        let ticket = self.ticket();
        let mut out = Vec::new();
        let assignments = assign
            .iter()
            .map(|(m, a)| (Arc::from(*m), Bytes::copy_from_slice(a.as_bytes())))
            .collect();
        let generation = self.group.generation();
        self.group.sync(
            id,
            None,
            generation,
            None,
            None,
            assignments,
            ticket,
            self.now,
            &mut out,
        );
        self.take(out);
        ticket
    }

    fn leave(&mut self, id: &str, instance: Option<&str>) -> Result<(), Refusal> {
        let mut out = Vec::new();
        let leaving = [Leaving {
            member_id: id.into(),
            instance: instance.map(Arc::from),
        }];
        let results = self.group.leave(&leaving, self.now, &mut out);
        self.take(out);
        results[0]
    }

    fn advance(&mut self, by: Millis) {
        let until = self.now + by;
        while self.group.wake() <= until {
            self.now = self.now.max(self.group.wake());
            let mut out = Vec::new();
            self.group.tick(self.now, &mut out);
            self.take(out);
        }
        self.now = until;
    }

    fn heartbeat(&mut self, id: &str) -> Result<(), Refusal> {
        self.group.heartbeat(id, None, self.group.generation(), self.now)
    }

    fn joined(&self, t: Ticket) -> &JoinAnswer {
        self.joins.get(&t).expect("the join should be answered")
    }

    fn synced(&self, t: Ticket) -> &SyncAnswer {
        self.syncs.get(&t).expect("the sync should be answered")
    }

    /// Members a and b, stable, a leading; each assigned its own name.
    fn two(limits: Limits) -> Self {
        let mut rig = Rig::new(limits);
        rig.join(fresh("a"));
        let b = rig.join(fresh("b"));
        let a = rig.join(known("a"));
        assert_eq!(rig.joined(a).generation, rig.joined(b).generation);
        assert_eq!(&*rig.joined(b).leader, "a");
        rig.sync("b", &[]);
        rig.sync("a", &[("a", "a"), ("b", "b")]);
        assert_eq!(rig.group.state(), GroupState::Stable);
        rig
    }
}

/// A join of a member that holds no id, under a version that needs none.
fn fresh(name: &str) -> Join {
    Join {
        member_id: Arc::from(""),
        fresh_id: Arc::from(name),
        instance: None,
        client_id: Arc::from("client"),
        client_host: Arc::from("/127.0.0.1"),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: Arc::from("consumer"),
        protocols: protocols(&["range"]),
        requires_known_id: false,
        can_skip_assignment: false,
    }
}

fn known(id: &str) -> Join {
    Join {
        member_id: Arc::from(id),
        fresh_id: Arc::from("unused"),
        ..fresh("unused")
    }
}

fn named(instance: &str, fresh_id: &str) -> Join {
    Join {
        instance: Some(Arc::from(instance)),
        ..fresh(fresh_id)
    }
}

fn protocols(names: &[&str]) -> Vec<Protocol> {
    names.iter().map(|n| protocol(n, &["t"])).collect()
}

fn protocol(name: &str, topics: &[&str]) -> Protocol {
    let mut metadata = vec![0, 1];
    metadata.extend((topics.len() as i32).to_be_bytes());
    for t in topics {
        metadata.extend((t.len() as i16).to_be_bytes());
        metadata.extend(t.as_bytes());
    }
    Protocol {
        name: Arc::from(name),
        metadata: metadata.into(),
    }
}

#[test]
fn first_member_leads_and_is_answered_at_once_without_a_delay() {
    let mut rig = Rig::new(limits());
    let a = rig.join(fresh("a"));
    let answer = rig.joined(a).clone();
    assert_eq!((answer.error, answer.generation), (None, 1));
    assert_eq!((&*answer.leader, &*answer.member_id), ("a", "a"));
    assert_eq!(answer.members.len(), 1);
    assert_eq!(answer.protocol.as_deref(), Some("range"));
    assert_eq!(answer.protocol_type.as_deref(), Some("consumer"));
    let s = rig.sync("a", &[("a", "all"), ("stranger", "x")]);
    assert_eq!(&rig.synced(s).assignment[..], b"all");
    assert_eq!(rig.group.state(), GroupState::Stable);
    assert_eq!(rig.group.subscribed(), Some(&BTreeSet::from(["t".to_owned()])));
}

#[test]
fn the_initial_delay_gathers_members_and_is_extended_by_each_up_to_the_rebalance_timeout() {
    let delay = Limits {
        initial_rebalance_delay: 3_000,
        ..limits()
    };
    let mut rig = Rig::new(delay);
    let a = rig.join(fresh("a"));
    rig.advance(2_999);
    let b = rig.join(fresh("b"));
    rig.advance(1);
    assert!(rig.joins.is_empty(), "b's arrival extends the delay");
    rig.advance(3_000);
    assert_eq!(rig.joined(a).generation, 1);
    assert_eq!(rig.joined(b).generation, 1);
    assert_eq!(rig.joined(a).members.len(), 2);

    let mut rig = Rig::new(delay);
    let first = Join {
        rebalance_timeout: 5_000,
        ..fresh("m0")
    };
    rig.join(first);
    for n in 1..10 {
        rig.advance(1_000);
        rig.join(Join {
            rebalance_timeout: 5_000,
            ..fresh(&format!("m{n}"))
        });
        if !rig.joins.is_empty() {
            break;
        }
    }
    assert!(rig.now <= 1_000 + 6_000, "the delays end with the rebalance timeout");
}

#[test]
fn version_4_is_given_an_id_first() {
    let mut rig = Rig::new(limits());
    let modern = |join: Join| Join {
        requires_known_id: true,
        ..join
    };
    let first = rig.join(modern(fresh("a")));
    assert_eq!(rig.joined(first).error, Some(Refusal::MemberIdRequired));
    assert_eq!(&*rig.joined(first).member_id, "a");
    assert_eq!(rig.group.state(), GroupState::Empty);
    let second = rig.join(modern(known("a")));
    assert_eq!(rig.joined(second).generation, 1);
    // An id that is not used is forgotten after the session timeout.
    rig.join(modern(fresh("b")));
    rig.sync("a", &[]);
    for _ in 0..3 {
        rig.advance(4_000);
        rig.heartbeat("a").unwrap();
    }
    assert_eq!(rig.group.size(), 1);
    let late = rig.join(modern(known("b")));
    assert_eq!(rig.joined(late).error, Some(Refusal::UnknownMember));
}

#[test]
fn a_rebalance_waits_for_ids_given_out() {
    let mut rig = Rig::two(limits());
    rig.join(Join {
        requires_known_id: true,
        ..fresh("c")
    });
    let d = rig.join(fresh("d"));
    let a = rig.join(known("a"));
    let b = rig.join(known("b"));
    assert!(!rig.joins.contains_key(&d), "c is still to come");
    let c = rig.join(known("c"));
    for t in [a, b, c, d] {
        assert_eq!(rig.joined(t).generation, rig.group.generation());
    }
}

#[test]
fn unknown_members_and_old_generations() {
    let mut rig = Rig::two(limits());
    let generation = rig.group.generation();
    let now = rig.now;
    assert_eq!(
        rig.group.heartbeat("x", None, generation, now),
        Err(Refusal::UnknownMember)
    );
    assert_eq!(
        rig.group.heartbeat("a", None, generation - 1, now),
        Err(Refusal::IllegalGeneration)
    );
    assert_eq!(
        rig.group.heartbeat("a", Some("i"), generation, now),
        Err(Refusal::UnknownMember)
    );
    assert_eq!(
        rig.group.check_commit("a", None, -1, now),
        Err(Refusal::IllegalGeneration)
    );
    assert_eq!(rig.group.check_commit("x", None, -1, now), Err(Refusal::UnknownMember));
    assert_eq!(rig.group.check_commit("", None, -1, now), Err(Refusal::UnknownMember));
    assert_eq!(rig.group.check_commit("a", None, generation, now), Ok(()));
    let s = rig.sync("x", &[]);
    assert_eq!(rig.synced(s).error, Some(Refusal::UnknownMember));
}

#[test]
fn commits_to_an_empty_group_need_no_member() {
    let mut group = Group::new(limits(), 7, None);
    assert_eq!(group.check_commit("", None, -1, 0), Ok(()));
    assert_eq!(group.check_commit("old", None, 7, 0), Err(Refusal::UnknownMember));
    assert_eq!(group.check_commit("", None, 7, 0), Err(Refusal::UnknownMember));
}

#[test]
fn a_commit_while_the_assignment_is_awaited_is_told_to_wait() {
    let mut rig = Rig::new(limits());
    rig.join(fresh("a"));
    assert_eq!(
        rig.group.check_commit("a", None, 1, rig.now),
        Err(Refusal::RebalanceInProgress)
    );
    assert_eq!(rig.heartbeat("a"), Ok(()));
}

#[test]
fn commits_during_a_rebalance_are_taken_from_members_of_the_last_generation() {
    let mut rig = Rig::two(limits());
    rig.join(fresh("c"));
    assert_eq!(rig.group.state(), GroupState::PreparingRebalance);
    let generation = rig.group.generation();
    assert_eq!(rig.group.check_commit("a", None, generation, rig.now), Ok(()));
    assert_eq!(rig.heartbeat("a"), Err(Refusal::RebalanceInProgress));
}

#[test]
fn protocols_must_agree() {
    let mut rig = Rig::new(limits());
    for bad in [
        Join {
            protocol_type: Arc::from(""),
            ..fresh("a")
        },
        Join {
            protocols: vec![],
            ..fresh("a")
        },
    ] {
        let t = rig.join(bad);
        assert_eq!(rig.joined(t).error, Some(Refusal::InconsistentProtocol));
    }
    rig.join(fresh("a"));
    for bad in [
        Join {
            protocol_type: Arc::from("connect"),
            ..fresh("b")
        },
        Join {
            protocols: protocols(&["sticky"]),
            ..fresh("b")
        },
    ] {
        let t = rig.join(bad);
        assert_eq!(rig.joined(t).error, Some(Refusal::InconsistentProtocol));
    }
    let mut out = Vec::new();
    rig.group
        .sync("a", None, 1, Some("connect"), None, vec![], Ticket(90), 0, &mut out);
    rig.group
        .sync("a", None, 1, None, Some("sticky"), vec![], Ticket(91), 0, &mut out);
    assert!(out.iter().all(|o| matches!(
        o,
        Output::Synced(_, a) if a.error == Some(Refusal::InconsistentProtocol)
    )));
}

#[test]
fn the_protocol_is_chosen_by_vote_among_those_common_to_all() {
    let with = |name: &str, p: &[&str]| Join {
        protocols: protocols(p),
        ..fresh(name)
    };
    let mut rig = Rig::new(Limits {
        initial_rebalance_delay: 10,
        ..limits()
    });
    let a = rig.join(with("a", &["only-a", "range", "sticky"]));
    rig.join(with("b", &["sticky", "range"]));
    rig.join(with("c", &["sticky", "range"]));
    rig.advance(1_000);
    assert_eq!(rig.joined(a).protocol.as_deref(), Some("sticky"));
}

#[test]
fn a_tie_goes_to_the_leaders_preference() {
    let mut rig = Rig::new(Limits {
        initial_rebalance_delay: 10,
        ..limits()
    });
    let a = rig.join(Join {
        protocols: protocols(&["range", "sticky"]),
        ..fresh("a")
    });
    rig.join(Join {
        protocols: protocols(&["sticky", "range"]),
        ..fresh("b")
    });
    rig.advance(1_000);
    assert_eq!(&*rig.joined(a).leader, "a");
    assert_eq!(rig.joined(a).protocol.as_deref(), Some("range"));
}

#[test]
fn a_protocol_named_twice_counts_once() {
    let mut rig = Rig::new(limits());
    rig.join(Join {
        protocols: protocols(&["range", "range"]),
        ..fresh("a")
    });
    let b = rig.join(fresh("b"));
    let a = rig.join(known("a"));
    assert_eq!(rig.joined(a).error, None);
    assert_eq!(rig.joined(b).error, None);
}

#[test]
fn leaving_during_a_rebalance_completes_it() {
    let mut rig = Rig::two(limits());
    let c = rig.join(fresh("c"));
    let b = rig.join(known("b"));
    assert!(!rig.joins.contains_key(&c));
    assert_eq!(rig.leave("a", None), Ok(()));
    assert_eq!(rig.joined(c).error, None);
    assert_eq!(rig.joined(b).error, None);
    assert_eq!(rig.joined(b).leader, rig.joined(c).leader);
}

#[test]
fn dying_during_a_rebalance_completes_it() {
    let mut rig = Rig::two(limits());
    let c = rig.join(fresh("c"));
    let b = rig.join(known("b"));
    rig.advance(Millis::from(SESSION));
    assert_eq!(rig.joined(b).error, None, "a's session ended, nobody else is missing");
    assert_eq!(rig.joined(c).generation, rig.joined(b).generation);
}

#[test]
fn those_that_do_not_rejoin_in_time_are_out() {
    let mut rig = Rig::two(limits());
    let c = rig.join(fresh("c"));
    let b = rig.join(known("b"));
    for _ in 0..12 {
        rig.advance(5_000);
        let _ = rig.heartbeat("a");
    }
    assert_eq!(rig.joined(c).error, None, "the rebalance timeout has passed");
    assert_eq!(rig.joined(b).error, None);
    assert_eq!(rig.heartbeat("a"), Err(Refusal::UnknownMember));
}

#[test]
fn the_last_to_leave_empties_the_group_and_the_generation_goes_on() {
    let mut rig = Rig::two(limits());
    let generation = rig.group.generation();
    rig.leave("a", None).unwrap();
    rig.leave("b", None).unwrap();
    assert_eq!(rig.group.state(), GroupState::Empty);
    assert_eq!(rig.group.bytes(), 0);
    assert_eq!(rig.leave("b", None), Err(Refusal::UnknownMember));
    rig.advance(10_000_000);
    assert_eq!(rig.group.wake(), NEVER, "an empty group needs no timer");
    let c = rig.join(fresh("c"));
    assert!(rig.joined(c).generation > generation + 1);
}

#[test]
fn a_member_that_never_syncs_is_given_up() {
    let mut rig = Rig::new(limits());
    rig.join(fresh("a"));
    rig.join(fresh("b"));
    rig.join(known("a"));
    rig.sync("a", &[("a", "x")]);
    assert_eq!(rig.group.state(), GroupState::Stable);
    for _ in 0..13 {
        rig.advance(5_000);
        let _ = rig.heartbeat("a");
        let _ = rig.heartbeat("b");
    }
    assert_eq!(rig.heartbeat("b"), Err(Refusal::UnknownMember));
    assert_eq!(rig.heartbeat("a"), Err(Refusal::RebalanceInProgress));
}

#[test]
fn a_member_that_waits_owes_no_heartbeat() {
    let mut rig = Rig::two(limits());
    rig.join(fresh("c"));
    let b = rig.join(known("b"));
    for _ in 0..10 {
        rig.advance(5_000);
        let _ = rig.heartbeat("a");
    }
    assert!(!rig.joins.contains_key(&b));
    rig.join(known("a"));
    assert_eq!(rig.joined(b).error, None);
    rig.sync("b", &[]);
    for _ in 0..5 {
        rig.advance(5_000);
        rig.heartbeat("a").unwrap();
        rig.heartbeat("c").unwrap();
    }
    rig.sync("a", &[("b", "mine")]);
    assert_eq!(rig.heartbeat("b"), Ok(()));
    rig.advance(Millis::from(SESSION) - 1);
    assert_eq!(rig.heartbeat("b"), Ok(()), "counted from the answer on");
}

#[test]
fn a_join_answered_nobody_asked_for_again_gets_the_current_generation() {
    let mut rig = Rig::two(limits());
    let generation = rig.group.generation();
    let b = rig.join(known("b"));
    assert_eq!(rig.joined(b).generation, generation);
    assert!(rig.joined(b).members.is_empty());
    let a = rig.join(known("a"));
    assert!(!rig.joins.contains_key(&a), "the leader's join starts a rebalance");
    rig.join(known("b"));
    assert_eq!(rig.joined(a).generation, generation + 1);
    // In CompletingRebalance the leader gets the members again.
    let again = rig.join(known("a"));
    assert_eq!(rig.joined(again).generation, generation + 1);
    assert_eq!(rig.joined(again).members.len(), 2);
}

#[test]
fn a_second_join_of_a_waiting_member_takes_the_place_of_the_first() {
    let mut rig = Rig::two(limits());
    let first = rig.join(known("a"));
    let second = rig.join(known("a"));
    assert_eq!(rig.joined(first).error, Some(Refusal::RebalanceInProgress));
    rig.join(known("b"));
    assert_eq!(rig.joined(second).error, None);
}

#[test]
fn a_full_group_turns_new_members_away() {
    let mut rig = Rig::two(Limits {
        max_members: 2,
        ..limits()
    });
    let c = rig.join(fresh("c"));
    assert_eq!(rig.joined(c).error, Some(Refusal::GroupFull));
    assert_eq!(rig.group.state(), GroupState::Stable);
    let b = rig.join(known("b"));
    assert_eq!(rig.joined(b).error, None);
}

#[test]
fn ids_given_out_are_bounded_too() {
    let mut rig = Rig::new(Limits {
        max_members: 3,
        ..limits()
    });
    for n in 0..10 {
        rig.join(Join {
            requires_known_id: true,
            ..fresh(&format!("m{n}"))
        });
    }
    assert_eq!(rig.group.size(), 3);
}

#[test]
fn nobody_learns_an_assignment_before_its_generation_is_stored() {
    let mut rig = Rig::new(limits());
    rig.auto_store = false;
    rig.join(fresh("a"));
    let s = rig.sync("a", &[("a", "x")]);
    assert_eq!(rig.stores, [1]);
    assert!(!rig.syncs.contains_key(&s));
    rig.stored(1, Err(Refusal::NotCoordinator));
    assert_eq!(rig.synced(s).error, Some(Refusal::NotCoordinator));
    assert_eq!(rig.group.state(), GroupState::PreparingRebalance);
    let a = rig.join(known("a"));
    assert_eq!(rig.joined(a).generation, 2);
    let s = rig.sync("a", &[("a", "y")]);
    rig.stored(1, Ok(()));
    assert!(
        !rig.syncs.contains_key(&s),
        "a late answer for generation 1 stores nothing"
    );
    rig.stored(2, Ok(()));
    assert_eq!(&rig.synced(s).assignment[..], b"y");
}

#[test]
fn a_join_during_completing_rebalance_sends_those_that_wait_back() {
    let mut rig = Rig::new(limits());
    rig.join(fresh("a"));
    rig.join(fresh("b"));
    rig.join(known("a"));
    let s = rig.sync("b", &[]);
    rig.join(fresh("c"));
    assert_eq!(rig.synced(s).error, Some(Refusal::RebalanceInProgress));
    let s = rig.sync("a", &[]);
    assert_eq!(rig.synced(s).error, Some(Refusal::RebalanceInProgress));
}

#[test]
fn removing_a_member_answers_what_it_waits_for() {
    let mut rig = Rig::new(limits());
    rig.join(fresh("a"));
    rig.join(fresh("b"));
    rig.join(known("a"));
    let s = rig.sync("b", &[]);
    rig.leave("b", None).unwrap();
    assert_eq!(rig.synced(s).error, Some(Refusal::UnknownMember));
    let a = rig.join(known("a"));
    let c = rig.join(fresh("c"));
    rig.leave("c", None).unwrap();
    assert_eq!(rig.joined(c).error, Some(Refusal::UnknownMember));
    assert_eq!(rig.joined(a).error, None);
}

mod static_members {
    use super::*;

    fn two_static() -> Rig {
        let mut rig = Rig::new(limits());
        rig.join(named("one", "one-1"));
        let t = rig.join(named("two", "two-1"));
        let rejoin = Join {
            instance: Some(Arc::from("one")),
            ..known("one-1")
        };
        rig.join(rejoin);
        assert_eq!(rig.joined(t).error, None);
        rig.sync("two-1", &[]);
        rig.sync("one-1", &[("one-1", "p0"), ("two-1", "p1")]);
        assert_eq!(rig.group.state(), GroupState::Stable);
        rig
    }

    #[test]
    fn a_restart_keeps_the_generation_and_the_assignment_and_fences_the_old_id() {
        let mut rig = two_static();
        let generation = rig.group.generation();
        let t = rig.join(named("two", "two-2"));
        let answer = rig.joined(t).clone();
        assert_eq!((answer.error, answer.generation), (None, generation));
        assert_eq!((&*answer.leader, &*answer.member_id), ("one-1", "two-2"));
        assert!(!answer.skip_assignment && answer.members.is_empty());
        let s = rig.sync("two-2", &[]);
        assert_eq!(&rig.synced(s).assignment[..], b"p1");
        assert_eq!(rig.heartbeat("one-1"), Ok(()), "others notice nothing");
        let old = rig.group.heartbeat("two-1", Some("two"), generation, rig.now);
        assert_eq!(old, Err(Refusal::FencedInstance));
        let commit = rig.group.check_commit("two-1", Some("two"), generation, rig.now);
        assert_eq!(commit, Err(Refusal::FencedInstance));
        let t = rig.join(Join {
            instance: Some(Arc::from("two")),
            ..known("two-1")
        });
        assert_eq!(rig.joined(t).error, Some(Refusal::FencedInstance));
    }

    #[test]
    fn a_restarted_leader_skips_the_assignment_from_version_9_on() {
        let mut rig = two_static();
        let t = rig.join(Join {
            can_skip_assignment: true,
            ..named("one", "one-2")
        });
        let answer = rig.joined(t);
        assert!(answer.skip_assignment);
        assert_eq!(&*answer.leader, "one-2");
        assert_eq!(answer.members.len(), 2);
        let s = rig.sync("one-2", &[]);
        assert_eq!(&rig.synced(s).assignment[..], b"p0");
    }

    #[test]
    fn a_restarted_leader_of_before_version_9_does_not_take_itself_for_the_leader() {
        let mut rig = two_static();
        let t = rig.join(named("one", "one-2"));
        assert_eq!(&*rig.joined(t).leader, "one-1");
        assert!(rig.joined(t).members.is_empty());
    }

    #[test]
    fn a_restart_with_other_topics_rebalances() {
        let mut rig = two_static();
        let generation = rig.group.generation();
        let t = rig.join(Join {
            protocols: vec![protocol("range", &["t", "u"])],
            ..named("two", "two-2")
        });
        assert!(!rig.joins.contains_key(&t));
        rig.join(Join {
            instance: Some(Arc::from("one")),
            ..known("one-1")
        });
        assert_eq!(rig.joined(t).generation, generation + 1);
        assert_eq!(rig.group.subscribed().map(BTreeSet::len), Some(2));
    }

    #[test]
    fn a_restart_while_the_assignment_is_awaited_rebalances() {
        let mut rig = Rig::new(limits());
        rig.join(named("one", "one-1"));
        let t = rig.join(named("one", "one-2"));
        assert_eq!(rig.joined(t).generation, 2);
        let s = rig.sync("one-1", &[]);
        assert_eq!(rig.synced(s).error, Some(Refusal::UnknownMember));
    }

    #[test]
    fn what_waits_under_the_old_id_is_fenced() {
        let mut rig = two_static();
        let waiting = rig.join(Join {
            instance: Some(Arc::from("one")),
            ..known("one-1")
        });
        rig.join(named("one", "one-2"));
        assert_eq!(rig.joined(waiting).error, Some(Refusal::FencedInstance));
    }

    #[test]
    fn they_stay_through_a_rebalance_they_miss_until_the_session_ends() {
        let mut rig = two_static();
        rig.join(fresh("c"));
        let one = rig.join(Join {
            instance: Some(Arc::from("one")),
            session_timeout: 1_000_000,
            ..known("one-1")
        });
        // Two is restarting and has a long session.
        rig.group.members.get_mut("two-1").unwrap().session_timeout = 1_000_000;
        rig.group.renew("two-1", rig.now);
        rig.advance(Millis::from(REBALANCE));
        assert_eq!(rig.joined(one).members.len(), 3, "two keeps its place");
    }

    #[test]
    fn an_administrator_removes_them_by_name() {
        let mut rig = two_static();
        assert_eq!(rig.leave("", Some("three")), Err(Refusal::UnknownMember));
        assert_eq!(rig.leave("", None), Err(Refusal::UnknownMember));
        assert_eq!(rig.leave("other", Some("two")), Err(Refusal::FencedInstance));
        assert_eq!(rig.leave("", Some("two")), Ok(()));
        assert_eq!(rig.group.size(), 1);
    }

    #[test]
    fn a_group_of_absent_static_members_waits_for_their_sessions() {
        let mut rig = two_static();
        rig.leave("two-1", Some("two")).unwrap();
        assert_eq!(rig.group.state(), GroupState::PreparingRebalance);
        let generation = rig.group.generation();
        rig.advance(5_000);
        let _ = rig.group.heartbeat("one-1", Some("one"), generation, rig.now);
        rig.advance(200_000);
        assert_eq!(rig.group.state(), GroupState::Empty);
    }
}
