//! What it costs to be answered by a member that does not lead.

use crate::meter::round;
use crate::peer::{Brokers, node_id, script, start_tessaridb};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const NODES: u16 = 3;
const KAFKA: u16 = 19092;
const HTTP: u16 = 19080;
const TOPIC: &str = "USE NAMESPACE bench DATABASE bench;";

/// Where and how long.
#[derive(Clone, Debug, Args)]
pub struct Hop {
    /// The tessaridb binary (a release build).
    #[arg(long, default_value = "target/release/tessaridb")]
    pub tessaridb: PathBuf,
    /// Scratch folder on the disk to measure; emptied.
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
    /// Rounds of each; the median counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Records of 1 KiB a round.
    #[arg(long, default_value_t = 400_000)]
    pub records: u64,
}

impl Hop {
    /// Three members, one partition: produces to its leader, then hides the leader from clients so that another member carries
    /// everything to it, in turn. Prints a line for each run, and how the medians compare.
    pub fn run(&self) -> Result<()> {
        let _ = std::fs::remove_dir_all(&self.dir);
        let binary = self.tessaridb.canonicalize().context("build tessaridb first")?;
        let brokers = start_tessaridb(&binary, &self.dir, NODES, KAFKA, HTTP)?;
        script(&binary, HTTP, &format!("{TOPIC} DEFINE TOPIC hop PARTITIONS 1 BY id"))?;
        let (mut direct, mut carried) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let leader = leader(&binary)?;
            direct.push(self.produce(&brokers, "direct")?);
            let row = |kafka: &str| script(&binary, HTTP, &format!("ALTER REPLICA m{leader} KAFKA {kafka}"));
            row("NONE")?;
            carried.push(self.produce(&brokers, "carried")?);
            row(&format!("AT '127.0.0.1:{}'", KAFKA + leader))?;
        }
        let (direct, carried) = (median(direct), median(carried));
        let percent = round(carried / direct * 100.0, 0);
        println!("\ndirect {direct} MB/s, carried {carried} MB/s: {percent} %");
        drop(brokers);
        Ok(std::fs::remove_dir_all(&self.dir)?)
    }

    fn produce(&self, brokers: &Brokers, how: &str) -> Result<f64> {
        let mut command = Command::new(std::env::current_exe()?);
        let (bootstrap, records) = (brokers.bootstrap(), self.records.to_string());
        let load = [
            "load",
            "--mode",
            "produce",
            "--create",
            "false",
            "--topic",
            "bench.bench.hop",
        ];
        let out = command
            .args(load)
            .args(["--bootstrap", &bootstrap, "--size", "1024", "--records", &records])
            .output()?;
        ensure!(out.status.success(), "{how}: {}", String::from_utf8_lossy(&out.stderr));
        let told: Value = serde_json::from_slice(&out.stdout)?;
        println!("{how}: {told}");
        ensure!(told["failed"] == 0, "{how}: records failed");
        told["mb_s"].as_f64().context("no rate")
    }
}

/// Which member leads the partition.
fn leader(binary: &Path) -> Result<u16> {
    let start = Instant::now();
    loop {
        let told = script(binary, HTTP, &format!("{TOPIC} INFO FOR TOPIC hop"))?;
        if let Some(leader) = (0..NODES).find(|n| told.contains(&format!("leader: '{}'", node_id(*n)))) {
            return Ok(leader);
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "nobody leads: {told}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
