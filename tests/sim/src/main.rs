//! The cluster under a seeded network, on disks that crash.
//!
//! ```text
//!   seed --> plan: faults, clients, sizes
//!        --> process: clock and randomness (`seeded`)          one process a seed, one thread
//!
//!   clients --(any node, any time)--> node   node   node       each the rooms of the product: log, ranges, catalog,
//!                                       \     |     /           forwarding, broker, partition logs, membership
//!                                        network (`net`)       calls and pieces of them, held, late, lost, twice
//!                                       /     |     \
//!                                     disk  disk  disk         in memory; a crash loses what was not synced
//!        history --> invariants, one file each
//! ```
//!
//! The nodes' rooms are those of the product, put together as its composition root does. Simulated are: the network
//! (`Transport::Carried` in the place of gRPC over TLS), the disk (`MemoryFs`), threads (`cluster::threads`, which become
//! coroutines), the clock, randomness, and the front doors (clients call the broker).
//!
//! One seed gives one trace. All of a process runs on one thread; the clock and all randomness are taken from the
//! simulation (`seeded`); each seed has a process of its own, as some counters of libraries live as long as the process.
//! `--twice` runs a seed twice and compares.
//!
//! What is not simulated: a disk that is full, clocks that drift apart, and a clock that is set while a node runs.
//!
//! ```text
//!   cargo test --test sim                                     20 seeds; one twice; every planted bug
//!   cargo test --test sim -- --seeds 1000 [--from 1] [--nodes 5]
//!   cargo test --test sim -- --seed 17 --nodes 3 [--plant RepeatsStored] [--only INVARIANT] [--trace]
//!   cargo test --test sim -- --twice 17
//! ```
//!
//! With `--trace` every event is printed, and with `RUST_LOG` what the nodes log; logging takes randomness, too, so a trace
//! with it is another one than without.

mod campaign;
mod door;
mod history;
mod invariants;
mod net;
mod node;
mod planted;
mod run;
mod seeded;
mod trace;
mod workload;
mod world;

use anyhow::Context;
use campaign::{Job, Ran};
use cluster::planted::{Bug, plant};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is asked for.
#[derive(Default)]
struct Asked {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: Option<u64>,
    twice: Option<u64>,
    nodes: Option<usize>,
    plant: Option<String>,
    only: Option<String>,
    trace: bool,
    list: bool,
    /// Of the test runner: which parts to run.
    filters: Vec<String>,
}

impl Asked {
    fn read() -> anyhow::Result<Self> {
        let mut asked = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || -> anyhow::Result<u64> {
                let value = words.next().with_context(|| format!("{word} wants a number"))?;
                value.parse().with_context(|| format!("{word} {value}"))
            };
            match word.as_str() {
                "--seed" => asked.seed = Some(number()?),
                "--seeds" => asked.seeds = Some(number()?),
                "--from" => asked.from = Some(number()?),
                "--twice" => asked.twice = Some(number()?),
                "--nodes" => asked.nodes = Some(number()? as usize),
                "--plant" => asked.plant = words.next(),
                "--only" => asked.only = words.next(),
                "--trace" => asked.trace = true,
                "--list" => asked.list = true,
                // Options of the test runner that mean nothing here.
                option if option.starts_with("--") => {}
                filter => asked.filters.push(filter.to_owned()),
            }
        }
        Ok(asked)
    }

    /// Whether a part is to be run.
    fn wants(&self, part: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| part.contains(filter.as_str()))
    }
}

/// The parts of a run without arguments.
const PARTS: [&str; 3] = ["seeds", "twice", "planted"];

fn main() -> ExitCode {
    match Asked::read().and_then(|asked| serve(&asked)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn serve(asked: &Asked) -> anyhow::Result<ExitCode> {
    let nodes = asked.nodes.unwrap_or(3);
    if asked.list {
        PARTS.iter().for_each(|part| println!("{part}: test"));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(seed) = asked.seed {
        return one(asked, seed, nodes);
    }
    if let Some(count) = asked.seeds {
        let from = asked.from.unwrap_or(1);
        let planted = |seed| Job {
            plant: asked.plant.clone(),
            only: asked.only.clone(),
            ..job(seed, nodes)
        };
        let jobs = (from..from + count).map(planted).collect();
        return Ok(code(many(jobs)?));
    }
    if let Some(seed) = asked.twice {
        return Ok(code(twice(&job(seed, nodes))?));
    }
    let mut well = true;
    if asked.wants("seeds") {
        let three = (1..=14).map(|seed| job(seed, 3));
        let five = (15..=20).map(|seed| job(seed, 5));
        well &= many(three.chain(five).collect())?;
    }
    if asked.wants("twice") {
        well &= twice(&job(21, 3))?;
    }
    if asked.wants("planted") {
        well &= planted::all()?;
    }
    Ok(code(well))
}

fn job(seed: u64, nodes: usize) -> Job {
    Job {
        seed,
        nodes,
        plant: None,
        only: None,
    }
}

fn code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One seed, in this process.
fn one(asked: &Asked, seed: u64, nodes: usize) -> anyhow::Result<ExitCode> {
    if let Some(name) = &asked.plant {
        let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == *name);
        plant(bug.with_context(|| format!("no bug {name}"))?);
    }
    let trace = trace::Trace::default();
    if asked.trace {
        trace.print();
    }
    // Only then: logging takes randomness, too.
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .init();
    }
    let outcome = run::run(seed, nodes, trace, asked.only.clone());
    let (events, sum) = outcome.trace;
    let ran = format!(
        "seed={seed} nodes={nodes} time={} records={} events={events} trace={sum:016x}",
        outcome.time, outcome.records
    );
    Ok(match outcome.violation {
        None => {
            println!("{ran}");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("{ran} broke={} {}", violation.invariant, violation.what);
            ExitCode::FAILURE
        }
    })
}

/// Many seeds; whether all kept every invariant.
fn many(jobs: Vec<Job>) -> anyhow::Result<bool> {
    let count = jobs.len();
    let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    campaign::run(jobs, |ran: &Ran| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if ran.broke.is_some() {
            failed.fetch_add(1, Ordering::Relaxed);
            println!("seed {} fails: {}\n    {}", ran.job.seed, ran.said, ran.job.again());
        } else if done.is_multiple_of(100) {
            println!("{done} of {count}");
        }
        true
    })?;
    let failed = failed.into_inner();
    println!("{count} seeds, {failed} fail");
    Ok(failed == 0)
}

/// A seed twice; whether the same happened.
fn twice(job: &Job) -> anyhow::Result<bool> {
    let (first, second) = (job.run()?, job.run()?);
    let same = first.trace == second.trace && !first.trace.is_empty();
    println!("twice: {}\n       {}", first.said, second.said);
    if !same {
        println!("seed {} did not do the same twice", job.seed);
    }
    Ok(same)
}
