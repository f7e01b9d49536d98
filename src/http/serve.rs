//! Connections: accepted, bounded, and ended in good order.

use super::Server;
use super::sign_in::Remote;
use axum::Extension;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How long a request's head may take to arrive, also on a connection kept open.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long requests under way are waited for when the node stops.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Pause after a failed accept: the process is out of descriptors, and trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// Answers connections until `stop`, then finishes requests under way, for ten seconds at most.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let router = self.router();
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.limits.connections.max(1)));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&listener, &room) => accepted,
            };
            let (stream, remote, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Answers are small and asked for one at a time: don't hold them back.
            let _ = stream.set_nodelay(true);
            let router = router.clone().layer(Extension(Remote(remote)));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended early");
                }
                drop(permit);
            });
        }
        drop(listener);
        if tokio::time::timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests under way were cut off");
        }
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, remote) = listener.accept().await?;
    Ok((stream, remote, permit))
}
