use super::{
    super::{
        end::{OomKillWatch, host_oom_kills},
        target_handle::{FoundCgroup, OomKillCounts},
    },
    *,
};

const PROCESS: ProcessId = ProcessId {
    pid: 77,
    start_ticks: 100,
};

fn host_kills(host: Option<u64>) -> OomKillCounts {
    OomKillCounts {
        host,
        found_cgroup: None,
    }
}

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::from_secs(seconds),
    }
}

#[test]
fn a_cgroup_oom_kill_counts_for_a_minute_in_both_versions() {
    for (membership, events) in [
        (
            "0::/system.slice/sol.service\n",
            "sys/fs/cgroup/system.slice/sol.service/memory.events",
        ),
        (
            "4:memory:/sol\n0::/\n",
            "sys/fs/cgroup/memory/sol/memory.oom_control",
        ),
    ] {
        let host = host();
        host.write("proc/77/cgroup", membership).unwrap();
        host.write(events, "oom_kill 2\n").unwrap();
        let root = HostRoot::below(host.root());
        let mut kills = OomKillWatch::begin(&root, PROCESS);
        kills.update(&host_kills(host_oom_kills(&root)), at(11));
        assert!(
            !kills.has_recent_kill(at(11)),
            "kills before it was followed do not count: {events}"
        );
        host.write(events, "oom_kill 3\n").unwrap();
        kills.update(&host_kills(host_oom_kills(&root)), at(12));
        kills.update(&host_kills(host_oom_kills(&root)), at(40));
        assert!(kills.has_recent_kill(at(72)), "{events}");
        assert!(!kills.has_recent_kill(at(73)), "{events}");
    }
}

#[test]
fn a_host_oom_kill_counts_and_unreadable_counters_do_not() {
    let host = host();
    let root = HostRoot::below(host.root());
    let mut kills = OomKillWatch::begin(&root, PROCESS);
    host.write("proc/vmstat", "oom_kill 9\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(2));
    assert!(
        !kills.has_recent_kill(at(2)),
        "a count that appears has not risen"
    );
    host.write("proc/vmstat", "oom_kill x\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(3));
    host.write("proc/vmstat", "oom_kill 10\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(4));
    assert!(kills.has_recent_kill(at(4)));
}

#[test]
fn a_host_oom_kill_counts_only_if_the_cgroup_is_gone() {
    let host = host();
    let events = "sys/fs/cgroup/sol.service/memory.events";
    host.write("proc/77/cgroup", "0::/sol.service\n").unwrap();
    host.write(events, "oom_kill 0\n").unwrap();
    host.write("proc/vmstat", "oom_kill 9\n").unwrap();
    let root = HostRoot::below(host.root());
    let mut kills = OomKillWatch::begin(&root, PROCESS);
    host.write("proc/vmstat", "oom_kill 10\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(2));
    assert!(!kills.has_recent_kill(at(2)));
    // The file of a removed cgroup has no count.
    host.write(events, "").unwrap();
    std::fs::remove_file(host.root().join(events)).unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(3));
    assert!(!kills.has_recent_kill(at(3)), "seen before");
    host.write("proc/vmstat", "oom_kill 11\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(4));
    assert!(kills.has_recent_kill(at(4)));
}

#[test]
fn a_tick_older_than_the_process_start_shows_no_oom_kill() {
    let host = host();
    host.write("proc/vmstat", "oom_kill 6\n").unwrap();
    let root = HostRoot::below(host.root());
    let mut kills = OomKillWatch::begin(&root, PROCESS);
    kills.update(&host_kills(Some(5)), at(2));
    kills.update(&host_kills(None), at(3));
    kills.update(&host_kills(Some(6)), at(4));
    assert!(!kills.has_recent_kill(at(4)));
    kills.update(&host_kills(Some(7)), at(5));
    assert!(kills.has_recent_kill(at(5)));
}

#[test]
fn a_recreated_cgroup_starts_at_zero_without_an_oom_kill() {
    let host = host();
    let events = "sys/fs/cgroup/sol.service/memory.events";
    host.write("proc/77/cgroup", "0::/sol.service\n").unwrap();
    host.write(events, "oom_kill 2\n").unwrap();
    let root = HostRoot::below(host.root());
    let mut kills = OomKillWatch::begin(&root, PROCESS);
    host.write(events, "oom_kill 0\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(2));
    assert!(!kills.has_recent_kill(at(2)));
    host.write(events, "oom_kill 1\n").unwrap();
    kills.update(&host_kills(host_oom_kills(&root)), at(3));
    assert!(kills.has_recent_kill(at(3)));
}

#[test]
fn only_oom_kills_after_a_cgroup_move_count() {
    let host = host();
    let root = HostRoot::below(host.root());
    for cgroup in ["old", "new"] {
        let events = format!("sys/fs/cgroup/{cgroup}/memory.events");
        host.write(&events, "oom_kill 5\n").unwrap();
    }
    host.write("proc/77/cgroup", "0::/old\n").unwrap();
    let mut kills = OomKillWatch::begin(&root, PROCESS);
    host.write("proc/77/cgroup", "0::/new\n").unwrap();
    let found = |process| {
        Some(FoundCgroup {
            process,
            memory_folder: faultline_kernel::locate_cgroups(&root, 77)
                .unwrap()
                .memory
                .unwrap(),
            oom_kills: Some(8),
        })
    };
    let mut oom_counts = host_kills(None);
    host.write("sys/fs/cgroup/new/memory.events", "oom_kill 8\n")
        .unwrap();
    oom_counts.found_cgroup = found(PROCESS);
    kills.update(&oom_counts, at(2));
    assert!(!kills.has_recent_kill(at(2)));
    // The first update after the move may come after the kill.
    host.write("proc/77/cgroup", "0::/old\n").unwrap();
    let mut kills = OomKillWatch::begin(&root, PROCESS);
    host.write("sys/fs/cgroup/new/memory.events", "oom_kill 9\n")
        .unwrap();
    host.write("proc/77/cgroup", "0::/new\n").unwrap();
    oom_counts.found_cgroup = found(ProcessId {
        start_ticks: 1,
        ..PROCESS
    });
    kills.update(&oom_counts, at(2));
    assert!(!kills.has_recent_kill(at(2)), "of another process");
    oom_counts.found_cgroup = found(PROCESS);
    kills.update(&oom_counts, at(3));
    assert!(kills.has_recent_kill(at(3)));
}
