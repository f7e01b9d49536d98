//! Calls that go by no socket: a simulation carries them between nodes of one process.

use super::Class;
use crate::ids::NodeId;
use futures::future::BoxFuture;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::service::Routes;
use tonic::transport::Channel;

/// Carries calls from node to node.
pub trait Carrier: Debug + Send + Sync {
    /// Carries a call of `from` to whoever listens at `to`, and its answer back. Bodies travel piece by piece, in both
    /// directions at once. An error is a connection that can't be had, or broke.
    fn call(
        &self,
        from: NodeId,
        to: &str,
        class: Class,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, Status>>;

    /// Whether anybody listens at `to`, as a connection that is tried there tells; `None` where nothing comes back.
    fn listens(&self, from: NodeId, to: &str) -> Option<bool>;
}

/// What a node answers.
#[derive(Clone, Debug)]
pub struct Carried {
    routes: Routes,
}

impl Carried {
    pub(super) fn new(routes: Routes) -> Self {
        Self {
            routes: routes.prepare(),
        }
    }

    /// Answers a call, within the node's runtime.
    pub async fn answer(mut self, request: http::Request<Body>) -> http::Response<Body> {
        match self.routes.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// A connection: real, or carried.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Real(Channel),
    Carried {
        carrier: Arc<dyn Carrier>,
        from: NodeId,
        to: String,
        class: Class,
    },
}

impl Line {
    pub fn carried(carrier: Arc<dyn Carrier>, from: NodeId, to: &str, class: Class) -> Self {
        Self::Carried {
            carrier,
            from,
            to: to.to_owned(),
            class,
        }
    }
}

impl From<Channel> for Line {
    fn from(channel: Channel) -> Self {
        Self::Real(channel)
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<http::Request<Body>> for Line {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Real(channel) => Service::poll_ready(channel, cx).map_err(Into::into),
            Self::Carried { .. } => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self {
            Self::Real(channel) => {
                let call = Service::call(channel, request);
                Box::pin(async move { Ok(call.await?) })
            }
            Self::Carried {
                carrier,
                from,
                to,
                class,
            } => {
                let call = carrier.call(*from, to, *class, request);
                Box::pin(async move { Ok(call.await?) })
            }
        }
    }
}
