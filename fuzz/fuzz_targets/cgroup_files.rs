//! The files of a cgroup, v1 and v2: no panic, sums that do not overflow, and errors that name a line of the text.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::Limit;
use faultline_kernel::parse::{
    cgroup_events, cgroup_frozen, cgroup_io, cgroup_limit, cgroup_memory_stat, cpu_stat, number,
};
use libfuzzer_sys::fuzz_target;

// Every parser gets every text: that costs little, and a seed needs no mark that says whose it is.
fuzz_target!(|text: &[u8]| {
    for stat in [
        cgroup_memory_stat::parse_v1(text),
        cgroup_memory_stat::parse_v2(text),
    ] {
        value(text, stat).map(|stat| stat.droppable_bytes());
    }
    value(text, cgroup_io::parse_v1(text));
    value(text, cgroup_io::parse_v2(text));
    value(text, cgroup_events::parse(text));
    value(text, cgroup_frozen::parse_v1(text));
    value(text, cgroup_frozen::parse_v2(text));
    value(text, cpu_stat::parse(text));
    if let Some(Limit::Bytes(bytes)) = value(text, cgroup_limit::parse(text)) {
        assert_eq!(number::parse(text), Ok(bytes));
    }
});
