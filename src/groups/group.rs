//! One consumer group under the classic protocol, as a step function: a request or the passing of time goes in, answers
//! come out. No clock, no IO, no waiting inside.
//!
//! ```text
//!             first join                     all joined, or time is up
//!   Empty ---------------> PreparingRebalance ---------------> CompletingRebalance
//!     ^                     ^   |         ^                      |          |
//!     |   nobody joined     |   |         | join, leave, expiry  |          | the leader's SyncGroup, stored
//!     +---------------------|---+         +----------------------+          v
//!                           +------------------------------------------- Stable
//! ```
//!
//! A generation is one pass through CompletingRebalance; its number is one above the last and is never given again.
//! A request that must wait is named by a [`Ticket`]; each ticket is answered exactly once, by an [`Output`].

use super::answer::{
    DescribedMember, Description, GroupState, JoinAnswer, JoinedMember, Leaving, Output, Refusal, SyncAnswer,
};
use super::member::{MEMBER_BYTES, Member, Millis, NEVER, Ticket, protocols_bytes};
use super::subscription;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What holds for every group.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the first member of an empty group waits for others, milliseconds.
    pub initial_rebalance_delay: Millis,
    /// How long the first JoinGroup of a member may wait before the member is given up, milliseconds.
    pub new_member_timeout: Millis,
    /// Most members.
    pub max_members: usize,
}

/// A group.
pub struct Group {
    pub(super) limits: Limits,
    pub(super) state: GroupState,
    /// Set while the members of a group that was empty gather.
    pub(super) gathering: Option<Gathering>,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) protocol: Option<Arc<str>>,
    pub(super) leader: Option<Arc<str>>,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    /// Static name to member id.
    pub(super) statics: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids given out under MEMBER_ID_REQUIRED and not used yet, each with the time it is forgotten.
    pub(super) pending: BTreeMap<Arc<str>, Millis>,
    /// How many members support each protocol.
    supported: HashMap<Arc<str>, usize>,
    /// How many members' JoinGroup waits.
    joining: usize,
    /// The topics of all members, where they can be told.
    subscribed: Option<BTreeSet<String>>,
    /// The leader's assignment while its generation is being stored.
    held: Option<HashMap<Arc<str>, Bytes>>,
    /// When the rebalance goes on without those that did not rejoin.
    pub(super) join_deadline: Millis,
    /// When members that did not send SyncGroup are given up.
    sync_deadline: Millis,
    /// Not after the earliest of all deadlines.
    wake: Millis,
    bytes: usize,
}

/// The initial rebalance, which waits for latecomers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Someone joined since the delay began.
    pub(super) joined: bool,
    /// This delay, and how long further ones may last in all.
    delay: Millis,
    remaining: Millis,
}

impl Group {
    /// An empty group; its next generation is one above `generation`.
    pub fn new(limits: Limits, generation: i32, protocol_type: Option<Arc<str>>) -> Self {
        Self {
            limits,
            state: GroupState::Empty,
            gathering: None,
            generation,
            protocol_type,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            supported: HashMap::new(),
            joining: 0,
            subscribed: None,
            held: None,
            join_deadline: NEVER,
            sync_deadline: NEVER,
            wake: NEVER,
            bytes: 0,
        }
    }

    /// Where it stands.
    pub fn state(&self) -> GroupState {
        self.state
    }

    /// The current generation.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// What the members have or had in common.
    pub fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    /// Members, and ids given out to members to be.
    pub fn size(&self) -> usize {
        self.members.len() + self.pending.len()
    }

    /// Bytes of metadata, assignments and members kept in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes + self.pending.len() * MEMBER_BYTES
    }

    /// When [`Group::tick`] has something to do; `Millis::MAX` for never. May be early, never late.
    pub fn wake(&self) -> Millis {
        self.wake
    }

    /// The topics the members read, as they name them; `None` where that can't be told.
    pub fn subscribed(&self) -> Option<&BTreeSet<String>> {
        self.subscribed.as_ref()
    }

    /// Whether the members use the consumers' own protocol type.
    pub fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some(subscription::CONSUMER)
    }

    /// How DescribeGroups shows it.
    pub fn describe(&self) -> Description {
        let stable = match self.state {
            GroupState::Stable => self.protocol.clone(),
            _ => None,
        };
        Description {
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_else(|| Arc::from("")),
            members: self
                .members
                .values()
                .map(|m| DescribedMember {
                    id: m.id.clone(),
                    instance: m.instance.clone(),
                    client_id: m.client_id.clone(),
                    client_host: m.client_host.clone(),
                    metadata: stable.as_deref().map(|p| m.metadata(p)).unwrap_or_default(),
                    assignment: m.assignment.clone(),
                })
                .collect(),
            protocol: stable.unwrap_or_else(|| Arc::from("")),
        }
    }

    /// A heartbeat: keeps the session.
    pub fn heartbeat(
        &mut self,
        member_id: &str,
        instance: Option<&str>,
        generation: i32,
        now: Millis,
    ) -> Result<(), Refusal> {
        self.check_member(member_id, instance)?;
        if generation != self.generation {
            return Err(Refusal::IllegalGeneration);
        }
        self.renew(member_id, now);
        match self.state {
            GroupState::PreparingRebalance => Err(Refusal::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// Whether an OffsetCommit may be stored; counts as a heartbeat.
    pub fn check_commit(
        &mut self,
        member_id: &str,
        instance: Option<&str>,
        generation: i32,
        now: Millis,
    ) -> Result<(), Refusal> {
        if generation < 0 && self.state == GroupState::Empty {
            // An administrator, or a consumer that assigns its own partitions.
            return Ok(());
        }
        if generation >= 0 || !member_id.is_empty() || instance.is_some() {
            self.check_member(member_id, instance)?;
            if generation != self.generation {
                return Err(Refusal::IllegalGeneration);
            }
        } else if self.state != GroupState::Empty {
            return Err(Refusal::UnknownMember);
        }
        match self.state {
            GroupState::CompletingRebalance => Err(Refusal::RebalanceInProgress),
            _ => {
                self.renew(member_id, now);
                Ok(())
            }
        }
    }

    /// SyncGroup: the leader brings the assignment, the others fetch theirs.
    #[allow(clippy::too_many_arguments)]
    pub fn sync(
        &mut self,
        member_id: &str,
        instance: Option<&str>,
        generation: i32,
        protocol_type: Option<&str>,
        protocol: Option<&str>,
        assignments: Vec<(Arc<str>, Bytes)>,
        ticket: Ticket,
        now: Millis,
        out: &mut Vec<Output>,
    ) {
        if let Err(refusal) = self.check_sync(member_id, instance, generation, protocol_type, protocol) {
            out.push(Output::Synced(ticket, SyncAnswer::refused(refusal)));
            return;
        }
        let is_leader = self.is_leader(member_id);
        let Some(member) = self.members.get_mut(member_id) else {
            out.push(Output::Synced(ticket, SyncAnswer::refused(Refusal::UnknownMember)));
            return;
        };
        member.synced = true;
        if self.state == GroupState::Stable {
            let assignment = member.assignment.clone();
            self.renew(member_id, now);
            out.push(Output::Synced(ticket, self.synced(assignment)));
        } else {
            if let Some(earlier) = member.syncing.replace(ticket) {
                out.push(Output::Synced(
                    earlier,
                    SyncAnswer::refused(Refusal::RebalanceInProgress),
                ));
            }
            if is_leader {
                self.held = Some(
                    assignments
                        .into_iter()
                        .filter(|(id, _)| self.members.contains_key(id))
                        .collect(),
                );
                out.push(Output::Store {
                    generation: self.generation,
                });
            }
        }
        if self.members.values().all(|m| m.synced) {
            self.sync_deadline = NEVER;
        }
    }

    fn check_sync(
        &self,
        member_id: &str,
        instance: Option<&str>,
        generation: i32,
        protocol_type: Option<&str>,
        protocol: Option<&str>,
    ) -> Result<(), Refusal> {
        self.check_member(member_id, instance)?;
        if generation != self.generation {
            return Err(Refusal::IllegalGeneration);
        }
        let differs = |asked: Option<&str>, ours: &Option<Arc<str>>| {
            asked.is_some_and(|a| ours.as_deref().is_some_and(|o| o != a))
        };
        if differs(protocol_type, &self.protocol_type) || differs(protocol, &self.protocol) {
            return Err(Refusal::InconsistentProtocol);
        }
        match self.state {
            GroupState::PreparingRebalance => Err(Refusal::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    fn synced(&self, assignment: Bytes) -> SyncAnswer {
        SyncAnswer {
            error: None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment,
        }
    }

    /// What came of [`Output::Store`]. Without a durable generation the members start over.
    pub fn stored(&mut self, generation: i32, outcome: Result<(), Refusal>, now: Millis, out: &mut Vec<Output>) {
        if self.state != GroupState::CompletingRebalance || generation != self.generation {
            return;
        }
        let Some(mut held) = self.held.take() else { return };
        match outcome {
            Ok(()) => {
                let mut bytes = self.bytes;
                for member in self.members.values_mut() {
                    let assignment = held.remove(&member.id).unwrap_or_default();
                    bytes = bytes - member.assignment.len() + assignment.len();
                    member.assignment = assignment;
                }
                self.bytes = bytes;
                self.answer_syncs(None, now, out);
                self.state = GroupState::Stable;
            }
            Err(refusal) => {
                self.clear_assignments();
                self.answer_syncs(Some(refusal), now, out);
                self.prepare_rebalance(now, out);
            }
        }
    }

    fn clear_assignments(&mut self) {
        for member in self.members.values_mut() {
            self.bytes -= member.assignment.len();
            member.assignment = Bytes::new();
        }
    }

    fn answer_syncs(&mut self, refusal: Option<Refusal>, now: Millis, out: &mut Vec<Output>) {
        let good = self.synced(Bytes::new());
        for member in self.members.values_mut() {
            let Some(ticket) = member.syncing.take() else { continue };
            let answer = match refusal {
                Some(refusal) => SyncAnswer::refused(refusal),
                None => SyncAnswer {
                    assignment: member.assignment.clone(),
                    ..good.clone()
                },
            };
            out.push(Output::Synced(ticket, answer));
            // The session was not counted while the member waited.
            member.deadline = now + Millis::from(member.session_timeout);
            self.wake = self.wake.min(member.deadline);
        }
    }

    /// LeaveGroup: each entry is answered on its own, in the order given.
    pub fn leave(&mut self, leaving: &[Leaving], now: Millis, out: &mut Vec<Output>) -> Vec<Result<(), Refusal>> {
        let results: Vec<_> = leaving.iter().map(|l| self.leave_one(l, out)).collect();
        if results.iter().any(Result::is_ok) {
            self.rebalance_or_complete(now, out);
        }
        results
    }

    fn leave_one(&mut self, leaving: &Leaving, out: &mut Vec<Output>) -> Result<(), Refusal> {
        if leaving.member_id.is_empty() {
            let known = leaving.instance.as_ref().and_then(|i| self.statics.get(i));
            let id = known.cloned().ok_or(Refusal::UnknownMember)?;
            self.remove(&id, out);
        } else if self.pending.remove(&leaving.member_id).is_none() {
            self.check_member(&leaving.member_id, leaving.instance.as_deref())?;
            self.remove(&leaving.member_id, out);
        }
        Ok(())
    }

    /// Time passes: sessions end, rebalances go on without those that are missing.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<Output>) {
        if now < self.wake {
            return;
        }
        if self.join_deadline <= now {
            self.join_time_is_up(now, out);
        }
        if self.sync_deadline <= now {
            self.sync_time_is_up(now, out);
        }
        self.end_sessions(now, out);
        let sessions = self.members.values().map(|m| m.deadline);
        self.wake = sessions
            .chain(self.pending.values().copied())
            .chain([self.join_deadline, self.sync_deadline])
            .min()
            .unwrap_or(NEVER);
    }

    fn join_time_is_up(&mut self, now: Millis, out: &mut Vec<Output>) {
        match &mut self.gathering {
            Some(gathering) if gathering.joined && gathering.remaining > 0 => {
                let delay = self.limits.initial_rebalance_delay.min(gathering.remaining);
                *gathering = Gathering {
                    joined: false,
                    delay,
                    remaining: gathering.remaining.saturating_sub(gathering.delay),
                };
                self.join_deadline = now + delay;
            }
            _ => self.complete_join(now, out),
        }
    }

    fn sync_time_is_up(&mut self, now: Millis, out: &mut Vec<Output>) {
        self.sync_deadline = NEVER;
        let missing: Vec<_> = self
            .members
            .values()
            .filter(|m| !m.synced)
            .map(|m| m.id.clone())
            .collect();
        for id in &missing {
            self.remove(id, out);
        }
        if !missing.is_empty() {
            self.prepare_rebalance(now, out);
        }
    }

    fn end_sessions(&mut self, now: Millis, out: &mut Vec<Output>) {
        let pending = self.pending.len();
        self.pending.retain(|_, deadline| *deadline > now);
        if self.pending.len() < pending {
            self.complete_if_all_joined(now, out);
        }
        let due: Vec<_> = self
            .members
            .values()
            .filter(|m| m.deadline <= now)
            .map(|m| m.id.clone())
            .collect();
        for id in due {
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            if member.deadline > now {
                continue;
            }
            if !member.new && (member.joining.is_some() || member.syncing.is_some()) {
                // A waiting member owes no heartbeat; its session is counted again once it is answered.
                member.deadline = NEVER;
                continue;
            }
            self.remove(&id, out);
            match self.state {
                GroupState::PreparingRebalance => self.complete_if_all_joined(now, out),
                _ => self.rebalance_or_complete(now, out),
            }
        }
    }

    /// Whether the request is from a member as it is now: its id known, its static name not taken over.
    pub(super) fn check_member(&self, member_id: &str, instance: Option<&str>) -> Result<(), Refusal> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                None => return Err(Refusal::UnknownMember),
                Some(id) if **id != *member_id => return Err(Refusal::FencedInstance),
                Some(_) => {}
            }
        }
        match self.members.contains_key(member_id) {
            true => Ok(()),
            false => Err(Refusal::UnknownMember),
        }
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Starts the member's session anew.
    pub(super) fn renew(&mut self, member_id: &str, now: Millis) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.deadline = now + Millis::from(member.session_timeout);
            self.wake = self.wake.min(member.deadline);
        }
    }

    pub(super) fn wake_at(&mut self, at: Millis) {
        self.wake = self.wake.min(at);
    }

    /// Adds a member whose JoinGroup waits.
    pub(super) fn add(&mut self, member: Member) {
        if let Some(instance) = &member.instance {
            self.statics.insert(instance.clone(), member.id.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(member.id.clone());
        }
        self.count_protocols(&member, true);
        self.bytes += member.bytes();
        self.joining += usize::from(member.joining.is_some());
        self.wake = self.wake.min(member.deadline);
        self.members.insert(member.id.clone(), member);
    }

    /// Replaces what a member says of itself, and parks its JoinGroup.
    pub(super) fn update(
        &mut self,
        member_id: &str,
        protocols: Vec<super::member::Protocol>,
        session_timeout: u32,
        rebalance_timeout: u32,
        ticket: Ticket,
        out: &mut Vec<Output>,
    ) {
        let Some(mut member) = self.members.remove(member_id) else {
            let refusal = JoinAnswer::refused(Refusal::UnknownMember, Arc::from(member_id));
            out.push(Output::Joined(ticket, refusal));
            return;
        };
        self.count_protocols(&member, false);
        self.bytes = self.bytes - protocols_bytes(&member.protocols) + protocols_bytes(&protocols);
        member.protocols = protocols;
        member.session_timeout = session_timeout;
        member.rebalance_timeout = rebalance_timeout;
        self.count_protocols(&member, true);
        match member.joining.replace(ticket) {
            Some(earlier) => {
                let refusal = JoinAnswer::refused(Refusal::RebalanceInProgress, member.id.clone());
                out.push(Output::Joined(earlier, refusal));
            }
            None => self.joining += 1,
        }
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member out; what it waits for is answered. The caller sees to the rebalance.
    pub(super) fn remove(&mut self, member_id: &str, out: &mut Vec<Output>) -> Option<Member> {
        let mut member = self.members.remove(member_id)?;
        self.count_protocols(&member, false);
        self.bytes -= member.bytes();
        if let Some(ticket) = member.joining.take() {
            self.joining -= 1;
            let refusal = JoinAnswer::refused(Refusal::UnknownMember, Arc::from(""));
            out.push(Output::Joined(ticket, refusal));
        }
        if let Some(ticket) = member.syncing.take() {
            out.push(Output::Synced(ticket, SyncAnswer::refused(Refusal::UnknownMember)));
        }
        if let Some(instance) = &member.instance {
            self.statics.remove(instance);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(member)
    }

    /// Answers the member's JoinGroup, if one waits.
    pub(super) fn answer_join(&mut self, member_id: &str, answer: JoinAnswer, out: &mut Vec<Output>) {
        if let Some(ticket) = self.members.get_mut(member_id).and_then(|m| m.joining.take()) {
            self.joining -= 1;
            out.push(Output::Joined(ticket, answer));
        }
    }

    fn count_protocols(&mut self, member: &Member, more: bool) {
        for protocol in &member.protocols {
            let count = self.supported.entry(protocol.name.clone()).or_default();
            if more {
                *count += 1;
            } else {
                *count -= 1;
                if *count == 0 {
                    self.supported.remove(&protocol.name);
                }
            }
        }
    }

    /// Whether every member supports the protocol.
    pub(super) fn supported_by_all(&self, protocol: &str) -> bool {
        self.supported.get(protocol).copied().unwrap_or(0) == self.members.len()
    }

    pub(super) fn awaiting_join(&self) -> usize {
        self.joining
    }

    fn all_joined(&self) -> bool {
        self.members.len() == self.joining && self.pending.is_empty()
    }

    fn rebalance_timeout(&self) -> Millis {
        let longest = self.members.values().map(|m| m.rebalance_timeout).max();
        Millis::from(longest.unwrap_or(0))
    }

    /// Something changed: starts a rebalance, or completes the one under way if it waited for nothing else.
    pub(super) fn rebalance_or_complete(&mut self, now: Millis, out: &mut Vec<Output>) {
        match self.state {
            GroupState::PreparingRebalance if self.gathering.is_none() => self.complete_if_all_joined(now, out),
            GroupState::PreparingRebalance | GroupState::Dead => {}
            GroupState::Empty if self.members.is_empty() => {}
            GroupState::Empty | GroupState::CompletingRebalance | GroupState::Stable => {
                self.prepare_rebalance(now, out);
            }
        }
    }

    pub(super) fn complete_if_all_joined(&mut self, now: Millis, out: &mut Vec<Output>) {
        if self.state == GroupState::PreparingRebalance && self.all_joined() {
            self.complete_join(now, out);
        }
    }

    /// All members are to rejoin.
    pub(super) fn prepare_rebalance(&mut self, now: Millis, out: &mut Vec<Output>) {
        if self.state == GroupState::CompletingRebalance {
            self.held = None;
            self.clear_assignments();
            self.answer_syncs(Some(Refusal::RebalanceInProgress), now, out);
        }
        self.sync_deadline = NEVER;
        let initial = self.state == GroupState::Empty;
        self.state = GroupState::PreparingRebalance;
        if initial {
            let delay = self.limits.initial_rebalance_delay;
            let remaining = self.rebalance_timeout().saturating_sub(delay);
            if delay == 0 {
                return self.complete_join(now, out);
            }
            self.gathering = Some(Gathering {
                joined: false,
                delay,
                remaining,
            });
            self.join_deadline = now + delay;
        } else if self.all_joined() {
            return self.complete_join(now, out);
        } else {
            self.join_deadline = now + self.rebalance_timeout();
        }
        self.wake = self.wake.min(self.join_deadline);
    }

    /// The next generation begins, with those that joined. Static members stay until their session ends (KIP-345).
    fn complete_join(&mut self, now: Millis, out: &mut Vec<Output>) {
        self.join_deadline = NEVER;
        self.gathering = None;
        let missing: Vec<_> = self
            .members
            .values()
            .filter(|m| m.joining.is_none() && m.instance.is_none())
            .map(|m| m.id.clone())
            .collect();
        for id in missing {
            self.remove(&id, out);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Static members only, none of them back: their sessions decide.
            self.join_deadline = now + self.rebalance_timeout().max(1000);
            self.wake = self.wake.min(self.join_deadline);
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.protocol = None;
            self.subscribed = self.is_consumer().then(BTreeSet::new);
            self.state = GroupState::Empty;
            return;
        }
        self.protocol = Some(self.choose_protocol());
        self.subscribed = self.subscriptions();
        self.state = GroupState::CompletingRebalance;
        self.sync_deadline = now + self.rebalance_timeout();
        self.wake = self.wake.min(self.sync_deadline);
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.joined(&id, false);
            self.answer_join(&id, answer, out);
            if let Some(member) = self.members.get_mut(&id) {
                member.new = false;
                member.synced = false;
            }
            self.renew(&id, now);
        }
    }

    /// Whether the leader is among those that joined, now.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |m: &Member| m.joining.is_some();
        let leader = self.leader.as_ref().and_then(|l| self.members.get(l));
        if leader.is_some_and(joined) {
            return true;
        }
        match self.members.values().find(|m| joined(m)) {
            Some(other) => {
                self.leader = Some(other.id.clone());
                true
            }
            None => false,
        }
    }

    /// The answer to a member of the current generation; the leader sees all members.
    pub(super) fn joined(&self, member_id: &Arc<str>, skip_assignment: bool) -> JoinAnswer {
        let protocol = self.protocol.as_deref().unwrap_or("");
        let members = match self.is_leader(member_id) {
            true => self
                .members
                .values()
                .map(|m| JoinedMember {
                    id: m.id.clone(),
                    instance: m.instance.clone(),
                    metadata: m.metadata(protocol),
                })
                .collect(),
            false => Vec::new(),
        };
        JoinAnswer {
            error: None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_else(|| Arc::from("")),
            member_id: member_id.clone(),
            members,
            skip_assignment,
        }
    }

    /// The protocol most members prefer among those all support; at a tie, the one the leader prefers.
    pub(super) fn choose_protocol(&self) -> Arc<str> {
        let mut votes: HashMap<&Arc<str>, usize> = HashMap::new();
        for member in self.members.values() {
            let choice = member.protocols.iter().find(|p| self.supported_by_all(&p.name));
            if let Some(choice) = choice {
                *votes.entry(&choice.name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max().unwrap_or(0);
        let leader = self.leader.as_ref().and_then(|l| self.members.get(l));
        leader
            .into_iter()
            .chain(self.members.values())
            .flat_map(|m| &m.protocols)
            .find(|p| votes.get(&p.name) == Some(&most))
            .map_or_else(|| Arc::from(""), |p| p.name.clone())
    }

    fn subscriptions(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer() {
            return None;
        }
        let protocol = self.protocol.as_deref()?;
        let mut all = BTreeSet::new();
        for member in self.members.values() {
            all.append(&mut subscription::topics(&member.metadata(protocol))?);
        }
        Some(all)
    }
}

#[cfg(test)]
#[path = "group_test.rs"]
mod tests;

#[cfg(test)]
#[path = "group_property_test.rs"]
mod properties;
