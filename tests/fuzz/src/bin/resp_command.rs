#![no_main]
//! libFuzzer over [`fuzz::RESP_COMMAND`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::RESP_COMMAND.check(data));
