//! An independent reader, the `procfs` crate, must find the same in the same text.

#![expect(clippy::unwrap_used, reason = "a witness that cannot read fails its test")]

use std::io::Cursor;

use faultline_kernel::parse;
use faultline_kernel::parse::pid_stat::State;
use procfs::{Current, CurrentSI, FromRead};

const STAT: &[u8] = include_bytes!("text/linux-6.18/pid_stat");
const STATUS: &[u8] = include_bytes!("text/linux-6.18/pid_status");
const MEMINFO: &[u8] = include_bytes!("text/linux-6.18/meminfo");
const VMSTAT: &[u8] = include_bytes!("text/linux-6.18/vmstat");
const MOUNTS: &[u8] = include_bytes!("text/linux-6.18/mountinfo");

fn witness<T: FromRead>(text: &[u8]) -> T {
    T::from_read(Cursor::new(text)).unwrap()
}

#[test]
fn both_read_the_same_stat() {
    let live = std::fs::read("/proc/self/stat").unwrap();
    for text in [STAT, &live] {
        let ours = parse::pid_stat::parse(text).unwrap();
        let theirs: procfs::process::Stat = witness(text);
        assert_eq!((i64::from(ours.pid), ours.comm.to_string()), (i64::from(theirs.pid), theirs.comm));
        // The main thread of a test may be waiting for the others.
        let state = if theirs.state == 'S' { State::Sleeping } else { State::Running };
        assert_eq!((ours.state, "RS".contains(theirs.state)), (state, true));
        assert_eq!(i64::from(ours.ppid), i64::from(theirs.ppid));
        assert_eq!((ours.minflt, ours.majflt), (theirs.minflt, theirs.majflt));
        assert_eq!((ours.utime_ticks, ours.stime_ticks), (theirs.utime, theirs.stime));
        assert_eq!(ours.num_threads, u64::try_from(theirs.num_threads).unwrap());
        assert_eq!((ours.start_ticks, ours.vsize, ours.rss_pages), (theirs.starttime, Some(theirs.vsize), theirs.rss));
        assert_eq!(Some(ours.delayacct_blkio_ticks), theirs.delayacct_blkio_ticks);
    }
}

#[test]
fn both_read_the_same_status() {
    let live = std::fs::read("/proc/self/status").unwrap();
    let bytes = |kib: Option<u64>| kib.map(|kib| kib * 1024);
    for text in [STATUS, &live] {
        let ours = parse::pid_status::parse(text).unwrap();
        let theirs: procfs::process::Status = witness(text);
        assert_eq!(ours.rss_anon, bytes(theirs.rssanon));
        assert_eq!(ours.rss_file, bytes(theirs.rssfile));
        assert_eq!(ours.rss_shmem, bytes(theirs.rssshmem));
        assert_eq!(ours.vm_swap, bytes(theirs.vmswap));
        assert_eq!(ours.vm_pte, bytes(theirs.vmpte));
        assert_eq!(
            (ours.vm_size, ours.vm_rss, ours.vm_hwm),
            (bytes(theirs.vmsize), bytes(theirs.vmrss), bytes(theirs.vmhwm))
        );
        assert_eq!(ours.hugetlb_pages, bytes(theirs.hugetlbpages));
        assert_eq!(ours.threads, Some(theirs.threads));
        assert_eq!((ours.uid, ours.effective_uid), (Some(theirs.ruid), Some(theirs.euid)));
        assert_eq!(ours.voluntary_ctxt_switches, theirs.voluntary_ctxt_switches);
        assert_eq!(ours.nonvoluntary_ctxt_switches, theirs.nonvoluntary_ctxt_switches);
    }
}

#[test]
fn both_read_the_same_io() {
    let text = std::fs::read("/proc/self/io").unwrap();
    let ours = parse::pid_io::parse(&text).unwrap();
    let theirs: procfs::process::Io = witness(&text);
    assert_eq!((ours.rchar, ours.wchar), (Some(theirs.rchar), Some(theirs.wchar)));
    assert_eq!((ours.read_bytes, ours.write_bytes), (Some(theirs.read_bytes), Some(theirs.write_bytes)));
    assert_eq!((ours.syscr, ours.syscw), (Some(theirs.syscr), Some(theirs.syscw)));
}

#[test]
fn both_read_the_same_limits() {
    let text = std::fs::read("/proc/self/limits").unwrap();
    let ours = parse::pid_limits::parse(&text).unwrap();
    let theirs: procfs::process::Limits = witness(&text);
    let value = |limit| match limit {
        procfs::process::LimitValue::Unlimited => None,
        procfs::process::LimitValue::Value(value) => Some(value),
    };
    let theirs = theirs.max_open_files;
    assert_eq!((ours.soft, ours.hard), (value(theirs.soft_limit), value(theirs.hard_limit)));
}

#[test]
fn both_read_the_same_memory_of_the_host() {
    let ours = parse::meminfo::parse(MEMINFO).unwrap();
    let theirs: procfs::Meminfo = witness(MEMINFO);
    assert_eq!((ours.total, ours.free), (Some(theirs.mem_total), Some(theirs.mem_free)));
    assert_eq!((ours.available, ours.cached), (theirs.mem_available, Some(theirs.cached)));
    assert_eq!((ours.dirty, ours.writeback), (Some(theirs.dirty), Some(theirs.writeback)));
    assert_eq!((ours.swap_total, ours.swap_free), (Some(theirs.swap_total), Some(theirs.swap_free)));
    assert_eq!((ours.slab_reclaimable, ours.slab_unreclaimable), (theirs.s_reclaimable, theirs.s_unreclaim));
}

#[test]
fn both_read_the_same_counters_of_the_host() {
    let ours = parse::vmstat::parse(VMSTAT).unwrap();
    let theirs: procfs::VmStat = witness(VMSTAT);
    let find = |key: &str| theirs.0.get(key).and_then(|&value| u64::try_from(value).ok());
    assert_eq!(ours.pgfault, find("pgfault"));
    assert_eq!(ours.pgmajfault, find("pgmajfault"));
    assert_eq!((ours.pswpin, ours.pswpout), (find("pswpin"), find("pswpout")));
    assert_eq!(ours.oom_kill, find("oom_kill"));
    assert_eq!(ours.pgscan_direct, find("pgscan_direct"));
    assert_eq!(ours.workingset_refault_file, find("workingset_refault_file"));
}

#[test]
fn both_read_the_same_pressure() {
    let text = include_bytes!("text/linux-6.18/pressure_io");
    let ours = parse::pressure::parse(text).unwrap();
    let theirs: procfs::IoPressure = witness(text);
    assert_eq!(ours.some.as_micros(), u128::from(theirs.some.total));
    assert_eq!(ours.full.unwrap().as_micros(), u128::from(theirs.full.total));
}

#[test]
fn both_read_the_same_mounts() {
    let ours = parse::mountinfo::parse(MOUNTS).unwrap();
    let theirs: procfs::process::MountInfos = witness(MOUNTS);
    assert_eq!(ours.len(), theirs.0.len());
    for (ours, theirs) in ours.iter().zip(&theirs.0) {
        assert_eq!(ours.mount_point, theirs.mount_point);
        assert_eq!((ours.root.to_str().unwrap(), &ours.fs_type), (theirs.root.as_str(), &theirs.fs_type));
        assert!(theirs.super_options.keys().all(|option| ours.super_options.contains(option.as_str())));
        assert!(theirs.mount_options.keys().all(|option| ours.options.contains(option.as_str())));
        let numbers = (theirs.mnt_id.cast_unsigned(), theirs.pid.cast_unsigned());
        assert_eq!((ours.id, ours.parent), (numbers.0.into(), numbers.1.into()));
        assert_eq!(
            (ours.device.to_string(), Some(&ours.source)),
            (theirs.majmin.clone(), theirs.mount_source.as_ref())
        );
    }
}

#[test]
fn both_find_the_same_processors() {
    let text = std::fs::read("/proc/cpuinfo").unwrap();
    let ours = parse::cpuinfo::parse(&text).unwrap();
    let theirs = procfs::CpuInfo::current().unwrap();
    assert_eq!((ours.threads, ours.model.as_deref()), (theirs.num_cores() as u64, theirs.model_name(0)));
    let sockets: std::collections::BTreeSet<u32> =
        (0..theirs.num_cores()).filter_map(|n| theirs.physical_id(n)).collect();
    assert_eq!(ours.sockets.unwrap_or_default(), sockets.len() as u64);
}

#[test]
fn both_read_the_same_cgroups() {
    let text = b"4:memory:/validator\n2:cpu,cpuacct:/a:b\n0::/v\n";
    let ours = parse::pid_cgroup::parse(text).unwrap();
    let theirs: procfs::ProcessCGroups = witness(text);
    for (ours, theirs) in ours.iter().zip(&theirs.0) {
        assert_eq!(ours.path, theirs.pathname);
        assert_eq!(ours.unified, theirs.hierarchy == 0);
    }
}

#[test]
fn both_read_the_same_locks() {
    let text =
        b"1: POSIX  ADVISORY  WRITE 4822 fe:00:9977988 0 EOF\n2: FLOCK  ADVISORY  WRITE 4822 103:02:9977980 0 EOF\n";
    let ours = parse::locks::parse(text).unwrap();
    let theirs: procfs::Locks = witness(text);
    assert_eq!((ours.len(), theirs.0.len()), (2, 2));
    for (ours, theirs) in ours.iter().zip(&theirs.0) {
        assert_eq!(ours.device, (theirs.devmaj, theirs.devmin));
        assert_eq!((ours.inode, ours.pid.map(|pid| pid.cast_signed())), (theirs.inode, theirs.pid));
    }
}

#[test]
fn both_read_the_same_boot_time() {
    let text = std::fs::read("/proc/stat").unwrap();
    let theirs = procfs::KernelStats::current().unwrap();
    assert_eq!(parse::boot_time::parse(&text), Ok(theirs.btime));
}
