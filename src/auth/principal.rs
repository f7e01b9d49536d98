//! Who is asking.

use cluster::ids::UserId;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Nobody signed in.
    Anonymous,
    /// A user who signed in.
    User(Principal),
    /// Whoever runs TessariQL on the store's own folder, which no password protects: may do everything.
    Folder,
}

/// A user as of the moment it signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its name.
    pub name: Arc<str>,
    /// Which declaration of the name.
    pub id: UserId,
    /// Which of its passwords was given.
    pub credential: u64,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Surface {
    Kafka,
    Http,
    Resp,
    Shell,
    /// The node itself, as it starts.
    Node,
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kafka => "kafka",
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Shell => "shell",
            Self::Node => "node",
        })
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which front door.
    pub surface: Surface,
    /// The client's address, where there is one.
    pub remote: Option<SocketAddr>,
}

/// Who is asking, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub who: Who,
    /// From where.
    pub origin: Origin,
}
