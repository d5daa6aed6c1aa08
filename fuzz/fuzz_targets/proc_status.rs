//! `/proc/PID/status`: no panic, and lines that are unknown or empty change nothing.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::pid_status::{self, PidStatus};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = value(text, pid_status::switches(text));
    let Some(status) = value(text, PidStatus::parse(text)) else {
        return;
    };
    assert_eq!(
        PidStatus::parse(&[b"\nUnheardOf:\tof\n", text, b"\n"].concat()),
        Ok(status)
    );
});
