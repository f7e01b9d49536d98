//! The README's example, as it stands there.

use super::install;
use super::stock::piped;
use crate::process::Process;
use std::process::Command;

/// The first block of the README in this language that mentions this.
fn block(language: &str, mentions: &str) -> String {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("the README");
    readme
        .split(&format!("```{language}\n"))
        .skip(1)
        .map(|rest| rest.split_once("```").expect("an end").0)
        .find(|block| block.contains(mentions))
        .unwrap_or_else(|| panic!("no {language} in the README that mentions {mentions}"))
        .to_owned()
}

#[test]
fn the_readme_s_example_prints_a_record_and_commits_its_group() {
    let node = Process::start(&[]);
    node.script(&block("sql", "DEFINE TOPIC orders"));
    let program = block("python", "confluent_kafka");
    let address = "127.0.0.1:9092";
    assert!(
        program.contains(address),
        "the example connects to {address}: {program}"
    );
    let program = program.replace(address, &node.bootstrap());
    let out = piped(Command::new(install::python()).args(["-c", &program]), b"");
    let out = String::from_utf8(out).expect("UTF-8");
    let words: Vec<&str> = out.split_whitespace().collect();
    let [partition, offset, key, value] = words[..] else {
        panic!("not one record: {out}")
    };
    assert_eq!(offset, "0", "a new group starts at the beginning: {out}");
    assert!(
        [("b'c-17'", "b'120.00'"), ("b'c-42'", "b'8.50'")].contains(&(key, value)),
        "{out}"
    );
    let info = node.script("USE NAMESPACE shop DATABASE orders; INFO FOR TOPIC orders;");
    assert!(
        info.contains("'kafka:billing'"),
        "the commit of partition {partition} is a reader position: {info}"
    );
}
