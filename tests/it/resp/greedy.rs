//! Clients that ask for too much, or take too little.

use super::wire::Wire;
use super::{node, wait};
use crate::process::Process;

fn closed_as_slow(node: &Process) -> usize {
    let metrics = node.get("/metrics").expect("metrics").1;
    let name = "tessaridb_resp_connections_closed_total{reason=\"slow_reader\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(name));
    count.expect("counted").parse().expect("a number")
}

#[test]
fn readers_that_take_no_answers_are_closed_while_others_wait_for_memory() {
    // Of the memory of answers, large ones have 15 MiB here: one of them fits.
    let node = Process::start(&[
        "--kafka-database",
        "shop.orders",
        "--max-inflight-bytes",
        "16777216",
        "--max-request-bytes",
        "4194304",
        // Nobody is closed for standing still alone.
        "--stall-seconds",
        "3600",
    ]);
    super::declare(&node, None);
    let mut writer = Wire::connect(node.resp);
    let value = "x".repeat(1_000_000);
    for n in 1..=14 {
        assert_eq!(writer.ask(&["XADD", "t", "*", "a", &value]), format!("{n}-0"));
    }
    let greedy: Vec<_> = (0..5)
        .map(|_| {
            let mut wire = Wire::connect(node.resp);
            wire.send(&["XRANGE", "t", "-", "+"]).expect("taken");
            wire
        })
        .collect();
    let mut honest = Wire::connect(node.resp);
    assert_eq!(honest.ask(&["XREAD", "BLOCK", "1", "STREAMS", "t", "$"]), "*-1");
    assert!(honest.ask(&["XRANGE", "t", "-", "+"]).len() > 14_000_000);
    wait("the greedy ones are closed", || closed_as_slow(&node) >= 3);
    assert!(
        node.log().contains("a connection that no longer moves is closed"),
        "{}",
        node.log()
    );
    drop(greedy);
}

#[test]
fn an_entry_that_is_too_large_is_refused_before_it_is_encoded() {
    let node = node();
    let mut wire = Wire::connect(node.resp);
    assert_eq!(wire.ask(&["XADD", "t", "*", "a", "1"]), "1-0");
    // Six bytes each as JSON.
    let nuls = "\0".repeat(60_000_000);
    let refusal = "-ERR a message is larger than the 1048588 bytes the topic t takes";
    assert_eq!(wire.ask(&["XADD", "t", "*", "a", &nuls]), refusal);
    let peak = node.peak_memory_kib();
    assert!(peak < 300_000, "{peak} KiB at most");
    // Only its JSON is too large.
    assert_eq!(wire.ask(&["XADD", "t", "*", "a", &nuls[..500_000]]), refusal);
    for (n, size) in [(2, 1_000_000), (3, 1), (4, 300_000)] {
        assert_eq!(wire.ask(&["XADD", "t", "*", "a", &"x".repeat(size)]), format!("{n}-0"));
    }
}

#[test]
fn numbers_and_names_are_read_as_redis_reads_them() {
    let node = node();
    let mut wire = Wire::connect(node.resp);
    for number in ["+5", "0009", "9223372036854775808", "-0", " 5", "5.0", "x"] {
        for (command, says) in [
            (
                &["XREAD", "BLOCK", number, "STREAMS", "t", "$"][..],
                "-ERR timeout is not an integer",
            ),
            (
                &["XREAD", "COUNT", number, "STREAMS", "t", "0"],
                "-ERR value is not an integer",
            ),
            (
                &["XRANGE", "t", "-", "+", "COUNT", number],
                "-ERR value is not an integer",
            ),
            (&["XTRIM", "t", "MAXLEN", number], "-ERR "),
            (&["HELLO", number], "-ERR Protocol version is not an integer"),
            (&["SELECT", number], "-ERR "),
        ] {
            let answer = wire.ask(command);
            assert!(answer.starts_with(says), "{command:?}: {answer}");
        }
    }
    let negative = wire.ask(&["XREAD", "BLOCK", "-1", "STREAMS", "t", "$"]);
    assert_eq!(negative, "-ERR timeout is negative");
    for name in ["a b", "a\nb", "a\r", "\t", "é"] {
        for option in ["lib-name", "LIB-VER"] {
            let answer = wire.ask(&["CLIENT", "SETINFO", option, name]);
            let says = format!(
                "-ERR {} cannot contain spaces, newlines or special characters.",
                option.to_lowercase()
            );
            assert_eq!(answer, says, "{name:?}");
        }
    }
    assert_eq!(wire.ask(&["CLIENT", "SETINFO", "lib-name", "redis-py(x_v1)"]), "+OK");
    let keys = vec!["t"; 1001];
    let command = [&["XREAD", "STREAMS"][..], &keys, &vec!["0"; 1001]].concat();
    assert!(
        wire.ask(&command)
            .starts_with("-ERR an XREAD reads 1000 streams at most")
    );
}
