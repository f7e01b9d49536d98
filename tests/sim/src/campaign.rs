//! Many seeds, each in a process of its own: what one leaves behind can't change another, and one that panics or hangs
//! stops nobody.

use anyhow::Context;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A process that takes longer hangs.
const HANGS: Duration = Duration::from_secs(600);

/// A seed to be run.
#[derive(Clone, Debug)]
pub struct Job {
    pub seed: u64,
    pub nodes: usize,
    pub plant: Option<String>,
    /// The only invariant that counts.
    pub only: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Ran {
    pub job: Job,
    /// The invariant that broke; "crash" for a process that did not end well.
    pub broke: Option<String>,
    /// What the process said last.
    pub said: String,
    /// What its events come to.
    pub trace: String,
}

impl Job {
    /// How to run it again.
    pub fn again(&self) -> String {
        let option = |name: &str, value: &Option<String>| {
            let value = value.as_ref();
            value.map_or_else(String::new, |value| format!(" --{name} {value}"))
        };
        let plant = option("plant", &self.plant) + &option("only", &self.only);
        format!(
            "cargo test --test sim -- --seed {} --nodes {}{plant} --trace",
            self.seed, self.nodes
        )
    }

    /// Runs it in a process of its own.
    pub fn run(&self) -> anyhow::Result<Ran> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--seed", &self.seed.to_string(), "--nodes", &self.nodes.to_string()]);
        if let Some(bug) = &self.plant {
            command.args(["--plant", bug]);
        }
        if let Some(invariant) = &self.only {
            command.args(["--only", invariant]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut out = child.stdout.take().context("no output")?;
        let mut err = child.stderr.take().context("no output")?;
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let outputs = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = out.read_to_string(&mut text);
            text
        });
        let begun = Instant::now();
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if begun.elapsed() > HANGS => {
                    child.kill()?;
                    child.wait()?;
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let out = outputs.join().unwrap_or_default();
        let errors = errors.join().unwrap_or_default();
        let last = out.lines().last().unwrap_or_default().to_owned();
        let field = |name: &str| {
            let rest = last.split_once(name)?.1;
            rest.split_whitespace().next().map(str::to_owned)
        };
        let (broke, said) = match status.and_then(|status| status.code()) {
            Some(0) => (None, last.clone()),
            Some(1) => (field("broke="), last.clone()),
            Some(code) => (Some("crash".into()), format!("exit status {code}\n{errors}")),
            None if begun.elapsed() > HANGS => (Some("crash".into()), format!("hangs\n{errors}")),
            None => (Some("crash".into()), format!("killed\n{errors}")),
        };
        Ok(Ran {
            job: self.clone(),
            broke,
            said,
            trace: field("trace=").unwrap_or_default(),
        })
    }
}

/// Runs jobs, two at a time; `look` is told of each and says whether to go on.
pub fn run(jobs: Vec<Job>, look: impl Fn(&Ran) -> bool + Sync) -> anyhow::Result<()> {
    let jobs = Mutex::new(VecDeque::from(jobs));
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = jobs.lock().pop_front();
                    let Some(job) = next else { return };
                    match job.run() {
                        Ok(ran) if look(&ran) => {}
                        Ok(_) => jobs.lock().clear(),
                        Err(error) => {
                            failed.lock().get_or_insert(error);
                            jobs.lock().clear();
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
