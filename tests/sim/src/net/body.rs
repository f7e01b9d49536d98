//! A body that arrives piece by piece.

use super::Net;
use bytes::Bytes;
use http_body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::Status;

/// A piece of a body, or why no more come.
pub type Piece = Result<Frame<Bytes>, Status>;

/// What has arrived of a body.
pub struct Arriving {
    pieces: UnboundedReceiver<Piece>,
    _call: Option<Waiting>,
}

impl Arriving {
    pub fn new(pieces: UnboundedReceiver<Piece>, call: Option<Waiting>) -> Self {
        Self { pieces, _call: call }
    }
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.pieces.poll_recv(cx)
    }
}

/// Somebody waits for a call's answer; dropped, nobody does.
pub struct Waiting {
    pub net: Net,
    pub call: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.net.cancel(self.call);
    }
}
