//! The network between the nodes: every call, and every piece of its bodies, is an event that comes when the seed says.
//!
//! ```text
//!   node A, its runtime:  Carrier::call --> Open, Ask, Ask ..    --+                  +--> answered by node B's services,
//!                                                                  +--> queue by time +    in B's runtime
//!   A gets the answer  <-- Head, Answer, Answer ..               --+                  +
//! ```
//!
//! What a stream carries comes in order, as by TCP; calls overtake each other. A way that is held carries nothing until it
//! is free again, or for five seconds: then what was on its way is lost with its connections, as when a keep-alive fails.
//! So is a lost call, which is never answered: its connection breaks as late. Votes and hand-overs may come twice.

mod body;
mod calls;
mod ways;

use crate::trace::Trace;
use body::{Arriving, Waiting};
use bytes::Bytes;
use calls::{Call, Event, Head};
use cluster::ids::NodeId;
use cluster::peer::{Carried, Carrier, Class};
use futures::future::BoxFuture;
use http_body::{Body as _, Frame};
use parking_lot::Mutex;
use plan::Weather;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;
use ways::Way;

/// Clones are the same network.
#[derive(Clone)]
pub struct Net {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// Milliseconds.
    now: u64,
    sent: u64,
    random: StdRng,
    trace: Trace,
    weather: Weather,
    queue: BTreeMap<(u64, u64), Event>,
    ports: BTreeMap<NodeId, Port>,
    /// Nodes whose machine is gone with them, so that nothing says that nobody listens.
    gone: BTreeSet<NodeId>,
    /// Which life of a node is the last one.
    lives: BTreeMap<NodeId, u64>,
    ways: BTreeMap<(NodeId, NodeId), Way>,
    calls: BTreeMap<u64, Call>,
    next: u64,
}

/// A node that is reached.
#[derive(Clone)]
struct Port {
    runtime: Handle,
    answers: Carried,
}

/// The address of a node.
pub fn address(node: NodeId) -> String {
    format!("node.example:{}", node.0)
}

fn at(address: &str) -> Option<NodeId> {
    let (_, number) = address.rsplit_once(':')?;
    number.parse().ok().map(NodeId)
}

impl Net {
    pub fn new(seed: u64, trace: Trace) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                now: 0,
                sent: 0,
                random: StdRng::seed_from_u64(seed),
                trace,
                weather: Weather::CALM,
                queue: BTreeMap::new(),
                ports: BTreeMap::new(),
                gone: BTreeSet::new(),
                lives: BTreeMap::new(),
                ways: BTreeMap::new(),
                calls: BTreeMap::new(),
                next: 0,
            })),
        }
    }

    /// The next life of a node begins; what it calls by.
    pub fn begin(&self, node: NodeId) -> Line {
        let mut inner = self.inner.lock();
        let life = inner.lives.entry(node).or_default();
        *life += 1;
        Line {
            net: self.clone(),
            node,
            life: *life,
        }
    }

    /// From now on a node is reached.
    pub fn open(&self, line: &Line, runtime: Handle, answers: Carried) {
        let inner = &mut *self.inner.lock();
        if inner.lives.get(&line.node) == Some(&line.life) {
            inner.gone.remove(&line.node);
            inner.ports.insert(line.node, Port { runtime, answers });
        }
    }

    /// A node's life is over. Its peers notice at once, or (`silent`) only after a while.
    pub fn end(&self, node: NodeId, silent: bool) {
        let inner = &mut *self.inner.lock();
        *inner.lives.entry(node).or_default() += 1;
        inner.ports.remove(&node);
        if silent {
            inner.gone.insert(node);
        }
        inner.lose_calls(node, silent);
    }

    /// How the weather is from now on.
    pub fn weather(&self, weather: Weather) {
        self.inner.lock().weather = weather;
    }

    /// Nothing goes from `from` to `to` until it is freed.
    pub fn hold(&self, from: NodeId, to: NodeId) {
        let inner = &mut *self.inner.lock();
        let now = inner.now;
        inner.ways.entry((from, to)).or_default().hold(now);
    }

    /// All ways are free again.
    pub fn free_all(&self) {
        self.inner.lock().free_all();
    }

    /// All connections between two nodes break now.
    pub fn reset(&self, one: NodeId, other: NodeId) {
        self.inner.lock().reset(one, other);
    }

    /// Lets come what is due by `now`.
    pub fn deliver(&self, now: u64) {
        let inner = &mut *self.inner.lock();
        inner.now = now;
        inner.break_held();
        while let Some(first) = inner.queue.first_entry() {
            if first.key().0 > now {
                break;
            }
            let event = first.remove();
            inner.come(event, self);
        }
    }

    fn cancel(&self, call: u64) {
        self.inner.lock().cancel(call);
    }

    fn send(&self, event: Event) {
        self.inner.lock().send(event);
    }
}

/// By what one life of a node calls others.
#[derive(Clone)]
pub struct Line {
    net: Net,
    pub node: NodeId,
    life: u64,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Line({})", self.node.0)
    }
}

impl Carrier for Line {
    fn call(
        &self,
        from: NodeId,
        to: &str,
        class: Class,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, Status>> {
        let (line, to) = (self.clone(), at(to));
        Box::pin(async move {
            let to = to.ok_or_else(|| Status::unavailable("no such address"))?;
            let (parts, body) = request.into_parts();
            let net = line.net.clone();
            let begun = net.inner.lock().begin(from, line.life, to, class, &parts)?;
            let waiting = Waiting {
                net: net.clone(),
                call: begun.call,
            };
            let pump = tokio::spawn(carry(body, net.clone(), begun.call, |call, piece| Event::Ask {
                call,
                piece,
            }));
            net.inner.lock().pumped_by(begun.call, pump.abort_handle());
            let head = begun.head.await.map_err(|_| broken())??;
            let mut response = http::Response::new(Body::new(Arriving::new(begun.answer, Some(waiting))));
            *response.status_mut() = head.status;
            *response.headers_mut() = head.headers;
            Ok(response)
        })
    }

    fn listens(&self, from: NodeId, to: &str) -> Option<bool> {
        let to = at(to)?;
        let inner = self.net.inner.lock();
        let held = |way| inner.ways.get(&way).is_some_and(ways::Way::is_held);
        let nothing = inner.gone.contains(&to) || held((from, to)) || held((to, from));
        (!nothing).then(|| inner.ports.contains_key(&to))
    }
}

fn broken() -> Status {
    Status::unavailable("the connection broke")
}

/// Sends a body on its way, to its end.
async fn carry(body: Body, net: Net, call: u64, event: impl Fn(u64, Option<Frame<Bytes>>) -> Event) {
    let mut body = body;
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            Some(Ok(frame)) => net.send(event(call, Some(frame))),
            // Who sends a body that breaks off takes the call back.
            Some(Err(_)) => return net.cancel(call),
            None => return net.send(event(call, None)),
        }
    }
}

/// Answers a call in the node's runtime.
async fn answer(net: Net, call: u64, answers: Carried, request: http::Request<Body>) {
    let (parts, body) = answers.answer(request).await.into_parts();
    net.send(Event::Head {
        call,
        head: Head {
            status: parts.status,
            headers: parts.headers,
        },
    });
    carry(body, net, call, |call, piece| Event::Answer { call, piece }).await;
}
