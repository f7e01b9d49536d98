//! What clients do: they declare a topic, produce, read, commit offsets and delete records, each through any node, and try
//! again as Kafka's clients do.

mod declare;
mod groups;
mod producer;
mod reader;
mod trimmer;

use crate::door::Doors;
use crate::history::Violation;
use cluster::catalog::Topic;
use cluster::range::ProposeError;
use parking_lot::Mutex;
use plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use declare::declare;

/// How far the simulation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Faults befall the store.
    #[default]
    Faults,
    /// They are over: producers end once all is acknowledged that they sent.
    Healed,
    /// All producers have ended: readers end at the high watermark.
    Produced,
}

/// What all clients share.
#[derive(Clone)]
pub struct Clients {
    pub doors: Doors,
    pub plan: Arc<Plan>,
    pub topic: Arc<Topic>,
    pub stage: watch::Receiver<Stage>,
    pub shared: Arc<Shared>,
}

/// What clients tell each other.
#[derive(Default)]
pub struct Shared {
    /// How many records each producer sent to each partition.
    pub sent: Mutex<BTreeMap<(u32, u32), u64>>,
    /// How far each partition was read.
    pub read: Mutex<BTreeMap<u32, i64>>,
}

/// Clients at work.
pub struct Working {
    producers: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Begins all of it, within the clients' runtime.
    pub fn start(&self) -> Working {
        let mut working = Working {
            producers: Vec::new(),
            readers: Vec::new(),
        };
        for producer in 0..self.plan.producers {
            working
                .producers
                .push(tokio::spawn(producer::run(self.clone(), producer)));
        }
        for partition in 0..self.plan.partitions {
            working.readers.push(tokio::spawn(reader::run(self.clone(), partition)));
        }
        for group in 0..self.plan.groups {
            working.producers.push(tokio::spawn(groups::run(self.clone(), group)));
        }
        working.producers.push(tokio::spawn(trimmer::run(self.clone())));
        working
    }

    /// Has every partition take a record through every node.
    pub fn probe(&self) -> Vec<JoinHandle<()>> {
        let probe = |node| tokio::spawn(producer::probe(self.clone(), node));
        (0..self.plan.nodes).map(probe).collect()
    }

    fn is_over(&self) -> bool {
        *self.stage.borrow() >= Stage::Healed
    }

    /// An answer that no client may get.
    fn wrong(&self, who: &str, what: String) {
        self.doors.history.violate(Violation {
            invariant: "answers",
            what: format!("{who}: {what}"),
        });
    }
}

impl Working {
    pub fn have_produced(&self) -> bool {
        self.producers.iter().all(JoinHandle::is_finished)
    }

    pub fn have_read(&self) -> bool {
        self.readers.iter().all(JoinHandle::is_finished)
    }
}

/// Whether a client may try again; all that nodes answer while others fail.
fn is_retriable(error: &ProposeError) -> bool {
    match error {
        ProposeError::NotLeader { .. } | ProposeError::NoSpace | ProposeError::Unknown(_) | ProposeError::Fatal(_) => {
            true
        }
    }
}
