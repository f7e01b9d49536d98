//! Arguments -> configuration -> node or shell. No logic.

use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;
use tessaridb::config::{Certs, Config, LogFormat, Ready, Role, Task};
use tessaridb::node::{self, Node};
use tessaridb::shell::Remote;
use tessaridb::tls::issue;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Status of a process that was told something it can't do.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    use_small_pages();
    let config = match Config::try_parse() {
        Ok(config) => config,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let _ = e.print();
            return ExitCode::SUCCESS;
        }
        Err(e) => return refuse(&sentence(&e)),
    };
    if let Err(e) = log_to_stderr(&config) {
        return refuse(&e.to_string());
    }
    match &config.task {
        Some(Task::Certs(certs)) => return issue_certificates(certs),
        Some(Task::Ready(ready)) => return ask_whether_ready(ready),
        None => {}
    }
    let outcome = match config.role() {
        Role::Node => Node::run(&config).map(|()| 0),
        Role::Client => node::shell(&config).map(|ending| ending.status()),
    };
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(e) => refuse(&format!("{e:#}")),
    }
}

fn issue_certificates(certs: &Certs) -> ExitCode {
    match issue::issue(&certs.dir, &certs.nodes, certs.renew) {
        Ok(written) => {
            written.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(e) => refuse(&e.to_string()),
    }
}

fn ask_whether_ready(ready: &Ready) -> ExitCode {
    let mut node = Remote::new(&ready.at);
    if let Some(authority) = &ready.tls_authority {
        node = match node.trusting(authority) {
            Ok(node) => node,
            Err(e) => return refuse(&e.to_string()),
        };
    }
    match node.ready() {
        Ok(()) => {
            println!("ready");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("tessaridb: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The allocator asks for huge pages, which makes a node that does nothing hold twice the memory it needs.
fn use_small_pages() {
    // SAFETY: changes how this process's later page faults are served, nothing else. A kernel that refuses is no loss.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("tessaridb: {}", why.trim_end());
    ExitCode::from(REFUSED)
}

/// A command-line error in one line: without the usage and the tips that follow it.
fn sentence(e: &clap::Error) -> String {
    let text = e.to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|l| !l.trim().is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    first.strip_prefix("error: ").unwrap_or(&first).to_owned()
}

fn log_to_stderr(config: &Config) -> anyhow::Result<()> {
    // A shell's output is its own; only what goes wrong is logged beside it.
    let filter = match config.role() {
        Role::Node => &config.log,
        Role::Client => "warn",
    };
    let filter = EnvFilter::try_new(filter).map_err(|e| anyhow::anyhow!("--log {}: {e}", config.log))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
