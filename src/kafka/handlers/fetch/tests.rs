//! Fetches and their kin over a socket, of partitions that three members lead, asked of one.

use crate::auth::{Auth, AuthConfig};
use crate::broker::tests::store::batch_at;
use crate::broker::tests::trio::{Trio, until};
use crate::connections::Budget;
use crate::groups::{Coordinator, GroupConfig};
use crate::kafka::handlers::groups::tests::Client;
use crate::kafka::{KafkaConfig, KafkaServer};
use cluster::catalog::Topic;
use cluster::ids::NodeId;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse, ListOffsetsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const VERSION: i16 = 17;

/// Member 1's Kafka port.
struct Door {
    server: KafkaServer,
    groups: Arc<Coordinator>,
}

impl Door {
    async fn open(trio: &Trio) -> Self {
        Self::open_as(trio, KafkaConfig::new("store".into())).await
    }

    async fn open_as(trio: &Trio, config: KafkaConfig) -> Self {
        let broker = trio.get(1).broker.clone();
        let groups = Coordinator::new(broker.clone(), GroupConfig::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let auth = Arc::new(Auth::new(broker.catalog().clone(), AuthConfig::default()));
        let server = KafkaServer::start(
            listener,
            crate::tls::Door::plain(),
            config,
            NodeId(1),
            broker,
            groups.clone(),
            auth,
        )
        .unwrap();
        Self { server, groups }
    }

    async fn client(&self) -> Client {
        Client(TcpStream::connect(self.server.local_addr()).await.unwrap())
    }

    async fn close(self) {
        self.groups.close();
        self.server.stop().await;
    }
}

/// A fetch of all partitions from these offsets on (0 where none is given).
fn fetch(topic: &Topic, offsets: &BTreeMap<u32, i64>) -> FetchRequest {
    let partitions = (0..topic.partitions.len() as u32).map(|index| {
        FetchPartition::default()
            .with_partition(index as i32)
            .with_fetch_offset(offsets.get(&index).copied().unwrap_or(0))
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default()
        .with_topic_id(topic.uuid)
        .with_partitions(partitions.collect());
    FetchRequest::default()
        .with_max_wait_ms(60_000)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// Bytes of each partition that brought any.
fn bytes(response: &FetchResponse) -> BTreeMap<u32, usize> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let bytes = partitions.map(|p| (p.partition_index as u32, p.records.as_ref().map_or(0, |r| r.len())));
    bytes.filter(|(_, bytes)| *bytes > 0).collect()
}

fn errors(response: &FetchResponse) -> BTreeMap<u32, i16> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let errors = partitions.map(|p| (p.partition_index as u32, p.error_code));
    errors.filter(|(_, error)| *error != 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_answers_for_all_partitions() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    for index in 0..6 {
        trio.append(&topic, index, &[i64::from(index); 3]).await;
    }
    let door = Door::open(&trio).await;
    let mut client = door.client().await;
    let all = client.call(VERSION, &fetch(&topic, &BTreeMap::new())).await;
    let one = batch_at(&[0; 3]).len();
    assert_eq!(bytes(&all), (0..6).map(|index| (index, one)).collect());
    for partition in &all.responses[0].partitions {
        let marks = (
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        );
        assert_eq!(marks, (3, 3, 0), "{}", partition.partition_index);
    }

    let partitions = (0..6).map(|index| {
        ListOffsetsPartition::default()
            .with_partition_index(index)
            .with_current_leader_epoch(-1)
            .with_timestamp([-1, -2, i64::from(index)][index as usize % 3])
    });
    let name = StrBytes::from_string(topic.full_name());
    let offsets = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(TopicName(name))
            .with_partitions(partitions.collect()),
    ]);
    let offsets = client.call(7, &offsets).await;
    let offsets = offsets.topics[0].partitions.iter().map(|p| (p.error_code, p.offset));
    assert_eq!(
        offsets.collect::<Vec<_>>(),
        [(0, 3), (0, 0), (0, 0), (0, 3), (0, 0), (0, 0)]
    );
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_together_stay_within_the_bytes_asked_for() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    for index in 0..6 {
        for _ in 0..30 {
            trio.append(&topic, index, &[1; 10]).await;
        }
    }
    let door = Door::open(&trio).await;
    let mut client = door.client().await;
    let one = batch_at(&[1; 10]).len();
    let bounded = |max_bytes| fetch(&topic, &BTreeMap::new()).with_max_bytes(max_bytes);
    for batches in [1, 7, 40] {
        let max = batches * one + one / 2;
        let got: usize = bytes(&client.call(VERSION, &bounded(max as i32)).await).values().sum();
        assert!(got > 0 && got <= max, "{got} of {max}");
    }
    let got: usize = bytes(&client.call(VERSION, &bounded(1)).await).values().sum();
    assert_eq!(got, one, "the first batch comes whatever its size");
    // However little a fetch brings, all is read in the end.
    let mut offsets = BTreeMap::new();
    let mut read = 0;
    while read < 6 * 30 * one {
        let request = fetch(&topic, &offsets).with_max_bytes((5 * one) as i32);
        let got = bytes(&client.call(VERSION, &request).await);
        assert!(!got.is_empty());
        for (index, bytes) in got {
            read += bytes;
            *offsets.entry(index).or_insert(0) += (bytes / one * 10) as i64;
        }
    }
    assert!(offsets.values().all(|offset| *offset == 300), "{offsets:?}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_fetch_wakes_for_what_any_member_takes() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let door = Door::open(&trio).await;
    let mut client = door.client().await;
    let one = batch_at(&[1]).len();
    let mut offsets = BTreeMap::new();
    for id in [1, 2, 3, 2] {
        let index = trio.partition_of(&topic, id);
        client
            .send(VERSION, &fetch(&topic, &offsets).with_max_wait_ms(600_000))
            .await;
        let waiting = || [2, 3].iter().all(|id| trio.get(*id).broker.waiting() > 0);
        until("both leaders are waited at", waiting).await;
        trio.append(&topic, index, &[1]).await;
        let answer = client.receive::<FetchRequest>(VERSION).await;
        assert_eq!(bytes(&answer), BTreeMap::from([(index, one)]));
        let none = || [2, 3].iter().all(|id| trio.get(*id).broker.waiting() == 0);
        until("the others are waited at no longer", none).await;
        *offsets.entry(index).or_insert(0) += 1;
    }
    // Enough only in two places together.
    let both = [2, 3].map(|id| trio.partition_of(&topic, id));
    let request = fetch(&topic, &offsets)
        .with_max_wait_ms(600_000)
        .with_min_bytes(2 * one as i32);
    client.send(VERSION, &request).await;
    for index in both {
        trio.append(&topic, index, &[1]).await;
    }
    let answer = client.receive::<FetchRequest>(VERSION).await;
    assert_eq!(bytes(&answer), both.map(|index| (index, one)).into());
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_vain_answers_with_the_marks() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    trio.append(&topic, index, &[1; 4]).await;
    let door = Door::open(&trio).await;
    let mut client = door.client().await;
    let request = fetch(&topic, &BTreeMap::from([(index, 4)])).with_max_wait_ms(30);
    let answer = client.call(VERSION, &request).await;
    assert!(bytes(&answer).is_empty() && errors(&answer).is_empty());
    assert_eq!(answer.responses[0].partitions[index as usize].high_watermark, 4);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partitions_of_a_leader_that_dies_are_refused_and_the_others_are_not() {
    let mut trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let lost: Vec<u32> = (0..6)
        .filter(|index| trio.leader(&topic, *index).id == NodeId(3))
        .collect();
    let door = Door::open(&trio).await;
    let mut client = door.client().await;
    client
        .send(VERSION, &fetch(&topic, &BTreeMap::new()).with_max_wait_ms(2_000))
        .await;
    until("it is waited for", || trio.get(3).broker.waiting() > 0).await;
    trio.kill(3).await;
    let first = client.receive::<FetchRequest>(VERSION).await;
    // It may have had the time to say that it has nothing.
    let answer = match errors(&first).is_empty() {
        true => client.call(VERSION, &fetch(&topic, &BTreeMap::new())).await,
        false => first,
    };
    assert_eq!(errors(&answer), lost.iter().map(|index| (*index, 6)).collect());
    // What others lead is served as before.
    let index = trio.partition_of(&topic, 2);
    trio.append(&topic, index, &[1]).await;
    let answer = client.call(VERSION, &fetch(&topic, &BTreeMap::new())).await;
    assert!(bytes(&answer).contains_key(&index));
    assert_eq!(errors(&answer).len(), lost.len());
    door.close().await;
}

/// Its answer is of records that another member leads, so that it holds memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_answers_is_closed_while_others_want_their_memory() {
    let trio = Trio::new().await;
    let topic = trio.topic("t").await;
    let index = trio.partition_of(&topic, 2);
    for _ in 0..9 {
        trio.append(&topic, index, &[0; 60_000]).await;
    }
    let budget = Budget::new(8 << 20);
    let config = KafkaConfig {
        budget: budget.clone(),
        // Nobody is closed for standing still alone.
        max_stall: Duration::from_secs(1000),
        ..KafkaConfig::new("store".into())
    };
    let door = Door::open_as(&trio, config).await;
    let partition = FetchPartition::default()
        .with_partition(index as i32)
        .with_partition_max_bytes(i32::MAX);
    let wanted = FetchTopic::default()
        .with_topic_id(topic.uuid)
        .with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_max_bytes(i32::MAX)
        .with_session_epoch(-1)
        .with_topics(vec![wanted]);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = Client(socket.connect(door.server.local_addr()).await.unwrap());
    let mut client = door.client().await;
    let all = bytes(&client.call(VERSION, &request).await);
    assert!(all[&index] > 5 << 20, "{all:?}");
    slow.send(VERSION, &request).await;
    until("its answer holds memory", || budget.answers.try_take(4 << 20).is_none()).await;
    let mut less = false;
    let closed = async {
        while door.server.connections() == 2 {
            less |= bytes(&client.call(VERSION, &request).await) != all;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), closed)
        .await
        .expect("closed");
    assert!(less, "its memory was wanted");
    assert_eq!(bytes(&client.call(VERSION, &request).await), all);
    door.close().await;
}
