//! Compares the parsers with an independent reader of the same text. Where a parser uses
//! procfs-core, the independent reader only splits the text. Where it does not, the independent
//! reader is procfs-core.

#![expect(
    clippy::unwrap_used,
    reason = "a witness that cannot read fails its test"
)]

use std::collections::BTreeSet;

use faultline_kernel::parse::{self, pid_stat::State};
use procfs::FromRead;

const STAT: &str = include_str!("text/linux-6.18/pid_stat");
const STATUS: &str = include_str!("text/linux-6.18/pid_status");
const LIMITS: &str = include_str!("text/linux-6.18/pid_limits");
const MEMINFO: &str = include_str!("text/linux-6.18/meminfo");
const VMSTAT: &str = include_str!("text/linux-6.18/vmstat");
const PRESSURE: &str = include_str!("text/linux-6.18/pressure_io");
const MOUNTS: &[u8] = include_bytes!("text/linux-6.18/mountinfo");

fn live(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The number after a key, whatever is between them. A number in kilobytes is converted to bytes.
fn find(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.split([':', ' ']).next() == Some(key))?;
    let unit = if line.ends_with(" kB") { 1024 } else { 1 };
    Some(
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * unit,
    )
}

#[test]
fn pid_stat_parser_matches_an_independent_reading() {
    for text in [STAT, &live("/proc/self/stat"), &live("/proc/1/stat")] {
        let ours = parse::pid_stat::parse(text.as_bytes()).unwrap();
        let (head, tail) = text.trim_end().rsplit_once(") ").unwrap();
        let (pid, name) = head.split_once(" (").unwrap();
        assert_eq!(
            (ours.pid, ours.comm.to_string().as_str()),
            (pid.parse().unwrap(), name)
        );
        let fields: Vec<&str> = tail.split(' ').collect();
        let field = |number: usize| fields[number - 3].parse::<u64>().unwrap();
        // The main thread of a test may wait for other threads.
        let state = if fields[0] == "S" {
            State::Sleeping
        } else {
            State::Running
        };
        assert_eq!((ours.state, "RS".contains(fields[0])), (state, true));
        assert_eq!(
            (u64::from(ours.ppid), ours.is_exiting),
            (field(4), field(9) & 4 != 0)
        );
        assert_eq!(
            (ours.minflt, ours.majflt),
            (Some(field(10)), Some(field(12)))
        );
        assert_eq!(
            (ours.utime_ticks, ours.stime_ticks),
            (Some(field(14)), Some(field(15)))
        );
        assert_eq!((ours.num_threads, ours.start_ticks), (field(20), field(22)));
        assert_eq!(ours.vsize, Some(field(23)));
        assert_eq!(ours.delayacct_blkio_ticks, Some(field(42)));
    }
}

#[test]
fn pid_status_parser_matches_an_independent_reading() {
    // The status of a kernel thread has no memory.
    for text in [
        STATUS,
        &live("/proc/self/status"),
        &live("/proc/1/status"),
        &live("/proc/2/status"),
    ] {
        let ours = parse::pid_status::PidStatus::parse(text.as_bytes()).unwrap();
        assert_eq!(ours.rss_anon, find(text, "RssAnon"));
        assert_eq!(ours.rss_file, find(text, "RssFile"));
        assert_eq!(ours.rss_shmem, find(text, "RssShmem"));
        assert_eq!(
            (ours.vm_swap, ours.vm_pte),
            (find(text, "VmSwap"), find(text, "VmPTE"))
        );
        assert_eq!(
            (ours.vm_size, ours.vm_rss),
            (find(text, "VmSize"), find(text, "VmRSS"))
        );
        assert_eq!(
            parse::pid_status::effective_uid(text.as_bytes())
                .unwrap()
                .map(u64::from),
            find(text, "Uid")
        );
        let switches =
            ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].map(|key| find(text, key));
        assert_eq!(parse::pid_status::switches(text.as_bytes()), Ok(switches));
    }
}

#[test]
fn io_parser_matches_an_independent_reading() {
    let text = live("/proc/self/io");
    let ours = parse::pid::PidIo::parse(text.as_bytes()).unwrap();
    assert_eq!(
        (ours.read_bytes, ours.write_bytes),
        (find(&text, "read_bytes"), find(&text, "write_bytes"))
    );
}

#[test]
fn limits_parser_matches_an_independent_reading() {
    for text in [LIMITS, &live("/proc/self/limits")] {
        // The kernel pads the name and the limits to columns.
        let limits = text.lines().skip(1).map(|line| {
            let value = |column: &str| column.trim().parse::<u64>().ok();
            (
                line[4..25].trim().to_owned(),
                value(&line[26..46]),
                value(&line[47..67]),
            )
        });
        let theirs: Vec<_> = limits.collect();
        let ours = parse::pid::limits(text.as_bytes()).unwrap();
        let ours: Vec<_> = ours
            .into_iter()
            .map(|limit| (limit.name, limit.soft, limit.hard))
            .collect();
        assert_eq!(ours, theirs);
        let files = parse::pid::max_open_files(text.as_bytes()).unwrap();
        assert!(
            theirs
                .iter()
                .any(|(name, soft, _)| name == "open files" && *soft == files)
        );
    }
}

#[test]
fn meminfo_parser_matches_an_independent_reading() {
    for text in [MEMINFO, &live("/proc/meminfo")] {
        let ours = parse::memory::Meminfo::parse(text.as_bytes()).unwrap();
        assert!(ours.total > Some(0));
        assert_eq!(
            (ours.total, ours.free),
            (find(text, "MemTotal"), find(text, "MemFree"))
        );
        assert_eq!(
            (ours.available, ours.cached),
            (find(text, "MemAvailable"), find(text, "Cached"))
        );
        assert_eq!(
            (ours.dirty, ours.shmem),
            (find(text, "Dirty"), find(text, "Shmem"))
        );
        assert_eq!(
            (ours.swap_total, ours.swap_free),
            (find(text, "SwapTotal"), find(text, "SwapFree"))
        );
        assert_eq!(
            (ours.slab_reclaimable, ours.slab_unreclaimable),
            (find(text, "SReclaimable"), find(text, "SUnreclaim"))
        );
    }
}

#[test]
fn host_counter_parser_matches_an_independent_reading() {
    for text in [VMSTAT, &live("/proc/vmstat")] {
        let ours = parse::memory::Vmstat::parse(text.as_bytes()).unwrap();
        assert!(ours.pgfault > Some(0));
        assert_eq!(
            (ours.pgfault, ours.pgmajfault),
            (find(text, "pgfault"), find(text, "pgmajfault"))
        );
        assert_eq!(
            (ours.pswpin, ours.pswpout),
            (find(text, "pswpin"), find(text, "pswpout"))
        );
        assert_eq!(ours.oom_kill, find(text, "oom_kill"));
        assert_eq!(
            (ours.pgscan_kswapd, ours.pgscan_direct),
            (find(text, "pgscan_kswapd"), find(text, "pgscan_direct"))
        );
        assert_eq!(
            (ours.pgsteal_kswapd, ours.pgsteal_direct),
            (find(text, "pgsteal_kswapd"), find(text, "pgsteal_direct"))
        );
        assert_eq!(
            ours.workingset_refault_anon,
            find(text, "workingset_refault_anon")
        );
        assert_eq!(
            ours.workingset_refault_file,
            find(text, "workingset_refault_file")
        );
    }
}

#[test]
fn pressure_parser_matches_an_independent_reading() {
    let ours = parse::pressure::parse(PRESSURE.as_bytes()).unwrap();
    let total = |line: &str| {
        line.rsplit_once("total=")
            .unwrap()
            .1
            .parse::<u128>()
            .unwrap()
    };
    let theirs: Vec<u128> = PRESSURE.lines().map(total).collect();
    assert_eq!(
        [
            ours.some.unwrap().as_micros(),
            ours.full.unwrap().as_micros()
        ],
        theirs[..]
    );
}

#[test]
fn mountinfo_parser_matches_an_independent_reading() {
    let ours = parse::mountinfo::parse(MOUNTS).unwrap();
    let theirs = procfs::process::MountInfos::from_read(MOUNTS).unwrap();
    assert_eq!(ours.len(), theirs.0.len());
    for (ours, theirs) in ours.iter().zip(&theirs.0) {
        assert_eq!(ours.mount_point, theirs.mount_point);
        assert_eq!(
            (ours.root.to_str().unwrap(), &ours.fs_type),
            (theirs.root.as_str(), &theirs.fs_type)
        );
        assert!(
            theirs
                .super_options
                .keys()
                .all(|option| ours.super_options.contains(option.as_str()))
        );
        assert!(
            theirs
                .mount_options
                .keys()
                .all(|option| ours.options.contains(option.as_str()))
        );
        let numbers = (theirs.mnt_id.cast_unsigned(), theirs.pid.cast_unsigned());
        assert_eq!((ours.id, ours.parent), (numbers.0.into(), numbers.1.into()));
        assert_eq!(
            (ours.device.to_string(), Some(&ours.source)),
            (theirs.majmin.clone(), theirs.mount_source.as_ref())
        );
    }
}

#[test]
fn cpuinfo_parser_matches_an_independent_reading() {
    let text = live("/proc/cpuinfo");
    let ours = parse::cpu::CpuTopology::parse(text.as_bytes()).unwrap();
    let values = |key: &str| -> Vec<String> {
        let value = |line: &str| {
            line.split_once(':')
                .filter(|(its, _)| its.trim() == key)
                .map(|(_, value)| value.trim().to_owned())
        };
        text.lines().filter_map(value).collect()
    };
    let models = values("model name");
    assert_eq!(
        (ours.threads, ours.model.as_ref()),
        (values("processor").len() as u64, models.first())
    );
    let sockets: BTreeSet<String> = values("physical id").into_iter().collect();
    assert_eq!(ours.sockets.unwrap_or_default(), sockets.len() as u64);
}

#[test]
fn cgroup_parser_matches_an_independent_reading() {
    for text in [
        "4:memory:/validator\n2:cpu,cpuacct:/a:b\n0::/v\n",
        &live("/proc/self/cgroup"),
    ] {
        let ours = parse::cgroup::memberships(text.as_bytes()).unwrap();
        assert_eq!(ours.len(), text.lines().count());
        for (ours, line) in ours.iter().zip(text.lines()) {
            let fields: Vec<&str> = line.splitn(3, ':').collect();
            assert_eq!(
                (ours.controllers.join(",").as_str(), ours.path.as_str()),
                (fields[1], fields[2])
            );
            assert_eq!(ours.is_unified, line.starts_with("0::"));
        }
    }
}

#[test]
fn locks_parser_matches_an_independent_reading() {
    let text = "1: POSIX  ADVISORY  WRITE 4822 fe:00:9977988 0 EOF\n2: FLOCK  ADVISORY  WRITE 4822 103:02:9977980 0 EOF\n";
    let locks = parse::locks::parse(text.as_bytes()).unwrap();
    assert_eq!(locks.len(), 2);
    for (lock, line) in locks.iter().zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = format!("{:02x}:{:02x}:{}", lock.devmaj, lock.devmin, lock.inode);
        assert_eq!(
            (lock.lock_type.as_str(), file.as_str()),
            (words[1], words[5])
        );
        assert_eq!(
            lock.pid.map(|pid| pid.to_string()).as_deref(),
            Some(words[4])
        );
    }
}

#[test]
fn host_stat_parser_matches_an_independent_reading() {
    let text = live("/proc/stat");
    assert_eq!(parse::boot_time(text.as_bytes()).ok(), find(&text, "btime"));
    let busy = parse::cpu::busy_ticks(text.as_bytes()).unwrap();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(
        busy,
        Some(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6])
    );
}

#[test]
fn schedstat_parser_matches_an_independent_reading() {
    let text = live("/proc/self/schedstat");
    let ours = parse::pid::PidSchedstat::parse(text.as_bytes()).unwrap();
    let numbers: Vec<u128> = text
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(
        [
            ours.on_cpu.unwrap().as_nanos(),
            ours.run_queue_delay.unwrap().as_nanos(),
            ours.timeslices.unwrap().into()
        ],
        numbers[..]
    );
}
