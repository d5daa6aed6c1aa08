//! A counter below zero makes its own line unreadable, and no other line, in every file that
//! consists of lines.
#![allow(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use faultline_kernel::parse::{
    cgroup::{CpuStat, MemoryEvents, MemoryStat},
    diskstats,
    memory::{Meminfo, Vmstat},
    network,
    pid::PidIo,
    pid_status::{self, PidStatus},
};
use std::fmt::Debug;

/// The number -4096 as the kernel prints it: as a signed or as an unsigned type.
const BELOW_ZERO: [&str; 2] = ["-4096", "18446744073709547520"];

/// A parser, whose result is compared as text.
type Parser = fn(&str) -> String;

fn shown<T: Debug, E: Debug>(result: Result<T, E>) -> String {
    format!("{:?}", result.unwrap())
}

/// Files that have one value or one device on a line.
const FILES: [(&str, Parser, &str); 11] = [
    (
        "memory.stat",
        |text| shown(MemoryStat::parse(text.as_bytes())),
        include_str!("text/v2/memory.stat"),
    ),
    (
        "memory.stat of version 1",
        |text| shown(MemoryStat::parse_v1(text.as_bytes())),
        include_str!("text/linux-6.18/v1_memory.stat"),
    ),
    (
        "memory.events",
        |text| shown(MemoryEvents::parse(text.as_bytes())),
        "low 0\nhigh 5\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n",
    ),
    (
        "cpu.stat",
        |text| shown(CpuStat::parse(text.as_bytes())),
        "usage_usec 30\nnr_periods 4\nnr_throttled 2\nthrottled_usec 1500\n",
    ),
    (
        "meminfo",
        |text| shown(Meminfo::parse(text.as_bytes())),
        include_str!("text/linux-6.18/meminfo"),
    ),
    (
        "vmstat",
        |text| shown(Vmstat::parse(text.as_bytes())),
        include_str!("text/linux-6.18/vmstat"),
    ),
    (
        "io",
        |text| shown(PidIo::parse(text.as_bytes())),
        include_str!("text/linux-6.18/pid_io"),
    ),
    (
        "status",
        |text| shown(PidStatus::parse(text.as_bytes())),
        include_str!("text/linux-6.18/pid_status"),
    ),
    (
        "status of a thread",
        |text| shown(pid_status::switches(text.as_bytes())),
        include_str!("text/linux-6.18/pid_status"),
    ),
    (
        "diskstats",
        |text| shown(diskstats::parse(text.as_bytes())),
        include_str!("text/linux-6.18/diskstats"),
    ),
    (
        "net/dev",
        |text| shown(network::interfaces(text.as_bytes())),
        include_str!("text/linux-6.18/net_dev"),
    ),
];

/// Position of the first counter of a line. The text before it names the line.
fn counter(file: &str, line: &str) -> Option<(usize, usize)> {
    let from = match file {
        "diskstats" => {
            let name = line.split_whitespace().nth(2)?;
            line.find(name)? + name.len()
        }
        "net/dev" => line.rfind(": ")?,
        _ => line.find([':', ' '])?,
    };
    let start = from + line[from..].find(|c: char| c.is_ascii_digit())?;
    let end = line[start..].find(|c: char| !c.is_ascii_digit());
    Some((start, end.map_or(line.len(), |end| start + end)))
}

#[test]
fn a_negative_counter_discards_only_its_own_line() {
    let mut lost = 0;
    for (file, parse, text) in FILES {
        let whole = parse(text);
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let Some((start, end)) = counter(file, line) else {
                continue;
            };
            let with = |line: &str| {
                let mut lines = lines.clone();
                lines[number] = line;
                parse(&(lines.join("\n") + "\n"))
            };
            // An empty line is skipped.
            let without = with("");
            lost += u32::from(without != whole);
            for below_zero in BELOW_ZERO {
                let line = format!("{}{below_zero}{}", &line[..start], &line[end..]);
                assert_eq!(with(&line), without, "{file}: {line}");
            }
        }
    }
    assert!(lost > 90, "only {lost} lines matter");
}
