#![no_main]
//! libFuzzer over [`fuzz::TESSARIQL`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::TESSARIQL.check(data));
