//! Tests of the broker's parts.

mod broker;
mod carried;
mod commands;
mod machine;
pub(crate) mod many;
mod members;
mod positions;
mod producers;
pub(crate) mod store;
pub(crate) mod trio;
