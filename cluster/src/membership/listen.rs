//! Listening to the other members: who leads their ranges, and what they tell of themselves.

use super::bulletin::{Board, SILENT};
use super::run::Store;
use crate::catalog::{Catalog, State};
use crate::ids::NodeId;
use crate::peer::{PeerError, Peers};
use crate::raft::RangeHost;
use crate::routes::Routes;
use futures::{Stream, StreamExt};
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Between two tries to listen to a member.
const AGAIN: Duration = Duration::from_millis(300);

/// Listens to every other member, as the catalog names them.
pub(super) struct Listeners {
    node: NodeId,
    peers: Peers,
    routes: Routes,
    host: RangeHost,
    board: Board,
    /// By node: where it is, and the tasks.
    tasks: BTreeMap<NodeId, (String, [AbortHandle; 2])>,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.tasks
            .values()
            .flat_map(|(_, tasks)| tasks)
            .for_each(AbortHandle::abort);
    }
}

impl Listeners {
    pub fn new(node: NodeId, store: &Store, board: Board) -> Self {
        Self {
            node,
            peers: store.peers.clone(),
            routes: store.routes.clone(),
            host: store.host.clone(),
            board,
            tasks: BTreeMap::new(),
        }
    }

    /// Ends when the catalog does.
    pub async fn follow(mut self, catalog: Catalog) {
        let mut changed = catalog.changed();
        loop {
            self.update(&catalog.view());
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn update(&mut self, state: &State) {
        let others: BTreeMap<NodeId, String> = state
            .members()
            .filter(|member| member.node != Some(self.node))
            .filter_map(|member| Some((member.node?, member.at.clone()?)))
            .collect();
        self.tasks.retain(|node, (at, tasks)| {
            let stays = others.get(node) == Some(at);
            if !stays {
                tasks.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        for (node, at) in others {
            self.tasks.entry(node).or_insert_with(|| {
                let news = tokio::spawn(news(self.peers.clone(), self.routes.clone(), self.host.clone(), node));
                let bulletins = tokio::spawn(bulletins(self.peers.clone(), self.board.clone(), node));
                (at, [news.abort_handle(), bulletins.abort_handle()])
            });
        }
    }
}

/// Tells the routing table what a member knows of leaders, for ever. The stream is open as long as the member's process runs:
/// where it breaks off, the process may have ended.
async fn news(peers: Peers, routes: Routes, host: RangeHost, node: NodeId) {
    loop {
        let mut listened = false;
        let ended = match peers.watch_leadership(node).await {
            Ok(news) => {
                listened = true;
                routes.member_answers(node);
                let hear = |news: Vec<crate::peer::RangeNews>| {
                    news.into_iter().for_each(|n| routes.hear(n.range, n.term, n.leader));
                };
                each(news, None, hear).await
            }
            Err(error) => error,
        };
        tracing::debug!(%node, error = %ended, "no news of leaders from a member");
        if listened && peers.has_ended(node).await {
            routes.member_ended(node);
            host.member_ended(node).await;
        }
        sleep(AGAIN).await;
    }
}

/// Puts what a member tells on the board, for ever.
async fn bulletins(peers: Peers, board: Board, node: NodeId) {
    loop {
        let ended = match peers.watch_bulletins(node).await {
            Ok(bulletins) => each(bulletins, Some(SILENT), |bulletin| board.put(node, bulletin)).await,
            Err(error) => error,
        };
        tracing::debug!(%node, error = %ended, "a member tells nothing");
        sleep(AGAIN).await;
    }
}

/// Why a stream ended; with `patience`, also when nothing comes for so long.
async fn each<T>(
    stream: impl Stream<Item = Result<T, PeerError>>,
    patience: Option<Duration>,
    mut with: impl FnMut(T),
) -> PeerError {
    let mut stream = pin!(stream);
    loop {
        let next = match patience {
            Some(patience) => match timeout(patience, stream.next()).await {
                Ok(next) => next,
                Err(_) => return PeerError::Unreachable(format!("nothing for {patience:?}")),
            },
            None => stream.next().await,
        };
        match next {
            Some(Ok(item)) => with(item),
            Some(Err(error)) => return error,
            None => return PeerError::Unreachable("the stream ended".into()),
        }
    }
}
