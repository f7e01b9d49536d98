//! Reader positions, as front doors and group coordinators ask for them.

use super::command::{Command, read_positions_changed};
use super::machine::RangeView;
use super::{Broker, Position, PositionChange, PositionError};
use cluster::catalog::Topic;
use cluster::ids::{NamespaceId, PartitionId, RangeId};
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
        let view = self.settled(namespace).await?;
        let positions = view.positions.lock();
        Ok(positions.of(namespace, reader))
    }

    /// Names of all readers of a namespace that have a position.
    pub async fn readers(&self, namespace: NamespaceId) -> Result<Vec<String>, PositionError> {
        let view = self.settled(namespace).await?;
        let positions = view.positions.lock();
        Ok(positions.readers(namespace))
    }

    /// All readers' positions in one topic: (reader, partition, position).
    pub async fn positions_in(&self, topic: &Topic) -> Result<Vec<(String, u32, Position)>, PositionError> {
        let view = self.settled(topic.namespace).await?;
        let positions = view.positions.lock();
        Ok(positions.in_topic(topic.namespace, topic.id))
    }

    fn home(&self, namespace: NamespaceId) -> Result<RangeId, PositionError> {
        match self.catalog.view().namespace_by_id(namespace) {
            Some(row) => Ok(row.home),
            None => Err(PositionError::NoNamespace),
        }
    }

    /// The namespace's home range, holding at least all that was answered before this call.
    async fn settled(&self, namespace: NamespaceId) -> Result<Arc<RangeView>, PositionError> {
        let held = self.leading(self.home(namespace)?).await?;
        held.range.read_barrier().await?;
        Ok(held.view.clone())
    }
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
