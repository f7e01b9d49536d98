//! Rights that change while connections are open and requests wait.

use super::*;

/// They were answered as if nothing had happened.
#[test]
fn a_join_and_a_sync_that_wait_are_judged_again_when_they_are_answered() {
    let mut node = Node::start();
    node.own("USE NAMESPACE bank DATABASE accounts; GRANT read ON accounts TO reader");
    let (mut owner, mut reader) = (node.wire(Owner), node.wire(Reader));
    let rights = |node: &Node, how: &str| {
        node.own(&format!("USE NAMESPACE shop DATABASE orders; {how} reader"));
    };
    let asked = join_request("parked", TOPIC, "");
    let first: JoinGroupResponse = owner.call(ApiKey::JoinGroup, 3, &asked);
    assert_eq!(first.error_code, 0);
    let heartbeat = |owner: &mut Wire, generation: i32| -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group("parked"))
            .with_member_id(first.member_id.clone())
            .with_generation_id(generation);
        let answer: HeartbeatResponse = owner.call(ApiKey::Heartbeat, 3, &request);
        answer.error_code
    };
    let again = join_request("parked", TOPIC, &first.member_id);

    // The reader's join waits for the owner's.
    let waits = reader.send(ApiKey::JoinGroup, 3, &asked);
    let start = std::time::Instant::now();
    while heartbeat(&mut owner, first.generation_id) != 27 {
        assert!(start.elapsed() < crate::process::PATIENCE);
    }
    rights(&node, "REVOKE read ON orders FROM");
    let second: JoinGroupResponse = owner.call(ApiKey::JoinGroup, 3, &again);
    assert_eq!((second.error_code, second.members.len()), (0, 2));
    let refused: JoinGroupResponse = reader.receive(ApiKey::JoinGroup, 3, waits);
    assert_eq!((refused.error_code, refused.members.len()), (30, 0));

    // Its sync waits for the leader's.
    rights(&node, "GRANT read ON orders TO");
    let member = second.members.iter().find(|m| m.member_id != first.member_id);
    let member = member.expect("the reader").member_id.clone();
    let sync = |member: &StrBytes, assigned: &[&StrBytes]| {
        let assigned = assigned.iter().map(|member| {
            sync_group_request::SyncGroupRequestAssignment::default()
                .with_member_id((*member).clone())
                .with_assignment(Bytes::from_static(b"share"))
        });
        SyncGroupRequest::default()
            .with_group_id(group("parked"))
            .with_member_id(member.clone())
            .with_generation_id(second.generation_id)
            .with_assignments(assigned.collect())
    };
    let waits = reader.send(ApiKey::SyncGroup, 3, &sync(&member, &[]));
    rights(&node, "REVOKE read ON orders FROM");
    let leads: SyncGroupResponse = owner.call(
        ApiKey::SyncGroup,
        3,
        &sync(&first.member_id, &[&member, &first.member_id]),
    );
    assert_eq!((leads.error_code, &leads.assignment[..]), (0, &b"share"[..]));
    let refused: SyncGroupResponse = reader.receive(ApiKey::SyncGroup, 3, waits);
    assert_eq!((refused.error_code, refused.assignment.len()), (30, 0));
}

/// A fetch that begins a session, or goes on with it.
fn in_session(wire: &mut Wire, session: i32, epoch: i32, with_topic: bool) -> FetchResponse {
    let mut request = fetch_request(TOPIC, Uuid::nil(), 0, 0)
        .with_session_id(session)
        .with_session_epoch(epoch);
    if !with_topic {
        request.topics.clear();
    }
    wire.call(ApiKey::Fetch, 12, &request)
}

#[test]
fn a_right_that_is_lost_counts_from_the_next_request_on() {
    let mut node = Node::start();
    node.own("USE NAMESPACE shop DATABASE orders; GRANT read, write ON orders TO revoked");
    let mut wire = node.wire(Revoked);
    assert_eq!(produce(&mut wire, TOPIC), 0);
    let begun = in_session(&mut wire, 0, 0, true);
    let session = begun.session_id;
    assert_ne!(session, 0);
    assert_eq!(begun.responses[0].partitions[0].error_code, 0);

    node.own("USE NAMESPACE shop DATABASE orders; REVOKE write ON orders FROM revoked");
    assert_eq!(produce(&mut wire, TOPIC), 29);
    assert_eq!(fetch(&mut wire, TOPIC), 0);
    node.own("USE NAMESPACE shop DATABASE orders; REVOKE read ON orders FROM revoked");
    // The session still has the topic.
    let refused = in_session(&mut wire, session, 1, false);
    assert_eq!(refused.responses[0].partitions[0].error_code, 29);
    assert!(
        refused.responses[0].partitions[0]
            .records
            .as_ref()
            .is_none_or(Bytes::is_empty)
    );

    node.own("USE NAMESPACE shop DATABASE orders; GRANT read ON orders TO revoked");
    assert_eq!(
        in_session(&mut wire, session, 2, false).responses[0].partitions[0].error_code,
        0
    );
}

#[test]
fn a_fetch_that_waits_ends_with_the_right_to_it() {
    let mut node = Node::start();
    let mut owner = node.wire(Owner);
    node.own("USE NAMESPACE shop DATABASE orders; GRANT read ON orders TO revoked");
    let mut wire = node.wire(Revoked);
    // Far longer than the test may take: only the lost right ends it.
    let waiting = wire.send(ApiKey::Fetch, 12, &fetch_request(TOPIC, Uuid::nil(), 0, 600_000));
    node.own("USE NAMESPACE shop DATABASE orders; REVOKE read ON orders FROM revoked");
    assert_eq!(produce(&mut owner, TOPIC), 0);
    let answer: FetchResponse = wire.receive(ApiKey::Fetch, 12, waiting);
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 29);
    assert!(partition.records.as_ref().is_none_or(Bytes::is_empty));
}

#[test]
fn dropping_a_user_or_changing_its_password_ends_its_connections() {
    let mut node = Node::start();
    for change in ["DROP USER reader", "ALTER USER editor SET PASSWORD 'another one'"] {
        let caller = if change.contains("reader") { Reader } else { Editor };
        let mut idle = node.wire(caller);
        let mut waiting = node.wire(caller);
        waiting.send(ApiKey::Fetch, 12, &fetch_request(TOPIC, Uuid::nil(), 0, 600_000));
        let mut other = node.wire(Viewer);
        node.own(change);
        assert!(waiting.is_closed(), "{change}");
        assert!(idle.is_closed(), "{change}");
        assert_eq!(list_offsets(&mut other, TOPIC), 0, "{change}: others stay");
        let mut again = Wire::connect(node.process.kafka);
        assert_eq!(again.sign_in(caller.name(), PASSWORD).error_code, 58);
        assert!(again.is_closed());
    }
    let mut editor = Wire::signed_in(node.process.kafka, "editor", "another one");
    assert_eq!(list_offsets(&mut editor, TOPIC), 0);
}

#[test]
fn the_first_user_closes_connections_that_nobody_signed_in_on() {
    let process = Process::with_database();
    process.script("USE NAMESPACE shop DATABASE orders; DEFINE TOPIC orders");
    let mut unsigned = Wire::connect(process.kafka);
    // An open store takes whoever signs in; nobody is who they say.
    let mut signed = Wire::signed_in(process.kafka, "anyone", "anything");
    for wire in [&mut unsigned, &mut signed] {
        assert_eq!(produce(wire, TOPIC), 0);
    }
    process.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{PASSWORD}'"));
    assert_eq!(produce(&mut unsigned, TOPIC), CLOSED);
    assert_eq!(produce(&mut signed, TOPIC), CLOSED);
    let mut owner = Wire::signed_in(process.kafka, "owner", PASSWORD);
    assert_eq!(produce(&mut owner, TOPIC), 0);
}

#[test]
fn a_refusal_leaves_a_line_for_the_audit() {
    let mut node = Node::start();
    let mut tenant = node.wire(Tenant);
    for _ in 0..3 {
        assert_eq!(fetch(&mut tenant, TOPIC), 29);
    }
    let log = node.process.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("audit") && line.contains("Fetch") && line.contains("tenant"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains(TOPIC), "{}", lines[0]);
}
