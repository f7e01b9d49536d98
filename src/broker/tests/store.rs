//! A broker over real ranges, its files in memory.

use crate::broker::{AppendBatch, Broker, BrokerConfig, BrokerParts, admit, log_checkpoints};
use crate::log::{LogConfig, Logs, Piece, Slice};
use crate::record::{BatchBuilder, BatchHeader, NewRecord};
use bytes::Bytes;
use cluster::catalog::{Acknowledge, Catalog, CatalogMachine, Command, Reply, Topic, TopicSpec};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, PartitionId, RangeId, SYSTEM_RANGE};
use cluster::meta::MetaStore;
use cluster::raft::{HostConfig, RangeHost, Start};
use cluster::routes::{Followed, Routes};
use cluster::wal::WalConfig;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

pub(crate) const NODE: NodeId = NodeId(7);

pub(crate) struct Store {
    pub(crate) files: MemoryFs,
    pub(crate) broker: Arc<Broker>,
    pub(crate) logs: Arc<Logs>,
    host: RangeHost,
    _system_route: Followed,
}

impl Store {
    pub(crate) async fn new() -> Self {
        Self::open(MemoryFs::new(1), config()).await
    }

    pub(crate) async fn with(config: BrokerConfig) -> Self {
        Self::open(MemoryFs::new(1), config).await
    }

    /// Opens what `files` hold and serves all ranges of the catalog.
    pub(crate) async fn open(files: MemoryFs, config: BrokerConfig) -> Self {
        let store = Self::open_without_ranges(files, config).await;
        store.serve().await;
        store
    }

    pub(crate) async fn open_without_ranges(files: MemoryFs, config: BrokerConfig) -> Self {
        let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
        shared.create_dir(Path::new("/data")).unwrap();
        let meta = Arc::new(MetaStore::open(shared.clone(), Path::new("/data/meta")).unwrap());
        let log_config = LogConfig {
            dir: "/data/partitions".into(),
            segment_bytes: 4000,
            index_interval: 300,
            tail_bytes: 1 << 20,
        };
        let logs = Logs::open(shared.clone(), log_config, log_checkpoints(&meta).unwrap()).unwrap();
        let host_config = HostConfig {
            wal: WalConfig {
                segment_bytes: 1 << 20,
                spare_segments: 1,
                ..WalConfig::default()
            },
            ..HostConfig::default()
        };
        let host = RangeHost::open(shared, Path::new("/data/wal"), NODE, host_config)
            .await
            .unwrap();
        let machine = CatalogMachine::open(meta.clone()).unwrap();
        let source = machine.source();
        let system = host
            .start(SYSTEM_RANGE, Box::new(machine), Start::Bootstrap)
            .await
            .unwrap();
        let catalog = Catalog::new(source, system.clone());
        catalog.propose(Command::JoinNode { node: NODE }).await.unwrap();
        let routes = Routes::new(NODE, catalog.clone());
        let system_route = routes.follow(&system);
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
            live: Arc::new(BTreeSet::new),
            config,
        });
        Self {
            files,
            broker,
            logs,
            host,
            _system_route: system_route,
        }
    }

    /// Starts the ranges of the catalog that do not run yet.
    pub(crate) async fn serve(&self) {
        for row in self.broker.catalog().view().ranges() {
            self.serve_range(row.id).await;
        }
    }

    pub(crate) async fn serve_range(&self, id: RangeId) {
        if self.broker.leadership(id).is_none() {
            let machine = self.broker.machine(id).unwrap();
            let range = self.host.start(id, Box::new(machine), Start::Bootstrap).await.unwrap();
            self.broker.add_range(id, range);
        }
    }

    pub(crate) async fn topic(&self, name: &str, spec: TopicSpec) -> Arc<Topic> {
        let topic = define(self.broker.catalog(), name, spec).await;
        self.serve().await;
        topic
    }

    /// The power goes and comes back.
    pub(crate) async fn crash(self) -> Self {
        let Self {
            files,
            host,
            broker,
            logs,
            ..
        } = self;
        files.crash();
        broker.stop();
        host.shutdown().await;
        drop((host, broker, logs));
        Self::open(files, config()).await
    }
}

/// Declares a topic of the database shop.orders.
pub(crate) async fn define(catalog: &Catalog, name: &str, spec: TopicSpec) -> Arc<Topic> {
    let namespace = Command::DefineNamespace {
        name: "shop".into(),
        if_not_exists: true,
        replication: None,
        acknowledge: Acknowledge::Majority,
    };
    let database = Command::DefineDatabase {
        namespace: "shop".into(),
        name: "orders".into(),
        if_not_exists: true,
    };
    catalog
        .propose(Command::Together(vec![namespace, database]))
        .await
        .unwrap();
    let topic = Command::DefineTopic {
        namespace: "shop".into(),
        database: "orders".into(),
        name: name.into(),
        if_not_exists: false,
        spec,
        uuid: Uuid::new_v4(),
        now_ms: 1,
    };
    let Reply::Topic(topic) = catalog.propose(topic).await.unwrap() else {
        panic!("no topic");
    };
    topic
}

/// Nothing happens by itself.
pub(crate) fn config() -> BrokerConfig {
    BrokerConfig {
        retention_interval: Duration::from_secs(24 * 60 * 60),
        ..BrokerConfig::default()
    }
}

pub(crate) fn partitions(partitions: u32) -> TopicSpec {
    TopicSpec {
        partitions,
        ..TopicSpec::default()
    }
}

/// A batch of records with these timestamps.
pub(crate) fn batch_at(timestamps: &[i64]) -> Bytes {
    batch_of(BatchBuilder::new(), timestamps)
}

pub(crate) fn batch_of(mut builder: BatchBuilder, timestamps: &[i64]) -> Bytes {
    for timestamp in timestamps {
        let record = NewRecord {
            timestamp: *timestamp,
            value: Some(b"value"),
            ..NewRecord::default()
        };
        builder.push(record).unwrap();
    }
    builder.build().unwrap()
}

pub(crate) fn to(topic: &Topic, index: u32, bytes: Bytes) -> AppendBatch {
    AppendBatch {
        partition: PartitionId { topic: topic.id, index },
        range: topic.partitions[index as usize],
        header: BatchHeader::parse(&bytes).unwrap(),
        bytes,
        log_append_time: topic.log_append_time,
    }
}

pub(crate) fn content(slice: &Slice) -> Vec<u8> {
    let mut content = Vec::new();
    for piece in &slice.pieces {
        match piece {
            Piece::Memory(bytes) => content.extend_from_slice(bytes),
            Piece::File { file, position, len } => {
                let mut bytes = vec![0; *len];
                file.read_exact_at(&mut bytes, *position).unwrap();
                content.extend_from_slice(&bytes);
            }
        }
    }
    content
}
