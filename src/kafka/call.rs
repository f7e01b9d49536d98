//! What a handler knows of the request it answers.

#[cfg(doc)]
use super::access::Access;
use super::config::KafkaConfig;
use super::endpoints::{Brokers, canonical};
use super::fetch_sessions::FetchSessions;
use super::metrics::Metrics;
use super::pool::Pool;
use super::reply::Refusal;
use super::sign_in::{Admission, SignIn};
use super::skipped::Skipped;
use super::table::Api;
use super::watch::Watch;
use crate::auth::{self, Auth, NotStanding, Origin, Surface, Who};
use crate::broker::Broker;
use crate::connections::{Answers, Memory, Refusals};
use crate::groups::{self, Coordinator};
use crate::names::Names;
use cluster::catalog::{Catalog, State};
use cluster::ids::NodeId;
use kafka_protocol::protocol::StrBytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What all connections of a node share.
pub(crate) struct Shared {
    /// The configuration.
    pub config: KafkaConfig,
    /// How topic names are read.
    pub names: Names,
    /// This node.
    pub node: NodeId,
    /// The store.
    pub broker: Arc<Broker>,
    /// The group coordinator.
    pub groups: Arc<Coordinator>,
    /// Checks passwords.
    pub auth: Arc<Auth>,
    /// What frames may hold that are not whole yet.
    pub arriving: Arc<Memory>,
    /// What requests may hold.
    pub memory: Arc<Memory>,
    /// What answers may hold of records in memory.
    pub answers: Arc<Answers>,
    /// Validating compressed batches: as many at a time as there are cores, so that it leaves the others their share.
    pub validators: Semaphore,
    /// Validating batches that swell to much: one request at a time.
    pub inflating: Semaphore,
    /// Frame buffers.
    pub buffers: Arc<Pool>,
    /// Fetch sessions (KIP-227).
    pub sessions: FetchSessions,
    /// Who is told what the catalog changed.
    pub watch: Watch,
    /// Requests by kind and time.
    pub metrics: Arc<Metrics>,
    /// Cancelled when the node stops: nothing is waited for any more.
    pub stopping: CancellationToken,
}

impl Peer {
    /// A connection that nobody has signed in on. `session` is how long a sign-in lasts.
    pub(crate) fn new(remote: SocketAddr, local: SocketAddr, session: Option<Duration>) -> Self {
        Self {
            remote,
            local,
            sign_in: SignIn::new(session),
            ended: CancellationToken::new(),
            refusals: Refusals::default(),
            skipped: Skipped::default(),
        }
    }

    /// Where its requests come from.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            surface: Surface::Kafka,
            remote: Some(self.remote),
        }
    }
}

impl Shared {
    /// Whether clients need not sign in.
    pub(crate) fn is_open(&self) -> bool {
        self.broker.catalog().view().is_open()
    }

    /// Whether a user has signed in, or nobody needs to.
    pub(crate) fn trusts(&self, peer: &Peer) -> bool {
        peer.sign_in.is_user() || self.is_open()
    }

    /// The largest frame a connection may send now.
    pub(crate) fn frame_limit(&self, peer: &Peer) -> usize {
        if self.trusts(peer) {
            self.config.max_frame
        } else {
            self.config.max_frame_before_sign_in
        }
    }
}

/// One client connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address the client reached.
    pub local: SocketAddr,
    /// Who it has signed in as, if it has.
    pub sign_in: SignIn,
    /// Ends with the user that signed in.
    pub ended: CancellationToken,
    /// What it was refused.
    pub refusals: Refusals,
    /// Batches of its producers that it was told to send again.
    pub skipped: Skipped,
}

/// One request.
#[derive(Clone)]
pub(crate) struct Call {
    /// The node.
    pub shared: Arc<Shared>,
    /// The connection it came on.
    pub peer: Arc<Peer>,
    /// Who asks; settled when the request starts to run.
    pub who: Who,
    /// Its row in the table.
    pub api: &'static Api,
    /// Version of the request, and of the answer.
    pub version: i16,
    /// Comes back in the answer.
    pub correlation: i32,
    /// What the client calls itself.
    pub client_id: Option<StrBytes>,
    /// Another member carried it here: it goes no further.
    pub carried: bool,
    /// What the groups it names are answered, as their coordinator can't be asked.
    pub refused: Option<groups::Refusal>,
}

impl Call {
    /// The store.
    pub fn broker(&self) -> &Broker {
        &self.shared.broker
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        self.shared.broker.catalog()
    }

    /// What is declared now; take it once per request, together with [`Access`] to it.
    pub fn view(&self) -> Arc<State> {
        self.catalog().view()
    }

    /// Whether the connection may send this now, and as whom.
    pub fn admit(&self) -> Result<Admission, Refusal> {
        let standing = auth::standing(&self.view(), &self.peer.sign_in.who()).map(drop);
        self.peer.sign_in.admit(self.api.key, standing, Instant::now())
    }

    /// Fails where who signed in is no more: for requests that took their time.
    pub fn stands(&self) -> Result<(), Refusal> {
        match auth::standing(&self.view(), &self.peer.sign_in.who()) {
            Err(NotStanding::Ended) => Err(Refusal::UserEnded),
            _ => Ok(()),
        }
    }

    /// The client's host as group members show it: `/10.1.2.3`.
    pub fn client_host(&self) -> String {
        format!("/{}", canonical(self.peer.remote.ip()))
    }

    /// The brokers this client is told about.
    pub fn brokers(&self, state: &State) -> Brokers {
        let configured = self.shared.config.advertise.as_ref();
        Brokers::new(state, self.shared.node, configured, self.peer.local)
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
