//! `differential record | check | compare | replay | document [scenario..]`.
//!
//! - `record` asks Apache Kafka and writes its answers to `recorded/`.
//! - `check` asks Apache Kafka and compares with the recording: nothing may differ.
//! - `compare` asks both servers; `replay` asks tessaridb and takes Kafka's answers from the recording.
//! - `document` prints `docs/compatibility.md` anew.
//!
//! Kafka's jars are looked for in `$KAFKA_HOME` (default `target/kafka`) and fetched by Maven if missing. tessaridb is
//! `$TESSARIDB` (default `target/debug/tessaridb`).

use anyhow::{Context, Result, bail};
use differential::kafka::Kafka;
use differential::scenarios::Scenario;
use differential::tessari::Tessari;
use differential::{allowed, recording, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match modes() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn modes() -> Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments
        .next()
        .context("record, check, compare, replay or document?")?;
    let filters: Vec<String> = arguments.collect();
    let chosen = run::chosen(&filters);
    match mode.as_str() {
        "record" => {
            let kafka = Kafka::start()?;
            let folder = recording::folder();
            let runs = run::all(kafka.address, &chosen)?;
            for (scenario, exchanges) in &runs {
                recording::write(&folder, scenario, exchanges)?;
            }
            for stale in recording::recorded(&folder)?.iter().filter(|_| filters.is_empty()) {
                if !runs.contains_key(stale) {
                    fs::remove_file(folder.join(format!("{stale}.jsonl")))?;
                }
            }
            println!(
                "{} exchanges in {} scenarios",
                runs.values().map(Vec::len).sum::<usize>(),
                runs.len()
            );
            Ok(true)
        }
        "check" => {
            let kafka = Kafka::start()?;
            let found = run::differences(&run::recorded(&chosen)?, &run::all(kafka.address, &chosen)?)?;
            for difference in &found {
                println!("{difference}");
            }
            println!("{} differences between Kafka and its recording", found.len());
            Ok(found.is_empty())
        }
        "compare" => {
            let theirs = {
                let kafka = Kafka::start()?;
                run::all(kafka.address, &chosen)?
            };
            run::judge(&run::differences(&theirs, &ours(&chosen)?)?, filters.is_empty())
        }
        "replay" => run::judge(
            &run::differences(&run::recorded(&chosen)?, &ours(&chosen)?)?,
            filters.is_empty(),
        ),
        "document" => {
            let recorded = run::recorded(&chosen)?;
            let exchanges = recorded.values().map(Vec::len).sum();
            let path = allowed::document_path();
            fs::create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
            fs::write(&path, allowed::document(&allowed::rows()?, recorded.len(), exchanges)?)?;
            Ok(true)
        }
        other => bail!("unknown mode {other}"),
    }
}

fn ours(chosen: &[Scenario]) -> Result<run::Runs> {
    let binary = match std::env::var_os("TESSARIDB") {
        Some(binary) => PathBuf::from(binary),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/tessaridb"),
    };
    let mut tessari = Tessari::start(&binary)?;
    let runs = run::all(tessari.address, chosen)?;
    if !tessari.alive() {
        bail!("tessaridb ended: {}", tessari.log());
    }
    Ok(runs)
}
