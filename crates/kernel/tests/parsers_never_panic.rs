//! The kernel's text is input: whatever it is, a parser answers with a value or an error.

use faultline_kernel::parse::{
    boot_time, cgroup_events, cgroup_frozen, cgroup_io, cgroup_limit, cgroup_memory_stat, choice,
    cpu_stat, cpu_times, cpuinfo, diskstats, interrupts, locks, meminfo, mountinfo, net_dev,
    number, os_release, pid_cgroup, pid_cmdline, pid_environ, pid_io, pid_limits, pid_schedstat,
    pid_stat, pid_status, pressure, swaps, udp_counters, udp_sockets, vmstat,
};
use proptest::prelude::*;

type Parser = (&'static str, fn(&[u8]));

macro_rules! parsers {
    ($($parse:path),* $(,)?) => {
        [$((stringify!($parse), |text| drop($parse(text)))),*]
    };
}

const PARSERS: [Parser; 40] = parsers![
    boot_time::parse,
    cgroup_events::parse,
    cgroup_frozen::parse_v1,
    cgroup_frozen::parse_v2,
    cgroup_io::parse_v1,
    cgroup_io::parse_v2,
    cgroup_limit::parse,
    cgroup_memory_stat::parse_v1,
    cgroup_memory_stat::parse_v2,
    choice::parse,
    cpu_stat::parse,
    cpu_times::parse,
    cpuinfo::parse,
    diskstats::parse,
    interrupts::parse,
    locks::parse,
    meminfo::parse,
    mountinfo::parse,
    net_dev::parse,
    number::parse,
    os_release::parse,
    number::parse_signed,
    pid_cgroup::parse,
    pid_cmdline::parse,
    pid_io::parse,
    pid_limits::parse,
    pid_limits::parse_all,
    pid_schedstat::parse,
    pid_stat::parse,
    pid_status::parse,
    pid_status::switches,
    pid_status::allowed_cpus,
    pid_status::allowed_mems,
    pid_status::effective_uid,
    pid_status::ignored_signals,
    pressure::parse,
    swaps::parse,
    udp_counters::parse,
    udp_sockets::parse,
    vmstat::parse,
];

/// What takes more than the text.
fn look_up(text: &[u8]) {
    drop(pid_environ::parse(text, |_| true));
    let mounts = mountinfo::parse(text).unwrap_or_default();
    for mount in &mounts {
        let _ = mountinfo::holding(&mounts, &mount.mount_point);
    }
}

const TEXTS: [&[u8]; 19] = [
    include_bytes!("text/linux-6.18/pid_stat"),
    include_bytes!("text/linux-6.18/pid_status"),
    include_bytes!("text/linux-6.18/pid_io"),
    include_bytes!("text/linux-6.18/pid_limits"),
    include_bytes!("text/linux-6.18/meminfo"),
    include_bytes!("text/linux-6.18/vmstat"),
    include_bytes!("text/linux-6.18/mountinfo"),
    include_bytes!("text/linux-6.18/pressure_io"),
    include_bytes!("text/linux-6.18/diskstats"),
    include_bytes!("text/linux-6.18/interrupts"),
    include_bytes!("text/linux-6.18/softirqs"),
    include_bytes!("text/linux-6.18/net_snmp"),
    include_bytes!("text/linux-6.18/net_dev"),
    b"  sl  local\n 11: 0100007F:1F90 0:0 07 0:33C00 00:0 0 1000 0 8451 2 00 17\n",
    include_bytes!("text/linux-6.18/v1_memory.stat"),
    b"1: FLOCK  ADVISORY  WRITE 4822 fe:00:9977980 0 EOF\n2: -> POSIX ADVISORY READ 1 0:0:1 0 EOF\n",
    b"processor\t: 0\nmodel name\t: EPYC\ncpu MHz\t: 2.5\nphysical id\t: 1\ncore id\t: 7\n",
    b"Filename Type Size Used Priority\n/dev/sda\\0402 partition 4 0 -2\nPRETTY_NAME=\"a\"\nalways [never]\nA=b\0C=\0",
    b"8:16 259:0 rbytes=1 wbytes=2 rios=3\n259:0 Read 4096\n0::/a\n4:memory:/b (deleted)\nmax\n",
];

/// A real text, cut and with some bytes replaced: far deeper in the parsers than noise gets.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let damage = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (0..TEXTS.len(), damage, any::<prop::sample::Index>()).prop_map(|(which, damage, cut)| {
        let mut text = TEXTS[which].to_vec();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text.truncate(cut.index(text.len()) + 1);
        text
    })
}

proptest! {
    #[test]
    fn any_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (_, parse) in PARSERS {
            parse(&text);
        }
        look_up(&text);
    }

    #[test]
    fn a_damaged_text_never_panics(text in damaged()) {
        for (_, parse) in PARSERS {
            parse(&text);
        }
        look_up(&text);
    }

    #[test]
    fn a_stat_line_keeps_any_name_and_any_numbers(
        comm in "[ -~]{0,15}", n in any::<[u64; 7]>(), pid in 0..=i32::MAX.cast_unsigned(), threads in 0..=i64::MAX.cast_unsigned(),
    ) {
        let line = format!(
            "{pid} ({comm}) S 1 2 3 4 -1 6 {} 8 {} 9 {} {} 1 1 20 0 {} 0 {} {} 5 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 {} 1 2\n",
            n[0], n[1], n[2], n[3], threads, n[4], n[5], n[6],
        );
        let stat = pid_stat::parse(line.as_bytes()).unwrap();
        prop_assert_eq!(stat.comm.as_bytes(), comm.as_bytes());
        // What is beyond was counted below zero.
        let count = |at: usize| Some(n[at]).filter(|value| i64::try_from(*value).is_ok());
        prop_assert_eq!((stat.pid, stat.minflt, stat.majflt, stat.utime_ticks), (pid, count(0), count(1), count(2)));
        prop_assert_eq!((stat.stime_ticks, stat.num_threads, stat.start_ticks, stat.vsize.unwrap_or(0)), (count(3), threads, n[4], count(5).unwrap_or(0)));
        prop_assert_eq!(stat.delayacct_blkio_ticks, count(6));
    }
}
