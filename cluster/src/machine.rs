//! The port between a range's log and what it folds into.
//!
//! A machine holds its state in memory (and, for record data, behind the page cache). Durability comes from the
//! write-ahead log; a [`Checkpoint`] moves the line below which the log is no longer needed:
//!
//! ```text
//!   checkpoint <= applied <= committed <= log end
//! ```
//!
//! After a crash the machine is what its last checkpoint says, and the log is replayed from there.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// A command as it travels to the log: a small head in the machine's own encoding, and bulk parts by reference.
///
/// Parts are never copied: the write-ahead log writes them with a vectored write from where they lie, and a payload read
/// back from disk has slices of one buffer. Cloning clones references.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The command in the machine's encoding; refers to parts by number.
    pub head: Bytes,
    /// Bulk bytes (record batches), in the order the head names them.
    pub parts: Arc<[Bytes]>,
}

impl Payload {
    /// A command without bulk parts.
    pub fn head(head: impl Into<Bytes>) -> Self {
        Self {
            head: head.into(),
            parts: Arc::from([]),
        }
    }

    /// Bytes of head and parts together.
    pub fn size(&self) -> usize {
        self.head.len() + self.parts.iter().map(Bytes::len).sum::<usize>()
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes in {} parts)", self.size(), self.parts.len())
    }
}

impl std::fmt::Display for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// Where in the range's log an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Raft log index. Never an offset.
    pub index: u64,
    /// Raft term of the entry: the leader epoch of what it appends.
    pub term: u64,
}

/// What a range's committed log folds into.
///
/// Contract: `apply` is called once per normal entry, in log order, by one task; it must be a function of the state and
/// the arguments alone (no clock, no randomness), so that every replica folds alike. Entries after the last durable
/// checkpoint are applied again after a restart, over a state cut back to that checkpoint.
pub trait Machine: Send + 'static {
    /// Folds one committed command and says what its proposer is answered. A command it cannot read is a bug or a newer
    /// node's: answer with an encoded refusal, never panic.
    fn apply(&mut self, at: At, command: Payload) -> Bytes;

    /// Called after a run of `apply` calls, before anybody waits for more: publish watermarks, wake readers.
    fn applied(&mut self) {}

    /// The range's own marker (opaque to the machine: log id and membership) of the last durable checkpoint;
    /// `None` before the first.
    fn recovered(&self) -> Option<Vec<u8>>;

    /// Takes what must be made durable so that the state up to the last applied entry survives a crash, along with
    /// `marker`, which `recovered` answers after it. Called between applies; must be quick. The job then runs on a
    /// blocking thread while applies go on.
    fn checkpoint(&mut self, marker: Vec<u8>) -> CheckpointJob;

    /// All that the commands applied so far have folded into, in an encoding with a version, for another member to begin
    /// from; without bulk data, which a member fetches by itself. Called between applies; must be quick.
    fn snapshot(&mut self) -> io::Result<Bytes>;

    /// Replaces the state by that of another member's snapshot. The job fetches what the snapshot leaves out, then makes
    /// all of it durable, all or nothing, along with `marker`; nothing is applied until it is done. A crash before it is
    /// done leaves what the last checkpoint says.
    fn install(&mut self, snapshot: Bytes, marker: Vec<u8>, fetch: Box<dyn Fetch>) -> io::Result<CheckpointJob>;

    /// What gives other members that which this machine's snapshots leave out; `None` where they leave out nothing.
    fn bulk(&self) -> Option<Arc<dyn Bulk>> {
        None
    }

    /// Bytes of commands applied since the last checkpoint was taken that a replay would have to redo; used only to
    /// pace checkpoints. The default is for machines with small state.
    fn dirty_bytes(&self) -> u64 {
        0
    }
}

/// Gives other members of a range bulk data, piece by piece, while the machine goes on applying.
pub trait Bulk: Send + Sync + 'static {
    /// The piece that `ask` names, in the machine's encoding. May block on the disk. An error sends the asker to another
    /// member: this one does not have it (yet).
    fn read(&self, ask: &[u8]) -> io::Result<Bytes>;
}

/// Fetches pieces from other members. Blocks.
pub trait Fetch: Send {
    /// The piece that `ask` names, from whichever member has it; tries until one has.
    ///
    /// # Errors
    ///
    /// `Interrupted` when the node is stopping, `NotFound` when there is no other member.
    fn fetch(&mut self, ask: Bytes) -> io::Result<Bytes>;

    /// The last piece was of no use: the next is asked of another member. Errors as above.
    fn refuse(&mut self, why: &io::Error) -> io::Result<()>;
}

/// Syncs files and writes the metadata store; when it returns `Ok` all of it is durable.
/// An error stops the node's writes for good: a failed sync is never retried.
pub type CheckpointJob = Box<dyn FnOnce() -> io::Result<()> + Send>;
