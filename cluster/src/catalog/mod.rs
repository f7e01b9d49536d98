//! The catalog: what is declared. It is the system range's state; every member holds a copy.
//!
//! ```text
//!   Catalog::propose(Command) --> system range --> CatalogMachine::apply --> State::apply --> view published
//!   Catalog::view()           <-- lock-free, a snapshot that stays as it is while held
//! ```
//!
//! A proposal's answer arrives after the view that contains it is published on this node.

mod command;
mod error;
mod handle;
mod machine;
mod model;
mod replica;
mod sign_ins;
mod state;
mod users;

pub use command::{Asker, Command, Reply, ScopeName, TopicChange, TopicSpec, UserChange, UserRef};
pub use error::{CatalogError, CatalogFailure, Kind};
pub use handle::{Catalog, CatalogSource, Stopped};
pub use machine::CatalogMachine;
pub use model::{
    Acknowledge, Database, Namespace, PasswordHash, Privileges, RangeRow, Role, Scope, Topic, User, WrongPasswords,
};
pub use replica::{KafkaAt, Member, MemberCommand, ReplicaChange, ReplicaSpec, Roles, Standing, Told};
pub use sign_ins::MAX_NAMES as MAX_SIGN_IN_NAMES;
pub use state::{MAX_PARTITIONS, State, is_identifier};
