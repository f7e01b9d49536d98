//! Reader positions, as front doors and group coordinators ask for them.

use super::command::{Command, read_positions_changed};
use super::machine::RangeView;
use super::{Broker, Position, PositionChange, PositionError};
use cluster::catalog::Topic;
use cluster::ids::{NamespaceId, PartitionId, RangeId};
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
        let command = Command::ChangePositions {
            namespace,
            reader: reader.to_owned(),
            changes,
        };
        let answer = self.propose(home, &command).await?;
        match read_positions_changed(&answer) {
            Ok(true) => Ok(()),
            Ok(false) => Err(PositionError::Moved),
            Err(_) => Err(ProposeError::Unknown("the range's answer cannot be read").into()),
        }
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
