//! Who may do what on the Kafka port: every request kind that is served, asked by everybody there is.

mod calls;
mod changes;
mod matrix;
mod sight;

use crate::process::Process;
use crate::wire::Wire;
use bytes::Bytes;
use calls::*;
use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig as WholeConfig};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource as OneByOne, AlterableConfig};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeSet;
use tessaridb::kafka::TABLE;
use tessaridb::record::{BatchBuilder, NewRecord};
use uuid::Uuid;

/// What the requests are about.
const TOPIC: &str = "shop.orders.orders";
/// The connection was closed instead.
const CLOSED: i16 = i16::MIN;
/// The password of every user here.
const PASSWORD: &str = "correct horse";

/// Everybody there is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    /// Has not signed in.
    Nobody,
    /// Viewer of the topic's namespace.
    Viewer,
    /// Editor of the topic's database.
    Editor,
    /// Owner of the store.
    Owner,
    /// Editor of another namespace.
    Tenant,
    /// Was granted read on the topic.
    Reader,
    /// Was granted write on the topic.
    Writer,
    /// Was granted read and write on the topic, on this very connection, and has lost both.
    Revoked,
}

use Caller::{Editor, Nobody, Owner, Reader, Revoked, Tenant, Viewer, Writer};

const CALLERS: [Caller; 8] = [Nobody, Viewer, Editor, Owner, Tenant, Reader, Writer, Revoked];

impl Caller {
    fn name(self) -> &'static str {
        match self {
            Nobody => "nobody",
            Viewer => "viewer",
            Editor => "editor",
            Owner => "owner",
            Tenant => "tenant",
            Reader => "reader",
            Writer => "writer",
            Revoked => "revoked",
        }
    }
}

/// A node with users, and what is on it.
struct Node {
    process: Process,
    topic: Uuid,
    /// That of `Revoked`, signed in when it had its rights.
    revoked: Option<Wire>,
}

impl Node {
    fn start() -> Self {
        let process = Process::start(&[]);
        process.script(
            "DEFINE NAMESPACE bank; USE NAMESPACE bank; DEFINE DATABASE accounts; USE DATABASE accounts;
             DEFINE TOPIC accounts;
             DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders;
             DEFINE TOPIC orders; DEFINE TOPIC kept;",
        );
        for caller in CALLERS {
            let name = caller.name();
            process.script(&format!(
                "USE NAMESPACE shop DATABASE orders; DEFINE TOPIC gone_{name};"
            ));
        }
        let mut open = Wire::connect(process.kafka);
        let all: MetadataResponse = open.call(ApiKey::Metadata, 12, &MetadataRequest::default().with_topics(None));
        let topic = all
            .topics
            .iter()
            .find(|t| t.name.as_ref().is_some_and(|n| n.as_str() == TOPIC))
            .expect("declared")
            .topic_id;
        // The first user closes the store to who declares it; the rest is its owner's.
        process.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{PASSWORD}'"));
        let mut node = Self {
            process,
            topic,
            revoked: None,
        };
        for user in [
            "viewer ON NAMESPACE shop ROLE viewer",
            "editor ON shop.orders ROLE editor",
            "tenant ON NAMESPACE bank ROLE editor",
            "reader ROLE editor",
            "writer ROLE editor",
            "revoked ROLE editor",
        ] {
            node.own(&format!("DEFINE USER {user} PASSWORD '{PASSWORD}'"));
        }
        node.own(
            "USE NAMESPACE shop DATABASE orders;
             GRANT read ON orders TO reader; GRANT write ON orders TO writer;
             GRANT read, write ON orders TO revoked; GRANT read ON kept TO revoked;",
        );
        let mut revoked = node.wire(Revoked);
        assert_eq!(list_offsets(&mut revoked, TOPIC), 0, "not yet revoked");
        node.own("USE NAMESPACE shop DATABASE orders; REVOKE read, write ON orders FROM revoked");
        node.revoked = Some(revoked);
        node
    }

    /// Runs a script as the owner.
    fn own(&self, script: &str) -> String {
        self.process.script_as("owner", PASSWORD, script)
    }

    /// A connection of this caller's.
    fn wire(&mut self, caller: Caller) -> Wire {
        match caller {
            Nobody => Wire::connect(self.process.kafka),
            Revoked if self.revoked.is_some() => self.revoked.take().expect("there"),
            _ => Wire::signed_in(self.process.kafka, caller.name(), PASSWORD),
        }
    }
}
