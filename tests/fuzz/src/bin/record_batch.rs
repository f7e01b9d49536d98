#![no_main]
//! libFuzzer over [`fuzz::RECORD_BATCH`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::RECORD_BATCH.check(data));
