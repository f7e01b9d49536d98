//! Deletes records that were read.

use super::Clients;

/// Now and then, until the faults are over.
pub async fn run(clients: Clients) {
    let doors = clients.doors.clone();
    while !clients.is_over() {
        doors.pause(3_000).await;
        let partition = doors.any(clients.plan.partitions.into()) as u32;
        let read = clients.shared.read.lock().get(&partition).copied().unwrap_or(0);
        let to = read - 1 - doors.any(30) as i64;
        if to <= 0 {
            continue;
        }
        let topic = clients.topic.clone();
        let deleted = doors.ask(doors.some(), move |life| async move {
            let broker = life.node().broker.clone();
            broker.delete_records(&topic, partition, Some(to)).await
        });
        if let Ok(Ok(start)) = deleted.await {
            doors
                .history
                .note(format_args!("partition {partition} begins at {start}"));
            if start < to {
                clients.wrong(
                    "trimmer",
                    format!("partition {partition}: begins at {start} after a trim to {to}"),
                );
            }
            doors.history.tell(|i| {
                i.watermarks.trim(partition, start);
                Ok(())
            });
        }
    }
}
