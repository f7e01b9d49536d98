//! What one sees of topics, groups and grants, and what not.

use super::*;

/// A way to ask about a topic by its name.
type AskByName = (&'static str, fn(&mut Wire, &str) -> i16);

#[test]
fn to_other_tenants_a_topic_that_is_there_looks_like_one_that_is_not() {
    let mut node = Node::start();
    let ways: &[AskByName] = &[
        ("Produce", produce),
        ("Fetch", fetch),
        ("ListOffsets", list_offsets),
        ("Metadata", |w, n| metadata(w, Some(n), Uuid::nil())),
        ("OffsetForLeaderEpoch", epoch_end),
        ("OffsetCommit", |w, n| offset_commit(w, "g", n)),
        ("OffsetFetch", |w, n| offset_fetch(w, "g", n)),
        ("CreateTopics", create_topic),
        ("DeleteTopics", |w, n| delete_topic(w, Some(n), Uuid::nil())),
        ("DeleteRecords", delete_records),
        ("CreatePartitions", create_partitions),
        ("DescribeConfigs", |w, n| describe_configs(w, OF_TOPIC, n)),
        ("AlterConfigs", |w, n| alter_configs(w, OF_TOPIC, n)),
        ("IncrementalAlterConfigs", |w, n| {
            incremental_alter_configs(w, OF_TOPIC, n)
        }),
    ];
    for caller in [Tenant, Reader, Writer, Revoked] {
        let mut wire = node.wire(caller);
        for (what, ask) in ways {
            let there = ask(&mut wire, "shop.orders.gone_viewer");
            for missing in ["shop.orders.missing", "shop.missing.missing", "missing.orders.orders"] {
                assert_eq!(ask(&mut wire, missing), there, "{what} of {missing} by {caller:?}");
            }
            assert!(matches!(there, 29 | 30), "{what} by {caller:?}: {there}");
            // What no topic can be called is told to everybody.
            let told = ask(&mut wire, "no-name");
            let plain = matches!(*what, "OffsetCommit" | "OffsetFetch") && told != 17;
            assert!(plain || told == 17, "{what} of a bad name by {caller:?}: {told}");
        }
    }
    // Those who may read all there is are told what is not.
    let mut viewer = node.wire(Viewer);
    assert_eq!(list_offsets(&mut viewer, "shop.orders.missing"), 3);
    assert_eq!(list_offsets(&mut viewer, "shop.missing.missing"), 3);
    assert_eq!(list_offsets(&mut viewer, "missing.orders.orders"), 29);
}

#[test]
fn all_topics_groups_and_offsets_are_those_that_one_may_see() {
    let mut node = Node::start();
    let names = |wire: &mut Wire| -> Vec<String> {
        let request = MetadataRequest::default().with_topics(None);
        let answer: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
        let named = answer.topics.iter().filter_map(|t| t.name.as_ref());
        named.map(|n| n.to_string()).filter(|n| !n.contains("gone_")).collect()
    };
    let groups = |wire: &mut Wire| -> Vec<String> {
        let answer: ListGroupsResponse = wire.call(ApiKey::ListGroups, 4, &ListGroupsRequest::default());
        let mut groups: Vec<String> = answer.groups.iter().map(|g| g.group_id.to_string()).collect();
        groups.sort_unstable();
        groups
    };
    let offsets = |wire: &mut Wire, of: &str| -> (i16, Vec<String>) {
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(group(of))
            .with_topics(None);
        let request = OffsetFetchRequest::default().with_groups(vec![asked]);
        let answer: OffsetFetchResponse = wire.call(ApiKey::OffsetFetch, 8, &request);
        let topics = answer.groups[0].topics.iter().map(|t| t.name.to_string());
        (answer.groups[0].error_code, topics.collect())
    };
    let mut owner = node.wire(Owner);
    for topic in [TOPIC, "shop.orders.kept"] {
        assert_eq!(offset_commit(&mut owner, "shop_group", topic), 0);
    }
    assert_eq!(offset_commit(&mut owner, "bank_group", "bank.accounts.accounts"), 0);
    let (orders, kept, accounts) = (TOPIC, "shop.orders.kept", "bank.accounts.accounts");
    for (caller, topics, seen, read) in [
        (
            Owner,
            vec![accounts, kept, orders],
            vec!["bank_group", "shop_group"],
            Some(vec![kept, orders]),
        ),
        (Viewer, vec![kept, orders], vec!["shop_group"], Some(vec![kept, orders])),
        (Editor, vec![kept, orders], vec!["shop_group"], Some(vec![kept, orders])),
        (Tenant, vec![accounts], vec!["bank_group"], Some(vec![])),
        (Reader, vec![orders], vec!["shop_group"], Some(vec![orders])),
        (Writer, vec![orders], vec![], None),
        (Revoked, vec![kept], vec!["shop_group"], Some(vec![kept])),
    ] {
        let mut wire = node.wire(caller);
        let mut all = names(&mut wire);
        all.sort_unstable();
        assert_eq!(all, topics, "{caller:?}");
        assert_eq!(groups(&mut wire), seen, "{caller:?}");
        let (code, mut all) = offsets(&mut wire, "shop_group");
        all.sort_unstable();
        match read {
            Some(read) => assert_eq!(
                (code, all),
                (0, read.into_iter().map(str::to_owned).collect()),
                "{caller:?}"
            ),
            None => assert_eq!((code, all), (30, vec![]), "{caller:?}"),
        }
    }
}

#[test]
fn operations_are_told_as_bits_where_they_are_asked_for() {
    let mut node = Node::start();
    let (read, write) = (1 << 3, 1 << 4);
    let describe = 1 << 8 | 1 << 10;
    let declare = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11;
    let idempotent_write = 1 << 12;
    let whole = describe | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 11 | idempotent_write;
    for (caller, of_topic, of_cluster) in [
        (Viewer, read | describe, 0),
        (Editor, read | write | describe | declare, idempotent_write),
        (Owner, read | write | describe | declare, whole),
        (Reader, read | describe, 0),
        (Writer, write | describe, idempotent_write),
    ] {
        let mut wire = node.wire(caller);
        let asked = MetadataRequestTopic::default().with_name(Some(topic(TOPIC)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_include_topic_authorized_operations(true)
            .with_include_cluster_authorized_operations(true);
        let answer: MetadataResponse = wire.call(ApiKey::Metadata, 10, &request);
        assert_eq!(answer.topics[0].topic_authorized_operations, of_topic, "{caller:?}");
        assert_eq!(answer.cluster_authorized_operations, of_cluster, "{caller:?}");
        let request = DescribeClusterRequest::default()
            .with_endpoint_type(1)
            .with_include_cluster_authorized_operations(true);
        let answer: DescribeClusterResponse = wire.call(ApiKey::DescribeCluster, 1, &request);
        assert_eq!(answer.cluster_authorized_operations, of_cluster, "{caller:?}");
        if caller == Writer {
            continue;
        }
        let request = DescribeGroupsRequest::default()
            .with_groups(vec![group("g")])
            .with_include_authorized_operations(true);
        let answer: DescribeGroupsResponse = wire.call(ApiKey::DescribeGroups, 5, &request);
        let of_group = match caller {
            Viewer | Reader => read | describe,
            _ => read | describe | 1 << 6 | 1 << 11,
        };
        assert_eq!(answer.groups[0].authorized_operations, of_group, "{caller:?}");
    }
}

#[test]
fn a_group_belongs_to_the_namespace_of_its_users() {
    let mut node = Node::start();
    // Two tenants with groups of one name.
    let (mut shop, mut bank) = (node.wire(Viewer), node.wire(Tenant));
    assert_eq!(offset_commit(&mut shop, "billing", TOPIC), 0);
    assert_eq!(offset_commit(&mut bank, "billing", "bank.accounts.accounts"), 0);
    assert_eq!(offset_fetch(&mut shop, "billing", TOPIC), 0);
    assert_eq!(offset_fetch(&mut shop, "billing", "bank.accounts.accounts"), 29);
    // One that has touched no topic yet is not taken over by a tenant who knows its name.
    let mut owner = node.wire(Owner);
    let subscribed_to_nothing = JoinGroupRequest::default()
        .with_group_id(group("early"))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_protocol_type(text("other"))
        .with_protocols(vec![JoinGroupRequestProtocol::default().with_name(text("p"))]);
    let joined: JoinGroupResponse = owner.call(ApiKey::JoinGroup, 3, &subscribed_to_nothing);
    assert_eq!(joined.error_code, 0);
    assert_eq!(offset_commit(&mut bank, "early", "bank.accounts.accounts"), 0);
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(group("early"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id);
    let answer: HeartbeatResponse = owner.call(ApiKey::Heartbeat, 3, &heartbeat);
    assert!(matches!(answer.error_code, 0 | 27), "{}", answer.error_code);
    // A database's editor deletes no group that reads elsewhere in the namespace.
    node.own("USE NAMESPACE shop; DEFINE DATABASE other; USE DATABASE other; DEFINE TOPIC t");
    for name in [TOPIC, "shop.other.t"] {
        assert_eq!(offset_commit(&mut owner, "wide", name), 0);
    }
    let mut editor = node.wire(Editor);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group("wide")]);
    let answer: DeleteGroupsResponse = editor.call(ApiKey::DeleteGroups, 2, &request);
    assert_eq!(answer.results[0].error_code, 30);
    let answer: DeleteGroupsResponse = owner.call(ApiKey::DeleteGroups, 2, &request);
    assert_eq!(answer.results[0].error_code, 0);
}

#[test]
fn members_that_read_elsewhere_are_not_described() {
    let mut node = Node::start();
    node.own("USE NAMESPACE shop; DEFINE DATABASE other; USE DATABASE other; DEFINE TOPIC t");
    let (mut viewer, mut editor) = (node.wire(Viewer), node.wire(Editor));
    assert_eq!(join(&mut viewer, "wide", "shop.other.t"), 0);
    let describe = |wire: &mut Wire| {
        let request = DescribeGroupsRequest::default().with_groups(vec![group("wide")]);
        let answer: DescribeGroupsResponse = wire.call(ApiKey::DescribeGroups, 5, &request);
        (answer.groups[0].error_code, answer.groups[0].members.len())
    };
    assert_eq!(describe(&mut viewer), (0, 1));
    assert_eq!(describe(&mut editor), (30, 0));
}

#[test]
fn grants_and_roles_are_told_as_acls() {
    let mut node = Node::start();
    let mut owner = node.wire(Owner);
    let rules = |answer: &DescribeAclsResponse| -> BTreeSet<(String, i8, String, i8, i8)> {
        let each = answer.resources.iter().flat_map(|r| {
            r.acls.iter().map(|acl| {
                assert_eq!((acl.permission_type, acl.host.as_str()), (3, "*"));
                let (kind, name) = (r.resource_type, r.resource_name.to_string());
                (acl.principal.to_string(), kind, name, r.pattern_type, acl.operation)
            })
        });
        each.collect()
    };
    let all: DescribeAclsResponse = owner.call(ApiKey::DescribeAcls, 3, &describe_acls_request());
    assert_eq!(all.error_code, 0);
    let all = rules(&all);
    let has = |user: &str, kind: i8, name: &str, pattern: i8, operation: i8| {
        all.contains(&(format!("User:{user}"), kind, name.to_owned(), pattern, operation))
    };
    let (literal, prefixed) = (3, 4);
    let (all_of_it, read, write, describe) = (2, 3, 4, 8);
    assert!(has("owner", 2, "*", literal, all_of_it) && has("owner", 4, "kafka-cluster", literal, all_of_it));
    assert!(has("viewer", 2, "shop.", prefixed, read) && !has("viewer", 2, "shop.", prefixed, write));
    assert!(has("editor", 2, "shop.orders.", prefixed, write));
    assert!(has("reader", 2, TOPIC, literal, read) && has("reader", 2, TOPIC, literal, describe));
    assert!(!has("reader", 2, TOPIC, literal, write) && has("writer", 2, TOPIC, literal, write));
    assert!(has("reader", 3, "*", literal, read) && !has("writer", 3, "*", literal, read));
    assert!(
        all.iter()
            .all(|(user, _, name, ..)| user != "User:revoked" || name != TOPIC)
    );

    let of_topic = describe_acls_request()
        .with_resource_type_filter(2)
        .with_pattern_type_filter(2)
        .with_resource_name_filter(Some(text(TOPIC)))
        .with_operation(4);
    let found: DescribeAclsResponse = owner.call(ApiKey::DescribeAcls, 3, &of_topic);
    let users: BTreeSet<String> = rules(&found).into_iter().map(|r| r.0).collect();
    assert_eq!(users, ["User:editor", "User:writer"].map(str::to_owned).into());

    // An owner of a namespace sees the users of that namespace.
    node.own(&format!(
        "DEFINE USER shop_owner ON NAMESPACE shop ROLE owner PASSWORD '{PASSWORD}'"
    ));
    let mut shop_owner = Wire::signed_in(node.process.kafka, "shop_owner", PASSWORD);
    let found: DescribeAclsResponse = shop_owner.call(ApiKey::DescribeAcls, 3, &describe_acls_request());
    assert_eq!(found.error_code, 0);
    let users: BTreeSet<String> = rules(&found).into_iter().map(|r| r.0).collect();
    assert_eq!(
        users,
        ["User:editor", "User:shop_owner", "User:viewer"]
            .map(str::to_owned)
            .into()
    );
}
