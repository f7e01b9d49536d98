//! Apache Kafka's recorded answers against this build's: a difference without a reason fails, and so does a reason without
//! a difference.

use differential::tessari::Tessari;
use differential::{allowed, recording, run};
use std::path::Path;

#[test]
fn answers_are_kafkas_or_differ_for_a_reason() {
    let chosen = run::chosen(&[]);
    let names: Vec<&str> = {
        let mut names: Vec<&str> = chosen.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names, recording::recorded(&recording::folder()).unwrap());
    let kafka = run::recorded(&chosen).unwrap();
    let exchanges: usize = kafka.values().map(Vec::len).sum();
    assert!(exchanges >= 500, "{exchanges} exchanges are recorded");

    let mut store = Tessari::start(Path::new(env!("CARGO_BIN_EXE_tessaridb"))).unwrap();
    let ours = run::all(store.address, &chosen).unwrap();
    assert!(store.alive(), "{}", store.log());
    let found = run::differences(&kafka, &ours).unwrap();
    assert!(
        run::judge(&found, true).unwrap(),
        "see above: cargo run -p differential -- replay"
    );
    allowed::check_document(&allowed::rows().unwrap(), chosen.len(), exchanges).unwrap();
}
