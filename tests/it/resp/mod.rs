//! The RESP port: redis-py, unchanged, in both versions of the protocol; users, TLS, kill -9, and what lies between it and the
//! other ports.
//!
//! * [`streams`]: appending and reading; [`users`]: who may; [`tls`]: the port under TLS;
//! * [`greedy`]: clients that ask for too much, or take too little; [`ending`]: a stop, and kill -9;
//! * [`python`] and [`wire`]: the clients.

mod ending;
mod greedy;
mod python;
mod streams;
mod tls;
mod users;
mod wire;

use crate::process::{PATIENCE, Process};
use std::time::Instant;

/// Waits for what must come.
fn wait(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < PATIENCE, "{what} in time");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A database `shop.orders` with the topics `t` (one partition) and `wide` (three, by `customer`).
fn declare(process: &Process, user: Option<(&str, &str)>) {
    let script = "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders;
                  DEFINE TOPIC t; DEFINE TOPIC wide PARTITIONS 3 BY customer;";
    let (status, body) = process.try_script_as(user, script);
    assert_eq!(status, 200, "{body}");
}

fn node() -> Process {
    let process = Process::start(&["--kafka-database", "shop.orders"]);
    declare(&process, None);
    process
}
