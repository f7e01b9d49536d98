//! Reader positions: where each reader of a namespace stands in each partition.
//!
//! Part of the applied state of the namespace's home range. A pure fold; the machine alone changes it.

use super::encoding::{
    Malformed, PARTITION_LEN, finish, get_count, get_partition, get_position, put_count, put_partition, put_position,
};
use super::{Position, PositionChange};
use cluster::ids::{NamespaceId, PartitionId, TopicId};
use std::collections::{BTreeMap, BTreeSet};

/// One reader's positions.
type Reader = BTreeMap<PartitionId, Position>;

/// The positions held by one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Positions {
    namespaces: BTreeMap<NamespaceId, BTreeMap<String, Reader>>,
    /// Readers changed since this was last taken.
    changed: BTreeSet<(NamespaceId, String)>,
}

impl Positions {
    /// Applies all changes, or none (`false`) where one that is conditional does not find what it wants. Conditions are
    /// held against the state before the command. Positions in topics that `dropped` names are not kept.
    pub(super) fn change(
        &mut self,
        namespace: NamespaceId,
        name: &str,
        changes: Vec<PositionChange>,
        dropped: impl Fn(TopicId) -> bool,
    ) -> bool {
        let reader = self.reader(namespace, name);
        let holds = |change: &PositionChange| match change {
            PositionChange::SetIf(partition, seen, _) => {
                reader.and_then(|r| r.get(partition)).map(|p| p.offset) == *seen
            }
            _ => true,
        };
        if !changes.iter().all(holds) {
            return false;
        }
        let readers = self.namespaces.entry(namespace).or_default();
        let mut reader = readers.remove(name).unwrap_or_default();
        for change in changes {
            match change {
                PositionChange::Set(partition, position) | PositionChange::SetIf(partition, _, position) => {
                    if !dropped(partition.topic) {
                        reader.insert(partition, position);
                    }
                }
                PositionChange::Delete(partition) => {
                    reader.remove(&partition);
                }
                PositionChange::DeleteAll => reader.clear(),
            }
        }
        if !reader.is_empty() {
            readers.insert(name.to_owned(), reader);
        } else if readers.is_empty() {
            self.namespaces.remove(&namespace);
        }
        self.changed.insert((namespace, name.to_owned()));
        true
    }

    /// Forgets all positions in a topic.
    pub(super) fn drop_topic(&mut self, topic: TopicId) {
        for (namespace, readers) in &mut self.namespaces {
            readers.retain(|name, reader| {
                let before = reader.len();
                reader.retain(|partition, _| partition.topic != topic);
                if reader.len() != before {
                    self.changed.insert((*namespace, name.clone()));
                }
                !reader.is_empty()
            });
        }
        self.namespaces.retain(|_, readers| !readers.is_empty());
    }

    fn reader(&self, namespace: NamespaceId, name: &str) -> Option<&Reader> {
        self.namespaces.get(&namespace)?.get(name)
    }

    /// One reader's positions.
    pub(super) fn of(&self, namespace: NamespaceId, name: &str) -> Vec<(PartitionId, Position)> {
        let reader = self.reader(namespace, name).into_iter().flatten();
        reader.map(|(id, position)| (*id, position.clone())).collect()
    }

    /// The readers of a namespace.
    pub(super) fn readers(&self, namespace: NamespaceId) -> Vec<String> {
        let readers = self.namespaces.get(&namespace).into_iter();
        readers.flat_map(BTreeMap::keys).cloned().collect()
    }

    /// All readers' positions in a topic: (reader, partition number, position).
    pub(super) fn in_topic(&self, namespace: NamespaceId, topic: TopicId) -> Vec<(String, u32, Position)> {
        let readers = self.namespaces.get(&namespace).into_iter().flatten();
        readers
            .flat_map(|(name, reader)| {
                reader
                    .range(PartitionId { topic, index: 0 }..=PartitionId { topic, index: u32::MAX })
                    .map(|(id, position)| (name.clone(), id.index, position.clone()))
            })
            .collect()
    }

    /// The topics in which anyone has a position.
    pub(super) fn topics(&self) -> BTreeSet<TopicId> {
        let readers = self.namespaces.values().flat_map(BTreeMap::values);
        readers.flat_map(BTreeMap::keys).map(|id| id.topic).collect()
    }

    /// All readers.
    pub(super) fn all(&self) -> Vec<(NamespaceId, String)> {
        let namespaces = self.namespaces.iter();
        namespaces
            .flat_map(|(namespace, readers)| readers.keys().map(|name| (*namespace, name.clone())))
            .collect()
    }

    /// Takes the names of readers that changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<(NamespaceId, String)> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// A reader's positions as stored; `None` for one without any.
    ///
    /// ```text
    ///   count u32 | count x (topic u64 | index u32 | offset i64 | leader_epoch i32 | commit_ms i64 | metadata str)
    /// ```
    pub(super) fn encoded(&self, namespace: NamespaceId, name: &str) -> Option<Vec<u8>> {
        let reader = self.reader(namespace, name)?;
        let mut out = Vec::with_capacity(4 + reader.len() * 48);
        put_count(&mut out, reader.len());
        for (id, position) in reader {
            put_partition(&mut out, *id);
            put_position(&mut out, position);
        }
        Some(out)
    }

    /// Puts back what [`Self::encoded`] gave.
    pub(super) fn restore(&mut self, namespace: NamespaceId, name: String, mut input: &[u8]) -> Result<(), Malformed> {
        let input = &mut input;
        let count = get_count(input, PARTITION_LEN + 24)?;
        let mut reader = Reader::new();
        for _ in 0..count {
            reader.insert(get_partition(input)?, get_position(input)?);
        }
        finish(input)?;
        self.namespaces.entry(namespace).or_default().insert(name, reader);
        Ok(())
    }
}
