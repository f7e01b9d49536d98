//! Integration tests: real processes, real sockets, real clients. One binary, so that it links once.
//!
//! * [`abuse`]: floods and bombs, and a good client among them; [`tls`]: the ports under TLS;
//! * [`authorization`]: who may do what on the Kafka port; [`sasl`]: how one signs in there;
//! * [`clients`]: stock clients, unchanged;
//! * [`cluster`]: members of one store, formed by TessariQL;
//! * [`differential`]: Apache Kafka's recorded answers against ours;
//! * [`groups`]: consumer groups under librdkafka;
//! * [`kafka_wire`]: the Kafka port on raw sockets, with [`wire`] for a client.
//! * [`kill`]: kill -9 under an idempotent load; [`node`]: starting and stopping.
//! * [`process`]: a tessaridb process of a test's own.
//! * [`users`]: users, sign-in and what becomes of passwords.

mod abuse;
mod authorization;
mod clients;
mod cluster;
mod differential;
mod groups;
mod kafka_wire;
mod kill;
mod node;
mod process;
mod sasl;
mod tls;
mod users;
mod wire;
