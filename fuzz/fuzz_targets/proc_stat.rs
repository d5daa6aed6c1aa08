//! `/proc/PID/stat`: no panic, the name is one that stands in the text, and a newline changes nothing.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::pid_stat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Some(stat) = value(text, pid_stat::parse(text)) else {
        return;
    };
    let named = [b"(", stat.comm.as_bytes()].concat();
    assert!(text.windows(named.len()).any(|window| window == named));
    assert_eq!(pid_stat::parse(&[text, b"\n"].concat()), Ok(stat));
});
