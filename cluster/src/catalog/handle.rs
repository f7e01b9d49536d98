//! How the rest of the node reads and changes the catalog.

use super::command::{Command, Outcome, Reply};
use super::error::CatalogFailure;
use super::machine::{CatalogMachine, Shared};
use super::state::State;
use crate::machine::Payload;
use crate::range::{ProposeError, Range};
use std::sync::Arc;
use tokio::sync::watch;

/// A handle to the catalog. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
    range: Range,
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

    /// Declares. When this answers, [`Catalog::view`] has it.
    pub async fn propose(&self, command: Command) -> Result<Reply, CatalogFailure> {
        let head = serde_json::to_vec(&command)
            .map_err(|e| super::error::CatalogError::InvalidValue(format!("cannot be encoded: {e}")))?;
        let answer = self.range.propose(Payload::head(head)).await?;
        let outcome: Outcome = serde_json::from_slice(&answer)
            .map_err(|_| ProposeError::Unknown("the catalog's answer cannot be read"))?;
        Ok(outcome?)
    }
}
