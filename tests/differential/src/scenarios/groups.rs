//! Consumer groups of the classic protocol: joining, syncing, beating, leaving.

use super::requests::*;
use super::{Scenario, scenario};
use crate::session::Session;
use anyhow::Result;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::time::Duration;

pub const SCENARIOS: &[Scenario] = &[
    scenario("group_life", life),
    scenario("group_unknown", unknown),
    scenario("group_join", joins),
    scenario("group_two", two),
    scenario("group_protocols", protocols),
    scenario("group_static", statics),
    scenario("group_generations", generations),
    scenario("group_opaque", opaque),
];

/// Joins as a new member does from version 4 on: refused once, with the id to come back with.
fn enter(
    s: &mut Session,
    line: &str,
    step: &str,
    version: i16,
    request: &JoinGroupRequest,
) -> Result<JoinGroupResponse> {
    let answer = s.call_on(line, format!("{step}: join"), version, request)?;
    if answer.error_code != 79 {
        return Ok(answer);
    }
    s.call_on(
        line,
        format!("{step}: join with the id given"),
        version,
        &request.clone().with_member_id(answer.member_id),
    )
}

fn none() -> StrBytes {
    StrBytes::default()
}

/// One member's whole life, in every version.
fn life(s: &mut Session) -> Result<()> {
    for version in 0..=9 {
        let group = s.group(&format!("v{version}"));
        let (beats, syncs, leaves) = (version.min(4), version.min(5), version.min(5));
        let joined = enter(
            s,
            "main",
            &format!("v{version}"),
            version,
            &join(&group, &none(), b"subscription"),
        )?;
        let (member, generation) = (joined.member_id.clone(), joined.generation_id);
        s.call(
            format!("v{version} heartbeat before sync"),
            beats,
            &heartbeat(&group, &member, generation),
        )?;
        let describe = DescribeGroupsRequest::default().with_groups(vec![group.clone().into()]);
        s.call(format!("v{version} described before sync"), version.min(6), &describe)?;
        let request = for_version(sync(&group, &member, generation, &[(&member, b"assignment")]), syncs);
        s.call(format!("v{version} sync"), syncs, &request)?;
        s.call(format!("v{version} sync again"), syncs, &request)?;
        s.call(
            format!("v{version} heartbeat"),
            beats,
            &heartbeat(&group, &member, generation),
        )?;
        s.call(format!("v{version} described"), version.min(6), &describe)?;
        s.call(
            format!("v{version} joined again, the same"),
            version,
            &join(&group, &member, b"subscription"),
        )?;
        let rejoined = s.call(
            format!("v{version} joined again, changed"),
            version,
            &join(&group, &member, b"changed"),
        )?;
        let generation = rejoined.generation_id;
        let request = for_version(sync(&group, &member, generation, &[(&member, b"second")]), syncs);
        s.call(format!("v{version} sync after it"), syncs, &request)?;
        s.call(format!("v{version} described after it"), version.min(6), &describe)?;
        s.call(
            format!("v{version} heartbeat of an old generation"),
            beats,
            &heartbeat(&group, &member, generation - 1),
        )?;
        s.call(
            format!("v{version} heartbeat of a stranger"),
            beats,
            &heartbeat(&group, &text("stranger"), generation),
        )?;
        s.call(
            format!("v{version} leave of a stranger"),
            leaves,
            &leave(&group, &text("stranger"), leaves),
        )?;
        s.call(format!("v{version} leave"), leaves, &leave(&group, &member, leaves))?;
        s.call(
            format!("v{version} leave again"),
            leaves,
            &leave(&group, &member, leaves),
        )?;
        s.call(
            format!("v{version} heartbeat after leaving"),
            beats,
            &heartbeat(&group, &member, generation),
        )?;
        s.call(format!("v{version} described when empty"), version.min(6), &describe)?;
        let rejoin = join(&group, &member, b"subscription");
        s.call(format!("v{version} join with the old id"), version, &rejoin)?;
    }
    Ok(())
}

/// What is asked of a group that is not there.
fn unknown(s: &mut Session) -> Result<()> {
    let nobody = text("nobody");
    for (name, group) in [("an unknown group", s.group("nothing")), ("an empty group id", none())] {
        for version in 0..=9 {
            s.call(format!("join v{version} {name}"), version, &join(&group, &nobody, b"m"))?;
        }
        for version in 0..=4 {
            s.call(
                format!("heartbeat v{version} {name}"),
                version,
                &heartbeat(&group, &nobody, 1),
            )?;
        }
        for version in 0..=5 {
            let request = sync(&group, &nobody, 1, &[]);
            s.call(
                format!("sync v{version} {name}"),
                version,
                &for_version(request.clone(), version),
            )?;
            if version == 5 {
                let request = request.with_protocol_type(None);
                s.call(
                    format!("sync v{version} without a protocol type, {name}"),
                    version,
                    &request,
                )?;
            }
            s.call(
                format!("leave v{version} {name}"),
                version,
                &leave(&group, &nobody, version),
            )?;
        }
        for version in 3..=5 {
            let empty = LeaveGroupRequest::default().with_group_id(group.clone().into());
            s.call(format!("leave v{version} of nobody, {name}"), version, &empty)?;
        }
    }
    Ok(())
}

/// Joins that are refused.
fn joins(s: &mut Session) -> Result<()> {
    for version in [0, 1, 2, 4, 5, 7, 9] {
        let group = s.group(&format!("v{version}"));
        let good = join(&group, &none(), b"m");
        for (what, request) in [
            ("a session timeout too short", good.clone().with_session_timeout_ms(1)),
            ("a session timeout of zero", good.clone().with_session_timeout_ms(0)),
            ("a session timeout below zero", good.clone().with_session_timeout_ms(-1)),
            (
                "a session timeout too long",
                good.clone().with_session_timeout_ms(10_000_000),
            ),
            ("no protocols", join_with(&group, &none(), &[])),
            ("no protocol type", good.clone().with_protocol_type(none())),
            ("a stranger's id", join(&group, &text("stranger"), b"m")),
            ("no metadata", join_with(&group, &none(), &[("range", b"")])),
        ] {
            if what == "no metadata" {
                let joined = enter(s, "main", &format!("v{version} {what}"), version, &request)?;
                s.call(
                    format!("v{version} leave"),
                    version.min(5),
                    &leave(&group, &joined.member_id, version.min(5)),
                )?;
                continue;
            }
            s.call(format!("v{version} {what}"), version, &request)?;
        }
    }
    Ok(())
}

/// Two members: the first is told to rejoin, both share the next generation, one leaves again.
fn two(s: &mut Session) -> Result<()> {
    for version in 0..=9 {
        let group = s.group(&format!("v{version}"));
        let (beats, syncs, leaves) = (version.min(4), version.min(5), version.min(5));
        let first = enter(
            s,
            "first",
            &format!("v{version} first"),
            version,
            &join(&group, &none(), b"first"),
        )?;
        let (one, generation) = (first.member_id.clone(), first.generation_id);
        let request = for_version(sync(&group, &one, generation, &[(&one, b"all")]), syncs);
        s.call_on("first", format!("v{version} first syncs"), syncs, &request)?;
        // The second waits until the first has rejoined.
        let mut second = join(&group, &none(), b"second");
        if version >= 4 {
            let refused = s.call_on("second", format!("v{version} second asks"), version, &second)?;
            second = second.with_member_id(refused.member_id);
        }
        s.send_on("second", format!("v{version} second joins"), version, &second)?;
        let beat = heartbeat(&group, &one, generation);
        s.until("the first is told of the rebalance", |s| {
            Ok(s.quiet(0, &heartbeat(&group, &one, generation))?.error_code != 0)
        })?;
        s.call_on("first", format!("v{version} first hears of it"), beats, &beat)?;
        let stale = for_version(sync(&group, &one, generation, &[(&one, b"all")]), syncs);
        s.call_on(
            "first",
            format!("v{version} first syncs in the midst of it"),
            syncs,
            &stale,
        )?;
        let describe = DescribeGroupsRequest::default().with_groups(vec![group.clone().into()]);
        s.call_on(
            "third",
            format!("v{version} described in the midst of it"),
            version.min(6),
            &describe,
        )?;
        let topic = topic_name("d.d.group_two_none");
        let committing = commit(&group, &topic, &[])
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(one.clone());
        s.call_on(
            "first",
            format!("v{version} first commits in the midst of it"),
            version.clamp(2, 9),
            &committing,
        )?;
        let first = s.call_on(
            "first",
            format!("v{version} first rejoins"),
            version,
            &join(&group, &one, b"first"),
        )?;
        let second = s.receive_on::<JoinGroupRequest>("second")?;
        let (other, generation) = (second.member_id.clone(), first.generation_id);
        // Who does not lead waits for the leader's assignment.
        let request = for_version(sync(&group, &other, generation, &[]), syncs);
        s.send_on("second", format!("v{version} second syncs"), syncs, &request)?;
        s.call_on(
            "third",
            format!("v{version} first beats while syncing"),
            beats,
            &heartbeat(&group, &one, generation),
        )?;
        let request = for_version(
            sync(&group, &one, generation, &[(&one, b"half"), (&other, b"rest")]),
            syncs,
        );
        s.call_on("first", format!("v{version} first syncs for both"), syncs, &request)?;
        s.receive_on::<SyncGroupRequest>("second")?;
        s.call_on(
            "third",
            format!("v{version} described when stable"),
            version.min(6),
            &describe,
        )?;
        s.call_on(
            "first",
            format!("v{version} first beats"),
            beats,
            &heartbeat(&group, &one, generation),
        )?;
        s.call_on(
            "second",
            format!("v{version} second beats"),
            beats,
            &heartbeat(&group, &other, generation),
        )?;
        // The leader leaves; the other is told.
        s.call_on(
            "first",
            format!("v{version} first leaves"),
            leaves,
            &leave(&group, &one, leaves),
        )?;
        s.call_on(
            "second",
            format!("v{version} second hears of it"),
            beats,
            &heartbeat(&group, &other, generation),
        )?;
        let alone = s.call_on(
            "second",
            format!("v{version} second rejoins"),
            version,
            &join(&group, &other, b"second"),
        )?;
        let request = for_version(
            sync(&group, &other, alone.generation_id, &[(&other, b"all again")]),
            syncs,
        );
        s.call_on("second", format!("v{version} second syncs alone"), syncs, &request)?;
        s.call_on(
            "second",
            format!("v{version} second leaves"),
            leaves,
            &leave(&group, &other, leaves),
        )?;
        s.call_on(
            "third",
            format!("v{version} described when empty"),
            version.min(6),
            &describe,
        )?;
    }
    Ok(())
}

/// Which protocol is chosen, and what becomes of metadata.
fn protocols(s: &mut Session) -> Result<()> {
    for version in [1, 5, 9] {
        let group = s.group(&format!("v{version}"));
        let syncs = version.min(5);
        let everything: Vec<u8> = (0..=255).collect();
        let [sticky, range, robin, prefers] =
            [&everything[..], b"r", b"rr", b"second"].map(|user_data| subscription(&[], user_data));
        let cooperative: &[(&str, &[u8])] = &[
            ("cooperative-sticky", &sticky),
            ("range", &range),
            ("roundrobin", &robin),
        ];
        let first = enter(
            s,
            "first",
            &format!("v{version} first"),
            version,
            &join_with(&group, &none(), cooperative),
        )?;
        let one = first.member_id.clone();
        let named =
            |request: SyncGroupRequest, name: &str| for_version(request.with_protocol_name(Some(text(name))), syncs);
        let request = sync(&group, &one, first.generation_id, &[(&one, &everything)]);
        s.call_on(
            "first",
            format!("v{version} sync of another protocol"),
            syncs,
            &named(request.clone(), "roundrobin"),
        )?;
        s.call_on("first", format!("v{version} sync of another type"), syncs, &{
            for_version(request.clone().with_protocol_type(Some(text("connect"))), syncs)
        })?;
        s.call_on(
            "first",
            format!("v{version} sync"),
            syncs,
            &named(request, "cooperative-sticky"),
        )?;
        // A stranger to all of the group's protocols is refused, and one of another type.
        let stranger = join_with(&group, &none(), &[("mine", &range)]);
        s.call_on(
            "second",
            format!("v{version} no protocol in common"),
            version,
            &stranger,
        )?;
        let other = join(&group, &none(), b"x").with_protocol_type(text("connect"));
        s.call_on("second", format!("v{version} another protocol type"), version, &other)?;
        // The second prefers range and does not know the first's favourite.
        let mut second = join_with(&group, &none(), &[("range", &prefers), ("roundrobin", &robin)]);
        if version >= 4 {
            let refused = s.call_on("second", format!("v{version} second asks"), version, &second)?;
            second = second.with_member_id(refused.member_id);
        }
        s.send_on("second", format!("v{version} second joins"), version, &second)?;
        let generation = first.generation_id;
        s.until("the first is told of the rebalance", |s| {
            Ok(s.quiet(0, &heartbeat(&group, &one, generation))?.error_code != 0)
        })?;
        let first = s.call_on(
            "first",
            format!("v{version} first rejoins"),
            version,
            &join_with(&group, &one, cooperative),
        )?;
        let second = s.receive_on::<JoinGroupRequest>("second")?;
        let other = second.member_id.clone();
        let request = sync(&group, &one, first.generation_id, &[(&one, b"a")]);
        s.call_on(
            "first",
            format!("v{version} first syncs, the second forgotten"),
            syncs,
            &named(request, "range"),
        )?;
        let request = sync(&group, &other, first.generation_id, &[]);
        s.call_on(
            "second",
            format!("v{version} second syncs"),
            syncs,
            &named(request, "range"),
        )?;
        let describe = DescribeGroupsRequest::default().with_groups(vec![group.clone().into()]);
        s.call_on("third", format!("v{version} described"), version.min(6), &describe)?;
        for (line, member) in [("first", one), ("second", other)] {
            s.call_on(
                line,
                format!("v{version} {line} leaves"),
                syncs,
                &leave(&group, &member, syncs),
            )?;
        }
    }
    Ok(())
}

/// Members with an instance id keep their place when they come back.
fn statics(s: &mut Session) -> Result<()> {
    for version in 5..=9 {
        let group = s.group(&format!("v{version}"));
        let syncs = version.min(5);
        let beats = version.min(4);
        let instance = Some(text("instance-a"));
        let joining = join(&group, &none(), b"subscription").with_group_instance_id(instance.clone());
        let first = enter(s, "first", &format!("v{version} first"), version, &joining)?;
        let one = first.member_id.clone();
        let generation = first.generation_id;
        let request = sync(&group, &one, generation, &[(&one, b"all")]).with_group_instance_id(instance.clone());
        s.call_on(
            "first",
            format!("v{version} sync"),
            syncs,
            &for_version(request.clone(), syncs),
        )?;
        let beat = heartbeat(&group, &one, generation);
        s.call_on("first", format!("v{version} beat with the instance"), beats, &{
            beat.clone().with_group_instance_id(instance.clone())
        })?;
        s.call_on("first", format!("v{version} beat without it"), beats, &beat)?;
        s.call_on("first", format!("v{version} beat of an unknown instance"), beats, &{
            beat.clone().with_group_instance_id(Some(text("instance-x")))
        })?;
        let describe = DescribeGroupsRequest::default().with_groups(vec![group.clone().into()]);
        s.call_on("first", format!("v{version} described"), version.min(6), &describe)?;
        // It restarts: no member id, the same subscription. The generation stays and the old member id is fenced.
        let back = s.call_on("second", format!("v{version} back after a restart"), version, &joining)?;
        let other = back.member_id.clone();
        s.call_on(
            "second",
            format!("v{version} described after it"),
            version.min(6),
            &describe,
        )?;
        s.call_on("first", format!("v{version} the old id beats"), beats, &{
            beat.clone().with_group_instance_id(instance.clone())
        })?;
        s.call_on(
            "first",
            format!("v{version} the old id beats without its instance"),
            beats,
            &beat,
        )?;
        s.call_on(
            "first",
            format!("v{version} the old id syncs"),
            syncs,
            &for_version(request, syncs),
        )?;
        s.call_on(
            "first",
            format!("v{version} the old id joins"),
            version,
            &joining.clone().with_member_id(one.clone()),
        )?;
        let topic = topic_name("d.d.group_static_none");
        let committing = commit(&group, &topic, &[])
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(one.clone())
            .with_group_instance_id(if version >= 7 { instance.clone() } else { None });
        s.call_on("first", format!("v{version} the old id commits"), version, &committing)?;
        let request =
            sync(&group, &other, back.generation_id, &[(&other, b"all")]).with_group_instance_id(instance.clone());
        s.call_on(
            "second",
            format!("v{version} the new id syncs"),
            syncs,
            &for_version(request, syncs),
        )?;
        let beat = heartbeat(&group, &other, back.generation_id).with_group_instance_id(instance.clone());
        s.call_on("second", format!("v{version} the new id beats"), beats, &beat)?;
        // Another restart, the subscription changed: a new generation.
        let changed = join(&group, &none(), b"changed").with_group_instance_id(instance.clone());
        let again = s.call_on(
            "second",
            format!("v{version} back with another subscription"),
            version,
            &changed,
        )?;
        let latest = again.member_id.clone();
        let request =
            sync(&group, &latest, again.generation_id, &[(&latest, b"new")]).with_group_instance_id(instance.clone());
        s.call_on(
            "second",
            format!("v{version} it syncs"),
            syncs,
            &for_version(request, syncs),
        )?;
        s.call_on(
            "second",
            format!("v{version} described in the end"),
            version.min(6),
            &describe,
        )?;
        // An administrator removes it by its instance.
        let members = |members: &[(&str, Option<&str>)]| {
            let members = members
                .iter()
                .map(|(member, instance)| {
                    MemberIdentity::default()
                        .with_member_id(text(member))
                        .with_group_instance_id(instance.map(text))
                })
                .collect();
            LeaveGroupRequest::default()
                .with_group_id(group.clone().into())
                .with_members(members)
        };
        for (what, request) in [
            ("an unknown instance removed", members(&[("", Some("instance-x"))])),
            (
                "the instance with an old id removed",
                members(&[(&one, Some("instance-a"))]),
            ),
            (
                "an unknown and the instance removed",
                members(&[("stranger", None), ("", Some("instance-a"))]),
            ),
            ("the instance removed again", members(&[("", Some("instance-a"))])),
        ] {
            s.call_on("first", format!("v{version} {what}"), syncs.max(3), &request)?;
        }
        s.call_on(
            "second",
            format!("v{version} described when removed"),
            version.min(6),
            &describe,
        )?;
        s.call_on("second", format!("v{version} it beats when removed"), beats, &{
            heartbeat(&group, &latest, again.generation_id).with_group_instance_id(instance.clone())
        })?;
        let unknown = join(&group, &text("stranger"), b"m").with_group_instance_id(Some(text("instance-y")));
        s.call_on(
            "second",
            format!("v{version} an unknown id with an unknown instance"),
            version,
            &unknown,
        )?;
        let empty = join(&group, &none(), b"m").with_group_instance_id(Some(none()));
        s.call_on("second", format!("v{version} an empty instance"), version, &empty)?;
    }
    Ok(())
}

/// Requests of a wrong generation in a live group.
fn generations(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 1)?;
    let group = s.group("g");
    let joined = enter(s, "main", "member", 5, &join(&group, &none(), b"m"))?;
    let (member, generation) = (joined.member_id.clone(), joined.generation_id);
    let request = sync(&group, &member, generation, &[(&member, b"a")]);
    s.call("sync", 5, &request)?;
    for (what, member, generation) in [
        ("right", member.clone(), generation),
        ("a generation too low", member.clone(), generation - 1),
        ("a generation too high", member.clone(), generation + 1),
        ("generation -1", member.clone(), -1),
        ("generation 0", member.clone(), 0),
        ("no member", none(), generation),
        ("no member, generation -1", none(), -1),
        ("a stranger", text("stranger"), generation),
        ("a stranger, a generation too low", text("stranger"), generation - 1),
    ] {
        for version in 0..=4 {
            s.call(
                format!("heartbeat v{version}, {what}"),
                version,
                &heartbeat(&group, &member, generation),
            )?;
        }
        for version in 0..=5 {
            let request = for_version(sync(&group, &member, generation, &[]), version);
            s.call(format!("sync v{version}, {what}"), version, &request)?;
        }
        for version in 2..=9 {
            let request = commit(&group, &topic, &[(0, 5)])
                .with_generation_id_or_member_epoch(generation)
                .with_member_id(member.clone());
            s.call(format!("commit v{version}, {what}"), version, &request)?;
        }
    }
    s.call("leave", 3, &leave(&group, &member, 3))?;
    for (what, member, generation) in [
        ("the member that left", member.clone(), generation),
        ("the member that left, generation -1", member, -1),
        ("nobody, the old generation", none(), generation),
        ("nobody, generation -1", none(), -1),
        ("nobody, generation 0", none(), 0),
    ] {
        for version in 2..=9 {
            let request = commit(&group, &topic, &[(0, 6)])
                .with_generation_id_or_member_epoch(generation)
                .with_member_id(member.clone());
            s.call(
                format!("commit v{version} to an empty group, {what}"),
                version,
                &request,
            )?;
        }
    }
    Ok(())
}

/// Metadata is the members' own affair. Kafka reads it all the same, and where it makes no sense the join is never
/// answered.
fn opaque(s: &mut Session) -> Result<()> {
    s.patience(Duration::from_secs(3));
    for (what, metadata) in [
        ("letters", &b"opaque to the coordinator"[..]),
        ("a count too great", b"\0\x01\x7f\xff\xff\xff"),
        ("one byte", b"\0"),
    ] {
        let group = s.group(&what.replace(' ', "_"));
        let joined = enter(s, "main", what, 5, &join_with(&group, &none(), &[("range", metadata)]))?;
        s.call(format!("{what}: leave"), 3, &leave(&group, &joined.member_id, 3))?;
        let group = s.group(&format!("connect_{}", what.replace(' ', "_")));
        let request = join_with(&group, &none(), &[("sessioned", metadata)]).with_protocol_type(text("connect"));
        let joined = enter(s, "main", &format!("{what}, of type connect"), 5, &request)?;
        s.call(
            format!("{what}, of type connect: leave"),
            3,
            &leave(&group, &joined.member_id, 3),
        )?;
    }
    Ok(())
}
