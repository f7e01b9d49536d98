use super::*;
use crate::catalog::{Acknowledge, Command, MemberCommand, ReplicaChange, ReplicaSpec, Roles};
use proptest::prelude::*;

fn name(node: u128) -> String {
    format!("m{node}")
}

fn member(command: MemberCommand) -> Command {
    Command::Member(command)
}

/// Members 1 to `count`, all joined.
fn store(count: u128) -> State {
    let mut state = State::default();
    state.apply(Command::JoinNode { node: NodeId(1) }).unwrap();
    (1..=count).for_each(|node| join(&mut state, node));
    state
}

fn join(state: &mut State, node: u128) {
    let spec = ReplicaSpec {
        name: name(node),
        at: format!("m{node}:1"),
        clients_at: None,
        http_at: None,
        kafka_at: None,
        node: Some(NodeId(node)),
        roles: None,
    };
    let define = MemberCommand::Define {
        spec,
        if_not_exists: true,
    };
    state.apply(member(define)).unwrap();
    let joined = MemberCommand::Joined { node: NodeId(node) };
    state.apply(member(joined)).unwrap();
}

fn alter(state: &mut State, node: u128, change: ReplicaChange) {
    let name = name(node);
    state.apply(member(MemberCommand::Alter { name, change })).unwrap();
}

fn namespace(state: &mut State, name: &str, replication: Option<u8>) {
    let define = Command::DefineNamespace {
        name: name.into(),
        if_not_exists: false,
        replication,
        acknowledge: Acknowledge::Majority,
    };
    state.apply(define).unwrap();
}

fn nodes(nodes: impl IntoIterator<Item = u128>) -> BTreeSet<NodeId> {
    nodes.into_iter().map(NodeId).collect()
}

/// Places, and answers how many replicas and leaders moved.
fn place(state: &mut State, live: &BTreeSet<NodeId>) -> (usize, usize) {
    let (mut replicas, mut leaders) = (0, 0);
    for wanted in placement(state, live) {
        let row = state.range(wanted.range).unwrap().clone();
        replicas += wanted.voters.iter().filter(|n| !row.voters.contains(n)).count();
        leaders += usize::from(row.leader != wanted.leader);
        let (range, voters, leader) = (wanted.range, wanted.voters, wanted.leader);
        state
            .apply(member(MemberCommand::Place { range, voters, leader }))
            .unwrap();
    }
    (replicas, leaders)
}

fn held(state: &State) -> BTreeMap<u128, usize> {
    let mut held = BTreeMap::new();
    let voters = state.ranges().flat_map(|row| row.voters.clone());
    voters.for_each(|node| *held.entry(node.0).or_default() += 1);
    held
}

fn led(state: &State) -> BTreeMap<u128, usize> {
    let mut led = BTreeMap::new();
    let leaders = state.ranges().filter_map(|row| row.leader);
    leaders.for_each(|node| *led.entry(node.0).or_default() += 1);
    led
}

#[test]
fn a_store_of_one_leads_all_itself() {
    let mut state = store(1);
    namespace(&mut state, "n", None);
    place(&mut state, &nodes([1]));
    assert_eq!((held(&state), led(&state)), ([(1, 2)].into(), [(1, 2)].into()));
}

#[test]
fn ranges_spread_as_members_join() {
    let mut state = store(1);
    namespace(&mut state, "n", None);
    place(&mut state, &nodes([1]));
    join(&mut state, 2);
    join(&mut state, 3);
    assert_eq!(place(&mut state, &nodes([1, 2, 3])), (4, 1));
    assert_eq!(held(&state), [(1, 2), (2, 2), (3, 2)].into());
    assert_eq!(led(&state).values().max(), Some(&1));
}

#[test]
fn a_silent_member_keeps_what_it_has() {
    let mut state = store(3);
    namespace(&mut state, "n", Some(2));
    place(&mut state, &nodes([1, 2, 3]));
    let before = state.clone();
    place(&mut state, &nodes([1, 2]));
    let rows = |state: &State| state.ranges().cloned().collect::<Vec<_>>();
    assert_eq!(rows(&state), rows(&before));
}

#[test]
fn a_dropped_member_is_replaced_by_a_living_one() {
    let mut state = store(4);
    namespace(&mut state, "n", Some(3));
    place(&mut state, &nodes([1, 2, 3, 4]));
    state.apply(member(MemberCommand::Drop { name: name(2) })).unwrap();
    place(&mut state, &nodes([1, 3, 4]));
    assert!(
        state
            .ranges()
            .all(|row| row.voters == [NodeId(1), NodeId(3), NodeId(4)])
    );
    assert!(led(&state).keys().all(|node| *node != 2));
}

#[test]
fn who_no_longer_coordinates_holds_and_does_not_lead() {
    let mut state = store(3);
    namespace(&mut state, "n", None);
    place(&mut state, &nodes([1, 2, 3]));
    let roles = Roles {
        coordinating: false,
        ..Roles::ALL
    };
    alter(&mut state, 3, ReplicaChange::Roles(roles));
    assert_eq!(place(&mut state, &nodes([1, 2, 3])), (0, 2));
    assert_eq!(led(&state), [(1, 3), (2, 3)].into());
    assert_eq!(held(&state)[&3], 6);
}

#[test]
fn leads_says_how_many_a_member_leads() {
    let mut state = store(3);
    namespace(&mut state, "n", None);
    alter(&mut state, 1, ReplicaChange::Leads(Some(0)));
    alter(&mut state, 2, ReplicaChange::Leads(Some(5)));
    place(&mut state, &nodes([1, 2, 3]));
    assert_eq!(led(&state), [(2, 5), (3, 1)].into());
    alter(&mut state, 2, ReplicaChange::Leads(None));
    place(&mut state, &nodes([1, 2, 3]));
    assert_eq!(led(&state), [(2, 3), (3, 3)].into());
}

#[test]
fn a_range_is_left_with_those_it_has_where_nobody_could_take_it() {
    let mut state = store(2);
    namespace(&mut state, "n", Some(1));
    place(&mut state, &nodes([1, 2]));
    state.apply(member(MemberCommand::Drop { name: name(2) })).unwrap();
    let before = held(&state);
    place(&mut state, &nodes([]));
    assert_eq!(held(&state), before);
    place(&mut state, &nodes([1]));
    assert_eq!(held(&state), [(1, 4)].into());
}

#[derive(Clone, Debug)]
enum Step {
    Join,
    Drop(u128),
    Roles(u128, bool, bool),
    Leads(u128, Option<u32>),
    Silent(u128),
    Heard(u128),
    Factor(usize, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let node = 1..9u128;
    prop_oneof![
        2 => Just(Step::Join),
        1 => node.clone().prop_map(Step::Drop),
        1 => (node.clone(), any::<bool>(), any::<bool>()).prop_map(|(n, s, c)| Step::Roles(n, s, c)),
        1 => (node.clone(), proptest::option::of(0..4u32)).prop_map(|(n, l)| Step::Leads(n, l)),
        1 => node.clone().prop_map(Step::Silent),
        2 => node.prop_map(Step::Heard),
        1 => (0..3usize, proptest::option::of(1..6u8)).prop_map(|(n, f)| Step::Factor(n, f)),
    ]
}

fn take(state: &mut State, live: &mut BTreeSet<NodeId>, joined: &mut u128, step: Step) {
    // What cannot be is refused, and changes nothing.
    match step {
        Step::Join if *joined < 8 => {
            *joined += 1;
            join(state, *joined);
            live.insert(NodeId(*joined));
        }
        Step::Join => {}
        Step::Drop(node) => drop(state.apply(member(MemberCommand::Drop { name: name(node) }))),
        Step::Roles(node, serving, coordinating) => {
            let roles = Roles {
                serving,
                writable: true,
                coordinating,
            };
            drop(state.apply(member(MemberCommand::NodeRoles {
                node: NodeId(node),
                roles,
            })));
        }
        Step::Leads(node, leads) => drop(state.apply(member(MemberCommand::Alter {
            name: name(node),
            change: ReplicaChange::Leads(leads),
        }))),
        Step::Silent(node) => drop(live.remove(&NodeId(node))),
        Step::Heard(node) => drop(live.insert(NodeId(node))),
        Step::Factor(number, replication) => drop(state.apply(Command::AlterNamespace {
            name: format!("n{number}"),
            replication: Some(replication),
            acknowledge: None,
        })),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happens_ranges_are_held_as_they_should(steps in proptest::collection::vec(step(), 1..30)) {
        let mut state = store(1);
        let mut live = nodes([1]);
        let mut joined = 1;
        for (number, replication) in [None, Some(3), Some(1)].into_iter().enumerate() {
            namespace(&mut state, &format!("n{number}"), replication);
        }
        for step in steps {
            take(&mut state, &mut live, &mut joined, step);
            let before = state.clone();
            place(&mut state, &live);
            let again = state.clone();
            prop_assert_eq!(place(&mut state, &live), (0, 0), "a second look moves nothing");
            prop_assert_eq!(state.ranges().collect::<Vec<_>>(), again.ranges().collect::<Vec<_>>());
            check(&before, &state, &live)?;
        }
    }
}

fn check(before: &State, after: &State, live: &BTreeSet<NodeId>) -> Result<(), TestCaseError> {
    let wanted = after.replicas_wanted();
    let holders: BTreeSet<NodeId> = after
        .members()
        .filter(|m| m.holds_data())
        .filter_map(|m| m.node)
        .collect();
    let takers = holders.intersection(live).count();
    for row in after.ranges() {
        let old = before.range(row.id).unwrap();
        let voters: BTreeSet<NodeId> = row.voters.iter().copied().collect();
        prop_assert!(!voters.is_empty());
        for new in voters.iter().filter(|n| !old.voters.contains(n)) {
            prop_assert!(live.contains(new) && holders.contains(new), "a new voter lives");
        }
        if voters.iter().any(|n| holders.contains(n)) {
            prop_assert!(voters.iter().all(|n| holders.contains(n)), "who leaves holds nothing");
            prop_assert!(voters.len() <= wanted[&row.id]);
            prop_assert!(voters.len() >= wanted[&row.id].min(takers), "as many as can be had");
        }
        let may_lead = |n: &NodeId| after.member(*n).is_some_and(|m| m.coordinates());
        match row.leader {
            Some(leader) => prop_assert!(voters.contains(&leader) && may_lead(&leader)),
            None => prop_assert!(!voters.iter().any(may_lead)),
        }
    }
    // Even, as far as replicas could be moved.
    let held = held(after);
    let count = |node: &NodeId| held.get(&node.0).copied().unwrap_or(0);
    for to in holders.iter().filter(|n| live.contains(n)) {
        for row in after.ranges().filter(|row| !row.voters.contains(to)) {
            for from in row.voters.iter().filter(|n| holders.contains(n)) {
                prop_assert!(count(from) <= count(to) + 1, "{from} holds more than {to}");
            }
        }
    }
    Ok(())
}
