//! Sends the same raw requests to Apache Kafka and to tessaridb and compares the answers field by field.
//!
//! ```text
//! scenarios/*  ->  session (connections, steps)  ->  answer (tree)  ->  normal (ids, times, addresses out)
//!                                                                          |
//!                recording (Kafka's, on disk)  ->  compare (differences)  ->  allowed (rows with reasons)
//! ```
//!
//! A scenario is a name and a function that takes its steps one after the other; a step's later requests may use ids
//! from earlier answers. It is run by the same code against either server.

pub mod allowed;
pub mod answer;
pub mod batch;
pub mod compare;
pub mod kafka;
pub mod normal;
pub mod recording;
pub mod run;
pub mod scenarios;
pub mod session;
pub mod tessari;
pub mod wire;
