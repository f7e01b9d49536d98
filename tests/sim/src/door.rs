//! How clients reach nodes: any node, over a connection that ends with the node's life.

use crate::history::History;
use crate::node::Node;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Longest time that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// A node's life, as clients reach it.
#[derive(Clone)]
pub struct Life {
    pub runtime: Handle,
    /// Once it is open.
    pub node: Arc<OnceLock<Node>>,
}

/// Where clients knock. Clones are the same.
#[derive(Clone)]
pub struct Doors {
    lives: Arc<Mutex<Vec<Option<Life>>>>,
    random: Arc<Mutex<StdRng>>,
    pub history: History,
}

/// No answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Nobody was there: surely not done.
    Closed,
    /// It may have been done, or be done later.
    Unknown,
}

impl Doors {
    pub fn new(seed: u64, nodes: usize, history: History) -> Self {
        Self {
            lives: Arc::new(Mutex::new(vec![None; nodes])),
            random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            history,
        }
    }

    pub fn set(&self, node: usize, life: Option<Life>) {
        self.lives.lock()[node] = life;
    }

    pub fn count(&self) -> usize {
        self.lives.lock().len()
    }

    /// A number for clients, below `below`.
    pub fn any(&self, below: u64) -> u64 {
        self.random.lock().random_range(0..below)
    }

    /// Some node.
    pub fn some(&self) -> usize {
        self.any(self.count() as u64) as usize
    }

    /// Waits a little; at most so many milliseconds.
    pub async fn pause(&self, most: u64) {
        sleep(Duration::from_millis(1 + self.any(most.max(1)))).await;
    }

    /// Has a node do something, in its own runtime.
    pub async fn ask<T, F, W>(&self, node: usize, work: W) -> Result<T, Gone>
    where
        W: FnOnce(Life) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.pause(3).await;
        let life = self.lives.lock()[node].clone();
        let life = life.filter(|life| life.node.get().is_some()).ok_or(Gone::Closed)?;
        let runtime = life.runtime.clone();
        let answer = runtime.spawn(async move { work(life).await });
        let abort = answer.abort_handle();
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => {
                self.pause(3).await;
                Ok(answer)
            }
            Ok(Err(_)) => Err(Gone::Unknown),
            // The client closes its connection.
            Err(_) => {
                abort.abort();
                Err(Gone::Unknown)
            }
        }
    }
}

impl Life {
    /// The node, which is open.
    pub fn node(&self) -> &Node {
        self.node.get().expect("only an open node is asked")
    }
}
