//! A short run of tests/chaos with what needs no rights: kill -9 and SIGSTOP. The long ones are run by hand.

use chaos::{Plan, Tools};
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn members_that_are_killed_and_stopped_lose_nothing() {
    run(Duration::from_secs(20), Tools::default());
}

fn run(length: Duration, tools: Tools) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let outcome = chaos::run(&Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_tessaridb")),
        folder: folder.path().to_path_buf(),
        members: 3,
        length,
        seed: 20,
        tools,
        clock: None,
    })
    .expect("a run");
    if !outcome.wrong.is_empty() {
        let history = folder.keep().join("history");
        panic!("{:#?}\n{}", outcome.wrong, history.display());
    }
    assert!(outcome.steps > 1 && outcome.acknowledged > 0, "{outcome:?}");
}

/// By hand, as root: every fault that this machine can do but clocks.
#[test]
#[ignore = "takes minutes, and rights to make network namespaces and disks"]
fn members_that_are_cut_off_slowed_and_filled_lose_nothing() {
    assert!(chaos::namespaces_are_possible(), "not here");
    run(
        Duration::from_secs(120),
        Tools {
            net: true,
            disk: true,
            clock: false,
        },
    );
}
