//! Integration tests: real processes, real sockets, real clients. One binary, so that it links once.
//!
//! * [`acknowledged`]: what idempotent producers were told, against what is stored;
//! * [`abuse`]: floods and bombs, and a good client among them; [`tls`]: the ports under TLS;
//! * [`authorization`]: who may do what on the Kafka port; [`sasl`]: how one signs in there;
//! * [`chaos`]: faults and a checker, from tests/chaos;
//! * [`balancer`]: clients behind haproxy while members come and go; [`deploy`]: what lies in deploy/;
//! * [`clients`]: stock clients, unchanged;
//! * [`cluster`]: members of one store, formed by TessariQL;
//! * [`differential`]: Apache Kafka's recorded answers against ours;
//! * [`failover`]: kill -9 of leaders under an idempotent load;
//! * [`groups`]: consumer groups under librdkafka;
//! * [`kafka_wire`]: the Kafka port on raw sockets, with [`wire`] for a client.
//! * [`kill`]: kill -9 under an idempotent load; [`node`]: starting and stopping.
//! * [`members`]: stock clients and wrong members; any member answers.
//! * [`process`]: a tessaridb process of a test's own; [`resp`]: the RESP port, and redis-py on it.
//! * [`users`]: users, sign-in and what becomes of passwords.

mod abuse;
mod acknowledged;
mod authorization;
mod balancer;
mod chaos;
mod clients;
mod cluster;
mod deploy;
mod differential;
mod failover;
mod groups;
mod kafka_wire;
mod kill;
mod members;
mod node;
mod process;
mod resp;
mod sasl;
mod tls;
mod users;
mod wire;
