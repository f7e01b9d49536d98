#![no_main]
//! libFuzzer over [`fuzz::KAFKA_FRAME`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::KAFKA_FRAME.check(data));
