//! The other files of a process, a thread and the host: no panic, and errors that name a line of the text.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::{
    boot_time,
    cpu::{self, CpuTopology},
    memory::{Meminfo, Vmstat},
    number,
    pid::{self, PidIo, PidSchedstat},
    signed_number,
};
use libfuzzer_sys::fuzz_target;

// Every parser gets every text: that costs little, and a seed needs no mark that says whose it is.
fuzz_target!(|text: &[u8]| {
    value(text, boot_time(text));
    value(text, cpu::busy_ticks(text));
    value(text, CpuTopology::parse(text));
    value(text, Meminfo::parse(text));
    value(text, pid::cmdline(text));
    value(text, PidIo::parse(text));
    value(text, pid::max_open_files(text));
    value(text, pid::limits(text));
    value(text, PidSchedstat::parse(text));
    value(text, Vmstat::parse(text));
    let unsigned = value(text, number(text)).and_then(|n| i64::try_from(n).ok());
    let signed = value(text, signed_number(text));
    assert!(unsigned.is_none() || unsigned == signed);
});
