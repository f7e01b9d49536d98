//! The coordinator over a real broker, its files in memory.

use super::*;
use crate::broker::tests::store::{NODE, Store, partitions};
use crate::groups::{Commit, Join, Leaving, Membership, Protocol, Subscribed, Sync};
use bytes::Bytes;
use cluster::catalog::Topic;
use std::future::Future;

/// Ends a test that waits for what never comes.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("should not wait for ever")
}

fn quick() -> GroupConfig {
    GroupConfig {
        session_timeout: Duration::ZERO..=Duration::from_secs(1800),
        ..GroupConfig::default()
    }
}

fn at(group: &str, topic: Option<&Topic>) -> Address {
    Address {
        group: Arc::from(group),
        scope: None,
        touched: topic.map(|t| t.namespace),
    }
}

fn join(member: &str) -> Join {
    Join {
        member_id: Arc::from(member),
        fresh_id: Arc::from(uuid::Uuid::new_v4().to_string()),
        instance: None,
        client_id: Arc::from("c"),
        client_host: Arc::from("/127.0.0.1"),
        session_timeout: 30_000,
        rebalance_timeout: 30_000,
        protocol_type: Arc::from("consumer"),
        protocols: vec![Protocol {
            name: Arc::from("range"),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x12shop.orders.orders"),
        }],
        requires_known_id: false,
        can_skip_assignment: false,
    }
}

fn who(member: &str, generation: i32) -> Membership {
    Membership {
        member_id: Arc::from(member),
        instance: None,
        generation,
    }
}

fn commit(topic: &Topic, index: u32, offset: i64) -> Vec<Commit> {
    vec![Commit {
        partition: PartitionId { topic: topic.id, index },
        offset,
        leader_epoch: 3,
        metadata: "where I was".into(),
    }]
}

/// Joins and syncs alone; answers the member id and the generation.
async fn settle(groups: &Coordinator, address: &Address) -> (Arc<str>, i32) {
    let joined = soon(groups.join(address, join(""))).await;
    assert_eq!(joined.error, None);
    let synced = soon(groups.sync(address, sync(&joined.member_id, joined.generation, "all"))).await;
    assert_eq!(synced.error, None);
    assert_eq!(&synced.assignment[..], b"all");
    (joined.member_id, joined.generation)
}

fn sync(member: &str, generation: i32, share: &'static str) -> Sync {
    Sync {
        who: who(member, generation),
        protocol_type: None,
        protocol: None,
        assignments: vec![(Arc::from(member), Bytes::from_static(share.as_bytes()))],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_and_generations_outlive_a_crash_and_members_join_anew() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(2)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let address = at("billing", Some(&topic));
    let (member, generation) = settle(&groups, &address).await;
    let me = who(&member, generation);
    groups.commit(&address, &me, commit(&topic, 1, 42)).await.unwrap();
    groups.close();

    let store = store.crash().await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    // Nothing is touched: the catalog knows where the group belongs.
    let address = at("billing", None);
    let offsets = groups.offsets(&address).await.unwrap();
    assert_eq!(offsets.len(), 1);
    let position = &offsets[&PartitionId {
        topic: topic.id,
        index: 1,
    }];
    assert_eq!((position.offset, position.leader_epoch), (42, 3));
    assert_eq!(position.metadata, "where I was");
    let listed = groups.list(None).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].group, &*listed[0].protocol_type), ("billing", "consumer"));
    assert_eq!(
        groups.describe(&address).await.unwrap().unwrap().state,
        GroupState::Empty
    );

    assert_eq!(groups.heartbeat(&address, &me).await, Err(Refusal::UnknownMember));
    let commit_again = groups.commit(&address, &me, commit(&topic, 1, 43)).await;
    assert_eq!(commit_again, Err(Refusal::UnknownMember));
    let back = soon(groups.join(&address, join(&member))).await;
    assert_eq!(back.error, Some(Refusal::UnknownMember));
    let (_, later) = settle(&groups, &address).await;
    assert!(later > generation, "a generation is never given twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_touched_nothing_moves_in_with_its_members() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let (member, generation) = settle(&groups, &at("g", None)).await;
    assert_eq!(groups.coordinator_of(&at("g", None)), Ok((SYSTEM_RANGE, NODE)));
    let me = who(&member, generation);
    groups
        .commit(&at("g", Some(&topic)), &me, commit(&topic, 0, 5))
        .await
        .unwrap();
    assert_eq!(groups.heartbeat(&at("g", None), &me).await, Ok(()));
    assert_eq!(groups.namespace(&at("g", None)), Some(topic.namespace));
    assert_eq!(groups.list(None).await.unwrap().len(), 1);
    assert_eq!(groups.offsets(&at("g", None)).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_given_a_partition_begins_behind_a_commit_that_was_still_on_its_way() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let address = at("billing", Some(&topic));
    let (member, generation) = settle(&groups, &address).await;
    let me = who(&member, generation);
    for offset in 1..50 {
        let begun = groups.commit(&address, &me, commit(&topic, 0, offset));
        let mut begun = std::pin::pin!(begun);
        let at_once = futures::poll!(begun.as_mut());
        let offsets = soon(groups.offsets(&address)).await.unwrap();
        assert_eq!(offsets.values().map(|p| p.offset).collect::<Vec<_>>(), [offset]);
        if at_once.is_pending() {
            soon(begun).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_commit() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let address = at("g", Some(&topic));
    let unknown = groups.commit(&address, &who("m", 1), commit(&topic, 0, 1)).await;
    assert_eq!(unknown, Err(Refusal::UnknownGroup));
    groups
        .commit(&address, &who("", -1), commit(&topic, 0, 1))
        .await
        .unwrap();
    let known = groups.commit(&address, &who("m", 1), commit(&topic, 0, 2)).await;
    assert_eq!(known, Err(Refusal::UnknownMember));
    let (member, generation) = settle(&groups, &address).await;
    for (who, refusal) in [
        (who("", -1), Refusal::UnknownMember),
        (who(&member, generation - 1), Refusal::IllegalGeneration),
        (who("stranger", generation), Refusal::UnknownMember),
    ] {
        let refused = groups.commit(&address, &who, commit(&topic, 0, 3)).await;
        assert_eq!(refused, Err(refusal));
    }
    let offsets = groups.offsets(&address).await.unwrap();
    assert_eq!(offsets.values().map(|p| p.offset).collect::<Vec<_>>(), [1]);
    // A negative offset takes the position away.
    let me = who(&member, generation);
    groups.commit(&address, &me, commit(&topic, 0, -1)).await.unwrap();
    assert!(groups.offsets(&address).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_groups_and_offsets() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(2)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let address = at("g", Some(&topic));
    assert_eq!(groups.delete(&address).await, Err(Refusal::UnknownGroup));
    assert_eq!(groups.subscribed(&address).await, Err(Refusal::UnknownGroup));
    let (member, generation) = settle(&groups, &address).await;
    let me = who(&member, generation);
    groups.commit(&address, &me, commit(&topic, 0, 1)).await.unwrap();
    groups.commit(&address, &me, commit(&topic, 1, 2)).await.unwrap();
    assert_eq!(groups.delete(&address).await, Err(Refusal::NonEmptyGroup));
    let subscribed = groups.subscribed(&address).await.unwrap();
    assert_eq!(subscribed, Subscribed::To(["shop.orders.orders".to_owned()].into()));
    let leaving = [Leaving {
        member_id: member,
        instance: None,
    }];
    assert_eq!(groups.leave(&address, &leaving).await, Ok(vec![Ok(())]));
    assert_eq!(groups.subscribed(&address).await, Ok(Subscribed::ToNothing));
    let first = PartitionId {
        topic: topic.id,
        index: 0,
    };
    groups.delete_offsets(&address, vec![first]).await.unwrap();
    assert_eq!(groups.offsets(&address).await.unwrap().len(), 1);
    assert_eq!(groups.delete(&address).await, Ok(()));
    assert!(groups.offsets(&address).await.unwrap().is_empty());
    assert_eq!(groups.describe(&address).await, Ok(None));
    assert!(groups.list(None).await.unwrap().is_empty());
    assert_eq!(groups.delete(&address).await, Err(Refusal::UnknownGroup));
    assert_eq!(groups.bytes.load(Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_group_without_offsets_is_forgotten_and_one_with_offsets_is_kept() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(
        store.broker.clone(),
        GroupConfig {
            forget_empty: Duration::ZERO,
            ..quick()
        },
    );
    for (name, commits) in [("passing", false), ("lasting", true)] {
        let address = at(name, Some(&topic));
        let (member, generation) = settle(&groups, &address).await;
        if commits {
            let me = who(&member, generation);
            groups.commit(&address, &me, commit(&topic, 0, 1)).await.unwrap();
        }
        let leaving = [Leaving {
            member_id: member,
            instance: None,
        }];
        groups.leave(&address, &leaving).await.unwrap()[0].unwrap();
    }
    soon(async {
        while groups.describe(&at("passing", None)).await.unwrap().is_some() || !groups.all_in_memory().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let lasting = groups.describe(&at("lasting", None)).await.unwrap().unwrap();
    assert_eq!(&*lasting.protocol_type, "consumer");
    assert_eq!(groups.bytes.load(Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_makes_room_for_those_that_wait() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let address = at("g", Some(&topic));
    let silent = Join {
        session_timeout: 20,
        ..join("")
    };
    let first = soon(groups.join(&address, silent)).await;
    soon(groups.sync(&address, sync(&first.member_id, first.generation, "all"))).await;
    let second = soon(groups.join(&address, join(""))).await;
    assert_eq!(second.error, None);
    assert_eq!(second.members.len(), 1, "the silent one's session has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_answered_when_the_coordinator_closes() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let address = at("g", Some(&topic));
    settle(&groups, &address).await;
    let waiting = tokio::spawn({
        let (groups, address) = (groups.clone(), address.clone());
        async move { groups.join(&address, join("")).await }
    });
    soon(async {
        let preparing = || async { groups.describe(&address).await.unwrap().unwrap().state };
        while preparing().await != GroupState::PreparingRebalance {
            tokio::task::yield_now().await;
        }
    })
    .await;
    groups.close();
    assert_eq!(soon(waiting).await.unwrap().error, Some(Refusal::NotCoordinator));
    let late = soon(groups.join(&address, join(""))).await;
    assert_eq!(late.error, Some(Refusal::NotCoordinator));
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_hold() {
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let config = GroupConfig {
        max_groups: 2,
        max_bytes: 10_000,
        ..GroupConfig::default()
    };
    let groups = Coordinator::new(store.broker.clone(), config);
    let refused = async |address: &Address, join: Join| soon(groups.join(address, join)).await.error;
    let g = at("g", Some(&topic));
    assert_eq!(
        refused(&at("", Some(&topic)), join("")).await,
        Some(Refusal::InvalidGroupId)
    );
    for session_timeout in [0, 5_999, 1_800_001] {
        let join = Join {
            session_timeout,
            ..join("")
        };
        assert_eq!(refused(&g, join).await, Some(Refusal::InvalidSessionTimeout));
    }
    let large = Join {
        protocols: vec![Protocol {
            name: Arc::from("range"),
            metadata: vec![0; 9_900].into(),
        }],
        ..join("")
    };
    assert_eq!(refused(&g, large).await, Some(Refusal::CoordinatorNotAvailable));
    assert_eq!(refused(&g, join("")).await, None);
    assert_eq!(refused(&at("h", Some(&topic)), join("")).await, None);
    let third = refused(&at("i", Some(&topic)), join("")).await;
    assert_eq!(third, Some(Refusal::CoordinatorNotAvailable));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_of_many_members_come_to_rest() {
    const GROUPS: usize = 20;
    const MEMBERS: usize = 6;
    let store = Store::new().await;
    let topic = store.topic("orders", partitions(1)).await;
    let groups = Coordinator::new(store.broker.clone(), quick());
    let tasks: Vec<_> = (0..GROUPS * MEMBERS)
        .map(|n| {
            let (groups, address) = (groups.clone(), at(&format!("g{}", n % GROUPS), Some(&topic)));
            tokio::spawn(async move { live(&groups, &address).await })
        })
        .collect();
    let mut shares: HashMap<usize, Vec<Bytes>> = HashMap::new();
    for (n, task) in tasks.into_iter().enumerate() {
        shares.entry(n % GROUPS).or_default().push(soon(task).await.unwrap());
    }
    for mut group in shares.into_values() {
        group.sort();
        group.dedup();
        assert_eq!(group.len(), MEMBERS, "each member has a share of its own");
    }
}

/// Joins, and rejoins as told, until the group has all its members and this one its share.
async fn live(groups: &Coordinator, address: &Address) -> Bytes {
    let mut id: Arc<str> = Arc::from("");
    loop {
        let joined = groups.join(address, join(&id)).await;
        if joined.error.is_some() {
            id = Arc::from("");
            continue;
        }
        id = joined.member_id.clone();
        let assignments = joined.members.iter().map(|m| {
            (
                m.id.clone(),
                Bytes::from(format!("{} of {}", m.id, joined.members.len())),
            )
        });
        let answer = groups
            .sync(
                address,
                Sync {
                    who: who(&id, joined.generation),
                    protocol_type: None,
                    protocol: None,
                    assignments: assignments.collect(),
                },
            )
            .await;
        if answer.error.is_some() {
            continue;
        }
        if answer.assignment.ends_with(b"of 6") {
            return answer.assignment;
        }
        while groups.heartbeat(address, &who(&id, joined.generation)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
