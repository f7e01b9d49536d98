//! Who is let in, and how a caller says who it is.

use crate::ids::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Request, Status};
use uuid::Uuid;

/// Oldest version of the peer protocol this program speaks.
pub const PROTOCOL_OLDEST: u32 = 1;
/// Newest version of the peer protocol this program speaks, and the one it calls with.
pub const PROTOCOL_NEWEST: u32 = 1;

const VERSION: &str = "tessaridb-protocol";
const NODE: &str = "tessaridb-node";
const TO: &str = "tessaridb-to";
const STORE: &str = "tessaridb-store";

/// What the node is to its store. Published by the node's composition root from the catalog, watched by the peer code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The store the node belongs to; `None` as long as it waits to be taken into one. Then it answers Hello only.
    pub store: Option<Uuid>,
    /// Nodes that were dropped from the store: nothing of theirs is answered.
    pub banned: Arc<BTreeSet<NodeId>>,
    /// Whether the node has declarations of its own, which it would lose in another store.
    pub occupied: bool,
}

/// Checks callers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(super) node: NodeId,
    pub(super) standing: watch::Receiver<Standing>,
    /// Who is of no store, or of another, may ask all the same.
    pub(super) strangers: bool,
}

/// Who calls; found in a request's extensions behind the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub NodeId);

impl Gate {
    pub fn new(node: NodeId, standing: watch::Receiver<Standing>) -> Self {
        Self {
            node,
            standing,
            strangers: false,
        }
    }

    /// The same, for calls that nodes of no store, or of another, may make.
    pub fn for_strangers(mut self) -> Self {
        self.strangers = true;
        self
    }

    fn check(&self, metadata: &MetadataMap) -> Result<Caller, Status> {
        let version: u32 = field(metadata, VERSION)?.ok_or_else(|| Status::failed_precondition("no version told"))?;
        if !(PROTOCOL_OLDEST..=PROTOCOL_NEWEST).contains(&version) && !self.strangers {
            return Err(Status::failed_precondition(format!(
                "version {version} of the peer protocol is not spoken here, but {PROTOCOL_OLDEST} to {PROTOCOL_NEWEST}"
            )));
        }
        let caller: NodeId = field(metadata, NODE)?.ok_or_else(|| Status::failed_precondition("no node id told"))?;
        let to: Option<NodeId> = field(metadata, TO)?;
        if to.map_or(!self.strangers, |to| to != self.node) {
            return Err(Status::failed_precondition(format!("this is node {}", self.node)));
        }
        let standing = self.standing.borrow();
        if standing.banned.contains(&caller) {
            return Err(Status::permission_denied(format!("node {caller} was dropped")));
        }
        let store: Option<Uuid> = field(metadata, STORE)?;
        if !self.strangers && (store.is_none() || store != standing.store) {
            return Err(Status::failed_precondition(match standing.store {
                Some(store) => format!("this node is of store {store}"),
                None => "this node is of no store yet".into(),
            }));
        }
        Ok(Caller(caller))
    }
}

impl Interceptor for Gate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let caller = self.check(request.metadata())?;
        request.extensions_mut().insert(caller);
        Ok(request)
    }
}

fn field<T: std::str::FromStr>(metadata: &MetadataMap, key: &'static str) -> Result<Option<T>, Status> {
    let Some(value) = metadata.get(key) else {
        return Ok(None);
    };
    let value = value.to_str().ok().and_then(|text| text.parse().ok());
    value
        .map(Some)
        .ok_or_else(|| Status::invalid_argument(format!("{key} can't be read")))
}

/// Says who calls, on every call of a channel.
#[derive(Clone)]
pub(crate) struct Introduce {
    pub(super) node: NodeId,
    pub(super) to: Option<NodeId>,
    pub(super) standing: watch::Receiver<Standing>,
}

impl Interceptor for Introduce {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        let mut tell = |key: &'static str, value: String| {
            let value = value
                .parse()
                .map_err(|_| Status::internal("an identity that is no ASCII"))?;
            metadata.insert(key, value);
            Ok::<_, Status>(())
        };
        tell(VERSION, PROTOCOL_NEWEST.to_string())?;
        tell(NODE, self.node.to_string())?;
        if let Some(to) = self.to {
            tell(TO, to.to_string())?;
        }
        if let Some(store) = self.standing.borrow().store {
            tell(STORE, store.to_string())?;
        }
        Ok(request)
    }
}
