//! The loops that carry membership out on this node.

use super::adoption::Adoptions;
use super::bulletin::{Board, Bulletin, EVERY, RangeReport, ReplicaReport, SILENT};
use super::controller::{commands, range_goal, system_goal};
use super::identity::Identity;
use super::listen::Listeners;
use super::overview::{Overview, overview};
use super::rest::Rest;
use super::service;
use super::steps::{Goal, Replica, Step, next_step};
use crate::catalog::{Catalog, Command, State, Told};
use crate::ids::{NodeId, RangeId, SYSTEM_RANGE};
use crate::peer::{PeerServer, Peers};
use crate::raft::{ChangeError, RangeHost, RangeProgress};
use crate::routes::Routes;
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use uuid::Uuid;

/// A change that is not made in this time is looked at again; Raft may still make it.
const CHANGE: Duration = Duration::from_secs(10);
/// After a change that was refused a range rests for this long.
const REST: Duration = Duration::from_secs(2);

/// After a hand-over that nobody took: it cost the range an election, on members that can hardly keep up.
const MISSED: Duration = Duration::from_secs(15);

/// What the loops need. Made before the catalog is there, as peers must be answered for it to come.
pub struct MembershipParts {
    /// This node.
    pub node: NodeId,
    /// What it tells of itself.
    pub told: Told,
    /// What it is to its store.
    pub identity: Identity,
}

/// Membership of this node. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Membership {
    inner: Arc<Inner>,
}

struct Inner {
    parts: MembershipParts,
    board: Board,
    bulletin: watch::Sender<Arc<Bulletin>>,
    wanted: watch::Sender<Option<Uuid>>,
    adoptions: Adoptions,
}

/// What is there once the catalog is.
#[derive(Clone)]
pub struct Store {
    /// The catalog.
    pub catalog: Catalog,
    /// The ranges of this node.
    pub host: RangeHost,
    /// Connections to the others.
    pub peers: Peers,
    /// The routing table.
    pub routes: Routes,
}

/// Loops that run. They end when this is dropped.
pub struct Running {
    tasks: Vec<AbortHandle>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Membership {
    /// Nothing runs yet.
    pub fn new(parts: MembershipParts) -> Self {
        let first = Bulletin {
            told: parts.told.clone(),
            ..Bulletin::default()
        };
        Self {
            inner: Arc::new(Inner {
                parts,
                board: Board::default(),
                bulletin: watch::Sender::new(Arc::new(first)),
                wanted: watch::Sender::new(None),
                adoptions: Adoptions::default(),
            }),
        }
    }

    /// Adds what membership answers to peers.
    pub fn serve(&self, server: PeerServer) -> PeerServer {
        let inner = &*self.inner;
        service::serve(
            server,
            inner.bulletin.subscribe(),
            inner.parts.identity.standing(),
            inner.wanted.clone(),
        )
    }

    /// The store that asks for this node, which has declared nothing: the node is to be closed, emptied, and to join it.
    pub fn wanted(&self) -> watch::Receiver<Option<Uuid>> {
        self.inner.wanted.subscribe()
    }

    /// Starts the loops, within a tokio runtime.
    pub fn start(&self, store: Store) -> Running {
        let listeners = Listeners::new(self.inner.parts.node, &store, self.inner.board.clone());
        let tasks = vec![
            tokio::spawn(listeners.follow(store.catalog.clone())).abort_handle(),
            tokio::spawn(self.clone().keep(store)).abort_handle(),
        ];
        Running { tasks }
    }

    /// What is known of every member, for people.
    pub fn overview(&self, state: &State) -> Vec<Overview> {
        overview(
            state,
            self.inner.parts.node,
            &self.inner.board.seen(),
            &self.inner.adoptions.troubles(),
        )
    }

    /// Members that were heard of lately, and this node.
    pub fn live(&self) -> BTreeSet<NodeId> {
        let mut live = self.inner.board.seen().live;
        live.insert(self.inner.parts.node);
        live
    }

    /// Hands over what this node leads, where others can take it; for a stop. Takes a few seconds at most.
    pub async fn hand_over(&self, store: &Store) {
        let seen = self.inner.board.seen();
        let me = self.inner.parts.node;
        let hand_overs = led(store, me).into_iter().filter_map(|(range, progress)| {
            let mut ready: Vec<_> = replicas(&progress)
                .into_iter()
                .filter(|(node, r)| *node != me && r.voter && r.near && r.heard && seen.live.contains(node))
                .map(|(node, _)| (seen.led(node), node))
                .collect();
            ready.sort_unstable();
            let (_, to) = *ready.first()?;
            let host = store.host.clone();
            Some(async move {
                match timeout(CHANGE, host.transfer_leader(range, to)).await {
                    Ok(Ok(())) => tracing::info!(%range, %to, "handed over"),
                    Ok(Err(error)) => tracing::warn!(%range, %to, %error, "not handed over"),
                    Err(_) => tracing::warn!(%range, %to, "not handed over in time"),
                }
            })
        });
        join_all(hand_overs).await;
    }

    /// Twice a second, and when the catalog changes: tells, and brings what this node leads where it should be.
    async fn keep(self, store: Store) {
        let mut changed = store.catalog.changed();
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = Changes::default();
        loop {
            let state = store.catalog.view();
            if state.members().nth(1).is_none() && state.members().all(|m| m.node == Some(self.inner.parts.node)) {
                // Alone: nobody to tell, nothing to move. A row changes that.
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            }
            self.round(&store, &state, &mut changes).await;
            tokio::select! {
                _ = tick.tick() => {}
                changed = changed.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn round(&self, store: &Store, state: &State, changes: &mut Changes) {
        let inner = &*self.inner;
        let me = inner.parts.node;
        let led = led(store, me);
        let bulletin = Bulletin {
            told: inner.parts.told.clone(),
            led: led.iter().map(|(range, progress)| (*range, report(progress))).collect(),
        };
        inner.board.put(me, bulletin.clone());
        inner.bulletin.send_replace(Arc::new(bulletin));

        let system = led.get(&SYSTEM_RANGE);
        for (range, progress) in &led {
            let goal = match *range {
                SYSTEM_RANGE => Some(system_goal(state, &self.known(progress))),
                range => range_goal(state, range),
            };
            if let Some(goal) = goal {
                changes.consider(store, me, *range, &goal, progress);
            }
        }
        if system.is_some() {
            inner.adoptions.look(&store.peers, &store.catalog, me, state);
            inner.board.retain(|node| node == me || state.member(node).is_some());
            propose(store, commands(state, &inner.board.seen())).await;
        }
    }

    /// Nodes that are of this store: met, or in the system range already.
    fn known(&self, system: &RangeProgress) -> BTreeSet<NodeId> {
        let mut known = self.inner.adoptions.met();
        known.extend(system.members.keys());
        known
    }
}

async fn propose(store: &Store, commands: Vec<crate::catalog::MemberCommand>) {
    for command in commands {
        tracing::info!(?command, "members change");
        match timeout(CHANGE, store.catalog.propose(Command::Member(command))).await {
            Ok(Ok(_)) => {}
            // Looked at again in the next round.
            Ok(Err(error)) => {
                tracing::warn!(%error, "a change of members was not made");
                return;
            }
            Err(_) => {
                tracing::warn!("a change of members was not made in time");
                return;
            }
        }
    }
}

/// Ranges that this node leads.
fn led(store: &Store, me: NodeId) -> BTreeMap<RangeId, RangeProgress> {
    let state = store.catalog.view();
    let ranges = state.ranges().map(|row| row.id).chain([SYSTEM_RANGE]);
    ranges
        .filter(|range| {
            let range = store.host.range(*range);
            range.is_some_and(|range| {
                let now = *range.leadership().borrow();
                now.here && now.leader == Some(me)
            })
        })
        .filter_map(|range| Some((range, store.host.progress(range)?)))
        .collect()
}

fn report(progress: &RangeProgress) -> RangeReport {
    let last = progress.last.map_or(0, |last| last + 1);
    let member = |member: &crate::raft::MemberProgress| ReplicaReport {
        voter: member.voter,
        lag_entries: last.saturating_sub(member.matched.map_or(0, |matched| matched + 1)),
        lag_bytes: member.lag_bytes,
        heard: member.silent_for.is_some_and(|silent| silent < SILENT),
    };
    RangeReport {
        term: progress.term,
        members: progress.members.iter().map(|(node, m)| (*node, member(m))).collect(),
    }
}

fn replicas(progress: &RangeProgress) -> BTreeMap<NodeId, Replica> {
    let replica = |report: &ReplicaReport| Replica {
        voter: report.voter,
        near: report.near(),
        heard: report.heard,
    };
    let report = report(progress);
    report.members.iter().map(|(node, r)| (*node, replica(r))).collect()
}

/// Changes under way, one for each range at most.
#[derive(Default)]
struct Changes {
    running: BTreeMap<RangeId, JoinHandle<()>>,
    /// Since they were handed over.
    resting: BTreeMap<RangeId, Rest>,
}

impl Changes {
    fn consider(&mut self, store: &Store, me: NodeId, range: RangeId, goal: &Goal, progress: &RangeProgress) {
        if let Some(change) = self.running.get(&range) {
            if !change.is_finished() {
                return;
            }
            self.running.remove(&range);
        }
        let Some(step) = next_step(me, goal, &replicas(progress)) else {
            return;
        };
        if let Step::Transfer(_) = step {
            // Who can't lead for long is not asked again in haste.
            let now = Instant::now();
            if self.resting.get(&range).is_some_and(|rest| rest.lasts(now)) {
                return;
            }
            let rest = Rest::after(self.resting.get(&range).copied(), now);
            self.resting.insert(range, rest);
        }
        let host = store.host.clone();
        self.running.insert(range, tokio::spawn(take(host, range, step)));
    }
}

async fn take(host: RangeHost, range: RangeId, step: Step) {
    let change = async {
        match step.clone() {
            Step::AddLearner(node) => host.add_learner(range, node).await,
            Step::RemoveLearner(node) => host.remove_learner(range, node).await,
            Step::Voters(voters) => host.change_voters(range, voters).await,
            Step::Transfer(to) => host.transfer_leader(range, to).await,
        }
    };
    match timeout(CHANGE, change).await {
        Ok(Ok(())) => tracing::info!(%range, ?step, "the members of a range change"),
        // The new leader goes on, or this one once it can.
        Ok(Err(ChangeError::NotLeader { .. } | ChangeError::Busy)) => {}
        Ok(Err(error)) => {
            tracing::warn!(%range, ?step, %error, "the members of a range do not change");
            tokio::time::sleep(match step {
                Step::Transfer(_) => MISSED,
                _ => REST,
            })
            .await;
        }
        Err(_) => tracing::warn!(%range, ?step, "the members of a range did not change in time"),
    }
}
