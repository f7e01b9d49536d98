//! Calls on their way.

use super::body::{Arriving, Piece};
use super::ways::SILENCE;
use super::{Inner, Net, answer, broken};
use bytes::Bytes;
use cluster::ids::NodeId;
use cluster::peer::Class;
use http_body::Frame;
use rand::Rng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

/// A call that is not over.
pub struct Call {
    pub from: NodeId,
    pub to: NodeId,
    path: String,
    request: Option<Request>,
    /// What has been sent of a request that may come twice.
    again: Option<(Request, Vec<Bytes>)>,
    head: Option<oneshot::Sender<Result<Head, Status>>>,
    ask: Option<mpsc::UnboundedSender<Piece>>,
    asked: Option<mpsc::UnboundedReceiver<Piece>>,
    answer: Option<mpsc::UnboundedSender<Piece>>,
    task: Option<AbortHandle>,
    pump: Option<AbortHandle>,
    /// When the last piece of each direction comes.
    last: [u64; 2],
    /// It will never be answered.
    pub lost: bool,
}

/// The head of a request, which can be copied.
#[derive(Clone)]
struct Request {
    method: http::Method,
    uri: http::Uri,
    version: http::Version,
    headers: http::HeaderMap,
}

impl Request {
    fn new(parts: &http::request::Parts) -> Self {
        Self {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            version: parts.version,
            headers: parts.headers.clone(),
        }
    }

    fn with(self, body: Body) -> http::Request<Body> {
        let mut request = http::Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers;
        request
    }
}

/// The head of an answer.
pub struct Head {
    pub status: http::StatusCode,
    pub headers: http::HeaderMap,
}

/// What the caller holds of a call.
pub struct Begun {
    pub call: u64,
    pub head: oneshot::Receiver<Result<Head, Status>>,
    pub answer: mpsc::UnboundedReceiver<Piece>,
}

/// What comes to one end of a call.
pub enum Event {
    Open {
        call: u64,
    },
    Ask {
        call: u64,
        piece: Option<Frame<Bytes>>,
    },
    Head {
        call: u64,
        head: Head,
    },
    Answer {
        call: u64,
        piece: Option<Frame<Bytes>>,
    },
    /// The caller no longer waits.
    Cancel {
        call: u64,
    },
    /// The connection broke.
    Break {
        call: u64,
    },
    /// A request comes once more.
    Twice {
        to: NodeId,
        request: http::Request<Body>,
    },
}

impl Event {
    pub fn call(&self) -> Option<u64> {
        match self {
            Self::Open { call }
            | Self::Ask { call, .. }
            | Self::Head { call, .. }
            | Self::Answer { call, .. }
            | Self::Cancel { call }
            | Self::Break { call } => Some(*call),
            Self::Twice { .. } => None,
        }
    }

    /// 0: to who is called, 1: to the caller.
    fn direction(&self) -> usize {
        match self {
            Self::Open { .. } | Self::Ask { .. } | Self::Cancel { .. } | Self::Twice { .. } => 0,
            Self::Head { .. } | Self::Answer { .. } | Self::Break { .. } => 1,
        }
    }
}

/// Whether a request of this kind may come twice: those that nothing keeps in order.
fn may_come_twice(path: &str) -> bool {
    ["/Vote", "/PreVote", "/TransferLeader"]
        .iter()
        .any(|kind| path.ends_with(kind))
}

impl Inner {
    /// A node calls another.
    pub fn begin(
        &mut self,
        from: NodeId,
        life: u64,
        to: NodeId,
        class: Class,
        parts: &http::request::Parts,
    ) -> Result<Begun, Status> {
        if self.lives.get(&from) != Some(&life) {
            return Err(broken());
        }
        let (head, head_comes) = oneshot::channel();
        let (ask, asked) = mpsc::unbounded_channel();
        let (answer, answer_comes) = mpsc::unbounded_channel();
        let call = self.next;
        self.next += 1;
        let path = parts.uri.path().to_owned();
        let request = Request::new(parts);
        let twice = may_come_twice(&path) && self.random.random_bool(self.weather.twice);
        let lost = self.random.random_bool(self.weather.loss);
        self.trace.note(
            self.now,
            format_args!(
                "call {call} {}->{} {class:?} {path}{}",
                from.0,
                to.0,
                if lost { " lost" } else { "" }
            ),
        );
        let begun = Call {
            from,
            to,
            path,
            again: twice.then(|| (request.clone(), Vec::new())),
            request: Some(request),
            head: Some(head),
            ask: Some(ask),
            asked: Some(asked),
            answer: Some(answer),
            task: None,
            pump: None,
            last: [0; 2],
            lost,
        };
        self.calls.insert(call, begun);
        self.send(Event::Open { call });
        if lost {
            // Nothing is lost of a connection but with it.
            self.sent += 1;
            self.queue
                .insert((self.now + SILENCE, self.sent), Event::Break { call });
        }
        Ok(Begun {
            call,
            head: head_comes,
            answer: answer_comes,
        })
    }

    pub fn pumped_by(&mut self, call: u64, pump: AbortHandle) {
        match self.calls.get_mut(&call) {
            Some(call) => call.pump = Some(pump),
            None => pump.abort(),
        }
    }

    /// Puts an event on its way.
    pub fn send(&mut self, event: Event) {
        let delay = self.delay();
        let direction = event.direction();
        let Some(call) = event.call().and_then(|id| self.calls.get_mut(&id)) else {
            return;
        };
        if call.lost && !matches!(event, Event::Cancel { .. } | Event::Break { .. }) {
            return;
        }
        if let (Event::Ask { piece, .. }, Some((request, pieces))) = (&event, &mut call.again) {
            match piece.as_ref().map(Frame::data_ref) {
                Some(data) => pieces.extend(data.cloned()),
                None => {
                    let (send, come) = mpsc::unbounded_channel();
                    for piece in pieces.drain(..) {
                        let _ = send.send(Ok(Frame::data(piece)));
                    }
                    let request = request.clone().with(Body::new(Arriving::new(come, None)));
                    let to = call.to;
                    let at = self.now + 3 * delay + 20;
                    self.sent += 1;
                    self.queue.insert((at, self.sent), Event::Twice { to, request });
                }
            }
        }
        let at = (self.now + delay).max(call.last[direction]);
        call.last[direction] = at;
        self.sent += 1;
        self.queue.insert((at, self.sent), event);
    }

    /// An event has arrived, unless its way is held.
    pub fn come(&mut self, event: Event, net: &Net) {
        let id = match event {
            Event::Twice { to, request } => {
                self.trace
                    .note(self.now, format_args!("twice {} {}", to.0, request.uri().path()));
                if let Some(port) = self.ports.get(&to) {
                    port.runtime.spawn(port.answers.clone().answer(request));
                }
                return;
            }
            ref event => event.call().unwrap_or_default(),
        };
        let Some(call) = self.calls.get_mut(&id) else { return };
        let way = match event.direction() {
            0 => (call.from, call.to),
            _ => (call.to, call.from),
        };
        if let Some(way) = self.ways.get_mut(&way).filter(|way| way.is_held())
            && !matches!(event, Event::Break { .. })
        {
            way.keep(event);
            return;
        }
        match event {
            Event::Open { .. } => self.answered_at(id, net),
            Event::Ask { piece, .. } => {
                let len = piece.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
                self.trace.note(self.now, format_args!("ask {id} {len}"));
                match piece {
                    // Who answers may want no more.
                    Some(piece) => drop(call.ask.as_ref().map(|ask| ask.send(Ok(piece)))),
                    None => call.ask = None,
                }
            }
            Event::Head { head, .. } => {
                if let Some(waits) = call.head.take() {
                    let _ = waits.send(Ok(head));
                }
            }
            Event::Answer { piece, .. } => {
                let len = piece.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
                self.trace.note(self.now, format_args!("answer {id} {len}"));
                match piece {
                    Some(piece) => drop(call.answer.as_ref().map(|answer| answer.send(Ok(piece)))),
                    None => self.over(id),
                }
            }
            Event::Cancel { .. } => self.over(id),
            Event::Break { .. } => self.break_call(id),
            Event::Twice { .. } => {}
        }
    }

    fn answered_at(&mut self, id: u64, net: &Net) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let (Some(request), Some(asked)) = (call.request.take(), call.asked.take()) else {
            return;
        };
        match self.ports.get(&call.to) {
            Some(port) => {
                let request = request.with(Body::new(Arriving::new(asked, None)));
                let answer = answer(net.clone(), id, port.answers.clone(), request);
                call.task = Some(port.runtime.spawn(answer).abort_handle());
            }
            // Nobody listens.
            None => self.send(Event::Break { call: id }),
        }
    }

    /// The caller waits no more.
    pub fn cancel(&mut self, id: u64) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.head = None;
            call.answer = None;
            if let Some(pump) = call.pump.take() {
                pump.abort();
            }
            self.send(Event::Cancel { call: id });
        }
    }

    fn over(&mut self, id: u64) {
        if let Some(call) = self.calls.remove(&id) {
            [call.task, call.pump].iter().flatten().for_each(AbortHandle::abort);
        }
    }

    /// Both ends learn that the connection is gone.
    pub fn break_call(&mut self, id: u64) {
        let Some(mut call) = self.calls.remove(&id) else { return };
        self.trace.note(self.now, format_args!("break {id} {}", call.path));
        [call.task.take(), call.pump.take()]
            .iter()
            .flatten()
            .for_each(AbortHandle::abort);
        if let Some(head) = call.head.take() {
            let _ = head.send(Err(broken()));
        }
        if let Some(answer) = call.answer.take() {
            let _ = answer.send(Err(broken()));
        }
    }

    /// A node is gone, and with it what it was asked and had asked. Those it called or was called by notice now or later.
    pub fn lose_calls(&mut self, node: NodeId, silent: bool) {
        let touched = |call: &Call| call.from == node || call.to == node;
        let ids: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| touched(call))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let delay = if silent {
                self.random.random_range(1000..5000)
            } else {
                self.delay()
            };
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.lost = true;
            if call.from == node {
                self.over(id);
            } else {
                if let Some(task) = call.task.take() {
                    task.abort();
                }
                self.sent += 1;
                self.queue
                    .insert((self.now + delay, self.sent), Event::Break { call: id });
            }
        }
    }
}
