//! Tests of the broker's parts.

mod broker;
mod commands;
mod machine;
mod members;
mod positions;
mod producers;
pub(crate) mod store;
