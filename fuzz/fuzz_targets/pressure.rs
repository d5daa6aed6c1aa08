//! `/proc/pressure/*` and a cgroup's: no panic, and other lines change nothing.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::pressure;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Some(pressure) = value(text, pressure::parse(text)) else {
        return;
    };
    assert_eq!(
        pressure::parse(&[b"\nirq total=x\n", text, b"\n"].concat()),
        Ok(pressure)
    );
});
