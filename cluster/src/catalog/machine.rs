//! The system range's machine: folds declarations and publishes views.

use super::command::{Command, Outcome};
use super::error::CatalogError;
use super::state::{Rows, State};
use crate::machine::{At, CheckpointJob, Fetch, Machine, Payload};
use crate::meta::{Change, MetaError, MetaStore};
use crate::planted::{self, Bug};
use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Table of the metadata store that holds the catalog's last checkpoint.
const TABLE: &str = "catalog";
const STATE: &[u8] = b"state";
const MARKER: &[u8] = b"marker";

/// What readers of the catalog share with the machine.
pub(super) struct Shared {
    pub(super) view: ArcSwap<State>,
    pub(super) version: watch::Sender<u64>,
    /// Index of the last entry of the system range's log that is in the view; 0 until one is applied in this run.
    pub(super) applied: watch::Sender<u64>,
    /// The node is stopping: a checkpoint no longer waits for space.
    pub(super) stop: CancellationToken,
}

/// Folds the system range's log.
pub struct CatalogMachine {
    state: State,
    shared: Arc<Shared>,
    meta: Arc<MetaStore>,
    marker: Option<Vec<u8>>,
    last: u64,
    /// The version last made durable, where known: an unchanged catalog is not written again.
    stored: Option<u64>,
}

/// A snapshot of the catalog, as JSON.
#[derive(Serialize, Deserialize)]
struct Picture {
    version: u32,
    rows: Rows,
}

const PICTURE: u32 = 1;

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
            applied: watch::Sender::new(0),
            stop: CancellationToken::new(),
        });
        Ok(Self {
            last: 0,
            stored: Some(state.version()),
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
    fn apply(&mut self, at: At, command: Payload) -> Bytes {
        self.last = at.index;
        if planted::has(Bug::SkippedDeclaration) && rand::random_ratio(1, 10) {
            return Bytes::new();
        }
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
        self.shared.applied.send_replace(self.last);
    }

    fn recovered(&self) -> Option<Vec<u8>> {
        self.marker.clone()
    }

    fn snapshot(&mut self) -> io::Result<Bytes> {
        let picture = Picture {
            version: PICTURE,
            rows: Rows::from(&self.state),
        };
        Ok(serde_json::to_vec(&picture)?.into())
    }

    fn install(&mut self, snapshot: Bytes, marker: Vec<u8>, _fetch: Box<dyn Fetch>) -> io::Result<CheckpointJob> {
        let picture: Picture = serde_json::from_slice(&snapshot)?;
        if picture.version != PICTURE {
            let what = format!("a catalog snapshot of version {}", picture.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.state = State::from(picture.rows);
        self.shared.view.store(Arc::new(self.state.clone()));
        // Versions of another member's catalog tell nothing of what is stored here.
        self.stored = None;
        Ok(self.checkpoint(marker))
    }

    fn checkpoint(&mut self, marker: Vec<u8>) -> CheckpointJob {
        let (meta, stop) = (self.meta.clone(), self.shared.stop.clone());
        let state = (self.stored != Some(self.state.version())).then(|| self.state.clone());
        self.stored = Some(self.state.version());
        Box::new(move || {
            let mut changes = vec![Change::put(TABLE, MARKER, marker)];
            if let Some(state) = state {
                changes.push(Change::put(
                    TABLE,
                    STATE,
                    serde_json::to_vec(&Rows::from(&state)).map_err(io::Error::other)?,
                ));
            }
            meta.write_when_room(changes, &stop, &"the catalog")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;
    use crate::ids::NodeId;
    use std::path::Path;

    /// It ended the node: the error of the metadata store went through as a failed checkpoint.
    #[test]
    fn a_checkpoint_on_a_full_disk_waits_for_space() {
        let files = MemoryFs::new(1);
        let open = || Arc::new(MetaStore::open(Arc::new(files.clone()), Path::new("/meta")).unwrap());
        let meta = open();
        let mut machine = CatalogMachine::open(meta.clone()).unwrap();
        let join = serde_json::to_vec(&Command::JoinNode { node: NodeId(7) }).unwrap();
        machine.apply(At { index: 1, term: 1 }, Payload::head(join));
        files.set_capacity(files.used());
        meta.write(vec![Change::put(TABLE, *b"filler", vec![0; 1 << 20])])
            .expect_err("no room");
        let job = machine.checkpoint(b"marker".to_vec());
        let waiting = std::thread::spawn(job);
        files.set_capacity(u64::MAX);
        waiting.join().unwrap().unwrap();
        drop((machine, meta));
        let machine = CatalogMachine::open(open()).unwrap();
        assert_eq!(machine.recovered().as_deref(), Some(&b"marker"[..]));
        assert!(machine.state.member(NodeId(7)).is_some());
    }

    #[test]
    fn a_checkpoint_on_a_full_disk_gives_up_when_the_node_stops() {
        let files = MemoryFs::new(2);
        let meta = Arc::new(MetaStore::open(Arc::new(files.clone()), Path::new("/meta")).unwrap());
        let mut machine = CatalogMachine::open(meta.clone()).unwrap();
        files.set_capacity(files.used());
        meta.write(vec![Change::put(TABLE, *b"filler", vec![0; 1 << 20])])
            .expect_err("no room");
        let job = machine.checkpoint(vec![0; 1 << 20]);
        machine.shared.stop.cancel();
        assert!(crate::fs::is_full(&job().unwrap_err()));
    }
}
