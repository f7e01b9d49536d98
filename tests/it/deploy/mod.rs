//! What lies in deploy/, as far as a machine without Docker, Kubernetes and a running systemd can tell; where those are
//! there, they are used.
//!
//! * [`local_cluster`]: really run; [`ready`]: what health checks ask;
//! * [`image`], [`compose`], [`kubernetes`], [`systemd`]: schemas and linters, and that what a node is told there is what a
//!   node takes;
//! * [`balance`]: haproxy's own check of its configuration. In use it is in [`crate::balancer`].

mod balance;
mod compose;
mod image;
mod kubernetes;
mod local_cluster;
mod ready;
mod systemd;

use crate::clients::install;
use clap::{CommandFactory, Parser};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tessaridb::config::Config;

const REQUIREMENTS: &str = include_str!("../../deploy/requirements.txt");

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Python with the checkers of tests/deploy/requirements.txt.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| install::environment("deploy", REQUIREMENTS, &file("tests/deploy/requirements.txt")))
}

/// The documents of YAML files, checked against their schema.
fn checked(schema: &str, paths: &[&str]) -> Vec<Value> {
    let mut command = Command::new(python());
    command.arg(file("tests/deploy/check.py")).arg(schema);
    command.args(paths.iter().map(|path| file(path)));
    serde_json::from_str(&output(&mut command)).expect("JSON")
}

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        out.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// Whether a program of the machine is there.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// What a process is told by these arguments and variables. Variables that mean nothing to it fail the test.
fn told(arguments: &[String], variables: &[(String, String)]) -> Config {
    let mut all = vec!["tessaridb".to_owned()];
    all.extend_from_slice(arguments);
    let known = Config::command();
    for (name, value) in variables {
        let argument = known
            .get_arguments()
            .find(|a| a.get_env().is_some_and(|env| env == name.as_str()));
        let argument = argument.unwrap_or_else(|| panic!("{name} is no variable of tessaridb's"));
        all.push(format!(
            "--{}",
            argument.get_long().unwrap_or_else(|| panic!("{name} has no flag"))
        ));
        if argument.get_action().takes_values() {
            all.push(value.clone());
        }
    }
    Config::try_parse_from(&all).unwrap_or_else(|error| panic!("{all:?}: {error}"))
}

/// A list of strings.
fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value} is a list"));
    let text = |v: &Value| v.as_str().unwrap_or_else(|| panic!("{v} is text")).to_owned();
    list.iter().map(text).collect()
}

fn port(address: Option<&str>) -> u16 {
    let port = address
        .and_then(|a| a.rsplit_once(':'))
        .and_then(|(_, port)| port.parse().ok());
    port.unwrap_or_else(|| panic!("{address:?} is an address"))
}

/// The tag of this version's image.
fn image_tag() -> String {
    format!("tessaridb:{}", env!("CARGO_PKG_VERSION"))
}
