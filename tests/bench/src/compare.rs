//! Both brokers, the same work, turn by turn in one run.

use crate::apache::{kafka_home, start_kafka};
use crate::disk::DiskProbe;
use crate::meter::{round, usage_of};
use crate::peer::{Brokers, start_tessaridb, tessaridb_command};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where and how long.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// The tessaridb binary (a release build).
    #[arg(long, default_value = "target/release/tessaridb")]
    pub tessaridb: PathBuf,
    /// Scratch folder on the disk to measure; emptied.
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Only work whose name contains this.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Nodes of each cluster: all hold every partition, ours syncs on a majority before it answers, Kafka (min.insync.replicas
    /// 2 of 3) has it in the memory of two.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub nodes: u16,
    /// Leave Apache Kafka out.
    #[arg(long)]
    pub alone: bool,
    /// Scales the number of records.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// GiB of free memory to touch before each run. A virtual machine may hand free memory back to its host, and then pays
    /// for each page when it is next touched, far more than a broker's own work comes to: who of two runs pays is chance.
    #[arg(long, default_value_t = 0)]
    pub warm: usize,
}

/// One line of the table.
struct Work {
    name: &'static str,
    mode: &'static str,
    size: u64,
    partitions: u32,
    records: u64,
    /// Records to lay down first, outside the clock.
    prepare: u64,
    figure: &'static str,
}

/// Long enough that what happens once, to a new log or a new process, is a small part.
const WORKS: &[Work] = &[
    work("produce 1 KiB, 1 partition", "produce", 1024, 1, 3_000_000),
    work("produce 1 KiB, 12 partitions", "produce", 1024, 12, 3_000_000),
    work("produce 1 KiB, 1000 partitions", "produce", 1024, 1000, 1_000_000),
    work("produce 100 B, 1 partition", "produce", 100, 1, 6_000_000),
    work("produce 100 B, 12 partitions", "produce", 100, 12, 6_000_000),
    Work {
        prepare: 1_500_000,
        ..work("consume 1 KiB, 1 partition", "consume", 1024, 1, 1_500_000)
    },
    Work {
        prepare: 1_500_000,
        ..work("consume 1 KiB, 12 partitions", "consume", 1024, 12, 1_500_000)
    },
    Work {
        prepare: 6_000_000,
        ..work("consume 100 B, 1 partition", "consume", 100, 1, 6_000_000)
    },
    Work {
        figure: "p50_us",
        ..work("one in flight 1 KiB", "latency", 1024, 1, 3000)
    },
    Work {
        figure: "p50_us",
        ..work("end to end 100 B at 1000/s", "e2e", 100, 1, 10_000)
    },
];

const fn work(name: &'static str, mode: &'static str, size: u64, partitions: u32, records: u64) -> Work {
    Work {
        name,
        mode,
        size,
        partitions,
        records,
        prepare: 0,
        figure: "mb_s",
    }
}

/// Takes so many bytes of memory, writes to every page, and gives them back.
fn touch(bytes: usize) {
    std::hint::black_box(vec![1u8; bytes]);
}

impl Compare {
    /// Runs everything and prints a line of JSON for each run, then a table.
    pub fn run(&self) -> Result<()> {
        let _ = std::fs::remove_dir_all(&self.dir);
        std::fs::create_dir_all(&self.dir)?;
        let dir = self.dir.canonicalize()?;
        let binary = self
            .tessaridb
            .canonicalize()
            .context("build tessaridb with --release first")?;
        let home = if self.alone {
            None
        } else {
            Some(kafka_home(&std::env::current_dir()?)?)
        };
        let mut rows = Vec::new();
        for work in WORKS.iter().filter(|w| w.name.contains(&self.only)) {
            let mut runs: [Vec<Value>; 2] = Default::default();
            for round in 0..self.rounds {
                let turn = dir.join(format!("{round}"));
                let ours = start_tessaridb(&binary, &turn.join("tessaridb"), self.nodes, 19092, 19080)?;
                runs[0].push(self.one(work, &ours, "tessaridb")?);
                drop(ours);
                // Each begins with the disk and the memory as the other one did.
                std::fs::remove_dir_all(turn.join("tessaridb"))?;
                if let Some(home) = &home {
                    let theirs = start_kafka(home, &turn.join("kafka"), self.nodes, 19192)?;
                    runs[1].push(self.one(work, &theirs, "kafka")?);
                }
                std::fs::remove_dir_all(&turn)?;
            }
            rows.push(row(work, &runs));
        }
        if self.nodes == 1 && "startup".contains(&self.only) {
            rows.push(self.startup(&binary, &dir)?);
        }
        if self.nodes == 1 && "idle".contains(&self.only) {
            rows.push(self.idle(&binary, &dir)?);
        }
        let disk = DiskProbe {
            dir: dir.clone(),
            writes: 2000,
        }
        .run()?;
        println!("{disk}");
        println!(
            "\n| work | tessaridb | Apache Kafka | ratio | CPU s/GB | CPU s/GB Kafka | memory MB | memory MB Kafka |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for row in rows {
            println!("{row}");
        }
        println!(
            "| disk: appended 4 KiB pwrite + fdatasync p50 | {} us | | | | | | |",
            disk["p50_us"]
        );
        Ok(())
    }

    fn one(&self, work: &Work, broker: &Brokers, who: &str) -> Result<Value> {
        let scaled = |n: u64| ((n as f64 * self.scale) as u64).max(100);
        let pids: Vec<String> = broker.pids().iter().map(u32::to_string).collect();
        let load = |mode: &str, records: u64| -> Result<Value> {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([
                "load",
                "--mode",
                mode,
                "--bootstrap",
                &broker.bootstrap(),
                "--topic",
                "bench.bench.load",
            ]);
            command.args([
                "--partitions",
                &work.partitions.to_string(),
                "--size",
                &work.size.to_string(),
            ]);
            command.args(["--records", &records.to_string(), "--pid", &pids.join(",")]);
            if mode == "produce" && work.partitions > 1 {
                command.arg("--round-robin");
            }
            let out = command.output()?;
            ensure!(
                out.status.success(),
                "{who}: {}: {}",
                work.name,
                String::from_utf8_lossy(&out.stderr)
            );
            Ok(serde_json::from_slice(&out.stdout)?)
        };
        touch(self.warm << 30);
        if work.prepare > 0 {
            load("produce", scaled(work.prepare))?;
        }
        let mut result = load(
            work.mode,
            if work.figure == "mb_s" {
                scaled(work.records)
            } else {
                work.records
            },
        )?;
        result["broker"] = json!(who);
        result["work"] = json!(work.name);
        println!("{result}");
        Ok(result)
    }

    fn startup(&self, binary: &Path, dir: &Path) -> Result<String> {
        let mut times = Vec::new();
        for round in 0..self.rounds.max(3) {
            // Declared beforehand: the clock runs from process start to the first acknowledged record.
            let turn = dir.join(format!("startup-{round}"));
            drop(start_tessaridb(binary, &turn, 1, 19092, 19080)?);
            let spawn = format!("{:?}", tessaridb_command(binary, &turn, 19092, 19080)).replace('"', "");
            let mut command = Command::new(std::env::current_exe()?);
            command.args([
                "load",
                "--mode",
                "startup",
                "--bootstrap",
                "127.0.0.1:19092",
                "--topic",
                "bench.bench.s",
            ]);
            let out = command.args(["--spawn", &spawn]).output()?;
            ensure!(
                out.status.success(),
                "startup: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            let value: Value = serde_json::from_slice(&out.stdout)?;
            println!("{value}");
            times.push(value["first_ack_s"].as_f64().unwrap_or(f64::NAN) * 1e3);
            std::fs::remove_dir_all(&turn)?;
        }
        Ok(format!(
            "| start to first acknowledged record | {:.0} ms | | | | | | |",
            median(times)
        ))
    }

    fn idle(&self, binary: &Path, dir: &Path) -> Result<String> {
        let turn = dir.join("idle");
        let broker = start_tessaridb(binary, &turn, 1, 19092, 19080)?;
        std::thread::sleep(Duration::from_secs(3));
        let before = usage_of(&broker.pids()).context("gone")?;
        std::thread::sleep(Duration::from_secs(20));
        let after = usage_of(&broker.pids()).context("gone")?;
        drop(broker);
        std::fs::remove_dir_all(&turn)?;
        let percent = (after.cpu_s - before.cpu_s) / 20.0 * 100.0;
        Ok(format!(
            "| idle: CPU of one core, memory | {percent:.2} % | | | | | {:.0} | |",
            after.rss_mb
        ))
    }
}

fn row(work: &Work, runs: &[Vec<Value>; 2]) -> String {
    let mid = |who: usize, key: &str| {
        let values: Vec<f64> = runs[who].iter().filter_map(|r| r[key].as_f64()).collect();
        (!values.is_empty()).then(|| median(values))
    };
    let show = |v: Option<f64>, digits: i32| v.map_or(String::new(), |v| round(v, digits).to_string());
    let (a, b) = (mid(0, work.figure), mid(1, work.figure));
    let ratio = a.zip(b).map(|(a, b)| a / b);
    let (unit, tail) = if work.figure == "mb_s" {
        (" MB/s", "")
    } else {
        (" us p50", "p99_us")
    };
    let with_tail = |who: usize, v: Option<f64>| match (v, mid(who, tail)) {
        (Some(v), Some(t)) => format!("{v:.0}{unit}, {t:.0} us p99"),
        (Some(v), None) => format!("{v:.0}{unit}"),
        (None, _) => String::new(),
    };
    let failed: u64 = runs.iter().flatten().filter_map(|r| r["failed"].as_u64()).sum();
    let mark = if failed > 0 {
        format!(" ({failed} failed)")
    } else {
        String::new()
    };
    format!(
        "| {}{mark} | {} | {} | {} | {} | {} | {} | {} |",
        work.name,
        with_tail(0, a),
        with_tail(1, b),
        show(ratio, 2),
        show(mid(0, "broker_cpu_s_per_gb"), 2),
        show(mid(1, "broker_cpu_s_per_gb"), 2),
        show(mid(0, "peak_rss_mb"), 0),
        show(mid(1, "peak_rss_mb"), 0),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
