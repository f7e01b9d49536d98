//! Tests of the broker's parts.

mod commands;
mod positions;
mod producers;
