//! A stop, and kill -9.

use super::node;
use super::wire::Wire;

#[test]
fn a_stop_answers_reads_that_wait_and_closes() {
    let mut node = node();
    let mut wire = Wire::connect(node.resp);
    wire.send(&["XREAD", "BLOCK", "0", "STREAMS", "t", "$"]).expect("taken");
    // Once it is answered on another connection that came later, the first one was read.
    assert_eq!(Wire::connect(node.resp).ask(&["PING"]), "+PONG");
    assert!(node.terminate().success(), "{}", node.log());
    // A read that had not begun by then is closed without an answer.
    let answer = wire.next();
    assert!(answer.is_none() || answer.as_deref() == Some("*-1"), "{answer:?}");
    assert!(wire.is_closed());
}

#[test]
fn kill_9_takes_nothing_that_an_xadd_was_answered_for() {
    let mut node = node();
    let mut answered: Vec<(String, u64)> = Vec::new();
    let mut next = 0u64;
    for round in 0..3 {
        let mut wire = Wire::connect(node.resp);
        let before = answered.len();
        let mut sent = std::collections::VecDeque::new();
        // Always some on their way.
        while answered.len() < before + 150 {
            while sent.len() < 20 {
                wire.send(&["XADD", "t", "*", "n", &next.to_string()]).expect("taken");
                sent.push_back(next);
                next += 1;
            }
            let id = wire.next().expect("an answer");
            assert!(!id.starts_with('-'), "{id}");
            answered.push((id, sent.pop_front().expect("sent")));
        }
        node.kill();
        // What was answered before the end came counts, too.
        while let (Some(id), Some(n)) = (wire.next(), sent.pop_front()) {
            answered.push((id, n));
        }
        node.restart();
        let mut wire = Wire::connect(node.resp);
        for (id, n) in &answered {
            let held = wire.ask(&["XRANGE", "t", id, id]);
            assert_eq!(held, format!("[[{id} [n {n}]]]"), "round {round}");
        }
        let length: usize = wire.ask(&["XLEN", "t"])[1..].parse().expect("a number");
        assert!(length >= answered.len() && length <= next as usize, "{length}");
    }
    let mut ids: Vec<&String> = answered.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), answered.len(), "no id is given twice");
}
