//! One target for each decoder of bytes from outside. A target panics on anything that must not be: a panic of the decoder,
//! two ways to one answer that disagree, something accepted that cannot be read, or more memory than its budget.
//!
//! ```text
//!   tests/data/fuzz/<target>/   the corpus: replayed by `cargo test`, grown by `tests/fuzz/run <target> <minutes>`
//! ```

mod allocation;
mod kafka_frame;
mod record_batch;
mod resp_command;
mod tessariql;

/// A decoder under test.
pub struct Target {
    /// Name of its corpus and of its libFuzzer binary (`fuzz-<name>`).
    pub name: &'static str,
    run: fn(&[u8]),
    /// Most bytes of heap it may hold at a time, for so many bytes of input.
    budget: fn(usize) -> usize,
}

/// `record`: whether a produced batch may be stored, and reading it back.
pub const RECORD_BATCH: Target = Target {
    name: "record_batch",
    run: record_batch::run,
    // The cap on decompression it runs with, the largest lz4 block, and copies of the input made here.
    budget: |len| (16 << 20) + 32 * len,
};

/// `ql`: scripts.
pub const TESSARIQL: Target = Target {
    name: "tessariql",
    run: tessariql::run,
    budget: |len| (1 << 20) + 1024 * len,
};

/// `kafka`: a request frame, from its header to what a handler would get.
pub const KAFKA_FRAME: Target = Target {
    name: "kafka_frame",
    run: kafka_frame::run,
    // A struct of fifteen bytes may hold a map of tagged fields. Decoded twice and encoded once here.
    budget: |len| (256 << 10) + 256 * len,
};

/// `resp`: commands, however they are cut.
pub const RESP_COMMAND: Target = Target {
    name: "resp_command",
    run: resp_command::run,
    // An argument of six bytes is a vector here, three times over.
    budget: |len| (64 << 10) + 64 * len,
};

/// All of them.
pub const TARGETS: [&Target; 4] = [&RECORD_BATCH, &TESSARIQL, &KAFKA_FRAME, &RESP_COMMAND];

impl Target {
    /// Runs the target on one input.
    ///
    /// # Panics
    /// On a finding.
    pub fn check(&self, data: &[u8]) {
        let peak = allocation::peak(|| (self.run)(data));
        let budget = (self.budget)(data.len());
        assert!(
            peak <= budget,
            "{}: {peak} bytes of heap for {} of input, {budget} at most",
            self.name,
            data.len()
        );
    }
}
