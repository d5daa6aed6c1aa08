//! Any lines as what a validator writes of its program cache: read without a panic, and with no more lookups than its uses.
#![no_main]

use faultline_cache::fuzzing::count_lookups;
use libfuzzer_sys::fuzz_target;

/// Of a program in one batch: a word of a line.
const MAX_USES: usize = 64;

const BEGIN: &[u8] = b"trace 1 agave-validator 2.1.14\nthread 0 solScHandle07\n\
program 0 SysvarC1ock11111111111111111111111111111111\nprogram 1 BPFLoader2111111111111111111111111111111111\n";

fuzz_target!(|bytes: &[u8]| {
    for text in [bytes, &[BEGIN, bytes].concat()] {
        if let Ok(lookups) = count_lookups(text) {
            assert!(lookups <= text.len() / 2 * MAX_USES, "{lookups} lookups");
        }
    }
});
