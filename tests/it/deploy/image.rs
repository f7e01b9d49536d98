//! The Dockerfile: a linter's word on it, what the image runs, and a build where Docker runs.

use super::{file, image_tag, is_there, output, python, text, told};
use crate::clients::install::quiet;
use std::process::Command;
use tessaridb::config::{Config, Task};

const DOCKERFILE: &str = "deploy/Dockerfile";

/// Instructions and what follows them, lines that go on joined.
pub(super) fn instructions() -> Vec<(String, String)> {
    let joined = text(DOCKERFILE).replace("\\\n", " ");
    let instruction = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        Some((name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    let lines = joined.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(instruction).collect()
}

/// What follows an instruction that is there once.
pub(super) fn instruction(name: &str) -> String {
    let all: Vec<_> = instructions().into_iter().filter(|(n, _)| n == name).collect();
    assert_eq!(all.len(), 1, "{name}: {all:?}");
    all[0].1.clone()
}

/// The arguments that the image runs the binary with.
pub(super) fn arguments() -> Vec<String> {
    assert_eq!(instruction("ENTRYPOINT"), r#"["tessaridb"]"#);
    serde_json::from_str(&instruction("CMD")).expect("a list")
}

#[test]
fn the_linter_has_nothing_to_say() {
    let hadolint = python().with_file_name("hadolint");
    assert_eq!(output(Command::new(hadolint).arg(file(DOCKERFILE))), "");
}

#[test]
fn the_image_runs_a_node_and_asks_it_at_the_port_it_serves() {
    let config: Config = told(&arguments(), &[]);
    let ports = [config.listen.serve.as_deref(), config.listen.kafka.as_deref()].map(super::port);
    assert_eq!(instruction("EXPOSE"), format!("{} {} 9180", ports[0], ports[1]));
    assert_eq!(
        config.path.as_deref().and_then(|p| p.to_str()),
        Some(&*instruction("VOLUME"))
    );
    let health = instruction("HEALTHCHECK");
    let command = health.split_once("CMD ").expect("a command").1;
    let command: Vec<String> = serde_json::from_str(command).expect("a list");
    assert_eq!(command[0], "tessaridb");
    let Some(Task::Ready(ready)) = told(&command[1..], &[]).task else {
        panic!("{command:?}")
    };
    assert_eq!(super::port(Some(&ready.at)), ports[0]);
}

#[test]
fn nobody_is_root_and_every_base_is_of_one_version() {
    let user = instruction("USER");
    let (uid, gid) = user.split_once(':').expect("user and group");
    assert!(uid.parse::<u32>().is_ok_and(|id| id > 0) && gid.parse::<u32>().is_ok_and(|id| id > 0));
    let bases: Vec<String> = instructions()
        .into_iter()
        .filter(|(n, _)| n == "ARG")
        .map(|(_, a)| a)
        .collect();
    assert_eq!(bases.len(), 2);
    for base in &bases {
        let tag = base.split_once(':').expect("a tag").1;
        let version: Vec<&str> = tag.split('-').next().expect("a version").split('.').collect();
        assert!(
            version.len() >= 2 && version.iter().all(|n| n.parse::<u32>().is_ok()),
            "{base}"
        );
    }
    // The compiler is one that the workspace takes.
    let minor = |text: &str| {
        text.split('.')
            .nth(1)
            .and_then(|n| n.parse::<u32>().ok())
            .expect("a version")
    };
    let wanted = text("Cargo.toml");
    let wanted = wanted
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .expect("a version");
    assert!(
        minor(&bases[0]) >= minor(wanted.trim_matches('"')),
        "{bases:?}, {wanted}"
    );
}

#[test]
fn what_the_build_reads_is_let_in_and_nothing_of_the_machine() {
    let ignore = text("deploy/Dockerfile.dockerignore");
    let lines: Vec<&str> = ignore.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[0], "*");
    let let_in: Vec<&str> = lines[1..]
        .iter()
        .map(|line| line.strip_prefix('!').expect("let in"))
        .collect();
    for path in &let_in {
        assert!(file(path).exists(), "{path}");
    }
    let manifest = text("Cargo.toml");
    let members = manifest
        .lines()
        .find(|line| line.starts_with("members = "))
        .expect("members");
    let members = members.split('"').skip(1).step_by(2);
    for needed in members.chain(["Cargo.toml", "Cargo.lock", "src", "proto", "deploy/form"]) {
        assert!(let_in.iter().any(|path| needed.starts_with(path)), "{needed}");
    }
    for copied in instructions().into_iter().filter(|(n, _)| n == "COPY").map(|(_, c)| c) {
        let source = copied
            .split(' ')
            .find(|word| !word.starts_with("--"))
            .expect("a source");
        assert!(copied.contains("--from=") || file(source).exists(), "{copied}");
    }
}

#[test]
fn the_binary_needs_no_library_that_the_slim_base_lacks() {
    let needs = output(Command::new("ldd").arg(env!("CARGO_BIN_EXE_tessaridb")));
    for line in needs.lines() {
        let name = line.trim_start().split(' ').next().unwrap_or_default();
        let base = [
            "linux-vdso.",
            "libc.",
            "libm.",
            "libgcc_s.",
            "/lib64/ld-linux-",
            "/lib/ld-linux-",
        ];
        assert!(base.iter().any(|known| name.starts_with(known)), "{line}");
    }
}

#[test]
fn the_image_builds_and_runs_where_docker_does() {
    if !is_there("docker") || !quiet(Command::new("docker").arg("info")) {
        eprintln!("no Docker engine runs: the image is not built");
        return;
    }
    let mut build = Command::new("docker");
    build
        .env("DOCKER_BUILDKIT", "1")
        .args(["build", "-t", &image_tag(), "-f"]);
    output(build.arg(file(DOCKERFILE)).arg(file(".")));
    let version = output(Command::new("docker").args(["run", "--rm", &image_tag(), "--version"]));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}
