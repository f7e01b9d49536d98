//! Members, then a topic.

use super::Arc;
use crate::door::{Doors, Gone, Life};
use crate::node::{address_of, id_of};
use cluster::catalog::{
    Acknowledge, CatalogFailure, Command, MemberCommand, ReplicaSpec, Reply, Standing, Topic, TopicSpec,
};
use cluster::range::ProposeError;
use plan::Plan;
use uuid::Uuid;

/// Declares the members, waits until all have joined, declares a topic and waits until all know it.
pub async fn declare(doors: Doors, plan: Arc<Plan>) -> Arc<Topic> {
    for node in 0..plan.nodes {
        let spec = ReplicaSpec {
            name: format!("member{node}"),
            at: address_of(node),
            clients_at: None,
            http_at: None,
            kafka_at: None,
            node: Some(id_of(node)),
            roles: None,
        };
        let define = MemberCommand::Define {
            spec,
            if_not_exists: true,
        };
        propose(&doors, 0, Command::Member(define)).await;
    }
    let nodes = plan.nodes;
    let all_joined = move |life: Life| async move {
        let view = life.node().broker.catalog().view();
        let joined = view.members().filter(|member| member.standing == Standing::Joined);
        joined.count() == nodes
    };
    while doors.ask(0, all_joined).await != Ok(true) {
        doors.pause(100).await;
    }
    let namespace = Command::DefineNamespace {
        name: "shop".into(),
        if_not_exists: true,
        replication: None,
        acknowledge: Acknowledge::Majority,
    };
    propose(&doors, doors.some(), namespace).await;
    let database = Command::DefineDatabase {
        namespace: "shop".into(),
        name: "orders".into(),
        if_not_exists: true,
    };
    propose(&doors, doors.some(), database).await;
    let topic = Command::DefineTopic {
        namespace: "shop".into(),
        database: "orders".into(),
        name: "placed".into(),
        if_not_exists: true,
        spec: TopicSpec {
            partitions: plan.partitions,
            ..TopicSpec::default()
        },
        uuid: Uuid::new_v4(),
        now_ms: 1,
    };
    let topic = loop {
        if let Reply::Topic(topic) = propose(&doors, doors.some(), topic.clone()).await {
            break topic;
        }
    };
    for node in 0..plan.nodes {
        loop {
            let id = topic.id;
            let known = doors.ask(node, move |life| async move {
                let broker = &life.node().broker;
                let view = broker.catalog().view();
                let led = view.ranges().all(|row| broker.routes().table().range(row.id).is_some());
                view.topic_by_id(id).is_some() && led
            });
            if known.await == Ok(true) {
                break;
            }
            doors.pause(100).await;
        }
    }
    doors.history.note(format_args!("formed"));
    topic
}

async fn propose(doors: &Doors, at: usize, command: Command) -> Reply {
    let mut at = at;
    loop {
        let declare = command.clone();
        let declared = doors
            .ask(at, move |life| async move {
                let catalog = life.node().broker.catalog().clone();
                catalog.propose(declare).await
            })
            .await;
        match declared {
            Ok(Ok(reply)) => return reply,
            Ok(Err(CatalogFailure::Range(ProposeError::Unknown(_) | ProposeError::NotLeader { .. }))) => {}
            Err(Gone::Closed | Gone::Unknown) => {}
            Ok(Err(error)) => doors.history.note(format_args!("declaration refused: {error}")),
        }
        doors.pause(200).await;
        at = if at == 0 { 0 } else { doors.some() };
    }
}
