//! The attribute's grammar under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| local_map_fuzz::attribute(bytes));
