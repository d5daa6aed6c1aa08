//! The files of a cgroup, v1 and v2: no panic, sums that do not overflow, and errors that name a line of the text.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::{
    cgroup::{self, CpuStat, Limit, MemoryEvents, MemoryStat},
    number,
};
use libfuzzer_sys::fuzz_target;

// Every parser gets every text: that costs little, and a seed needs no mark that says whose it is.
fuzz_target!(|text: &[u8]| {
    for stat in [MemoryStat::parse_v1(text), MemoryStat::parse(text)] {
        value(text, stat).map(|stat| stat.droppable_bytes());
    }
    value(text, cgroup::io_v1(text));
    value(text, cgroup::io_v2(text));
    value(text, MemoryEvents::parse(text));
    value(text, cgroup::frozen_v1(text));
    value(text, cgroup::frozen_v2(text));
    value(text, CpuStat::parse(text));
    if let Some(Limit::Bytes(bytes)) = value(text, Limit::parse(text)) {
        assert_eq!(number(text), Ok(bytes));
    }
});
