//! JoinGroup: new members, known ones, and static members that take their place again.

use super::answer::{GroupState, JoinAnswer, Output, Refusal};
use super::group::Group;
use super::member::{Join, Member, Millis, NEVER, Protocol, Ticket};
use super::subscription;
use std::sync::Arc;

impl Group {
    /// JoinGroup. Answered by [`Output::Joined`] for `ticket`: now, or when the generation begins.
    pub fn join(&mut self, mut join: Join, ticket: Ticket, now: Millis, out: &mut Vec<Output>) {
        keep_first_of_each_name(&mut join.protocols);
        let id = join.member_id.clone();
        if !self.has_room_for(&id) {
            self.turn_away(&id, ticket, now, out);
        } else if !self.agrees_with(&join.protocol_type, &join.protocols) {
            refuse(ticket, Refusal::InconsistentProtocol, id, out);
        } else if id.is_empty() {
            self.join_new(join, ticket, now, out);
        } else if self.pending.contains_key(&id) {
            if join.instance.is_some() {
                // An id is made pending for dynamic members only.
                return refuse(ticket, Refusal::UnknownMember, id, out);
            }
            self.admit(id, join, ticket, now, out);
        } else if let Err(refusal) = self.check_member(&id, join.instance.as_deref()) {
            refuse(ticket, refusal, id, out);
        } else {
            self.rejoin(join, ticket, now, out);
        }
    }

    /// While members gather, those that wait count, so that a full group lets in whoever rejoins first.
    fn has_room_for(&self, id: &str) -> bool {
        let most = self.limits.max_members;
        let member = self.members.get(id);
        let known = match self.state {
            GroupState::Empty | GroupState::Dead => return self.pending.len() < most || self.pending.contains_key(id),
            GroupState::PreparingRebalance => {
                member.is_some_and(|m| m.joining.is_some()) || self.awaiting_join() < most
            }
            GroupState::CompletingRebalance | GroupState::Stable => member.is_some() || self.members.len() < most,
        };
        known && (member.is_some() || self.pending.len() < most || self.pending.contains_key(id))
    }

    fn turn_away(&mut self, id: &str, ticket: Ticket, now: Millis, out: &mut Vec<Output>) {
        refuse(ticket, Refusal::GroupFull, Arc::from(""), out);
        let was_pending = self.pending.remove(id).is_some();
        if self.remove(id, out).is_some() || was_pending {
            self.rebalance_or_complete(now, out);
        }
    }

    /// Whether the group's protocol type is this one, and one of the protocols is common to all members.
    fn agrees_with(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|p| self.supported_by_all(&p.name))
    }

    fn join_new(&mut self, join: Join, ticket: Ticket, now: Millis, out: &mut Vec<Output>) {
        let id = join.fresh_id.clone();
        let replaced = join.instance.as_ref().and_then(|i| self.statics.get(i)).cloned();
        if let Some(old) = replaced {
            self.replace_static(&old, id, join, ticket, now, out);
        } else if join.instance.is_none() && join.requires_known_id {
            // The id is told first, so that a client that never hears of it leaves no member behind.
            let deadline = now + Millis::from(join.session_timeout);
            self.pending.insert(id.clone(), deadline);
            self.wake_at(deadline);
            refuse(ticket, Refusal::MemberIdRequired, id, out);
        } else {
            self.admit(id, join, ticket, now, out);
        }
    }

    fn admit(&mut self, id: Arc<str>, join: Join, ticket: Ticket, now: Millis, out: &mut Vec<Output>) {
        self.pending.remove(&id);
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if let Some(gathering) = &mut self.gathering {
            gathering.joined = true;
        }
        let mut member = Member::new(id, join, ticket);
        member.deadline = now + self.limits.new_member_timeout;
        self.add(member);
        self.rebalance_or_complete(now, out);
    }

    fn rejoin(&mut self, join: Join, ticket: Ticket, now: Millis, out: &mut Vec<Output>) {
        let id = join.member_id.clone();
        let unchanged = self.members.get(&id).is_some_and(|m| m.protocols == join.protocols);
        let answer_at_once = match self.state {
            // The answer to its JoinGroup may have been lost.
            GroupState::CompletingRebalance => unchanged,
            // The leader rejoins to have partitions assigned anew.
            GroupState::Stable => unchanged && !self.is_leader(&id),
            GroupState::PreparingRebalance | GroupState::Empty | GroupState::Dead => false,
        };
        if answer_at_once {
            self.renew(&id, now);
            out.push(Output::Joined(ticket, self.joined(&id, false)));
            return;
        }
        self.update(
            &id,
            join.protocols,
            join.session_timeout,
            join.rebalance_timeout,
            ticket,
            out,
        );
        self.rebalance_or_complete(now, out);
    }

    /// KIP-345: a restarted static member takes over the place, and the assignment, of its predecessor.
    fn replace_static(
        &mut self,
        old_id: &Arc<str>,
        new_id: Arc<str>,
        join: Join,
        ticket: Ticket,
        now: Millis,
        out: &mut Vec<Output>,
    ) {
        let old_leader = self.leader.clone().unwrap_or_else(|| Arc::from(""));
        let was_leader = self.is_leader(old_id);
        self.fence(old_id, out);
        let Some(mut member) = self.remove(old_id, out) else {
            return self.admit(new_id, join, ticket, now, out);
        };
        let same_topics = same_topics(&member, &join, self.protocol.as_deref());
        member.id = new_id.clone();
        member.client_id = join.client_id;
        member.client_host = join.client_host;
        member.new = false;
        member.deadline = NEVER;
        self.add(member);
        if was_leader {
            self.leader = Some(new_id.clone());
        }
        self.renew(&new_id, now);
        self.update(
            &new_id,
            join.protocols,
            join.session_timeout,
            join.rebalance_timeout,
            ticket,
            out,
        );
        match self.state {
            GroupState::Stable if same_topics && self.protocol.as_ref() == Some(&self.choose_protocol()) => {
                let answer = if join.can_skip_assignment {
                    self.joined(&new_id, was_leader)
                } else {
                    // An older leader can't be told to skip the assignment: it must not take itself for the leader.
                    JoinAnswer {
                        leader: old_leader,
                        members: Vec::new(),
                        ..self.joined(&new_id, false)
                    }
                };
                self.answer_join(&new_id, answer, out);
                self.renew(&new_id, now);
            }
            // In CompletingRebalance the leader may already assign to the old id.
            _ => self.rebalance_or_complete(now, out),
        }
    }

    /// Whatever still waits under the old id is answered that it was taken over.
    fn fence(&mut self, old_id: &Arc<str>, out: &mut Vec<Output>) {
        let refusal = JoinAnswer::refused(Refusal::FencedInstance, old_id.clone());
        self.answer_join(old_id, refusal, out);
        if let Some(sync) = self.members.get_mut(old_id).and_then(|m| m.syncing.take()) {
            let refusal = super::answer::SyncAnswer::refused(Refusal::FencedInstance);
            out.push(Output::Synced(sync, refusal));
        }
    }
}

/// Whether the successor subscribes to what its predecessor did. Metadata that is no subscription tells nothing, and
/// sticky assignors put the partitions owned into it, so the bytes are not compared.
fn same_topics(member: &Member, join: &Join, protocol: Option<&str>) -> bool {
    let Some(protocol) = protocol.filter(|_| &*join.protocol_type == subscription::CONSUMER) else {
        return true;
    };
    let after = join.protocols.iter().find(|p| &*p.name == protocol);
    let before = subscription::topics(&member.metadata(protocol));
    let after = after.and_then(|p| subscription::topics(&p.metadata));
    match (before, after) {
        (Some(before), Some(after)) => before == after,
        _ => true,
    }
}

fn refuse(ticket: Ticket, refusal: Refusal, member_id: Arc<str>, out: &mut Vec<Output>) {
    out.push(Output::Joined(ticket, JoinAnswer::refused(refusal, member_id)));
}

fn keep_first_of_each_name(protocols: &mut Vec<Protocol>) {
    let mut seen = std::collections::HashSet::new();
    protocols.retain(|p| seen.insert(p.name.clone()));
}
