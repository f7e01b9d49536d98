//! Benches over unchanged clients (librdkafka), for any broker that speaks the Kafka protocol.
//!
//! * `bench load ..`: one workload against one broker, one line of JSON.
//! * `bench hop ..`: what it costs when a member that does not lead is asked.
//! * `bench compare ..`: tessaridb and Apache Kafka side by side in one run; ratios are what counts, absolute times are noise.

mod apache;
mod client;
mod compare;
mod consume;
mod disk;
mod e2e;
mod hop;
mod latency;
mod meter;
mod peer;
mod produce;
mod startup;
mod workload;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One workload against one broker; prints one line of JSON.
    Load(workload::Load),
    /// tessaridb and Apache Kafka side by side.
    Compare(compare::Compare),
    /// Produce to the leader, and through a member that does not lead.
    Hop(hop::Hop),
    /// One appended 4 KiB pwrite + fdatasync at a time on the same disk.
    Disk(disk::DiskProbe),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Load(load) => println!("{}", load.run()?),
        Command::Compare(compare) => compare.run()?,
        Command::Hop(hop) => hop.run()?,
        Command::Disk(probe) => println!("{}", probe.run()?),
    }
    Ok(())
}
