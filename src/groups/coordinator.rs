//! Who runs the groups: finds a group's state, takes it through a step, and does what the step asks.
//!
//! ```text
//!   (namespace, group) -> Entry { Mutex<Live> }      locked for a step, never over an await
//!                          Live { Group, parked answers, when to look again }
//! ```
//!
//! A group belongs to a namespace; the leader of the namespace's home range coordinates it, in one term of that
//! leadership. A group that has touched no topic yet has no namespace: the catalog's leader coordinates it, in memory.
//! What a coordinator writes goes to the log of its own term only, so that one that has been replaced changes nothing.

use super::answer::{GroupState, JoinAnswer, Output, Refusal, SyncAnswer};
use super::commits::Commits;
use super::config::GroupConfig;
use super::group::{Group, Limits};
use super::member::{Millis, NEVER, Ticket};
use super::timers::{Clock, Timers};
use crate::broker::{Broker, Position, PositionChange, PositionError};
use cluster::catalog::{CatalogFailure, Command, Reply};
use cluster::ids::{NamespaceId, NodeId, PartitionId, RangeId, SYSTEM_RANGE, TopicId};
use cluster::range::ProposeError;
use cluster::routes::Table;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Where a group keeps its generation (as the offset) and its protocol type (as the metadata), among the positions of its
/// reader. No topic has this number.
pub(super) const ABOUT: PartitionId = PartitionId {
    topic: TopicId(u64::MAX),
    index: 0,
};

/// Which group a request is about.
#[derive(Clone, Debug)]
pub struct Address {
    /// The group's id.
    pub group: Arc<str>,
    /// The namespace that the caller's user or the node's configuration fixes for all groups.
    pub scope: Option<NamespaceId>,
    /// The namespace of the first topic that the request names, if it names one; decides where nothing else does.
    pub touched: Option<NamespaceId>,
}

impl Address {
    pub(super) fn reader(&self) -> String {
        format!("kafka:{}", self.group)
    }
}

/// The consumer group coordinator.
pub struct Coordinator {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

impl std::ops::Deref for Coordinator {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

/// What the coordinator and its tasks share.
pub struct Inner {
    pub(super) broker: Arc<Broker>,
    pub(super) config: GroupConfig,
    limits: Limits,
    pub(super) clock: Clock,
    groups: Mutex<HashMap<Key, Arc<Entry>>>,
    pub(super) commits: Commits,
    timers: Timers<Entry>,
    /// Bytes of all groups, about.
    bytes: AtomicUsize,
    closed: AtomicBool,
    pub(super) me: Weak<Inner>,
}

type Key = (Option<NamespaceId>, Arc<str>);

/// A group in memory.
pub(super) struct Entry {
    group: Arc<str>,
    live: Mutex<Live>,
}

/// What a lock on an entry gives.
pub(super) struct Live {
    pub(super) group: Group,
    parked: HashMap<Ticket, Parked>,
    last_ticket: u64,
    namespace: Option<NamespaceId>,
    /// The term of the namespace's leadership in which this state was made.
    term: u64,
    /// Taken out of the map; whoever still holds the entry looks again.
    gone: bool,
    /// The time the timer is set to.
    scheduled: Millis,
    /// When an empty group leaves memory.
    forget_at: Millis,
    /// What of this group is counted in `Inner::bytes`.
    counted: usize,
}

/// A request that waits. Dropped unanswered, its caller learns that the group is no longer coordinated here.
enum Parked {
    Join(oneshot::Sender<JoinAnswer>),
    Sync(oneshot::Sender<SyncAnswer>),
}

impl Live {
    fn ticket(&mut self, parked: Parked) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.parked.insert(ticket, parked);
        ticket
    }

    pub(super) fn park_join(&mut self) -> (Ticket, oneshot::Receiver<JoinAnswer>) {
        let (answer, receiver) = oneshot::channel();
        (self.ticket(Parked::Join(answer)), receiver)
    }

    pub(super) fn park_sync(&mut self) -> (Ticket, oneshot::Receiver<SyncAnswer>) {
        let (answer, receiver) = oneshot::channel();
        (self.ticket(Parked::Sync(answer)), receiver)
    }

    fn idle(&self) -> bool {
        self.group.state() == GroupState::Empty && self.group.size() == 0
    }
}

/// A group as it is found.
pub(super) enum Found {
    /// In memory.
    Live(Arc<Entry>),
    /// Only what is stored of it: its last generation, its protocol type.
    Stored(Stored),
    /// Nothing is known.
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    pub(super) generation: i32,
    pub(super) protocol_type: Option<Arc<str>>,
}

impl Coordinator {
    /// A coordinator over the broker's positions, within a tokio runtime.
    pub fn new(broker: Arc<Broker>, config: GroupConfig) -> Arc<Self> {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX / 4);
        let limits = Limits {
            initial_rebalance_delay: millis(config.initial_rebalance_delay),
            new_member_timeout: millis(config.new_member_timeout),
            max_members: config.max_members,
        };
        let inner = Arc::new_cyclic(|me| Inner {
            broker,
            config,
            limits,
            clock: Clock::start(),
            groups: Mutex::default(),
            commits: Commits::default(),
            timers: Timers::default(),
            bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            me: me.clone(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(watch_the_time(inner.clone(), stop.clone()));
        tokio::spawn(watch_the_leaders(inner.clone(), stop.clone()));
        Arc::new(Self {
            inner,
            _stop: stop.drop_guard(),
        })
    }

    /// Forgets all groups and takes no more; requests that wait are told to look for another coordinator. For a node that
    /// stops: called before its front doors wait for their requests.
    pub fn close(&self) {
        let groups = {
            let mut groups = self.groups.lock();
            self.closed.store(true, Relaxed);
            std::mem::take(&mut *groups)
        };
        for entry in groups.into_values() {
            self.discard(&entry);
        }
    }
}

async fn watch_the_time(inner: Arc<Inner>, stop: CancellationToken) {
    while let Some(due) = stop.run_until_cancelled(inner.timers.due(inner.clock)).await {
        for (at, entry) in due {
            if let Some(entry) = entry.upgrade() {
                inner.look(&entry, at);
            }
        }
    }
}

/// Members that wait here for a group that is coordinated elsewhere by now must look for it there.
async fn watch_the_leaders(inner: Arc<Inner>, stop: CancellationToken) {
    let mut changed = inner.broker.routes().changed();
    while let Some(Ok(())) = stop.run_until_cancelled(changed.changed()).await {
        for (namespace, _, entry) in inner.all_in_memory() {
            let term = entry.live.lock().term;
            if inner.term(namespace) != Ok(term) {
                let _ = inner.remove_if(&entry, |_| Ok(()));
            }
        }
    }
}

impl Inner {
    /// Its bounds and times.
    pub fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// The namespace that coordinates the group; `None` as long as nothing decides it.
    pub(super) fn namespace(&self, address: &Address) -> Option<NamespaceId> {
        let view = self.broker.catalog().view();
        let recorded = || view.group_namespace(&address.group);
        let decided = address.scope.or_else(recorded);
        decided.filter(|id| view.namespace_by_id(*id).is_some())
    }

    /// The same, recorded in the catalog by what the request touches if nothing else decided it.
    pub(super) async fn settle_namespace(&self, address: &Address) -> Result<Option<NamespaceId>, Refusal> {
        match (self.namespace(address), address.touched) {
            (Some(known), _) => Ok(Some(known)),
            (None, None) => Ok(None),
            (None, Some(namespace)) => {
                let command = Command::RecordGroup {
                    group: address.group.to_string(),
                    namespace,
                };
                match self.broker.catalog().propose(command).await {
                    Ok(Reply::Namespace(decided)) => Ok(Some(decided)),
                    Ok(_) | Err(CatalogFailure::Refused(_)) => Err(Refusal::CoordinatorNotAvailable),
                    Err(CatalogFailure::Range(error)) => Err(refusal(&error)),
                }
            }
        }
    }

    /// The range whose leader coordinates a namespace's groups: the namespace's home. Groups that have touched no topic
    /// yet are with the catalog's leader.
    fn home(table: &Table, namespace: Option<NamespaceId>) -> Option<RangeId> {
        match namespace {
            None => Some(SYSTEM_RANGE),
            Some(id) => table.state().namespace_by_id(id).map(|n| n.home),
        }
    }

    /// The node that coordinates the group, and the range it leads for that.
    pub fn coordinator_of(&self, address: &Address) -> Result<(RangeId, NodeId), Refusal> {
        self.coordinator(self.namespace(address))
    }

    fn coordinator(&self, namespace: Option<NamespaceId>) -> Result<(RangeId, NodeId), Refusal> {
        let table = self.broker.routes().table();
        let home = Self::home(&table, namespace);
        let leader = home.and_then(|home| Some((home, table.range(home)?.node)));
        leader.ok_or(Refusal::CoordinatorNotAvailable)
    }

    /// The other node that must answer a request about the group; `None` for this one. With `settle`, what the request
    /// touches decides where nothing else did yet.
    pub async fn elsewhere(&self, address: &Address, settle: bool) -> Result<Option<NodeId>, Refusal> {
        if address.group.is_empty() {
            return Err(Refusal::InvalidGroupId);
        }
        let namespace = match settle {
            true => self.settle_namespace(address).await?,
            false => self.namespace(address),
        };
        let (_, node) = self.coordinator(namespace)?;
        Ok((node != self.broker.routes().table().node()).then_some(node))
    }

    /// The other nodes that coordinate groups of one namespace, or of all.
    pub fn others(&self, scope: Option<NamespaceId>) -> Result<BTreeSet<NodeId>, Refusal> {
        let namespaces: Vec<Option<NamespaceId>> = match scope {
            Some(scope) => vec![Some(scope)],
            None => {
                let view = self.broker.catalog().view();
                view.namespaces().map(|n| Some(n.id)).chain([None]).collect()
            }
        };
        let nodes = namespaces.into_iter().map(|n| Ok(self.coordinator(n)?.1));
        let mut nodes: BTreeSet<NodeId> = nodes.collect::<Result<_, Refusal>>()?;
        nodes.remove(&self.broker.routes().table().node());
        Ok(nodes)
    }

    /// The term in which this node coordinates the namespace's groups.
    pub(super) fn term(&self, namespace: Option<NamespaceId>) -> Result<u64, Refusal> {
        let table = self.broker.routes().table();
        let home = Self::home(&table, namespace).ok_or(Refusal::NotCoordinator)?;
        match table.range(home) {
            Some(leader) if leader.here => Ok(leader.epoch),
            Some(leader) if leader.node != table.node() => Err(Refusal::NotCoordinator),
            Some(_) | None => Err(Refusal::CoordinatorLoading),
        }
    }

    /// The group, from memory or from what is stored, if this node coordinates it.
    pub(super) async fn find(&self, address: &Address, namespace: Option<NamespaceId>) -> Result<Found, Refusal> {
        if let Some(entry) = self.in_memory(address, namespace)? {
            return Ok(Found::Live(entry));
        }
        let Some(namespace) = namespace else {
            return self.term(None).map(|_| Found::Unknown);
        };
        // Also waits, briefly, for a range that is starting.
        let positions = self.broker.positions(namespace, &address.reader()).await;
        let positions = positions.map_err(|e| position_refusal(&e))?;
        // They can be read anywhere; what they mean for the group, its coordinator alone knows.
        self.term(Some(namespace))?;
        if positions.is_empty() {
            return Ok(Found::Unknown);
        }
        let about = positions.into_iter().find(|(id, _)| *id == ABOUT);
        Ok(Found::Stored(about.map_or_else(Stored::default, |(_, p)| stored(&p))))
    }

    fn in_memory(&self, address: &Address, namespace: Option<NamespaceId>) -> Result<Option<Arc<Entry>>, Refusal> {
        let key: Key = (namespace, address.group.clone());
        let mut groups = self.groups.lock();
        if let Some(entry) = groups.get(&key) {
            let term = self.term(namespace);
            if term == Ok(entry.live.lock().term) {
                return Ok(Some(entry.clone()));
            }
            // Leadership went elsewhere, perhaps and came back: others may have run the group meanwhile.
            let entry = groups.remove(&key);
            drop(groups);
            entry.iter().for_each(|e| self.discard(e));
            return term.map(|_| None);
        }
        // Where the caller's user decides the namespace, a group of the same name that has none yet is another's.
        let moves = namespace.is_some() && address.scope.is_none();
        let Some(entry) = moves.then(|| groups.remove(&(None, address.group.clone()))).flatten() else {
            return Ok(None);
        };
        // It has touched its first topic and moves in with all its members.
        match self.term(namespace) {
            Ok(term) => {
                let mut live = entry.live.lock();
                live.namespace = namespace;
                live.term = term;
                drop(live);
                groups.insert(key, entry.clone());
                Ok(Some(entry))
            }
            Err(refusal) => {
                drop(groups);
                self.discard(&entry);
                Err(refusal)
            }
        }
    }

    /// Puts a group into memory, or finds it there.
    pub(super) fn create(
        &self,
        address: &Address,
        namespace: Option<NamespaceId>,
        stored: Stored,
    ) -> Result<Arc<Entry>, Refusal> {
        let term = self.term(namespace)?;
        let mut groups = self.groups.lock();
        let key = (namespace, address.group.clone());
        if let Some(entry) = groups.get(&key) {
            return Ok(entry.clone());
        }
        if self.closed.load(Relaxed) {
            return Err(Refusal::NotCoordinator);
        }
        if groups.len() >= self.config.max_groups {
            return Err(Refusal::CoordinatorNotAvailable);
        }
        let entry = Arc::new(Entry {
            group: address.group.clone(),
            live: Mutex::new(Live {
                group: Group::new(self.limits, stored.generation, stored.protocol_type),
                parked: HashMap::new(),
                last_ticket: 0,
                namespace,
                term,
                gone: false,
                scheduled: NEVER,
                forget_at: NEVER,
                counted: 0,
            }),
        });
        groups.insert(key, entry.clone());
        Ok(entry)
    }

    /// Whether so many bytes more fit into memory.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes.load(Relaxed).saturating_add(bytes) <= self.config.max_bytes
    }

    /// Takes the group through one step and does what it asks. `None` if the group has left memory: look again.
    pub(super) fn step<R>(
        &self,
        entry: &Arc<Entry>,
        step: impl FnOnce(&mut Live, Millis, &mut Vec<Output>) -> R,
    ) -> Option<R> {
        let mut live = entry.live.lock();
        if live.gone {
            return None;
        }
        let now = self.clock.now();
        let mut out = Vec::new();
        let result = step(&mut live, now, &mut out);
        live.group.tick(now, &mut out);
        self.carry_out(entry, &mut live, now, out);
        Some(result)
    }

    fn carry_out(&self, entry: &Arc<Entry>, live: &mut Live, now: Millis, mut out: Vec<Output>) {
        while !out.is_empty() {
            for output in std::mem::take(&mut out) {
                match output {
                    Output::Joined(ticket, answer) => {
                        if let Some(Parked::Join(waiting)) = live.parked.remove(&ticket) {
                            // Whoever no longer waits has closed its connection.
                            let _ = waiting.send(answer);
                        }
                    }
                    Output::Synced(ticket, answer) => {
                        if let Some(Parked::Sync(waiting)) = live.parked.remove(&ticket) {
                            let _ = waiting.send(answer);
                        }
                    }
                    Output::Store { generation } => match live.namespace {
                        // Without a namespace there are no offsets that an old generation could spoil.
                        None => live.group.stored(generation, Ok(()), now, &mut out),
                        Some(namespace) => self.store(entry, live, namespace, generation),
                    },
                }
            }
        }
        live.forget_at = match (live.idle(), live.forget_at) {
            (true, NEVER) => now + u64::try_from(self.config.forget_empty.as_millis()).unwrap_or(NEVER / 2),
            (true, at) => at,
            (false, _) => NEVER,
        };
        let bytes = live.group.bytes();
        self.bytes.fetch_add(bytes, Relaxed);
        self.bytes
            .fetch_sub(std::mem::replace(&mut live.counted, bytes), Relaxed);
        let wake = live.group.wake().min(live.forget_at);
        if wake < live.scheduled {
            live.scheduled = wake;
            self.timers.add(wake, Arc::downgrade(entry));
        }
    }

    /// Makes the generation durable, then goes on with the group.
    fn store(&self, entry: &Arc<Entry>, live: &Live, namespace: NamespaceId, generation: i32) {
        let Some(inner) = self.me.upgrade() else { return };
        let (entry, term) = (entry.clone(), live.term);
        let about = Position {
            offset: i64::from(generation),
            leader_epoch: -1,
            metadata: live.group.protocol_type().map(|t| t.to_string()).unwrap_or_default(),
            commit_ms: now_ms(),
        };
        tokio::spawn(async move {
            let reader = format!("kafka:{}", entry.group);
            let change = vec![PositionChange::Set(ABOUT, about)];
            let outcome = inner.broker.change_positions_in(term, namespace, &reader, change).await;
            let outcome = outcome.map_err(|e| position_refusal(&e));
            if let Err(refusal) = outcome {
                tracing::info!(group = %entry.group, generation, %refusal, "generation not stored");
            }
            inner.step(&entry, |live, now, out| {
                live.group.stored(generation, outcome, now, out)
            });
        });
    }

    /// The timer set for `at` has come.
    fn look(&self, entry: &Arc<Entry>, at: Millis) {
        let (led, forgotten) = {
            let mut live = entry.live.lock();
            if live.gone || live.scheduled != at {
                return;
            }
            live.scheduled = NEVER;
            let led = self.term(live.namespace) == Ok(live.term);
            (led, live.idle() && live.forget_at <= self.clock.now())
        };
        if !led {
            let _ = self.remove_if(entry, |_| Ok(()));
        } else if forgotten {
            self.forget(entry);
        } else {
            self.step(entry, |_, _, _| ());
        }
    }

    /// Takes an idle group out of memory. Unless it has offsets, nothing of it is kept.
    fn forget(&self, entry: &Arc<Entry>) {
        let mut groups = self.groups.lock();
        let mut live = entry.live.lock();
        if live.gone || !live.idle() {
            return;
        }
        groups.remove(&(live.namespace, entry.group.clone()));
        self.let_go(&mut live);
        let (Some(namespace), Some(inner)) = (live.namespace, self.me.upgrade()) else {
            return;
        };
        let term = live.term;
        let reader = format!("kafka:{}", entry.group);
        tokio::spawn(async move {
            let positions = inner.broker.positions(namespace, &reader).await.unwrap_or_default();
            if positions.iter().any(|(id, _)| *id == ABOUT) && positions.len() == 1 {
                let change = vec![PositionChange::Delete(ABOUT)];
                let changed = inner.broker.change_positions_in(term, namespace, &reader, change).await;
                if let Err(error) = changed {
                    tracing::info!(reader, %error, "empty group not forgotten");
                }
            }
        });
    }

    /// Takes a group out of memory if `may` agrees; its members are told to look for another coordinator.
    pub(super) fn remove_if(
        &self,
        entry: &Arc<Entry>,
        may: impl FnOnce(&Group) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut groups = self.groups.lock();
        let mut live = entry.live.lock();
        if live.gone {
            return Ok(());
        }
        may(&live.group)?;
        groups.remove(&(live.namespace, entry.group.clone()));
        self.let_go(&mut live);
        Ok(())
    }

    /// For an entry that is no longer in the map.
    fn discard(&self, entry: &Entry) {
        self.let_go(&mut entry.live.lock());
    }

    fn let_go(&self, live: &mut Live) {
        live.gone = true;
        live.parked.clear();
        self.bytes.fetch_sub(std::mem::take(&mut live.counted), Relaxed);
    }

    /// The groups in memory, each with its namespace.
    pub(super) fn all_in_memory(&self) -> Vec<(Option<NamespaceId>, Arc<str>, Arc<Entry>)> {
        let groups = self.groups.lock();
        groups
            .iter()
            .map(|((namespace, group), entry)| (*namespace, group.clone(), entry.clone()))
            .collect()
    }
}

/// What a group's own row says.
pub(super) fn stored(about: &Position) -> Stored {
    Stored {
        generation: i32::try_from(about.offset).unwrap_or(0),
        protocol_type: (!about.metadata.is_empty()).then(|| Arc::from(about.metadata.as_str())),
    }
}

/// What a member is told of a write that failed. All are retried by clients, and committing twice does no harm.
pub(super) fn refusal(error: &ProposeError) -> Refusal {
    match error {
        ProposeError::NotLeader { .. } | ProposeError::Fatal(_) => Refusal::NotCoordinator,
        ProposeError::NoSpace | ProposeError::Unknown(_) => Refusal::CoordinatorNotAvailable,
    }
}

pub(super) fn position_refusal(error: &PositionError) -> Refusal {
    match error {
        PositionError::Propose(error) => refusal(error),
        PositionError::Moved => Refusal::CoordinatorNotAvailable,
        PositionError::NoNamespace => Refusal::NotCoordinator,
    }
}

pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "coordinator_test.rs"]
mod tests;
