//! Limits, and the state of a cgroup under them.

use crate::scene::{PATIENCE, Scene, end_of};
use faultline_runner::isolation::{CpuSet, End, IoLimit, Job, Limits};
use faultline_testkit::eventually::eventually;
use std::{fs, path::PathBuf};

const MIB: u64 = 1 << 20;

/// All limits that this host supports. The memory limit is not a multiple of the page size.
fn all(scene: &Scene) -> Limits {
    let can = scene.launcher.abilities();
    let root = IoLimit {
        device: PathBuf::from("/"),
        read_bytes: Some(500 * MIB),
        write_bytes: None,
        read_operations: None,
        write_operations: Some(100_000),
    };
    // A root file system without a disk cannot be limited.
    let io = can.io && fs::metadata("/sys/dev/block").is_ok() && has_disk();
    Limits {
        memory_max: Some(96 * MIB + 123),
        memory_high: can.memory_high.then_some(80 * MIB),
        swap_max: can.swap_max.then_some(0),
        cpus: can.cpus.then(|| CpuSet::parse("0").expect("a CPU")),
        io: if io { vec![root] } else { Vec::new() },
    }
}

fn has_disk() -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata("/").expect("a root folder").dev();
    let number = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    fs::metadata(PathBuf::from("/sys/dev/block").join(number)).is_ok()
}

pub fn read_back(scene: &Scene) {
    let limits = all(scene);
    let launched = scene.launch(&scene.gated(Job {
        limits: limits.clone(),
        ..scene.job(&["sleep", "1000"])
    }));
    let locked = launched.limits().expect("limits are read back");
    assert_eq!(limits.differences(&locked), [""; 0]);
    assert_eq!(locked.memory_max, Some(96 * MIB), "{locked:?}");
    let other = Limits {
        memory_max: Some(95 * MIB),
        ..limits
    };
    assert_eq!(other.differences(&locked).len(), 1, "{locked:?}");
    launched.close().expect("it is closed");
}

pub fn none(scene: &Scene) {
    let launched = scene.launch(&scene.job(&["sleep", "1000"]));
    assert_eq!(
        launched.limits().expect("limits are read back"),
        Limits::default()
    );
    launched.close().expect("it is closed");
}

pub fn cpus_hold(scene: &Scene) {
    if !scene.launcher.abilities().cpus {
        return eprintln!("SKIPPED: CPUs cannot be limited here");
    }
    let limits = Limits {
        cpus: Some(CpuSet::parse("0").expect("a CPU")),
        ..Limits::default()
    };
    let launched = scene.run_limited(
        "grep Cpus_allowed_list /proc/self/status; sleep 1000",
        limits,
    );
    scene.says("Cpus_allowed_list:\t0\n");
    launched.close().expect("it is closed");
}

pub fn refused(scene: &Scene) {
    let refused = |limits: Limits| {
        scene.refused(&scene.gated(Job {
            limits,
            ..scene.job(&["true"])
        }))
    };
    if !scene.launcher.abilities().memory_high {
        let error = refused(Limits {
            memory_high: Some(64 * MIB),
            ..Limits::default()
        });
        assert!(error.contains("memory_high"), "{error}");
    }
    let no_device = IoLimit {
        device: "/nonexistent/device".into(),
        read_bytes: Some(MIB),
        write_bytes: None,
        read_operations: None,
        write_operations: None,
    };
    let error = refused(Limits {
        memory_max: Some(64 * MIB),
        io: vec![no_device],
        ..Limits::default()
    });
    assert!(
        error.contains("/nonexistent/device") || !scene.launcher.abilities().io,
        "{error}"
    );
}

pub fn out_of_memory(scene: &Scene) {
    let swap_max = scene.launcher.abilities().swap_max.then_some(0);
    let limits = Limits {
        memory_max: Some(32 * MIB),
        swap_max,
        ..Limits::default()
    };
    // Without an end of line it keeps all that it reads.
    let mut launched = scene.run_limited("exec tail /dev/zero", limits.clone());
    assert_eq!(end_of(&mut *launched), End::Signal(9), "{}", scene.output());
    let cgroup_state = launched.close().expect("it is closed");
    assert!(
        cgroup_state
            .memory_events
            .get("oom_kill")
            .is_some_and(|kills| *kills >= 1),
        "{cgroup_state:?}"
    );
    let met = ["max", "failcnt", "memsw_failcnt"].map(|name| cgroup_state.memory_events.get(name));
    assert!(
        met.iter().flatten().all(|times| **times > 0),
        "a limit that was not met killed: {cgroup_state:?}"
    );
    assert_eq!(cgroup_state.end, Some(End::Signal(9)));
    assert!(
        scene.launcher.name() != "systemd" || cgroup_state.result.as_deref() == Some("oom-kill"),
        "{cgroup_state:?}"
    );
    assert!(
        cgroup_state
            .memory_peak
            .is_none_or(|peak| peak > 24 * MIB && peak <= 32 * MIB),
        "{cgroup_state:?}"
    );

    let mut launched = scene.run_limited("exec sleep 1000", limits.clone());
    let pid = i32::try_from(launched.pid())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
    assert_eq!(end_of(&mut *launched), End::Signal(9));
    let cgroup_state = launched.close().expect("it is closed");
    assert_eq!(
        cgroup_state.memory_events.get("oom_kill"),
        Some(&0),
        "{cgroup_state:?}"
    );
    assert!(cgroup_state.result.is_none_or(|result| result == "signal"));

    // A shell outlives the program that it started.
    let mut launched = scene.run_limited("tail /dev/zero; sleep 1000", limits);
    eventually(PATIENCE, "a kill by the limit", || {
        let cgroup_state = launched.cgroup_state().expect("the state is read");
        cgroup_state
            .memory_events
            .get("oom_kill")
            .filter(|kills| **kills == 1)
            .copied()
    });
    launched.close().expect("it is closed");
}

pub fn cgroup_state_after_the_end(scene: &Scene) {
    let limits = Limits {
        memory_max: Some(128 * MIB),
        ..Limits::default()
    };
    // 40 MB without an end of line, kept until the end of what is read.
    let mut launched = scene.run_limited("head -c 40000000 /dev/zero | tail | wc -c", limits);
    assert_eq!(end_of(&mut *launched), End::Code(0));
    scene.says("40000000");
    for cgroup_state in [
        launched.cgroup_state().expect("the state is read"),
        launched.close().expect("it is closed"),
    ] {
        assert_eq!(cgroup_state.end, Some(End::Code(0)));
        assert_eq!(
            cgroup_state.memory_events.get("oom_kill"),
            Some(&0),
            "{cgroup_state:?}"
        );
        assert!(
            cgroup_state
                .memory_peak
                .is_none_or(|peak| (30 * MIB..=128 * MIB).contains(&peak)),
            "{cgroup_state:?}"
        );
        assert!(
            cgroup_state
                .memory_current
                .is_some_and(|current| current < 30 * MIB),
            "{cgroup_state:?}"
        );
        assert!(
            cgroup_state.anon.is_some_and(|anon| anon < 10 * MIB),
            "{cgroup_state:?}"
        );
        assert_eq!(
            scene.launcher.abilities().pressure,
            cgroup_state.pressure.contains_key("memory"),
            "{cgroup_state:?}"
        );
    }
}

pub fn slowed_down(scene: &Scene) {
    if !scene.launcher.abilities().memory_high {
        return eprintln!("SKIPPED: nothing is slowed down here, only killed");
    }
    // Page cache can be taken back, so that it ends; in memory alone it might not.
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    let limits = Limits {
        memory_high: Some(16 * MIB),
        ..Limits::default()
    };
    let script = format!(
        "dd if=/dev/zero of={}/file bs=1M count=48",
        folder.path().display()
    );
    let mut launched = scene.run_limited(&script, limits);
    assert_eq!(end_of(&mut *launched), End::Code(0), "{}", scene.output());
    let cgroup_state = launched.close().expect("it is closed");
    assert!(
        cgroup_state
            .memory_events
            .get("high")
            .is_some_and(|times| *times > 0),
        "{cgroup_state:?}"
    );
    assert_eq!(
        cgroup_state.memory_events.get("oom_kill"),
        Some(&0),
        "{cgroup_state:?}"
    );
}

pub fn moved(scene: &Scene) {
    let mut launched = scene.run_limited("exec sleep 1000", Limits::default());
    let mut set_memory_limit = |memory| {
        launched
            .set_memory_limit(memory)
            .expect("the limit is moved")
    };
    assert_eq!(set_memory_limit(Some(64 * MIB + 123)), Some(64 * MIB));
    assert_eq!(set_memory_limit(Some(60 * MIB)), Some(60 * MIB));
    assert_eq!(set_memory_limit(Some(96 * MIB)), Some(96 * MIB));
    let limits = launched.limits().expect("limits are read back");
    assert_eq!(
        limits.memory_high.or(limits.memory_max),
        Some(96 * MIB),
        "{limits:?}"
    );
    assert_eq!(
        launched
            .set_memory_limit(None)
            .expect("the limit is lifted"),
        None
    );
    assert_eq!(
        launched.limits().expect("limits are read back"),
        Limits::default()
    );
    launched.close().expect("it is closed");
}

pub fn moved_without_a_kill(scene: &Scene) {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    // 48 MiB of page cache, then 40 MB in memory until its input ends.
    let script = format!(
        "dd if=/dev/zero of={}/file bs=1M count=48 conv=fsync; echo written; \
         (head -c 40000000 /dev/zero; echo kept >&2; sleep 1000) | tail -n 2",
        folder.path().display()
    );
    let mut launched = scene.run_limited(&script, Limits::default());
    scene.says("written");
    scene.says("kept");
    let read = |launched: &mut Box<dyn faultline_runner::isolation::Launched>| {
        launched.cgroup_state().expect("the state is read")
    };
    eventually(PATIENCE, "40 MB", || {
        read(&mut launched).anon.filter(|anon| *anon > 36 * MIB)
    });
    // Dirty pages need the disk before they can be reclaimed.
    eventually(PATIENCE, "page cache that is reclaimed", || {
        launched
            .set_memory_limit(Some(56 * MIB))
            .expect("the limit is moved");
        read(&mut launched)
            .memory_current
            .filter(|current| *current <= 57 * MIB)
    });
    // Less than what cannot be reclaimed: it is slow, or the limit stays; nothing ends.
    let locked = launched
        .set_memory_limit(Some(24 * MIB))
        .expect("the limit is moved or stays");
    let slows = scene.launcher.abilities().memory_high;
    assert!(
        if slows {
            locked == Some(24 * MIB)
        } else {
            locked.is_some_and(|locked| locked > 36 * MIB)
        },
        "{locked:?}"
    );
    assert_eq!(
        launched
            .set_memory_limit(None)
            .expect("the limit is lifted"),
        None
    );
    let cgroup_state = launched.close().expect("it is closed");
    assert_eq!(
        cgroup_state.memory_events.get("oom_kill"),
        Some(&0),
        "{cgroup_state:?}"
    );
}
