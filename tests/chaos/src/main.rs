//! `cargo run --bin chaos -- --minutes 30 --seed 7`: a cluster of real processes under load and faults.

use chaos::{Plan, Tools};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Where Debian's package puts the library.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// Forms a cluster, has clients work with it while members are killed, paused, cut off, slowed, filled and set to other
/// times, and judges what the clients saw.
#[derive(Parser)]
struct Arguments {
    /// How long faults come and go.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// What faults are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Members, at least three.
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// The program under test; next to this one unless said.
    #[arg(long)]
    program: Option<PathBuf>,
    /// A new folder for data, logs and the history; a temporary one unless said, which stays if anything is wrong.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// No faults that need root: kill -9 and SIGSTOP only.
    #[arg(long)]
    plain: bool,
    /// Judges the history of an earlier run, and runs nothing.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(history) = &arguments.check {
        return Ok(verdict(&chaos::judge(history)?));
    }
    let program = match arguments.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("tessaridb"),
    };
    let clock = FAKETIME.iter().map(PathBuf::from).find(|library| library.exists());
    let root = !arguments.plain && chaos::namespaces_are_possible();
    let tools = Tools {
        net: root,
        disk: root,
        clock: !arguments.plain && clock.is_some(),
    };
    let (folder, temporary) = match arguments.folder {
        Some(folder) => (folder, false),
        None => (tempfile::Builder::new().prefix("chaos-").tempdir()?.keep(), true),
    };
    eprintln!("seed {}, {tools:?}, in {}", arguments.seed, folder.display());
    let outcome = chaos::run(&Plan {
        program: std::path::absolute(program)?,
        folder: std::path::absolute(&folder)?,
        members: arguments.members,
        length: Duration::try_from_secs_f64(arguments.minutes * 60.0)?,
        seed: arguments.seed,
        tools,
        clock,
    })?;
    println!(
        "{} steps of faults, {} records acknowledged; the history is {}",
        outcome.steps,
        outcome.acknowledged,
        outcome.history.display()
    );
    if outcome.wrong.is_empty() && temporary {
        remove(&folder);
    }
    Ok(verdict(&outcome.wrong))
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        eprintln!("{}: {error}", folder.display());
    }
}

fn verdict(wrong: &[chaos::Wrong]) -> ExitCode {
    for wrong in wrong {
        println!("WRONG: {wrong:?}");
    }
    match wrong.is_empty() {
        true => {
            println!("nothing is wrong");
            ExitCode::SUCCESS
        }
        false => ExitCode::FAILURE,
    }
}
