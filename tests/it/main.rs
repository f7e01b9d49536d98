//! Integration tests: real processes, real sockets, real clients. One binary, so that it links once.
//!
//! * [`process`]: a tessaridb process of a test's own.

#[allow(dead_code)]
mod process;
