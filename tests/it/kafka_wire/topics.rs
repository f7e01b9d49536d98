//! Names, metadata, and what tools make, change and ask of topics.

use super::*;

/// Names: three identifiers, or one in the node's database; anything else is 17, what is not there 3.
#[test]
fn names_are_read_as_the_node_says() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    assert_eq!(produce_one(&mut wire, "shop.orders.t", batch(1)), (0, 0));
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 1));
    for (name, code) in [
        ("a b", 17),
        ("shop.orders", 17),
        ("a.b.c.d", 17),
        ("", 17),
        ("missing", 3),
        ("shop.orders.missing", 3),
        ("no.such.topic", 3),
    ] {
        assert_eq!(produce_one(&mut wire, name, batch(1)).0, code, "{name}");
        assert_eq!(fetch_one(&mut wire, name, 0).error_code, code, "{name}");
        assert_eq!(list_offset(&mut wire, name, -1).0, code, "{name}");
        let asked = metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_allow_auto_topic_creation(true);
        let response: MetadataResponse = wire.call(ApiKey::Metadata, 9, &request);
        assert_eq!(response.topics[0].error_code, code, "{name}");
        assert_eq!(response.topics[0].name, Some(topic_name(name)));
    }
    let all: MetadataResponse = wire.call(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    assert_eq!(all.topics.len(), 1, "nothing was created by asking");
}

/// F1: the address told is the one the client reached, and the leader is the broker told.
#[test]
fn metadata_tells_where_the_client_is() {
    let (node, mut wire) = node();
    let id = create(&mut wire, "t", 3, &[]);
    for version in 0..=13 {
        let topics = if version == 0 { Some(vec![]) } else { None };
        let request = MetadataRequest::default().with_topics(topics);
        let response: MetadataResponse = wire.call(ApiKey::Metadata, version, &request);
        let broker = &response.brokers[0];
        assert_eq!((&*broker.host, broker.port), ("127.0.0.1", i32::from(node.kafka)));
        let topic = &response.topics[0];
        assert_eq!(topic.name, Some(topic_name("shop.orders.t")));
        assert_eq!(topic.topic_id, if version >= 10 { id } else { Uuid::nil() });
        assert_eq!(topic.partitions.len(), 3);
        for partition in &topic.partitions {
            assert_eq!((partition.error_code, partition.leader_id), (0, broker.node_id));
            assert_eq!(partition.isr_nodes, [broker.node_id]);
            assert!(version < 7 || partition.leader_epoch >= 0);
        }
    }
    let by_id = metadata_request::MetadataRequestTopic::default()
        .with_name(None)
        .with_topic_id(id);
    let unknown = by_id.clone().with_topic_id(Uuid::from_u128(7));
    let request = MetadataRequest::default().with_topics(Some(vec![by_id, unknown]));
    let response: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
    let told: Vec<_> = response.topics.iter().map(|t| (t.error_code, t.name.clone())).collect();
    assert_eq!(told, [(0, Some(topic_name("shop.orders.t"))), (100, None)]);
}

/// Topic ids: a recreated topic is another one.
#[test]
fn a_recreated_topic_has_another_id() {
    let (_node, mut wire) = node();
    let old = create(&mut wire, "t", 1, &[]);
    produce_one(&mut wire, "t", batch(3));
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![
            delete_topics_request::DeleteTopicState::default()
                .with_topic_id(old)
                .with_name(None),
        ])
        .with_timeout_ms(10_000);
    let deleted: DeleteTopicsResponse = wire.call(ApiKey::DeleteTopics, 6, &request);
    assert_eq!(deleted.responses[0].error_code, 0);
    assert_eq!(deleted.responses[0].name, Some(topic_name("shop.orders.t")));
    assert_eq!(produce_one(&mut wire, "t", batch(1)).0, 3);
    let new = create(&mut wire, "t", 1, &[]);
    assert_ne!(old, new);
    let by_id = |id: Uuid| {
        let topic = FetchTopic::default()
            .with_topic_id(id)
            .with_partitions(vec![fetch_partition(0, 0, 1000)]);
        fetch_request(vec![topic])
    };
    let response: FetchResponse = wire.call(ApiKey::Fetch, 13, &by_id(old));
    assert_eq!(response.responses[0].topic_id, old);
    assert_eq!(response.responses[0].partitions[0].error_code, 100);
    let to = |id: Uuid| {
        let data = TopicProduceData::default()
            .with_topic_id(id)
            .with_partition_data(vec![PartitionProduceData::default().with_records(Some(batch(1)))]);
        ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data])
    };
    for (id, code, offset) in [(old, 100, -1), (new, 0, 0), (new, 0, 1)] {
        let response: ProduceResponse = wire.call(ApiKey::Produce, 13, &to(id));
        assert_eq!(response.responses[0].topic_id, id);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (code, offset));
    }
    let response: FetchResponse = wire.call(ApiKey::Fetch, 17, &by_id(new));
    assert_eq!(batches(records(&response.responses[0].partitions[0])), [(0, 0), (1, 1)]);
}

#[test]
fn deleted_records_are_gone() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    produce_one(&mut wire, "t", batch(5));
    produce_one(&mut wire, "t", batch(5));
    let delete = |wire: &mut Wire, offset: i64| {
        let partition = delete_records_request::DeleteRecordsPartition::default().with_offset(offset);
        let topic = delete_records_request::DeleteRecordsTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        let response: DeleteRecordsResponse = wire.call(ApiKey::DeleteRecords, 2, &request);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.low_watermark)
    };
    assert_eq!(delete(&mut wire, 11), (1, -1));
    assert_eq!(delete(&mut wire, 7), (0, 7));
    assert_eq!(delete(&mut wire, 3), (0, 7));
    assert_eq!(list_offset(&mut wire, "t", -2), (0, 7, -1));
    assert_eq!(fetch_one(&mut wire, "t", 6).error_code, 1);
    assert_eq!(batches(records(&fetch_one(&mut wire, "t", 7))), [(5, 9)]);
    assert_eq!(delete(&mut wire, -1), (0, 10));
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 10));
}

/// F83, F85, F90: topics are made and grown with the right codes.
#[test]
fn topics_are_made_and_grown() {
    let (_node, mut wire) = node();
    let ask = |wire: &mut Wire, topic: CreatableTopic, validate_only: bool| {
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000)
            .with_validate_only(validate_only);
        let mut response: CreateTopicsResponse = wire.call(ApiKey::CreateTopics, 7, &request);
        response.topics.remove(0)
    };
    let topic = |name: &str, partitions: i32, replicas: i16| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
    };
    for (name, partitions, replicas, code) in [
        ("t", 0, 1, 37),
        ("t", -2, 1, 37),
        ("t", 1_000_000, 1, 37),
        ("t", 1, 0, 38),
        ("t", 1, -2, 38),
        ("t", 1, 2, 38),
        ("a b", 1, 1, 17),
        ("no.such.t", 1, 1, 17),
        ("shop.none.t", 1, 1, 17),
    ] {
        let answer = ask(&mut wire, topic(name, partitions, replicas), false);
        assert_eq!(answer.error_code, code, "{name} {partitions} {replicas}");
        assert!(answer.error_message.is_some_and(|m| !m.is_empty()));
    }
    let config = |name: &str, value: Option<&str>| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(value.map(text))
    };
    for (name, value) in [
        ("nope", Some("1")),
        ("retention.ms", Some("-5")),
        ("cleanup.policy", Some("compact")),
    ] {
        let answer = ask(
            &mut wire,
            topic("t", 1, 1).with_configs(vec![config(name, value)]),
            false,
        );
        assert_eq!(answer.error_code, 40, "{name}");
        assert!(answer.error_message.is_some_and(|m| m.contains(name)));
    }
    let assignment = create_topics_request::CreatableReplicaAssignment::default()
        .with_partition_index(0)
        .with_broker_ids(vec![BrokerId(1)]);
    let both = topic("t", 1, 1).with_assignments(vec![assignment.clone()]);
    assert_eq!(ask(&mut wire, both, false).error_code, 42);
    let elsewhere = topic("t", -1, -1).with_assignments(vec![assignment.with_broker_ids(vec![BrokerId(99)])]);
    assert_eq!(ask(&mut wire, elsewhere, false).error_code, 39);
    let only = ask(&mut wire, topic("t", -1, -1), true);
    assert_eq!(
        (only.error_code, only.num_partitions, only.topic_id),
        (0, 1, Uuid::nil())
    );
    let made = ask(
        &mut wire,
        topic("t", -1, -1).with_configs(vec![config("retention.ms", Some("60000"))]),
        false,
    );
    assert_eq!(
        (made.error_code, made.num_partitions, made.replication_factor),
        (0, 1, 1)
    );
    assert!(!made.topic_id.is_nil());
    let configs = made.configs.expect("configs");
    let retention = configs.iter().find(|c| &*c.name == "retention.ms").expect("a key");
    assert_eq!(
        (retention.value.as_deref(), retention.config_source),
        (Some("60000"), 1)
    );
    assert!(
        configs
            .iter()
            .any(|c| &*c.name == "cleanup.policy" && c.value.as_deref() == Some("delete"))
    );
    assert_eq!(ask(&mut wire, topic("t", 1, 1), false).error_code, 36);
    assert_eq!(ask(&mut wire, topic("t", 1, 1), true).error_code, 36);
    let grow = |wire: &mut Wire, name: &str, count: i32| {
        let topic = create_partitions_request::CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(count)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        let response: CreatePartitionsResponse = wire.call(ApiKey::CreatePartitions, 3, &request);
        assert_eq!(response.results[0].name, topic_name(name));
        response.results[0].error_code
    };
    assert_eq!(
        [
            grow(&mut wire, "t", 1),
            grow(&mut wire, "t", 0),
            grow(&mut wire, "none", 4)
        ],
        [37, 37, 3]
    );
    assert_eq!(grow(&mut wire, "t", 4), 0);
    assert_eq!(produce(&mut wire, "t", &[(3, batch(1))])[0].error_code, 0);
}

/// F87, F88: configurations as tools expect them, and changes of them.
#[test]
fn configurations_are_told_and_changed() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let describe = |wire: &mut Wire, kind: i8, name: &str, keys: Option<Vec<&str>>| {
        let resource = describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configuration_keys(keys.map(|k| k.into_iter().map(text).collect()));
        let request = DescribeConfigsRequest::default()
            .with_resources(vec![resource])
            .with_include_synonyms(true);
        let mut response: DescribeConfigsResponse = wire.call(ApiKey::DescribeConfigs, 4, &request);
        response.results.remove(0)
    };
    let all = describe(&mut wire, 2, "t", None);
    assert!(all.error_code == 0 && all.configs.len() > 25);
    assert_eq!(
        describe(&mut wire, 2, "t", Some(vec![])).configs.len(),
        all.configs.len()
    );
    let some = describe(&mut wire, 2, "t", Some(vec!["cleanup.policy", "nope"]));
    assert_eq!(some.configs.len(), 1);
    assert_eq!(some.configs[0].value.as_deref(), Some("delete"));
    assert_eq!((some.configs[0].config_source, some.configs[0].config_type), (5, 7));
    assert_eq!(describe(&mut wire, 2, "missing", None).error_code, 3);
    let metadata: MetadataResponse = wire.call(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let own = metadata.brokers[0].node_id.0;
    let broker = describe(&mut wire, 4, &own.to_string(), None);
    for key in ["num.partitions", "default.replication.factor", "log.retention.ms"] {
        assert!(broker.configs.iter().any(|c| &*c.name == key), "{key}");
    }
    assert_eq!(describe(&mut wire, 4, &(own + 1).to_string(), None).error_code, 42);

    let alter = |wire: &mut Wire, changes: &[(&str, i8, Option<&str>)]| {
        let configs = changes.iter().map(|(name, operation, value)| {
            incremental_alter_configs_request::AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(*operation)
                .with_value(value.map(text))
        });
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response: IncrementalAlterConfigsResponse = wire.call(ApiKey::IncrementalAlterConfigs, 1, &request);
        response.responses[0].error_code
    };
    let retention = |wire: &mut Wire| {
        let told = describe(wire, 2, "t", Some(vec!["retention.ms"]));
        (
            told.configs[0].value.as_deref().map(str::to_owned),
            told.configs[0].config_source,
        )
    };
    assert_eq!(
        alter(
            &mut wire,
            &[
                ("retention.ms", 0, Some("60000")),
                ("max.message.bytes", 0, Some("100"))
            ]
        ),
        0
    );
    assert_eq!(retention(&mut wire), (Some("60000".into()), 1));
    assert_eq!(produce_one(&mut wire, "t", batch(20)).0, 10);
    assert_eq!(
        alter(&mut wire, &[("max.message.bytes", 1, None), ("nope", 1, None)]),
        0
    );
    assert_eq!(produce_one(&mut wire, "t", batch(20)).0, 0);
    for (changes, code) in [
        (&[("retention.ms", 0, None)][..], 42),
        (&[("retention.ms", 2, Some("1"))], 40),
        (&[("retention.ms", 3, Some("1"))], 40),
        (&[("cleanup.policy", 2, Some("compact"))], 40),
        (&[("cleanup.policy", 2, Some("delete"))], 0),
        (&[("cleanup.policy", 3, Some("compact"))], 0),
        (&[("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))], 42),
        (&[("retention.ms", 0, Some("1")), ("nope", 0, Some("2"))], 40),
    ] {
        assert_eq!(alter(&mut wire, changes), code, "{changes:?}");
    }
    assert_eq!(
        retention(&mut wire),
        (Some("60000".into()), 1),
        "a refused set changes nothing"
    );
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"));
    let replace = AlterConfigsRequest::default().with_resources(vec![resource]);
    let response: AlterConfigsResponse = wire.call(ApiKey::AlterConfigs, 2, &replace);
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(retention(&mut wire), (Some("-1".into()), 5));
}

/// F92, and what else tools ask at their start.
#[test]
fn tools_find_a_cluster() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 2, &[]);
    produce_one(&mut wire, "t", batch(1));
    let cluster: DescribeClusterResponse = wire.call(
        ApiKey::DescribeCluster,
        1,
        &DescribeClusterRequest::default().with_endpoint_type(1),
    );
    assert_eq!((cluster.error_code, cluster.brokers.len()), (0, 1));
    assert_eq!(cluster.brokers[0].port, i32::from(node.kafka));
    assert_eq!(cluster.controller_id, cluster.brokers[0].broker_id);
    let dirs: DescribeLogDirsResponse = wire.call(
        ApiKey::DescribeLogDirs,
        4,
        &DescribeLogDirsRequest::default().with_topics(None),
    );
    let sizes: Vec<_> = dirs.results[0].topics[0]
        .partitions
        .iter()
        .map(|p| p.partition_size)
        .collect();
    assert!(sizes.len() == 2 && sizes[0] > 0 && sizes[1] == 0, "{sizes:?}");
    let acls: DescribeAclsResponse = wire.call(ApiKey::DescribeAcls, 3, &DescribeAclsRequest::default());
    assert_eq!(acls.error_code, 54);
    let none: ListPartitionReassignmentsResponse = wire.call(
        ApiKey::ListPartitionReassignments,
        0,
        &ListPartitionReassignmentsRequest::default().with_topics(None),
    );
    assert_eq!((none.error_code, none.topics.len()), (0, 0));
}

/// Requests of a thousand partitions are answered whole.
#[test]
fn a_thousand_partitions() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1000, &[]);
    let all: Vec<_> = (0..1000).map(|p| (p, batch(1))).collect();
    assert!(
        produce(&mut wire, "t", &all)
            .iter()
            .all(|a| (a.error_code, a.base_offset) == (0, 0))
    );
    let wanted = (0..1000).map(|p| fetch_partition(p, 0, 1 << 20)).collect();
    let full = fetch_request(vec![fetch_topic("t", wanted)]).with_session_epoch(0);
    let first: FetchResponse = wire.call(ApiKey::Fetch, 12, &full);
    let partitions = &first.responses[0].partitions;
    assert!(partitions.len() == 1000 && partitions.iter().all(|p| !records(p).is_empty()));
    let moved = (0..1000).map(|p| fetch_partition(p, 1, 1 << 20)).collect();
    let moved = fetch_request(vec![fetch_topic("t", moved)])
        .with_session_id(first.session_id)
        .with_session_epoch(1);
    let quiet: FetchResponse = wire.call(ApiKey::Fetch, 12, &moved);
    assert_eq!(quiet.responses.len(), 0);
    produce(&mut wire, "t", &[(717, batch(1))]);
    let next = fetch_request(vec![])
        .with_session_id(first.session_id)
        .with_session_epoch(2);
    let one: FetchResponse = wire.call(ApiKey::Fetch, 12, &next);
    assert_eq!(one.responses[0].partitions.len(), 1);
    assert_eq!(one.responses[0].partitions[0].partition_index, 717);
}
