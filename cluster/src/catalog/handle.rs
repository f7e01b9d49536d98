//! How the rest of the node reads and changes the catalog.

use super::command::{Command, Outcome, Reply};
use super::error::CatalogFailure;
use super::machine::{CatalogMachine, Shared};
use super::state::State;
use crate::forward::{Forward, WeakForward};
use crate::ids::SYSTEM_RANGE;
use crate::machine::Payload;
use crate::range::{Applied, ProposeError, Range};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long a declaration waits for somebody to lead the system range.
const LEADER: Duration = Duration::from_secs(5);
/// How long a declaration that is applied at the leader waits until it is here too.
const HERE: Duration = Duration::from_secs(5);

/// The node's catalog is no longer kept up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node stops")]
pub struct Stopped;

/// A handle to the catalog. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
    range: Range,
    forward: Arc<ArcSwap<WeakForward>>,
}

/// Takes what a [`Catalog`] needs from a machine before the machine is given to its range.
pub struct CatalogSource(Arc<Shared>);

impl CatalogMachine {
    /// The reading side of this machine.
    pub fn source(&self) -> CatalogSource {
        CatalogSource(self.shared())
    }
}

impl Catalog {
    /// `range` is the system range, started with the machine that `source` was taken from.
    pub fn new(source: CatalogSource, range: Range) -> Self {
        Self {
            shared: source.0,
            range,
            forward: Arc::default(),
        }
    }

    /// The node is stopping: a checkpoint of the catalog no longer waits for a full disk.
    pub fn close(&self) {
        self.shared.stop.cancel();
    }

    /// What is declared now. Never waits; stays as it is while held.
    pub fn view(&self) -> Arc<State> {
        self.shared.view.load_full()
    }

    /// The catalog's version, as it changes.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    /// Declarations go to the leader by `forward` from now on. Before, they are taken only where this node leads.
    pub fn reach_by(&self, forward: &Forward) {
        self.forward.store(Arc::new(forward.downgrade()));
    }

    /// Declares. When this answers, [`Catalog::view`] has it (or, where this node is that far behind the leader, will
    /// have it).
    pub async fn propose(&self, command: Command) -> Result<Reply, CatalogFailure> {
        self.propose_at(command).await.map(|(_, reply)| reply)
    }

    /// The same, with the command's place in the catalog's log.
    pub async fn propose_at(&self, command: Command) -> Result<(u64, Reply), CatalogFailure> {
        let head = serde_json::to_vec(&command)
            .map_err(|e| super::error::CatalogError::InvalidValue(format!("cannot be encoded: {e}")))?;
        let Applied { index, answer } = match self.forward.load().upgrade() {
            Some(forward) => {
                let deadline = Instant::now() + LEADER;
                forward.propose(SYSTEM_RANGE, Payload::head(head), deadline).await?
            }
            None => self.range.submit_indexed(Payload::head(head)).await?.await?,
        };
        if timeout(HERE, self.has(index)).await.is_err() {
            tracing::warn!(index, "this node is behind with the catalog");
        }
        let outcome: Outcome = serde_json::from_slice(&answer)
            .map_err(|_| ProposeError::Unknown("the catalog's answer cannot be read"))?;
        Ok((index, outcome?))
    }

    /// Resolves once [`Catalog::view`] has what lies at `index` of the catalog's log; an error when this node stops first.
    pub async fn has(&self, index: u64) -> Result<(), Stopped> {
        let mut applied = self.shared.applied.subscribe();
        let has = applied.wait_for(|applied| *applied >= index).await;
        has.map(drop).map_err(|_| Stopped)
    }
}
