//! A parser returns a value or an error for any text, because the kernel's text is input.

use faultline_kernel::parse::{
    boot_time,
    cgroup::{self, CpuStat, Limit, MemoryEvents, MemoryStat},
    cpu::{self, CpuTopology},
    diskstats, interrupts, locks,
    memory::{self, Meminfo, Vmstat},
    mountinfo,
    network::{self, UdpCounters},
    number, os_name,
    pid::{self, Environment, PidIo, PidSchedstat},
    pid_stat,
    pid_status::{self, PidStatus},
    pressure, selected_word, signed_number,
};
use proptest::prelude::*;

type Parser = (&'static str, fn(&[u8]));

macro_rules! parsers {
    ($($parse:path),* $(,)?) => {
        [$((stringify!($parse), |text| drop($parse(text)))),*]
    };
}

const PARSERS: &[Parser] = &parsers![
    boot_time,
    MemoryEvents::parse,
    cgroup::frozen_v1,
    cgroup::frozen_v2,
    cgroup::io_v1,
    cgroup::io_v2,
    Limit::parse,
    MemoryStat::parse_v1,
    MemoryStat::parse,
    selected_word,
    CpuStat::parse,
    cpu::busy_ticks,
    CpuTopology::parse,
    diskstats::parse,
    interrupts::parse,
    locks::parse,
    Meminfo::parse,
    mountinfo::parse,
    network::interfaces,
    number,
    os_name,
    signed_number,
    cgroup::memberships,
    pid::cmdline,
    PidIo::parse,
    pid::max_open_files,
    pid::limits,
    PidSchedstat::parse,
    pid_stat::parse,
    PidStatus::parse,
    pid_status::switches,
    pid_status::allowed_cpus,
    pid_status::allowed_mems,
    pid_status::effective_uid,
    pid_status::ignored_signals,
    pressure::parse,
    memory::swaps,
    UdpCounters::parse,
    network::udp_sockets,
    Vmstat::parse,
];

/// Calls the parsers that need more than the text.
fn look_up(text: &[u8]) {
    drop(Environment::parse(text, |_| true));
    let mounts = mountinfo::parse(text).unwrap_or_default();
    for mount in &mounts {
        let _ = mountinfo::mount_of_path(&mounts, &mount.mount_point);
    }
}

const TEXTS: &[&[u8]] = &[
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

/// A real text that is cut, with some bytes replaced. It reaches deeper into the parsers than noise
/// does.
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
        // A number beyond `i64` was counted below zero.
        let count = |at: usize| Some(n[at]).filter(|value| i64::try_from(*value).is_ok());
        prop_assert_eq!((stat.pid, stat.minflt, stat.majflt, stat.utime_ticks), (pid, count(0), count(1), count(2)));
        prop_assert_eq!((stat.stime_ticks, stat.num_threads, stat.start_ticks, stat.vsize.unwrap_or(0)), (count(3), threads, n[4], count(5).unwrap_or(0)));
        prop_assert_eq!(stat.delayacct_blkio_ticks, count(6));
    }
}
