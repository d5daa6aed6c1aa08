//! The other files of a process, a thread and the host: no panic, and errors that name a line of the text.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::{
    boot_time, cpu_times, cpuinfo, meminfo, number, pid_cmdline, pid_io, pid_limits, pid_schedstat,
    vmstat,
};
use libfuzzer_sys::fuzz_target;

// Every parser gets every text: that costs little, and a seed needs no mark that says whose it is.
fuzz_target!(|text: &[u8]| {
    value(text, boot_time::parse(text));
    value(text, cpu_times::parse(text));
    value(text, cpuinfo::parse(text));
    value(text, meminfo::parse(text));
    value(text, pid_cmdline::parse(text));
    value(text, pid_io::parse(text));
    value(text, pid_limits::parse(text));
    value(text, pid_limits::parse_all(text));
    value(text, pid_schedstat::parse(text));
    value(text, vmstat::parse(text));
    let unsigned = value(text, number::parse(text)).and_then(|n| i64::try_from(n).ok());
    let signed = value(text, number::parse_signed(text));
    assert!(unsigned.is_none() || unsigned == signed);
});
