//! The data ranges of this node: started as the catalog gives them to it.

use crate::broker::Broker;
use anyhow::Context;
use cluster::catalog::RangeRow;
use cluster::ids::NodeId;
use cluster::raft::{HostError, RangeHost, Start};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Starts the data ranges that this node should hold, or holds still, and that do not run yet.
pub async fn start_all(host: &RangeHost, broker: &Broker, node: NodeId) -> anyhow::Result<()> {
    let view = broker.catalog().view();
    let known: BTreeSet<_> = host.known().into_iter().collect();
    for row in view.ranges().filter(|row| host.range(row.id).is_none()) {
        let how = match known.contains(&row.id) {
            // Its members may have given this replica up; that is for its leader to say.
            true => Start::Restart,
            false if row.voters.contains(&node) => beginning(row, node),
            false => continue,
        };
        start(host, broker, row, how)
            .await
            .with_context(|| format!("range {}", row.id))?;
    }
    Ok(())
}

/// How a node begins with a range that it has nothing of.
fn beginning(row: &RangeRow, node: NodeId) -> Start {
    match row.founders().contains(&node) {
        true => Start::Found(row.founders().iter().copied().collect()),
        false => Start::Join,
    }
}

async fn start(host: &RangeHost, broker: &Broker, row: &RangeRow, how: Start) -> anyhow::Result<()> {
    let machine = broker.machine(row.id)?;
    let range = host.start(row.id, Box::new(machine), how).await?;
    broker.add_range(row.id, range);
    Ok(())
}

/// Starts ranges as the catalog gives them to this node.
pub async fn follow_catalog(host: RangeHost, broker: Arc<Broker>, node: NodeId) {
    let mut changed = broker.catalog().changed();
    while changed.changed().await.is_ok() {
        match start_all(&host, &broker, node).await {
            Err(e) if matches!(e.downcast_ref(), Some(HostError::Stopping(_))) => return,
            Err(e) => tracing::error!(error = format!("{e:#}"), "a range does not start"),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::ids::RangeId;

    #[test]
    fn only_founders_of_a_range_that_never_moved_make_it() {
        let mut row = RangeRow {
            id: RangeId(1),
            founders: vec![NodeId(1), NodeId(2)],
            moved: false,
            voters: vec![NodeId(1), NodeId(2)],
            leader: None,
            replication: None,
            partitions: 0,
            homes: 0,
        };
        let found = Start::Found([NodeId(1), NodeId(2)].into());
        assert_eq!(beginning(&row, NodeId(1)), found);
        assert_eq!(beginning(&row, NodeId(3)), Start::Join);
        row.moved = true;
        assert_eq!(beginning(&row, NodeId(1)), Start::Join);
    }
}
