//! The nodes, the network and the clients, step by step.
//!
//! Each node has a runtime of its own with a clock of its own, which moves as the simulation says: a node that stands still
//! is not stepped, one that goes on finds that its clock has jumped, and one that is killed is dropped with its runtime.

use crate::door::{Doors, Life};
use crate::history::{History, Violation};
use crate::invariants::LIVENESS;
use crate::net::Net;
use crate::node::{Beginning, Node, id_of};
use crate::seeded;
use crate::trace::Trace;
use cluster::fs::MemoryFs;
use cluster::ids::SYSTEM_RANGE;
use parking_lot::Mutex;
use plan::Plan;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Milliseconds of a step. What is sent within one arrives in a later one.
pub const STEP: u64 = 2;

pub struct World {
    pub now: u64,
    pub net: Net,
    pub doors: Doors,
    pub history: History,
    pub clients: Runtime,
    plan: Arc<Plan>,
    machines: Vec<Machine>,
}

/// Where a node lives.
struct Machine {
    files: MemoryFs,
    /// It has begun the store, or is not to.
    began: bool,
    life: Option<Alive>,
    stands: bool,
    /// How far its clock is behind.
    behind: u64,
}

struct Alive {
    runtime: Runtime,
    node: Arc<OnceLock<Node>>,
    failed: Arc<Mutex<Option<String>>>,
}

/// A runtime that is stepped.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

fn step(runtime: &Runtime, time: u64) {
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(time)).await });
}

impl World {
    pub fn new(seed: u64, plan: Arc<Plan>, trace: Trace, only: Option<String>) -> Self {
        let history = History::new(trace.clone(), only);
        let machine = |node: usize| Machine {
            files: MemoryFs::new(seed.wrapping_mul(1000) + node as u64),
            began: node > 0,
            life: None,
            stands: false,
            behind: 0,
        };
        Self {
            now: 0,
            net: Net::new(seed, trace),
            doors: Doors::new(seed, plan.nodes, history.clone()),
            history,
            clients: runtime(),
            machines: (0..plan.nodes).map(machine).collect(),
            plan,
        }
    }

    /// Everything goes on by a step.
    pub fn step(&mut self) {
        self.now += STEP;
        seeded::pass(Duration::from_millis(self.now));
        self.history.pass(self.now);
        self.net.deliver(self.now);
        for machine in &mut self.machines {
            let Some(alive) = &machine.life else { continue };
            if machine.stands {
                machine.behind += STEP;
                continue;
            }
            if machine.behind > 0 {
                let behind = Duration::from_millis(std::mem::take(&mut machine.behind));
                alive.runtime.block_on(async { tokio::time::advance(behind).await });
            }
            step(&alive.runtime, STEP);
        }
        step(&self.clients, STEP);
        self.look();
    }

    /// A node's next life begins.
    pub fn start(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        if machine.life.is_some() {
            return;
        }
        self.history.note(format_args!("start {node}"));
        let line = self.net.begin(id_of(node));
        let runtime = runtime();
        let (open, failed) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(None)));
        let beginning = Beginning {
            net: self.net.clone(),
            line,
            files: machine.files.clone(),
            plan: self.plan.clone(),
            first: !std::mem::replace(&mut machine.began, true),
        };
        runtime.spawn({
            let (open, failed) = (open.clone(), failed.clone());
            async move {
                match Box::pin(beginning.open()).await {
                    Ok(node) => drop(open.set(node)),
                    Err(error) => *failed.lock() = Some(format!("{error:#}")),
                }
            }
        });
        let life = Life {
            runtime: runtime.handle().clone(),
            node: open.clone(),
        };
        self.doors.set(node, Some(life));
        machine.life = Some(Alive {
            runtime,
            node: open,
            failed,
        });
        machine.stands = false;
        machine.behind = 0;
    }

    /// A node's life ends. With the power, what was not synced is lost in part.
    pub fn kill(&mut self, node: usize, power: bool, silent: bool) {
        let machine = &mut self.machines[node];
        let Some(alive) = machine.life.take() else { return };
        self.history.note(format_args!(
            "kill {node}{}",
            if power { " with the power" } else { "" }
        ));
        self.doors.set(node, None);
        self.net.end(id_of(node), silent);
        match power {
            true => machine.files.crash(),
            false => machine.files.kill(),
        }
        machine.stands = false;
        let Alive { runtime, node, .. } = alive;
        drop(runtime);
        drop(node);
    }

    pub fn pause(&mut self, node: usize, stands: bool) {
        self.machines[node].stands = stands;
    }

    /// A sync of a node's disk fails, after so many that go well.
    pub fn fail_sync(&mut self, node: usize, after: u64) {
        self.machines[node].files.fail_sync(after);
    }

    /// A life of a node that is open.
    pub fn open(&self, node: usize) -> Option<&Node> {
        self.machines[node].life.as_ref()?.node.get()
    }

    pub fn is_up(&self, node: usize) -> bool {
        self.machines[node].life.is_some()
    }

    /// Has a node do something.
    pub fn command<F: Future<Output = ()> + Send + 'static>(&self, node: usize, work: impl FnOnce(&Node) -> F) {
        if let (Some(alive), Some(open)) = (&self.machines[node].life, self.open(node)) {
            drop(alive.runtime.spawn(work(open)));
        }
    }

    /// What shows at every moment.
    fn look(&mut self) {
        let mut ended = Vec::new();
        for (number, machine) in self.machines.iter().enumerate() {
            let Some(alive) = &machine.life else { continue };
            if let Some(why) = alive.failed.lock().take() {
                // A disk that fails ends what is being opened, too.
                if why.contains("os error 5") {
                    ended.push(number);
                    continue;
                }
                self.history.violate(Violation {
                    invariant: LIVENESS,
                    what: format!("node {number} does not open: {why}"),
                });
            }
            let Some(node) = alive.node.get() else { continue };
            if node.host.fatal().borrow().is_some() {
                ended.push(number);
                continue;
            }
            let view = node.broker.catalog().view();
            self.history.tell(|i| i.catalog.show(node.id.0, &view));
            let ranges = view.ranges().map(|row| row.id).chain([SYSTEM_RANGE]);
            for range in ranges.filter_map(|id| node.host.range(id)) {
                let now = *range.leadership().borrow();
                if let Some(leader) = now.leader {
                    self.history
                        .tell(|i| i.leaders.tell(node.id, range.id(), now.term, leader));
                }
            }
        }
        for node in ended {
            self.history.note(format_args!("node {node} writes no more"));
            self.kill(node, true, false);
        }
    }
}
