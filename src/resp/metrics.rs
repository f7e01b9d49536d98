//! What the port counts of commands, and how it is printed.

use super::errors::Word;
use super::table::TABLE;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counters of commands; those nobody knows have a place of their own, behind the table's.
pub(crate) struct Metrics {
    commands: Vec<Times>,
    refused: [AtomicU64; Word::ALL.len()],
}

#[derive(Default)]
struct Times {
    count: AtomicU64,
    micros: AtomicU64,
}

/// The place of commands nobody knows.
pub(crate) const UNKNOWN: usize = TABLE.len();

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            commands: (0..=UNKNOWN).map(|_| Times::default()).collect(),
            refused: Default::default(),
        }
    }

    /// Counts a command (its place in the table) that is answered.
    pub(crate) fn done(&self, command: usize, since: Instant, refused: Option<Word>) {
        if let Some(times) = self.commands.get(command) {
            let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
            times.count.fetch_add(1, Relaxed);
            times.micros.fetch_add(micros, Relaxed);
        }
        if let Some(word) = refused {
            self.refused[word as usize].fetch_add(1, Relaxed);
        }
    }

    /// In Prometheus' text form.
    pub(crate) fn print(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = self.write(out);
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let name = "tessaridb_resp_command_seconds";
        writeln!(
            out,
            "# HELP {name} Time from a command's arrival to its answer, waiting that was asked for included.\n# TYPE {name} summary"
        )?;
        let names = TABLE.iter().map(|row| row.name).chain(["unknown"]);
        for (command, times) in names.zip(&self.commands) {
            let count = times.count.load(Relaxed);
            if count > 0 {
                let seconds = Duration::from_micros(times.micros.load(Relaxed)).as_secs_f64();
                writeln!(out, "{name}_sum{{command=\"{command}\"}} {seconds}")?;
                writeln!(out, "{name}_count{{command=\"{command}\"}} {count}")?;
            }
        }
        let name = "tessaridb_resp_errors_total";
        writeln!(
            out,
            "# HELP {name} Commands answered with an error, by its first word.\n# TYPE {name} counter"
        )?;
        for (word, count) in Word::ALL.iter().zip(&self.refused) {
            writeln!(out, "{name}{{error=\"{}\"}} {}", word.as_str(), count.load(Relaxed))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::find;
    use super::*;

    #[test]
    fn commands_and_errors_are_counted_by_name() {
        let metrics = Metrics::new();
        let (ping, _) = find(b"PING").unwrap();
        metrics.done(ping, Instant::now(), None);
        metrics.done(ping, Instant::now(), Some(Word::NoAuth));
        metrics.done(UNKNOWN, Instant::now(), Some(Word::Err));
        let mut out = String::new();
        metrics.print(&mut out);
        for line in [
            "tessaridb_resp_command_seconds_count{command=\"ping\"} 2",
            "tessaridb_resp_command_seconds_count{command=\"unknown\"} 1",
            "tessaridb_resp_errors_total{error=\"NOAUTH\"} 1",
            "tessaridb_resp_errors_total{error=\"NOPERM\"} 0",
        ] {
            assert!(out.lines().any(|l| l == line), "{line} in {out}");
        }
        assert!(!out.contains("xadd"));
    }
}
