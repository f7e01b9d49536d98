//! The differences that are meant, each with its reason. `docs/compatibility.md` is printed from them.

use crate::compare::Difference;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Why a difference stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// tessaridb's documented contract says so.
    Contract,
    /// A bug that brokers or clients met in the field asks for more than Kafka does.
    Field,
    /// A bug of Kafka's.
    KafkaBug,
}

/// A family of differences.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What it is about, as a heading.
    pub title: String,
    /// Why it stands.
    pub kind: Kind,
    /// The reason in sentences.
    pub reason: String,
    /// Which differences it covers; each pattern must match at least one.
    pub covers: Vec<Pattern>,
    /// How many fields these are: one more or one less is a change to be looked at.
    pub differences: usize,
}

/// Differences by their parts. `*` stands for any text; a part left out matches anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Scenario.
    pub scenario: String,
    /// Step.
    #[serde(default = "any")]
    pub step: String,
    /// Path of the field.
    #[serde(default = "any")]
    pub path: String,
    /// What Kafka answered.
    #[serde(default = "any")]
    pub kafka: String,
    /// What tessaridb answered.
    #[serde(default = "any")]
    pub ours: String,
}

fn any() -> String {
    "*".to_owned()
}

impl Pattern {
    fn covers(&self, difference: &Difference) -> bool {
        glob(&self.scenario, &difference.scenario)
            && glob(&self.step, &difference.step)
            && glob(&self.path, &difference.path)
            && glob(&self.kafka, &difference.kafka)
            && glob(&self.ours, &difference.ours)
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    (0..=text.len())
        .filter(|at| text.is_char_boundary(*at))
        .any(|at| glob(rest, &text[at..]))
}

/// Reads the rows kept beside this program.
pub fn rows() -> Result<Vec<Row>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("differences.json");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
}

/// What is left when the rows are laid over the differences.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Differences no row covers.
    pub unexplained: Vec<Difference>,
    /// Patterns that cover no difference, by their row's title.
    pub stale: Vec<String>,
    /// How many differences each row covers.
    pub covered: Vec<usize>,
    /// Rows that cover another number than they say: the title, what it says, what it covers.
    pub miscounted: Vec<(String, usize, usize)>,
}

/// Lays `rows` over `differences`. Of several that fit, the first row takes the difference, but each counts as used.
pub fn judge(rows: &[Row], differences: &[Difference]) -> Judgement {
    let mut judgement = Judgement {
        covered: vec![0; rows.len()],
        ..Judgement::default()
    };
    let mut used: Vec<Vec<bool>> = rows.iter().map(|row| vec![false; row.covers.len()]).collect();
    for difference in differences {
        let mut taken = false;
        for (at, row) in rows.iter().enumerate() {
            for (pattern, used) in row.covers.iter().zip(&mut used[at]) {
                if pattern.covers(difference) {
                    *used = true;
                    if !taken {
                        judgement.covered[at] += 1;
                        taken = true;
                    }
                }
            }
        }
        if !taken {
            judgement.unexplained.push(difference.clone());
        }
    }
    for (row, covered) in rows.iter().zip(&judgement.covered) {
        if row.differences != *covered {
            judgement
                .miscounted
                .push((row.title.clone(), row.differences, *covered));
        }
    }
    for (row, used) in rows.iter().zip(used) {
        for (pattern, used) in row.covers.iter().zip(used) {
            if !used {
                judgement.stale.push(format!("{}: {pattern:?}", row.title));
            }
        }
    }
    judgement
}

/// Where the document stands.
pub fn document_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md")
}

/// The document for `rows`.
pub fn document(rows: &[Row], scenarios: usize, exchanges: usize) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "# Where tessaridb answers otherwise than Apache Kafka\n\n\
         Printed from `tests/differential/differences.json` by `cargo run -p differential -- document`; a test fails where the two\n\
         part, where an answer differs that no row covers, and where a row covers nothing.\n\n\
         {exchanges} requests in {scenarios} scenarios are sent to Apache Kafka 4.3.1 and to tessaridb, byte for byte the same but for ids the\n\
         server gave out, and the answers are compared field by field: each key and version of the table served, good, edge and\n\
         broken bodies. Not compared: ids a server makes up (the same id twice must be the same id twice), times of append,\n\
         addresses, leader epochs, the wording of error messages, the order of an answer's elements. Kafka's answers are kept in\n\
         `tests/differential/recorded`, so `cargo test` needs no Java; `cargo run -p differential -- compare` asks both anew."
    )?;
    let headings = [
        (Kind::Contract, "The contract of tessaridb"),
        (Kind::Field, "Bugs met in the field that ask for more"),
        (Kind::KafkaBug, "Bugs of Kafka's"),
    ];
    for (kind, heading) in headings {
        let chosen: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
        if chosen.is_empty() {
            continue;
        }
        writeln!(text, "\n## {heading}")?;
        for row in chosen {
            // A pattern over all scenarios names none.
            let named = row
                .covers
                .iter()
                .map(|cover| cover.scenario.as_str())
                .filter(|name| *name != "*");
            let mut scenarios: Vec<String> = named.map(|name| format!("`{name}`")).collect();
            if row.covers.iter().any(|cover| cover.scenario == "*") {
                scenarios.push("wherever it shows".to_owned());
            }
            scenarios.sort();
            scenarios.dedup();
            writeln!(
                text,
                "\n**{}.** {} {} fields, in {}.",
                row.title,
                row.reason,
                row.differences,
                scenarios.join(", ")
            )?;
        }
    }
    Ok(text)
}

/// Fails unless the document on disk is the one printed from `rows`.
pub fn check_document(rows: &[Row], scenarios: usize, exchanges: usize) -> Result<()> {
    let path = document_path();
    let kept = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    ensure!(
        kept == document(rows, scenarios, exchanges)?,
        "{} is out of date: cargo run -p differential -- document",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(step: &str, ours: &str) -> Difference {
        Difference {
            scenario: "s".to_owned(),
            step: step.to_owned(),
            path: "a[0].error_code".to_owned(),
            kafka: "3".to_owned(),
            ours: ours.to_owned(),
        }
    }

    #[test]
    fn rows_and_differences_must_meet() {
        let rows: Vec<Row> = serde_json::from_str(
            r#"[{"title": "t", "kind": "kafka-bug", "reason": "r", "differences": 2, "covers": [
                {"scenario": "s", "step": "v* name", "path": "*.error_code", "kafka": "3", "ours": "17"},
                {"scenario": "other"}]}]"#,
        )
        .unwrap();
        let judged = judge(
            &rows,
            &[
                difference("v1 name", "17"),
                difference("v1 name", "5"),
                difference("v2", "17"),
            ],
        );
        assert_eq!(judged.unexplained, [difference("v1 name", "5"), difference("v2", "17")]);
        assert_eq!(judged.covered, [1]);
        assert_eq!(judged.stale.len(), 1);
        assert_eq!(judged.miscounted, [("t".to_owned(), 2, 1)]);
    }
}
