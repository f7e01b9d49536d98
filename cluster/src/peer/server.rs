//! The serving side: one listener, TLS, and the services of all rooms that peers may call.

use super::dial::{FRAME, Transport, WINDOWS};
use super::gate::{Gate, Standing};
use super::leadership::LeadershipFeed;
use super::membership;
use super::proto::membership_server::MembershipServer;
use crate::ids::NodeId;
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// How long calls may take to end once the server stops.
const GRACE: Duration = Duration::from_millis(500);
/// Calls of one peer at a time. Each client's request that is carried here and waits (a fetch without records, a member
/// that joins) is one; the front doors bound them.
const CALLS: u32 = 1 << 20;
/// A connection on which a ping is not answered in this time is closed.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));

/// Why peers can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Certificate, key or authority are no good.
    #[error("peers' certificate, key or authority: {0}")]
    Credentials(String),
}

/// What peers may call. Each room adds its own service, then [`PeerServer::serve`].
pub struct PeerServer {
    gate: Gate,
    routes: Routes,
}

/// A server that runs. Stops when dropped.
pub struct Serving {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl PeerServer {
    /// A server that answers Hello, and tells members who leads.
    pub fn new(node: NodeId, standing: watch::Receiver<Standing>, feed: LeadershipFeed) -> Self {
        let gate = Gate::new(node, standing);
        let hello = membership::Service {
            gate: gate.clone(),
            feed,
        };
        let hello = MembershipServer::with_interceptor(hello, gate.clone().for_strangers());
        Self {
            gate,
            routes: Routes::new(hello),
        }
    }

    /// Adds a service, for members of the store only. Its handlers find [`Caller`](super::gate::Caller) in the request's
    /// extensions.
    pub(crate) fn with<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let guarded = InterceptedService::new(service, self.gate.clone());
        self.routes = self.routes.add_service(guarded);
        self
    }

    /// Adds a service that nodes of no store, or of another, may call too; not those that were dropped.
    pub(crate) fn with_strangers<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let guarded = InterceptedService::new(service, self.gate.clone().for_strangers());
        self.routes = self.routes.add_service(guarded);
        self
    }

    /// What peers may call, to be called by a [`Carrier`](super::Carrier).
    #[cfg(feature = "testing")]
    pub fn carried(self) -> super::Carried {
        super::Carried::new(self.routes)
    }

    /// Serves on `listener` until the answer is stopped or dropped.
    pub fn serve(self, listener: TcpListener, transport: &Transport) -> Result<Serving, ServeError> {
        let bad = |error: tonic::transport::Error| {
            let source = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            ServeError::Credentials(source)
        };
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_frame_size(FRAME)
            .max_concurrent_streams(CALLS)
            .http2_keepalive_interval(Some(KEEP_ALIVE.0))
            .http2_keepalive_timeout(Some(KEEP_ALIVE.1));
        if let Some(tls) = transport.server() {
            server = server.tls_config(tls).map_err(bad)?;
        }
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let served = server
                .add_routes(self.routes)
                .serve_with_incoming_shutdown(incoming, stopped.clone().cancelled_owned());
            tokio::select! {
                served = served => if let Err(error) = served {
                    tracing::error!(%error, "peers are no longer served");
                },
                () = async {
                    stopped.cancelled().await;
                    tokio::time::sleep(GRACE).await;
                } => {}
            }
        });
        Ok(Serving { stop, task })
    }
}

impl Serving {
    /// Takes no more calls and waits a little for those that run; streams are cut.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "the peers' server did not stop cleanly");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}
