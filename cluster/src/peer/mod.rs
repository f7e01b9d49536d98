//! How the nodes of a store reach each other: gRPC over mutual TLS.
//!
//! ```text
//!   raft, membership, forward                     (speak through services of their own)
//!        |  Peers::channel(node, class)                  ^  routes of PeerServer
//!        v                                               |
//!   one connection per peer and class  ---- TLS ---->  server: who is it, of which store, for whom?
//! ```
//!
//! Trust: who holds a key that the store's authority vouches for is a node of the store. Which node it is, it says itself
//! (its node id is in the metadata of every call); an authority is therefore to be the store's own. A caller names the node it means to
//! reach, and another one refuses, so that an address given to a new node misleads nobody. `proto/` has the rest of the
//! rules; its types stay in here and in the rooms that serve them.
//!
//! * [`Peers`]: the calling side.
//! * [`PeerServer`]: the serving side; other rooms add their services.
//! * [`Standing`]: what the node is to its store, watched by both sides.

#[cfg(feature = "testing")]
mod carried;
mod dial;
mod gate;
pub(crate) mod leadership;
mod membership;
pub(crate) mod proto;
mod server;
#[cfg(test)]
pub(crate) mod tests;

#[cfg(feature = "testing")]
pub use carried::{Carried, Carrier};
pub use dial::{Class, Credentials, PeerError, Peers, Transport};
pub use gate::{PROTOCOL_NEWEST, PROTOCOL_OLDEST, Standing};
pub use leadership::{LeadershipFeed, RangeNews};
pub use membership::Greeting;
pub use server::{PeerServer, ServeError, Serving};

pub(crate) use dial::PeerChannel;
pub(crate) use gate::Caller;
