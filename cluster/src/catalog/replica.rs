//! Members: the rows that `DEFINE REPLICA` writes, and what changes them.

use crate::ids::{BrokerId, NodeId, RangeId};
use serde::{Deserialize, Serialize};

/// What a member does for the store. Every member holds the catalog and carries any request to whoever answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Holds replicas of data ranges.
    pub serving: bool,
    /// Takes TessariQL that changes anything. What Kafka clients produce is taken by every member.
    pub writable: bool,
    /// Votes on the catalog, and leads ranges.
    pub coordinating: bool,
}

impl Roles {
    /// Every role: what a member has that was told nothing else.
    pub const ALL: Self = Self {
        serving: true,
        writable: true,
        coordinating: true,
    };
    /// No role: a member that holds the catalog only.
    pub const NONE: Self = Self {
        serving: false,
        writable: false,
        coordinating: false,
    };

    /// The names of the roles, in the order they are declared in.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (self.serving, "serving"),
            (self.writable, "writable"),
            (self.coordinating, "coordinating"),
        ]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self::ALL
    }
}

/// Where Kafka clients reach a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KafkaAt {
    /// Where the member itself says (`--kafka-advertise`).
    #[default]
    Told,
    /// `KAFKA AT`: host and port.
    At((String, u16)),
    /// `KAFKA NONE`: clients are not told of the member.
    Hidden,
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is declared, and does not hold the catalog yet.
    Declared,
    /// It holds the catalog.
    #[default]
    Joined,
    /// It is dropped; what it holds is moved away, then its row goes.
    Leaving,
}

/// What a running node tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Host and port where its Kafka clients reach it: `--kafka-advertise`, else the address it listens on unless that is
    /// a wildcard.
    #[serde(default)]
    pub kafka: Option<(String, u16)>,
    /// Where it serves TessariQL.
    #[serde(default)]
    pub serve: Option<String>,
}

/// A node that is part of the store, or is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number on the Kafka wire; given when the row is made, never again.
    pub broker: BrokerId,
    /// Its node id; `None` until the node at `at` has told it, where the row does not say.
    pub node: Option<NodeId>,
    /// The row's name; `None` for the first node of a store before a row names it.
    #[serde(default)]
    pub name: Option<String>,
    /// Where the other members reach it, `HOST:PORT`.
    #[serde(default)]
    pub at: Option<String>,
    /// Where clients of TessariQL reach it, `HOST:PORT`.
    #[serde(default)]
    pub clients_at: Option<String>,
    /// Where HTTP reaches it, a URL.
    #[serde(default)]
    pub http_at: Option<String>,
    /// Where Kafka clients reach it.
    #[serde(default)]
    pub kafka: KafkaAt,
    /// What it does.
    #[serde(default)]
    pub roles: Roles,
    /// How many ranges it should lead; `None`: its share.
    #[serde(default)]
    pub leads: Option<u32>,
    /// How far it has come.
    #[serde(default)]
    pub standing: Standing,
    /// What the node tells of itself.
    #[serde(default)]
    pub told: Told,
}

impl Member {
    /// Host and port that Kafka clients are told, where there is one.
    pub fn kafka_address(&self) -> Option<&(String, u16)> {
        match &self.kafka {
            KafkaAt::Told => self.told.kafka.as_ref(),
            KafkaAt::At(address) => Some(address),
            KafkaAt::Hidden => None,
        }
    }

    /// Whether it may hold data: it holds the catalog already, and stays.
    pub fn holds_data(&self) -> bool {
        self.standing == Standing::Joined && self.roles.serving && self.node.is_some()
    }

    /// Whether it may lead, and vote on the catalog.
    pub fn coordinates(&self) -> bool {
        self.standing != Standing::Leaving && self.roles.coordinating && self.node.is_some()
    }
}

/// What `DEFINE REPLICA` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaSpec {
    /// The row's name, an identifier.
    pub name: String,
    /// Peer address, `HOST:PORT`.
    pub at: String,
    /// See [`Member::clients_at`].
    #[serde(default)]
    pub clients_at: Option<String>,
    /// See [`Member::http_at`].
    #[serde(default)]
    pub http_at: Option<String>,
    /// Kafka address, `HOST:PORT`; without it, what the node tells.
    #[serde(default)]
    pub kafka_at: Option<String>,
    /// Which node; without it, the one found at `at`.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// Without it, every role.
    #[serde(default)]
    pub roles: Option<Roles>,
}

/// One change of a replica row. `None` takes an address away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ReplicaChange {
    At(String),
    ClientsAt(Option<String>),
    HttpAt(Option<String>),
    KafkaAt(Option<String>),
    Roles(Roles),
    Leads(Option<u32>),
}

/// A change of members, or of what they hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", content = "with", rename_all = "snake_case")]
pub enum MemberCommand {
    /// Makes a row, or completes that of a node known already.
    Define {
        /// What it says.
        spec: ReplicaSpec,
        /// Accept one that is there, as it is.
        if_not_exists: bool,
    },
    /// Changes a row.
    Alter {
        /// Its name.
        name: String,
        /// What changes.
        change: ReplicaChange,
    },
    /// Bans the row's node for ever; the row goes once nothing is left on the node.
    Drop {
        /// Its name.
        name: String,
    },
    /// Gives a node its roles.
    NodeRoles {
        /// The node.
        node: NodeId,
        /// All its roles.
        roles: Roles,
    },
    /// What a node tells of itself.
    Tell {
        /// The node.
        node: NodeId,
        /// What.
        told: Told,
    },
    /// The node at a row's address is this one.
    Bind {
        /// The row.
        broker: BrokerId,
        /// The node.
        node: NodeId,
    },
    /// The node holds the catalog now.
    Joined {
        /// The node.
        node: NodeId,
    },
    /// Nothing is left on a dropped node.
    Left {
        /// The node.
        node: NodeId,
    },
    /// Who is to hold and to lead a range.
    Place {
        /// The range.
        range: RangeId,
        /// Its voters.
        voters: Vec<NodeId>,
        /// Who should lead it.
        leader: Option<NodeId>,
    },
}
