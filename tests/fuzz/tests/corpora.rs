//! Every input a fuzz run has kept, and every one that once was a finding, through its target.

use fuzz::TARGETS;
use std::path::Path;

#[test]
fn every_input_of_every_corpus_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/fuzz");
    for target in TARGETS {
        let mut inputs: Vec<_> = std::fs::read_dir(root.join(target.name))
            .unwrap_or_else(|error| panic!("no corpus of {}: {error}", target.name))
            .map(|entry| entry.expect("a folder entry").path())
            .collect();
        inputs.sort();
        assert!(inputs.len() >= 10, "{} inputs for {}", inputs.len(), target.name);
        for input in inputs {
            let data = std::fs::read(&input).expect("an input");
            println!("{}", input.display()); // shown if it fails
            target.check(&data);
        }
    }
}
