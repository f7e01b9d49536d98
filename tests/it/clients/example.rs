//! The README's example: a client's first produce and consume, and what TessariQL makes of it.

use super::install;
use super::stock::piped;
use crate::process::Process;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[test]
fn the_first_produce_and_consume_print_what_the_readme_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let shown = readme
        .split_once("```text\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .expect("a text block")
        .0;

    let node = Process::with_database();
    let orders = "USE NAMESPACE shop DATABASE orders;";
    node.script(&format!("{orders} DEFINE TOPIC orders PARTITIONS 3 BY customer;"));
    let mut first = Command::new(install::python());
    first.arg(root.join("deploy/first.py")).arg(node.bootstrap());
    let out = String::from_utf8(piped(&mut first, b"")).expect("UTF-8");
    // Partitions come in any order.
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(lines(&out), lines(shown));

    let read = node.script(&format!("{orders} READ FROM orders PARTITION 1 LIMIT 1;"));
    for part in [
        "position: 1",
        "headers: [{ key: 'source', value: 0x776562 }]",
        "key: 0x632d3137",
        "value: 0x3132302e3030",
    ] {
        assert!(read.contains(part), "{part} in {read}");
    }
    let info = node.script(&format!("{orders} INFO FOR TOPIC orders;"));
    for part in [
        "by: 'customer'",
        "'kafka:billing': { lag: 0, position: 2 }",
        "'kafka:billing': { lag: 0, position: 1 }",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
}
