//! Group requests that come to nodes which do not coordinate the group.

use super::*;
use crate::broker::tests::many::{Many, until};
use cluster::ids::RangeId;

struct Cluster {
    many: Many,
    servers: Vec<(KafkaServer, Arc<Coordinator>)>,
    /// The range whose leader coordinates the namespace's groups.
    home: RangeId,
}

impl Cluster {
    /// Three nodes. Node 2 coordinates the groups of the topic's namespace, node 1 those that touched nothing.
    async fn new() -> Self {
        let many = Many::new().await;
        let topic = many.topic(1, "orders", partitions(3)).await;
        let home = {
            let view = many.member(1).broker.catalog().view();
            view.namespace_by_id(topic.namespace).unwrap().home
        };
        many.give(home, 2).await;
        let mut servers = Vec::new();
        for id in 1..=3 {
            let member = many.member(id);
            let groups = Coordinator::new(member.broker.clone(), GroupConfig::default());
            let auth = Arc::new(Auth::new(member.broker.catalog().clone(), AuthConfig::default()));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let config = KafkaConfig::new("store".into());
            let broker = member.broker.clone();
            let server = KafkaServer::start(
                listener,
                crate::tls::Door::plain(),
                config,
                member.id,
                broker,
                groups.clone(),
                auth,
            );
            servers.push((server.unwrap(), groups));
        }
        let cluster = Self { many, servers, home };
        cluster.known(2).await;
        cluster
    }

    /// Until every node knows that `id` coordinates.
    async fn known(&self, id: u128) {
        until("everybody knows the coordinator", || {
            (1..=3).all(|at| {
                let table = self.many.member(at).broker.routes().table();
                let leader = table.range(self.home);
                leader.is_some_and(|leader| leader.node.0 == id && leader.here == (at == id))
            })
        })
        .await;
    }

    async fn client(&self, at: usize) -> Client {
        Client(TcpStream::connect(self.servers[at - 1].0.local_addr()).await.unwrap())
    }

    async fn stop(self) {
        for (_, groups) in &self.servers {
            groups.close();
        }
        for (server, _) in self.servers {
            server.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_lives_at_any_node_in_every_version() {
    let cluster = Cluster::new().await;
    for version in 0..=9 {
        let group = &format!("life-{version}");
        let (beats, syncs, leaves) = (version.min(4), version.min(5), version.min(5));
        let (commits, fetches) = (version.clamp(2, 9), version.clamp(1, 9));
        let mut at = [
            cluster.client(1).await,
            cluster.client(3).await,
            cluster.client(2).await,
        ];
        let joined = at[0].enter(version, group).await;
        assert_eq!((joined.error_code, joined.generation_id), (0, 1), "v{version}");
        let id = joined.member_id.to_string();
        let synced = at[1].call(syncs, &sync(syncs, group, &id, 1)).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"everything"[..]));
        for client in &mut at {
            assert_eq!(client.call(beats, &heartbeat(group, &id, 1)).await.error_code, 0);
            assert_eq!(client.call(beats, &heartbeat(group, &id, 0)).await.error_code, 22);
        }
        let answer = at[1].call(commits, &commit(group, &id, 1, &[(TOPIC, 1, 7)])).await;
        assert_eq!(committed(&answer), [0], "v{version}");
        for client in &mut at {
            let asked = fetch(fetches, group, Some(&[(TOPIC, 1)]));
            let answer = client.call(fetches, &asked).await;
            assert_eq!(fetched(fetches, &answer)[0].2, 7, "v{version}");
        }
        let described = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
        let described = &at[1].call(6, &described).await.groups[0];
        assert_eq!((&*described.group_state, described.members.len()), ("Stable", 1));
        assert_eq!(&*described.members[0].client_host, "/127.0.0.1");
        assert_eq!(left(at[0].call(leaves, &leave(leaves, group, &id)).await), 0);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_at_two_nodes_are_one_group_and_one_that_goes_is_missed() {
    let cluster = Cluster::new().await;
    let (mut one, mut three) = (cluster.client(1).await, cluster.client(3).await);
    let first = one.enter(9, "g").await.member_id.to_string();
    one.call(5, &sync(5, "g", &first, 1)).await;
    let id = three.call(9, &join("g", "")).await;
    assert_eq!(id.error_code, 79);
    let second = id.member_id.to_string();
    // Both wait at node 2, each through its own node.
    three.send(9, &join("g", &second)).await;
    until_rebalance(&mut one, &first).await;
    let joined = one.call(9, &join("g", &first)).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 2));
    let joined = three.receive::<JoinGroupRequest>(9).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 2));

    // ListGroups and requests that name groups of several coordinators.
    let mut plain = join("c", "");
    plain.protocol_type = "connect".into();
    let id = three.call(3, &plain).await;
    assert_eq!((id.error_code, id.generation_id), (0, 1));
    for at in 1..=3 {
        let mut client = cluster.client(at).await;
        let listed = client.call(4, &ListGroupsRequest::default()).await;
        let mut names: Vec<_> = listed.groups.iter().map(|g| g.group_id.to_string()).collect();
        names.sort();
        assert_eq!(
            (listed.error_code, names),
            (0, vec!["c".to_owned(), "g".to_owned()]),
            "node {at}"
        );
        let request = DescribeGroupsRequest::default().with_groups(["c", "g", "x"].map(group_id).to_vec());
        let described = client.call(5, &request).await.groups;
        let described: Vec<_> = described
            .iter()
            .map(|g| (g.group_id.to_string(), g.members.len()))
            .collect();
        let expected = [("c", 1), ("g", 2), ("x", 0)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(described, expected, "node {at}");
    }
    let request = DeleteGroupsRequest::default().with_groups_names(["x", "g", "c", "x"].map(group_id).to_vec());
    let deleted = three.call(2, &request).await.results;
    let deleted: Vec<_> = deleted.iter().map(|r| (r.group_id.to_string(), r.error_code)).collect();
    assert_eq!(
        deleted.iter().filter(|(id, code)| id == "g" && *code == 68).count(),
        1,
        "{deleted:?}"
    );
    assert_eq!(
        deleted.iter().filter(|(id, code)| id == "x" && *code == 69).count(),
        1,
        "{deleted:?}"
    );
    cluster.stop().await;
}

async fn until_rebalance(client: &mut Client, member: &str) {
    let told = tokio::time::timeout(Duration::from_secs(60), async {
        while client.call(4, &heartbeat("g", member, 1)).await.error_code != 27 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    told.await.expect("a rebalance");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_coordinator_knows_what_was_committed_and_counts_on() {
    let cluster = Cluster::new().await;
    let mut client = cluster.client(1).await;
    let id = client.enter(9, "g").await.member_id.to_string();
    client.call(5, &sync(5, "g", &id, 1)).await;
    let answer = client.call(9, &commit("g", &id, 1, &[(TOPIC, 0, 100)])).await;
    assert_eq!(committed(&answer), [0]);
    // A member that waits at the old coordinator is told to look again.
    let mut waiting = cluster.client(3).await;
    let second = waiting.call(9, &join("g", "")).await.member_id.to_string();
    waiting.send(9, &join("g", &second)).await;
    until_rebalance(&mut client, &id).await;
    cluster.many.give(cluster.home, 3).await;
    let answer = waiting.receive::<JoinGroupRequest>(9).await;
    assert!([14, 15, 16].contains(&answer.error_code), "{}", answer.error_code);
    // An offset is told, or that it can't be told.
    let asked = fetch(9, "g", Some(&[(TOPIC, 0)]));
    let told = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let answer = client.call(9, &asked).await;
            match answer.groups[0].error_code {
                0 => break fetched(9, &answer)[0].2,
                14..=16 => tokio::time::sleep(Duration::from_millis(20)).await,
                other => panic!("{other}"),
            }
        }
    });
    assert_eq!(told.await.expect("an answer"), 100);
    cluster.known(3).await;
    // The members are unknown there and join anew, in a later generation.
    let old = client.call(4, &heartbeat("g", &id, 1)).await;
    assert_eq!(old.error_code, 25);
    let joined = client.enter(9, "g").await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 2));
    cluster.stop().await;
}
