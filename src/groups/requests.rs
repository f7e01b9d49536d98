//! What members ask: to join, to learn their assignment, to stay, to leave.

use super::answer::{JoinAnswer, Leaving, Refusal, SyncAnswer};
use super::coordinator::{Address, Entry, Found, Inner, Stored};
use super::member::{Join, MEMBER_BYTES, protocols_bytes};
use bytes::Bytes;
use std::sync::Arc;

/// Who a member says it is.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Its id; empty for none.
    pub member_id: Arc<str>,
    /// Its static name.
    pub instance: Option<Arc<str>>,
    /// The generation it knows; negative for none.
    pub generation: i32,
}

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct Sync {
    /// Who asks.
    pub who: Membership,
    /// The protocol type and the protocol it believes in; not told by old versions.
    pub protocol_type: Option<Arc<str>>,
    /// See `protocol_type`.
    pub protocol: Option<Arc<str>>,
    /// Each member's share, from the leader.
    pub assignments: Vec<(Arc<str>, Bytes)>,
}

impl Inner {
    /// JoinGroup; waits for the rebalance.
    pub async fn join(&self, address: &Address, join: Join) -> JoinAnswer {
        let id = join.member_id.clone();
        match self.try_join(address, join).await {
            Ok(answer) => answer,
            Err(refusal) => JoinAnswer::refused(refusal, id),
        }
    }

    async fn try_join(&self, address: &Address, join: Join) -> Result<JoinAnswer, Refusal> {
        if address.group.is_empty() {
            return Err(Refusal::InvalidGroupId);
        }
        let bounds = &self.config.session_timeout;
        let session = u128::from(join.session_timeout);
        if session < bounds.start().as_millis() || session > bounds.end().as_millis() {
            return Err(Refusal::InvalidSessionTimeout);
        }
        if !self.has_room(protocols_bytes(&join.protocols) + MEMBER_BYTES) {
            return Err(Refusal::CoordinatorNotAvailable);
        }
        let namespace = self.settle_namespace(address).await?;
        loop {
            let entry = match self.find(address, namespace).await? {
                Found::Live(entry) => entry,
                // A group without members knows no member.
                _ if !join.member_id.is_empty() => return Err(Refusal::UnknownMember),
                Found::Stored(stored) => self.create(address, namespace, stored)?,
                Found::Unknown => self.create(address, namespace, Stored::default())?,
            };
            let waiting = self.step(&entry, |live, now, out| {
                let (ticket, answer) = live.park_join();
                live.group.join(join.clone(), ticket, now, out);
                answer
            });
            if let Some(answer) = waiting {
                return answer.await.map_err(|_| Refusal::NotCoordinator);
            }
        }
    }

    /// SyncGroup; waits for the leader.
    pub async fn sync(&self, address: &Address, sync: Sync) -> SyncAnswer {
        self.try_sync(address, sync).await.unwrap_or_else(SyncAnswer::refused)
    }

    async fn try_sync(&self, address: &Address, sync: Sync) -> Result<SyncAnswer, Refusal> {
        if !self.has_room(sync.assignments.iter().map(|(_, a)| a.len()).sum()) {
            return Err(Refusal::CoordinatorNotAvailable);
        }
        let waiting = self.on_member(address, |live, now, out| {
            let (ticket, answer) = live.park_sync();
            live.group.sync(
                &sync.who.member_id,
                sync.who.instance.as_deref(),
                sync.who.generation,
                sync.protocol_type.as_deref(),
                sync.protocol.as_deref(),
                sync.assignments.clone(),
                ticket,
                now,
                out,
            );
            answer
        });
        waiting.await?.await.map_err(|_| Refusal::NotCoordinator)
    }

    /// Heartbeat.
    pub async fn heartbeat(&self, address: &Address, who: &Membership) -> Result<(), Refusal> {
        self.on_member(address, |live, now, _| {
            let instance = who.instance.as_deref();
            live.group.heartbeat(&who.member_id, instance, who.generation, now)
        })
        .await?
    }

    /// LeaveGroup: a result for each entry.
    pub async fn leave(&self, address: &Address, leaving: &[Leaving]) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        let left = self.on_member(address, |live, now, out| live.group.leave(leaving, now, out));
        match left.await {
            Err(Refusal::UnknownMember) => Ok(vec![Err(Refusal::UnknownMember); leaving.len()]),
            other => other,
        }
    }

    /// A step that only a group with members can take.
    async fn on_member<R>(
        &self,
        address: &Address,
        mut step: impl FnMut(&mut super::coordinator::Live, u64, &mut Vec<super::answer::Output>) -> R,
    ) -> Result<R, Refusal> {
        if address.group.is_empty() {
            return Err(Refusal::InvalidGroupId);
        }
        loop {
            let Found::Live(entry) = self.find(address, self.namespace(address)).await? else {
                return Err(Refusal::UnknownMember);
            };
            if let Some(result) = self.step(&entry, &mut step) {
                return Ok(result);
            }
        }
    }

    /// As [`Inner::step`] for reading alone.
    pub(super) fn look_at<R>(&self, entry: &Arc<Entry>, look: impl FnOnce(&super::group::Group) -> R) -> Option<R> {
        self.step(entry, |live, _, _| look(&live.group))
    }
}
