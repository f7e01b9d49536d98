//! Committed offsets, and groups as administrators see them.
//!
//! A group's offsets are the positions of the reader `kafka:<group>`; TessariQL reads and moves the same ones.

use super::answer::{Description, GroupState, Refusal};
use super::coordinator::{ABOUT, Address, Found, Inner, now_ms, position_refusal, refusal, stored};
use super::requests::Membership;
use crate::broker::{Position, PositionChange};
use crate::log::Offset;
use cluster::catalog::Topic;
use cluster::ids::{DatabaseId, NamespaceId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One partition of an OffsetCommit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Which.
    pub partition: PartitionId,
    /// The next offset to read; below 0 for none.
    pub offset: Offset,
    /// The leader epoch of the last record read, -1 if not known.
    pub leader_epoch: i32,
    /// The client's own text.
    pub metadata: String,
}

/// What a group's members read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// There are no members.
    ToNothing,
    /// These topics, as the members name them.
    To(BTreeSet<String>),
    /// What they read can't be told: take it for everything.
    ToAnything,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its id.
    pub group: Arc<str>,
    /// The namespace that coordinates it; `None` as long as nothing decides it.
    pub namespace: Option<NamespaceId>,
    /// Where it stands.
    pub state: GroupState,
    /// Its protocol type; empty for one that only ever committed.
    pub protocol_type: Arc<str>,
}

impl Inner {
    /// OffsetCommit, all partitions or none. Metadata longer than `GroupConfig::max_offset_metadata` is the caller's to
    /// sort out first. A group nobody knows is [`Refusal::UnknownGroup`], unless the commit claims no generation.
    pub async fn commit(&self, address: &Address, who: &Membership, commits: Vec<Commit>) -> Result<(), Refusal> {
        let namespace = self.settle_namespace(address).await?;
        let term = self.coordinated(namespace).await?;
        let begun = namespace.map(|namespace| self.commits.begin(namespace, &address.group));
        loop {
            let entry = match self.find(address, namespace).await? {
                Found::Live(entry) => entry,
                Found::Unknown if who.generation >= 0 => return Err(Refusal::UnknownGroup),
                // Without members anyone may commit who doesn't claim to be one.
                _ if who.generation >= 0 => return Err(Refusal::UnknownMember),
                _ => break,
            };
            let checked = self.step(&entry, |live, now, _| {
                let instance = who.instance.as_deref();
                live.group.check_commit(&who.member_id, instance, who.generation, now)
            });
            match checked {
                Some(Ok(())) => break,
                Some(Err(refusal)) => return Err(refusal),
                None => {}
            }
        }
        // No topic was named: there is nothing to write, and nowhere.
        let Some(namespace) = namespace else { return Ok(()) };
        let now = now_ms();
        let changes = commits.into_iter().map(|c| match c.offset {
            ..0 => PositionChange::Delete(c.partition),
            offset => PositionChange::Set(
                c.partition,
                Position {
                    offset,
                    leader_epoch: c.leader_epoch,
                    metadata: c.metadata,
                    commit_ms: now,
                },
            ),
        });
        let changes = changes.collect();
        let Some(me) = self.me.upgrade() else {
            return Err(Refusal::NotCoordinator);
        };
        let address = address.clone();
        // It goes on without who asked, too, and has begun until it is over.
        let work = tokio::spawn(async move {
            let changed = me.change(&address, (namespace, term), changes).await;
            drop(begun);
            changed
        });
        work.await.unwrap_or(Err(Refusal::CoordinatorNotAvailable))
    }

    /// The term in which this node coordinates the namespace; waits, briefly, for a range that is starting.
    async fn coordinated(&self, namespace: Option<NamespaceId>) -> Result<u64, Refusal> {
        if let (Err(Refusal::CoordinatorLoading), Some(namespace)) = (self.term(namespace), namespace) {
            let home = self.broker.catalog().view().namespace_by_id(namespace).map(|n| n.home);
            if let Some(home) = home {
                self.broker.led_here(home).await.map_err(|e| refusal(&e))?;
            }
        }
        self.term(namespace)
    }

    async fn change(
        &self,
        address: &Address,
        (namespace, term): (NamespaceId, u64),
        changes: Vec<PositionChange>,
    ) -> Result<(), Refusal> {
        if changes.is_empty() {
            return Ok(());
        }
        let changed = self
            .broker
            .change_positions_in(term, namespace, &address.reader(), changes)
            .await;
        changed.map_err(|e| position_refusal(&e))
    }

    /// The group's committed offsets, with all that was taken before. None for a group nobody knows; never "none" while that
    /// can't be told.
    pub async fn offsets(&self, address: &Address) -> Result<BTreeMap<PartitionId, Position>, Refusal> {
        let Some(namespace) = self.settle_namespace(address).await? else {
            return Ok(BTreeMap::new());
        };
        self.commits.settled(namespace, &address.group).await;
        let positions = self.broker.positions(namespace, &address.reader()).await;
        let positions = positions.map_err(|e| position_refusal(&e))?;
        Ok(positions.into_iter().filter(|(id, _)| *id != ABOUT).collect())
    }

    /// The group; `None` if nobody knows it.
    pub async fn describe(&self, address: &Address) -> Result<Option<Description>, Refusal> {
        loop {
            let entry = match self.find(address, self.namespace(address)).await? {
                Found::Live(entry) => entry,
                Found::Stored(stored) => {
                    return Ok(Some(Description {
                        state: GroupState::Empty,
                        protocol_type: stored.protocol_type.unwrap_or_else(|| Arc::from("")),
                        protocol: Arc::from(""),
                        members: Vec::new(),
                    }));
                }
                Found::Unknown => return Ok(None),
            };
            if let Some(description) = self.look_at(&entry, |group| group.describe()) {
                return Ok(Some(description));
            }
        }
    }

    /// The groups this node coordinates, of one namespace or of all.
    pub async fn list(&self, scope: Option<NamespaceId>) -> Result<Vec<ListedGroup>, Refusal> {
        let mut listed = BTreeMap::new();
        let namespaces: Vec<NamespaceId> = {
            let view = self.broker.catalog().view();
            view.namespaces().map(|n| n.id).collect()
        };
        for namespace in namespaces {
            if scope.is_some_and(|s| s != namespace) {
                continue;
            }
            match self.term(Some(namespace)) {
                Ok(_) => {}
                Err(Refusal::NotCoordinator) => continue,
                Err(refusal) => return Err(refusal),
            }
            let readers = self.broker.readers(namespace).await;
            let readers = readers.map_err(|e| position_refusal(&e))?;
            let about = self.broker.positions_in(&about_topic(namespace)).await;
            let about: BTreeMap<String, Position> = about
                .map_err(|e| position_refusal(&e))?
                .into_iter()
                .map(|(reader, _, position)| (reader, position))
                .collect();
            for reader in readers {
                let Some(group) = reader.strip_prefix("kafka:") else {
                    continue;
                };
                let protocol_type = about.get(&reader).and_then(|p| stored(p).protocol_type);
                let group: Arc<str> = Arc::from(group);
                let row = ListedGroup {
                    group: group.clone(),
                    namespace: Some(namespace),
                    state: GroupState::Empty,
                    protocol_type: protocol_type.unwrap_or_else(|| Arc::from("")),
                };
                listed.insert((Some(namespace), group), row);
            }
        }
        for (namespace, group, entry) in self.all_in_memory() {
            if (scope.is_some() && scope != namespace) || self.term(namespace).is_err() {
                continue;
            }
            let row = self.look_at(&entry, |g| ListedGroup {
                group: group.clone(),
                namespace,
                state: g.state(),
                protocol_type: g.protocol_type().cloned().unwrap_or_else(|| Arc::from("")),
            });
            if let Some(row) = row {
                listed.insert((namespace, group), row);
            }
        }
        Ok(listed.into_values().collect())
    }

    /// Deletes a group without members, and its offsets.
    pub async fn delete(&self, address: &Address) -> Result<(), Refusal> {
        let namespace = self.namespace(address);
        let term = self.coordinated(namespace).await?;
        match self.find(address, namespace).await? {
            Found::Unknown => return Err(Refusal::UnknownGroup),
            Found::Stored(_) => {}
            Found::Live(entry) => self.remove_if(&entry, |group| match group.state() {
                GroupState::Empty => Ok(()),
                _ => Err(Refusal::NonEmptyGroup),
            })?,
        }
        match namespace {
            Some(namespace) => {
                let all = vec![PositionChange::DeleteAll];
                self.change(address, (namespace, term), all).await
            }
            None => Ok(()),
        }
    }

    /// What the members read, for who wants to delete offsets.
    pub async fn subscribed(&self, address: &Address) -> Result<Subscribed, Refusal> {
        loop {
            let entry = match self.find(address, self.namespace(address)).await? {
                Found::Live(entry) => entry,
                Found::Stored(_) => return Ok(Subscribed::ToNothing),
                Found::Unknown => return Err(Refusal::UnknownGroup),
            };
            let subscribed = self.look_at(&entry, |group| match (group.state(), group.subscribed()) {
                (GroupState::Empty, _) => Ok(Subscribed::ToNothing),
                _ if !group.is_consumer() => Err(Refusal::NonEmptyGroup),
                (_, Some(topics)) => Ok(Subscribed::To(topics.clone())),
                (_, None) => Ok(Subscribed::ToAnything),
            });
            if let Some(subscribed) = subscribed {
                return subscribed;
            }
        }
    }

    /// Deletes the group's offsets in these partitions.
    pub async fn delete_offsets(&self, address: &Address, partitions: Vec<PartitionId>) -> Result<(), Refusal> {
        match self.namespace(address) {
            Some(namespace) => {
                let term = self.coordinated(Some(namespace)).await?;
                let changes = partitions.into_iter().map(PositionChange::Delete).collect();
                self.change(address, (namespace, term), changes).await
            }
            None => Ok(()),
        }
    }
}

/// The topic that [`ABOUT`] would be in, so that all groups' rows are found in one go.
fn about_topic(namespace: NamespaceId) -> Topic {
    Topic {
        id: ABOUT.topic,
        uuid: uuid::Uuid::nil(),
        namespace,
        database: DatabaseId(0),
        namespace_name: String::new(),
        database_name: String::new(),
        name: String::new(),
        partitions: Vec::new(),
        by: None,
        retain_ms: None,
        retain_bytes: None,
        max_bytes: None,
        log_append_time: false,
        created_ms: 0,
    }
}
