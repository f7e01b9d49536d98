//! Scripts on a whole store, its files in memory.

mod data;
mod declarations;
mod members;
mod readers;
mod users;

use super::{Engine, Outcome, Settings};
use crate::auth::{Auth, AuthConfig, Caller, Origin, Surface, Who};
use crate::broker::{AppendBatch, Broker, BrokerConfig, BrokerParts, admit, log_checkpoints};
use crate::log::{LogConfig, Logs};
use crate::ql::{Error, Parameters};
use crate::record::{BatchBuilder, BatchHeader, Compression, NewRecord};
use bytes::Bytes;
use cluster::catalog::{Catalog, CatalogMachine, Command, Topic};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, PartitionId, SYSTEM_RANGE};
use cluster::meta::MetaStore;
use cluster::raft::{HostConfig, HostError, RangeHost, Start};
use cluster::routes::Routes;
use std::path::Path;
use std::sync::Arc;

/// What one answer may carry here: as little as makes the bound easy to reach.
const ANSWER_BYTES: usize = 64 * 1024;
const NODE: NodeId = NodeId(7);

/// A store of one node.
struct Store {
    files: Arc<MemoryFs>,
    host: RangeHost,
    logs: Arc<Logs>,
    auth: Arc<Auth>,
    broker: Arc<Broker>,
    engine: Arc<Engine>,
}

impl Store {
    async fn new() -> Self {
        Self::open(Arc::new(MemoryFs::new(1))).await
    }

    /// With the database `shop.orders` and its topic `orders`, three partitions by customer.
    async fn with_topic() -> Self {
        let store = Self::new().await;
        store
            .done("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders; DEFINE TOPIC orders PARTITIONS 3 BY customer; DEFINE TOPIC plain")
            .await;
        store
    }

    async fn open(files: Arc<MemoryFs>) -> Self {
        let dyn_files: Arc<dyn FileSystem> = files.clone();
        dyn_files.create_dir(Path::new("/store")).unwrap();
        let meta = Arc::new(MetaStore::open(dyn_files.clone(), Path::new("/store/meta")).unwrap());
        let host = RangeHost::open(dyn_files.clone(), Path::new("/store/wal"), NODE, HostConfig::default())
            .await
            .unwrap();
        let machine = CatalogMachine::open(meta.clone()).unwrap();
        let source = machine.source();
        let system = host
            .start(SYSTEM_RANGE, Box::new(machine), Start::Bootstrap)
            .await
            .unwrap();
        let catalog = Catalog::new(source, system);
        catalog.propose(Command::JoinNode { node: NODE }).await.unwrap();
        let auth = Arc::new(Auth::new(catalog.clone(), AuthConfig::default()));
        let config = LogConfig {
            dir: "/store/topics".into(),
            segment_bytes: 1 << 20,
            index_interval: 4096,
            tail_bytes: 1 << 20,
        };
        let logs = Logs::open(dyn_files, config, log_checkpoints(&meta).unwrap()).unwrap();
        let routes = Routes::new(NODE, catalog.clone());
        let forward = Forward::new(ForwardParts {
            node: NODE,
            host: host.clone(),
            leaders: Arc::new(routes.clone()),
            peers: None,
            admit: admit(&logs),
        });
        let broker = Broker::start(BrokerParts {
            node: NODE,
            catalog,
            routes,
            forward,
            logs: logs.clone(),
            meta,
            live: Arc::new(std::collections::BTreeSet::new),
            config: BrokerConfig::default(),
        });
        let settings = Settings {
            node: NODE,
            max_message_bytes: 1 << 20,
        };
        let store = Self {
            files,
            host,
            logs,
            engine: Arc::new(Engine {
                answer_bytes: ANSWER_BYTES,
                ..Engine::new(broker.clone(), auth.clone(), settings)
            }),
            auth,
            broker,
        };
        store.start_ranges().await;
        tokio::spawn({
            let (host, broker) = (store.host.clone(), Arc::downgrade(&store.broker));
            let mut changed = store.broker.catalog().changed();
            async move {
                while changed.changed().await.is_ok() {
                    let Some(broker) = broker.upgrade() else { return };
                    start_ranges(&host, &broker).await;
                }
            }
        });
        store
    }

    async fn start_ranges(&self) {
        start_ranges(&self.host, &self.broker).await;
    }

    /// Stops and opens again what the files hold.
    async fn restart(self) -> Self {
        self.broker.stop();
        self.host.shutdown().await;
        self.logs.close();
        let files = self.files.clone();
        drop(self);
        Self::open(files).await
    }

    async fn run(&self, script: &str) -> Result<Vec<Outcome>, Error> {
        self.run_as(Who::Anonymous, script).await
    }

    async fn run_as(&self, who: Who, script: &str) -> Result<Vec<Outcome>, Error> {
        let parameters = Parameters::new();
        self.engine.execute(&by(who), script.as_bytes(), &parameters).await
    }

    async fn done(&self, script: &str) {
        if let Err(error) = self.run(script).await {
            panic!("{script}: {error}");
        }
    }

    /// Runs a script in `shop.orders` and prints what it is answered, instants as `T`.
    async fn text(&self, script: &str) -> String {
        match self.run(&format!("USE NAMESPACE shop DATABASE orders; {script}")).await {
            Ok(outcomes) => timeless(&outcomes.iter().map(ToString::to_string).collect::<String>()),
            Err(error) => panic!("{script}: {error}"),
        }
    }

    /// Runs a script in `shop.orders` that must fail; the sentence without its place.
    async fn refusal(&self, script: &str) -> String {
        match self.run(&format!("USE NAMESPACE shop DATABASE orders; {script}")).await {
            Ok(outcomes) => panic!("{script}: {outcomes:?}"),
            Err(error) => error.kind.to_string(),
        }
    }

    fn topic(&self, name: &str) -> Arc<Topic> {
        self.broker
            .catalog()
            .view()
            .topic("shop", "orders", name)
            .unwrap()
            .clone()
    }

    /// Appends a batch as a Kafka client's.
    async fn produce(&self, topic: &str, index: u32, batch: Bytes) {
        let topic = self.topic(topic);
        let appended = self
            .broker
            .append(vec![AppendBatch {
                partition: PartitionId { topic: topic.id, index },
                range: topic.partitions[index as usize],
                header: BatchHeader::parse(&batch).unwrap(),
                bytes: batch,
                log_append_time: topic.log_append_time,
            }])
            .await
            .await;
        assert!(appended[0].is_ok(), "{appended:?}");
    }
}

const ORIGIN: Origin = Origin {
    surface: Surface::Http,
    remote: None,
};

fn by(who: Who) -> Caller {
    Caller { who, origin: ORIGIN }
}

async fn start_ranges(host: &RangeHost, broker: &Arc<Broker>) {
    let rows: Vec<_> = broker.catalog().view().ranges().map(|row| row.id).collect();
    for id in rows {
        if host.range(id).is_none() {
            let machine = broker.machine(id).unwrap();
            match host.start(id, Box::new(machine), Start::Bootstrap).await {
                Ok(range) => broker.add_range(id, range),
                Err(HostError::Stopping(_)) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Values `<prefix>0`, `<prefix>1`, .. in one batch, with a null key.
fn values(prefix: &str, count: usize, compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new().compression(compression);
    for n in 0..count {
        let value = format!("{prefix}{n}");
        builder
            .push(NewRecord {
                timestamp: 1_000,
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            })
            .unwrap();
    }
    builder.build().unwrap()
}

/// Instants of append replaced, so that the rest can be compared.
fn timeless(text: &str) -> String {
    let mut parts = text.split("appended: datetime '");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (instant, rest) = part.split_at(24);
        assert!(crate::ql::value::parse_rfc3339(instant).is_some(), "{instant}");
        out.push_str("appended: T");
        out.push_str(rest.strip_prefix('\'').expect("milliseconds"));
    }
    out
}
