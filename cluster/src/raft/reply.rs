//! How a proposer learns what became of its command.

use super::Types;
use openraft::OptionalSend;
use openraft::raft::responder::Responder;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Carries an answer to the proposer; dropped without one, the proposer sees that the outcome is not known. Holds the
/// command's share of the bytes in flight until then.
pub(crate) struct Reply<T> {
    to: oneshot::Sender<T>,
    _bytes: Option<OwnedSemaphorePermit>,
}

impl<T> Reply<T> {
    pub fn new(bytes: Option<OwnedSemaphorePermit>) -> (Self, oneshot::Receiver<T>) {
        let (to, from) = oneshot::channel();
        (Self { to, _bytes: bytes }, from)
    }
}

impl<T: OptionalSend + 'static> Responder<Types, T> for Reply<T> {
    fn on_complete(self, result: T) {
        // The proposer may have gone; the command is applied all the same.
        let _ = self.to.send(result);
    }
}
