//! Recorded answers: one file for each scenario, one exchange for each line.

use crate::session::Exchange;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the answers of Apache Kafka are kept.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded")
}

fn file(folder: &Path, scenario: &str) -> PathBuf {
    folder.join(format!("{scenario}.jsonl"))
}

/// Writes what `scenario` exchanged.
pub fn write(folder: &Path, scenario: &str, exchanges: &[Exchange]) -> Result<()> {
    let mut text = String::new();
    for exchange in exchanges {
        text.push_str(&serde_json::to_string(exchange)?);
        text.push('\n');
    }
    fs::create_dir_all(folder)?;
    fs::write(file(folder, scenario), text).with_context(|| format!("writing the recording of {scenario}"))
}

/// Reads what `scenario` exchanged when it was recorded.
pub fn read(folder: &Path, scenario: &str) -> Result<Vec<Exchange>> {
    let path = file(folder, scenario);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("in {}", path.display())))
        .collect()
}

/// The scenarios that have a recording.
pub fn recorded(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Some(name) = entry?.file_name().to_str().and_then(|name| name.strip_suffix(".jsonl")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
