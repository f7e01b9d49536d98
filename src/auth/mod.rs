//! Who is asking, and what they may do. One room for every front door.
//!
//! ```text
//!   name, password --> Auth::sign_in --> Principal      once a connection (or a request, over HTTP)
//!   Who, view      --> standing      --> Standing       each request anew: rights are those of the view
//!   Standing::may(action, on)        --> bool
//! ```
//!
//! A store without users is open: everybody may do everything. The first user closes it for all, connections that are
//! open already included, which is why nobody keeps a [`Standing`] from one request to the next.

mod access;
mod audit;
mod known;
mod password;
mod principal;
mod sessions;
mod sign_in;
mod throttle;
mod turns;

pub use access::{Action, NotStanding, On, Standing, standing};
pub use audit::Audit;
pub use password::{HashError, InvalidHash, MAX_PASSWORD, parse_hash};
pub use principal::{Caller, Origin, Principal, Surface, Who};
pub use sessions::{SESSION_TIME, Session};
pub use sign_in::{Auth, AuthConfig, Clock, FirstUserError, SignInCounts, SignInError};

#[cfg(test)]
pub(crate) mod tests;
