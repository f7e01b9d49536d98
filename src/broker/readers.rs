//! Reader positions, as front doors and group coordinators ask for them.

use super::command::{Command, read_positions_changed};
use super::machine::RangeView;
use super::{Broker, Position, PositionChange, PositionError};
use cluster::catalog::Topic;
use cluster::ids::{NamespaceId, NodeId, PartitionId, RangeId, TopicId};
use cluster::machine::Payload;
use cluster::range::ProposeError;
use std::sync::Arc;

impl Broker {
    /// Changes a reader's positions: one entry in the log of the namespace's home range. All changes or none; conditions
    /// are held against what was before. Positions in topics that were dropped are passed over.
    pub async fn change_positions(
        &self,
        namespace: NamespaceId,
        reader: &str,
        changes: Vec<PositionChange>,
    ) -> Result<(), PositionError> {
        if changes.is_empty() {
            return Ok(());
        }
        let home = self.home(namespace)?;
        let answer = self.propose(home, &change(namespace, reader, changes)).await?;
        changed(&answer)
    }

    /// The same, only while this node leads the namespace's home in `term`: for whoever has decided by what it knew then.
    pub async fn change_positions_in(
        &self,
        term: u64,
        namespace: NamespaceId,
        reader: &str,
        changes: Vec<PositionChange>,
    ) -> Result<(), PositionError> {
        if changes.is_empty() {
            return Ok(());
        }
        let range = self.home(namespace)?;
        let held = self.ranges.get(range).filter(|held| {
            let now = held.leadership();
            now.here && now.term == term
        });
        let held = held.ok_or(ProposeError::NotLeader { range, leader: None })?;
        let command = change(namespace, reader, changes).encode();
        changed(&held.range.propose(Payload::head(command)).await?)
    }

    /// All positions of one reader.
    pub async fn positions(
        &self,
        namespace: NamespaceId,
        reader: &str,
    ) -> Result<Vec<(PartitionId, Position)>, PositionError> {
        match self.settled(namespace).await? {
            Settled::Here(view) => Ok(view.positions.lock().of(namespace, reader)),
            Settled::There(node, range) => self.positions_elsewhere(node, range, namespace, reader).await,
        }
    }

    /// Names of all readers of a namespace that have a position.
    pub async fn readers(&self, namespace: NamespaceId) -> Result<Vec<String>, PositionError> {
        match self.settled(namespace).await? {
            Settled::Here(view) => Ok(view.positions.lock().readers(namespace)),
            Settled::There(node, range) => self.readers_elsewhere(node, range, namespace).await,
        }
    }

    /// All readers' positions in one topic: (reader, partition, position).
    pub async fn positions_in(&self, topic: &Topic) -> Result<Vec<(String, u32, Position)>, PositionError> {
        match self.settled(topic.namespace).await? {
            Settled::Here(view) => Ok(view.positions.lock().in_topic(topic.namespace, topic.id)),
            Settled::There(node, range) => self.positions_in_elsewhere(node, range, topic).await,
        }
    }

    /// [`Broker::positions`], of a namespace whose home this node leads now.
    pub(super) async fn positions_here(
        &self,
        namespace: NamespaceId,
        reader: &str,
    ) -> Result<Vec<(PartitionId, Position)>, PositionError> {
        let view = self.settled_here(namespace).await?;
        let positions = view.positions.lock();
        Ok(positions.of(namespace, reader))
    }

    /// [`Broker::readers`], of a namespace whose home this node leads now.
    pub(super) async fn readers_here(&self, namespace: NamespaceId) -> Result<Vec<String>, PositionError> {
        let view = self.settled_here(namespace).await?;
        let positions = view.positions.lock();
        Ok(positions.readers(namespace))
    }

    /// [`Broker::positions_in`], of a namespace whose home this node leads now.
    pub(super) async fn positions_in_here(
        &self,
        namespace: NamespaceId,
        topic: TopicId,
    ) -> Result<Vec<(String, u32, Position)>, PositionError> {
        let view = self.settled_here(namespace).await?;
        let positions = view.positions.lock();
        Ok(positions.in_topic(namespace, topic))
    }

    fn home(&self, namespace: NamespaceId) -> Result<RangeId, PositionError> {
        match self.catalog.view().namespace_by_id(namespace) {
            Some(row) => Ok(row.home),
            None => Err(PositionError::NoNamespace),
        }
    }

    /// The namespace's home range, holding at least all that was answered before this call, or the member that leads it.
    /// Waits, briefly, while nobody does.
    async fn settled(&self, namespace: NamespaceId) -> Result<Settled, PositionError> {
        let home = self.home(namespace)?;
        match self.led(home).await? {
            None => Ok(Settled::Here(self.settled_here(namespace).await?)),
            Some(node) => Ok(Settled::There(node, home)),
        }
    }

    async fn settled_here(&self, namespace: NamespaceId) -> Result<Arc<RangeView>, PositionError> {
        let range = self.home(namespace)?;
        let held = self.ranges.get(range).filter(|held| held.leadership().here);
        let held = held.ok_or(ProposeError::NotLeader { range, leader: None })?;
        held.range.read_barrier().await?;
        Ok(held.view.clone())
    }
}

/// Where positions are read.
enum Settled {
    Here(Arc<RangeView>),
    /// The member that leads the namespace's home, and that range.
    There(NodeId, RangeId),
}

fn change(namespace: NamespaceId, reader: &str, changes: Vec<PositionChange>) -> Command {
    Command::ChangePositions {
        namespace,
        reader: reader.to_owned(),
        changes,
    }
}

fn changed(answer: &[u8]) -> Result<(), PositionError> {
    match read_positions_changed(answer) {
        Ok(true) => Ok(()),
        Ok(false) => Err(PositionError::Moved),
        Err(_) => Err(ProposeError::Unknown("the range's answer cannot be read").into()),
    }
}
