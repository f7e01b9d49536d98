//! What a command's handler knows of the node, and of the connection the command came on.

use super::config::RespConfig;
use super::decode::CommandLimits;
use super::errors::{Refusal, Word};
use super::keys::{Key, shown};
use super::metrics::Metrics;
use super::reply::Protocol;
use super::watch::Changes;
use crate::auth::{self, Action, Auth, NotStanding, Origin, Standing, Surface, Who};
use crate::broker::Broker;
use crate::connections::{Answers, Memory, Purse, Refusals};
use crate::names::{NameError, Names, Refused};
use crate::ql::exec::Engine;
use cluster::catalog::{State, Topic};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio_util::sync::CancellationToken;

/// What all connections of the port share.
pub(crate) struct Shared {
    /// The configuration.
    pub config: RespConfig,
    /// How topic names are read.
    pub names: Names,
    /// The store.
    pub broker: Arc<Broker>,
    /// Appends messages, as CREATE does.
    pub engine: Arc<Engine>,
    /// Checks passwords.
    pub auth: Arc<Auth>,
    /// What commands may hold that are not whole yet.
    pub arriving: Arc<Memory>,
    /// What whole commands may hold.
    pub memory: Arc<Memory>,
    /// What answers may hold.
    pub answers: Arc<Answers>,
    /// Who is told what the catalog changed.
    pub changes: Changes,
    /// Commands by name.
    pub metrics: Metrics,
    /// Numbers of connections given so far.
    pub clients: AtomicU64,
    /// Cancelled when the node stops: nothing is waited for any more.
    pub stopping: CancellationToken,
}

impl Shared {
    /// What is declared now.
    pub fn view(&self) -> Arc<State> {
        self.broker.catalog().view()
    }

    /// Whether clients need not sign in.
    pub fn is_open(&self) -> bool {
        self.view().is_open()
    }

    /// Whether a user has signed in, or nobody needs to.
    pub fn trusts(&self, peer: &Peer) -> bool {
        matches!(peer.who(), Who::User(_)) || self.is_open()
    }

    /// How large a command may be that the connection sends now.
    pub fn limits(&self, peer: &Peer) -> CommandLimits {
        match self.trusts(peer) {
            true => self.config.limits,
            false => self.config.limits_before_sign_in,
        }
    }
}

/// One client connection, as others than itself may see it.
pub(crate) struct Peer {
    /// The client's address.
    pub remote: SocketAddr,
    /// What it was refused.
    pub refusals: Refusals,
    /// What its answers are paid from.
    pub purse: Purse,
    /// Whether it sends no more, and has perhaps gone: a read that can end early does.
    pub has_ended: AtomicBool,
    who: Mutex<Who>,
}

impl Peer {
    pub fn new(remote: SocketAddr, purse: Purse) -> Self {
        Self {
            remote,
            refusals: Refusals::default(),
            purse,
            has_ended: AtomicBool::new(false),
            who: Mutex::new(Who::Anonymous),
        }
    }

    /// Who it has signed in as.
    pub fn who(&self) -> Who {
        self.who.lock().clone()
    }

    /// From now on it is this one.
    pub fn is_now(&self, who: Who) {
        *self.who.lock() = who;
    }

    /// Where its commands come from.
    pub fn origin(&self) -> Origin {
        Origin {
            surface: Surface::Resp,
            remote: Some(self.remote),
        }
    }

    /// Resolves once the user that signed in is no more, or has another password.
    pub async fn ended(&self, shared: &Shared) {
        let mut users = shared.changes.users();
        loop {
            users.mark_unchanged();
            if auth::standing(&shared.view(), &self.who()).err() == Some(NotStanding::Ended) {
                return;
            }
            if users.changed().await.is_err() {
                // The port is gone, and its connections with it.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// What a connection chose for itself.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its number, from 1.
    pub number: u64,
    /// How replies are written.
    pub protocol: Protocol,
    /// What the client calls itself; empty: nothing.
    pub name: String,
    /// The client asked to be closed.
    pub quits: bool,
}

/// One command under way.
pub(crate) struct Call<'c> {
    pub shared: &'c Arc<Shared>,
    pub peer: &'c Arc<Peer>,
    /// The command's name, in lower case.
    pub name: &'static str,
    /// Its number in the table.
    pub number: usize,
}

impl Call<'_> {
    /// The topic of a key, if the caller may do this with it now; `None`: there is none, which the caller may know.
    pub fn topic(&self, action: Action, key: &[u8]) -> Result<Option<Arc<Topic>>, Refusal> {
        let view = self.shared.view();
        let who = self.peer.who();
        let standing = auth::standing(&view, &who)?;
        self.topic_in(&view, &standing, action, key)
    }

    fn topic_in(
        &self,
        view: &State,
        standing: &Standing<'_>,
        action: Action,
        key: &[u8],
    ) -> Result<Option<Arc<Topic>>, Refusal> {
        let name = Key::parse(key)?.name;
        match self.shared.names.reach(view, Some(standing), action, name) {
            Ok(topic) => Ok(Some(topic.clone())),
            Err(Refused::Name(NameError::Unknown)) => Ok(None),
            Err(Refused::Name(error)) => Err(error.into()),
            Err(Refused::Forbidden) => Err(self.forbidden(action, key)),
        }
    }

    /// As [`Call::topic`], where nothing can be done without one.
    pub fn declared(&self, action: Action, key: &[u8]) -> Result<Arc<Topic>, Refusal> {
        self.topic(action, key)?.ok_or_else(|| NameError::Unknown.into())
    }

    fn forbidden(&self, action: Action, key: &[u8]) -> Refusal {
        let (number, key) = (i16::try_from(self.number).unwrap_or(i16::MAX), shown(key));
        self.peer.refusals.note(number, &key, || {
            let line = format!("{}: {action:?} {key}", self.name);
            let audit = self.shared.auth.audit();
            audit.refused(&self.peer.who(), &self.peer.origin(), &line);
        });
        let why = format!(
            "this user has no permissions to run the '{}' command on {key}",
            self.name
        );
        Refusal::new(Word::NoPerm, why)
    }
}
