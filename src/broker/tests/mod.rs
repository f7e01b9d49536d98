//! Tests of the broker's parts.

mod commands;
mod machine;
mod positions;
mod producers;
