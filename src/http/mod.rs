//! Front door 2: TessariQL over HTTP, and what operators ask a node.
//!
//! ```text
//!   POST /script   a script in, outcomes out: JSON, or TessariQL with `Accept: text/plain`
//!   GET  /health   the process runs            GET /ready    it takes requests; leaves first when the node stops
//!   GET  /metrics  Prometheus text             GET /         a console
//!   POST /session  a token for 12 hours        DELETE /session   ends one
//! ```
//!
//! Once the store has users, `/script` and `/metrics` want one of them signed in; `/health`, `/ready` and the console's page
//! tell nothing of the store and stay open.
//!
//! One entrance: [`Server::serve`].

mod answer;
mod metrics;
mod script;
mod serve;
mod sign_in;
mod taken;

#[cfg(test)]
mod tests;

use crate::auth::Auth;
use crate::connections::{Answers, Budget};
use crate::ql::exec::Scripts;
use crate::tls::Door;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
pub use metrics::Collector;
use metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Bytes a request's body may have.
pub const MAX_BODY: usize = 16 * 1024 * 1024;

/// Bytes that answers may hold where the port has a budget of its own.
const ANSWER_BUDGET: usize = 256 * 1024 * 1024;

/// How the HTTP port behaves.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; further ones are told 503 and closed. Default 1,000.
    pub connections: usize,
    /// Bytes of request bodies held at once, over all connections; further requests wait. Default 128 MiB, minimum
    /// [`MAX_BODY`].
    pub body_bytes: usize,
    /// A client that takes no byte of its answer for this long is closed; where others wait for memory that the answer
    /// holds, sooner. Default 60 s.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_000,
            body_bytes: 128 * 1024 * 1024,
            stall: Duration::from_secs(60),
        }
    }
}

/// The HTTP front door of a node.
pub struct Server {
    shared: Arc<Shared>,
    limits: Limits,
    door: Door,
    /// What answers may hold.
    answers: Arc<Answers>,
}

/// What handlers share.
struct Shared {
    scripts: Arc<dyn Scripts>,
    auth: Arc<Auth>,
    ready: watch::Receiver<bool>,
    /// One permit a KiB of body.
    body_kib: Arc<Semaphore>,
    metrics: Metrics,
}

impl Server {
    /// A front door that hands scripts to `scripts` in the name of whom `auth` signs in, says `/ready` as long as `ready` holds true, and lets `collectors`
    /// add to `/metrics`.
    pub fn new(
        scripts: Arc<dyn Scripts>,
        auth: Arc<Auth>,
        ready: watch::Receiver<bool>,
        collectors: Vec<Collector>,
        limits: Limits,
    ) -> Self {
        let shared = Shared {
            scripts,
            auth,
            ready,
            body_kib: Arc::new(Semaphore::new(limits.body_bytes.max(MAX_BODY) / 1024)),
            metrics: Metrics::new(collectors),
        };
        Self {
            shared: Arc::new(shared),
            limits,
            door: Door::plain(),
            answers: Budget::new(ANSWER_BUDGET).answers,
        }
    }

    /// Has its answers share a budget with those of other ports, instead of 256 MiB of their own.
    pub fn within(mut self, budget: &Budget) -> Self {
        self.answers = budget.answers.clone();
        self
    }

    /// Lets connections in by `door` instead of in the clear.
    pub fn behind(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    fn router(&self) -> Router {
        Router::new()
            .route("/", get(console))
            .route("/script", post(script::script))
            .route("/session", post(sign_in::open).delete(sign_in::end))
            .route("/health", get(health))
            .route("/ready", get(ready))
            .route("/metrics", get(metrics))
            .fallback(|| async { answer::failure(StatusCode::NOT_FOUND, "there is nothing here", "invalid") })
            .method_not_allowed_fallback(|| async {
                answer::failure(StatusCode::METHOD_NOT_ALLOWED, "this is not asked that way", "invalid")
            })
            .with_state(self.shared.clone())
    }
}

async fn health() -> Response {
    answer::status(StatusCode::OK, "ok")
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match *shared.ready.borrow() {
        true => answer::status(StatusCode::OK, "ready"),
        false => answer::status(StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (request, _) = request.into_parts();
    if let Err(refusal) = sign_in::caller(&shared, &request).await {
        return refusal;
    }
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, text)], shared.metrics.print()).into_response()
}

async fn console() -> Response {
    // The page loads nothing from elsewhere and talks to this node alone.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    let policy = HeaderValue::from_static(policy);
    (
        [(header::CONTENT_SECURITY_POLICY, policy)],
        Html(include_str!("console.html")),
    )
        .into_response()
}
