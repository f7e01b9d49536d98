//! The system range's machine: folds declarations and publishes views.

use super::command::{Command, Outcome};
use super::error::CatalogError;
use super::state::{Rows, State};
use crate::machine::{At, CheckpointJob, Machine, Payload};
use crate::meta::{Change, MetaError, MetaStore};
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;

/// Table of the metadata store that holds the catalog's last checkpoint.
const TABLE: &str = "catalog";
const STATE: &[u8] = b"state";
const MARKER: &[u8] = b"marker";

/// What readers of the catalog share with the machine.
pub(super) struct Shared {
    pub(super) view: ArcSwap<State>,
    pub(super) version: watch::Sender<u64>,
}

/// Folds the system range's log.
pub struct CatalogMachine {
    state: State,
    shared: Arc<Shared>,
    meta: Arc<MetaStore>,
    marker: Option<Vec<u8>>,
    /// The version last made durable: an unchanged catalog is not written again.
    stored: u64,
}

impl CatalogMachine {
    /// Reads the last checkpoint from `meta`.
    pub fn open(meta: Arc<MetaStore>) -> Result<Self, MetaError> {
        let state = match meta.get(TABLE, STATE)? {
            Some(bytes) => State::from(serde_json::from_slice::<Rows>(&bytes).map_err(MetaError::corrupt)?),
            None => State::default(),
        };
        let marker = meta.get(TABLE, MARKER)?;
        let shared = Arc::new(Shared {
            view: ArcSwap::from_pointee(state.clone()),
            version: watch::Sender::new(state.version()),
        });
        Ok(Self {
            stored: state.version(),
            state,
            shared,
            meta,
            marker,
        })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    fn fold(&mut self, command: &[u8]) -> Outcome {
        let command: Command =
            serde_json::from_slice(command).map_err(|e| CatalogError::NotUnderstood(e.to_string()))?;
        self.state.apply(command)
    }
}

impl Machine for CatalogMachine {
    fn apply(&mut self, _at: At, command: Payload) -> Bytes {
        let outcome = self.fold(&command.head);
        if outcome.is_ok() {
            self.shared.view.store(Arc::new(self.state.clone()));
        }
        // An outcome holds strings and numbers only; should encoding fail all the same, the proposer is told `Unknown`
        // by the empty answer.
        serde_json::to_vec(&outcome).unwrap_or_default().into()
    }

    fn applied(&mut self) {
        self.shared
            .version
            .send_if_modified(|v| std::mem::replace(v, self.state.version()) != self.state.version());
    }

    fn recovered(&self) -> Option<Vec<u8>> {
        self.marker.clone()
    }

    fn checkpoint(&mut self, marker: Vec<u8>) -> CheckpointJob {
        let meta = self.meta.clone();
        let state = (self.stored != self.state.version()).then(|| self.state.clone());
        self.stored = self.state.version();
        Box::new(move || {
            let mut changes = vec![Change::put(TABLE, MARKER, marker)];
            if let Some(state) = state {
                changes.push(Change::put(
                    TABLE,
                    STATE,
                    serde_json::to_vec(&Rows::from(&state)).map_err(io::Error::other)?,
                ));
            }
            meta.write(changes).map_err(io::Error::other)
        })
    }
}
