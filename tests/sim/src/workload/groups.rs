//! A group that commits offsets, each only over the one before, so that a commit that comes late changes nothing; and looks
//! at them through other nodes.

use super::{Clients, is_retriable};
use cluster::ids::PartitionId;
use tessaridb::broker::{Position, PositionChange, PositionError};

/// Commits until the faults are over.
pub async fn run(clients: Clients, group: u32) {
    let doors = clients.doors.clone();
    let name = format!("kafka:group{group}");
    let partition = PartitionId {
        topic: clients.topic.id,
        index: group % clients.plan.partitions,
    };
    let namespace = clients.topic.namespace;
    // What is committed, as far as is known.
    let mut seen = None;
    loop {
        let over = clients.is_over();
        if !over {
            let next = seen.unwrap_or(0) + 1;
            doors.history.tell(|i| {
                i.positions.tried(group, next);
                Ok(())
            });
            let position = Position {
                offset: next,
                leader_epoch: -1,
                metadata: String::new(),
                commit_ms: 0,
            };
            let change = PositionChange::SetIf(partition, seen, position);
            let reader = name.clone();
            let committed = doors.ask(doors.some(), move |life| async move {
                let broker = life.node().broker.clone();
                broker.change_positions(namespace, &reader, vec![change]).await
            });
            match committed.await {
                Ok(Ok(())) => {
                    doors.history.note(format_args!("group {group} at {next}"));
                    doors.history.tell(|i| {
                        i.positions.acknowledge(group, next);
                        Ok(())
                    });
                    seen = Some(next);
                    doors.pause(2 * clients.plan.pause).await;
                    if doors.any(4) > 0 {
                        continue;
                    }
                }
                // It was, unless by one of before.
                Ok(Err(PositionError::Moved)) | Err(_) => {}
                Ok(Err(PositionError::Propose(error))) if is_retriable(&error) => {}
                Ok(Err(error)) => return clients.wrong("group", format!("{group}: {error}")),
            }
        }
        let before = doors.history.tell(|i| Ok(i.positions.acknowledged(group))).unwrap_or(0);
        let reader = name.clone();
        let read = doors.ask(doors.some(), move |life| async move {
            let broker = life.node().broker.clone();
            broker.positions(namespace, &reader).await
        });
        if let Ok(Ok(rows)) = read.await {
            let row = rows.iter().find(|(id, _)| *id == partition);
            seen = row.map(|(_, position)| position.offset);
            let now = seen.unwrap_or(0);
            if doors.history.tell(|i| i.positions.read(group, before, now)).is_none() || over {
                return;
            }
        }
        doors.pause(200).await;
    }
}
