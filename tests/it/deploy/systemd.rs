//! The unit: systemd's word on it, and that the node takes what it is told there.

use super::{file, is_there, output, text, told};
use std::process::Command;

/// The lines `NAME=VALUE` of a file.
fn settings(path: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        line.split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    text(path)
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(pair)
        .collect()
}

fn setting(path: &str, name: &str) -> String {
    let found = settings(path).into_iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("{name} in {path}")).1
}

const UNIT: &str = "deploy/systemd/tessaridb.service";

#[test]
fn systemd_takes_the_unit_and_finds_it_little_exposed() {
    if !is_there("systemd-analyze") {
        eprintln!("systemd-analyze is missing: the unit is not verified");
        return;
    }
    // The binary is not installed here.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unit = folder.path().join("tessaridb.service");
    let here = text(UNIT).replace("/usr/bin/tessaridb", env!("CARGO_BIN_EXE_tessaridb"));
    std::fs::write(&unit, here).expect("a unit");
    let said = output(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit));
    assert_eq!(said, "");
    let mut security = Command::new("systemd-analyze");
    // Of 100; what is left is that it listens for anybody.
    output(
        security
            .args(["security", "--no-pager", "--offline=yes", "--threshold=20"])
            .arg(file(UNIT)),
    );
}

#[test]
fn a_node_takes_what_the_unit_and_its_variables_tell_it() {
    let command = setting(UNIT, "ExecStart");
    let arguments: Vec<String> = command.split(' ').skip(1).map(str::to_owned).collect();
    let variables = settings("deploy/systemd/tessaridb.env");
    let config = told(&arguments, &variables);
    assert!(config.listen.serve.is_some() && config.listen.kafka.is_some());
    assert_eq!(
        config.path.as_deref().and_then(|p| p.to_str()),
        Some("/var/lib/tessaridb"),
        "the StateDirectory, all else is read-only"
    );
    assert_eq!(setting(UNIT, "StateDirectory"), "tessaridb");

    // What is commented out is known, too.
    let all = text("deploy/systemd/tessaridb.env");
    let more: Vec<(String, String)> = all
        .lines()
        .filter_map(|line| line.strip_prefix("#TESSARIDB_")?.split_once('='))
        .filter(|(name, _)| !name.starts_with("INITIAL_"))
        .map(|(name, value)| (format!("TESSARIDB_{name}"), value.to_owned()))
        .collect();
    assert_eq!(more.len(), 7, "{more:?}");
    let both: Vec<_> = variables.into_iter().chain(more).collect();
    assert!(told(&arguments, &both).cluster.cluster_address.is_some());
}

#[test]
fn the_user_of_the_unit_is_made_by_its_sysusers_line() {
    let line = text("deploy/systemd/tessaridb.sysusers");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..2], ["u", &setting(UNIT, "User")]);
}
