use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::*;
use crate::ErrorKind;

fn cgroups(version: CgroupVersion, top: &Path, relative: &str) -> ProcessCgroups {
    let folder = Ok(CgroupFolder {
        version,
        folder: Arc::from(top.join(relative)),
        mount_point: Arc::from(top),
        path: format!("/{relative}"),
    });
    ProcessCgroups {
        memory: folder.clone(),
        cpu: folder.clone(),
        io: folder.clone(),
        freezer: folder.clone(),
        unified: folder,
    }
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

fn levels_of(files: &mut CgroupFiles) -> CgroupLevels {
    let mut buffer = Vec::new();
    let own = files.sample(true, &mut buffer);
    files.levels(&own, &mut buffer).unwrap()
}

const V2_STAT: &str = include_str!("../../../tests/text/v2/memory.stat");

fn v2_tree() -> (tempfile::TempDir, PathBuf, CgroupFiles) {
    let top = tempfile::tempdir().unwrap();
    let own = top.path().join("sol.slice/sol.service");
    write(
        &own,
        &[
            ("memory.max", "max\n"),
            ("memory.stat", V2_STAT),
            ("memory.current", "4096\n"),
        ],
    );
    let files = CgroupFiles::new(&cgroups(
        CgroupVersion::V2,
        top.path(),
        "sol.slice/sol.service",
    ));
    (top, own, files)
}

#[test]
fn v2_files_become_one_sample() {
    let (_top, own, mut files) = v2_tree();
    write(
        &own,
        &[
            ("memory.peak", "8192\n"),
            ("memory.high", "1000000\n"),
            ("memory.swap.current", "12\n"),
            ("memory.swap.max", "0\n"),
            (
                "memory.events",
                "low 0\nhigh 5\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n",
            ),
            (
                "io.stat",
                "259:0 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n",
            ),
            ("cpu.stat", "usage_usec 9\nthrottled_usec 8\n"),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
            ),
        ],
    );
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(
        (sample.memory_usage, sample.memory_peak),
        (Ok(4096), Ok(8192))
    );
    assert_eq!(
        (sample.memory_max, sample.memory_high),
        (Ok(Limit::Max), Ok(Limit::Bytes(1_000_000)))
    );
    assert_eq!(
        (sample.swap_usage, sample.swap_max),
        (Ok(12), Ok(Limit::Bytes(0)))
    );
    assert_eq!(sample.memory_events.unwrap().max, Some(17));
    assert_eq!(sample.io.unwrap().len(), 1);
    assert_eq!(
        sample.cpu.unwrap().throttled,
        Some(Duration::from_micros(8))
    );
    assert_eq!(
        sample.memory_pressure.unwrap().some,
        Some(Duration::from_micros(3))
    );
    assert_eq!(
        sample.memory_and_swap_max.unwrap_err().kind(),
        ErrorKind::Absent
    );
    assert_eq!(sample.io_pressure.unwrap_err().kind(), ErrorKind::Absent);
}

#[test]
fn v1_files_become_the_same_sample() {
    let top = tempfile::tempdir().unwrap();
    let stat = include_str!("../../../tests/text/linux-6.18/v1_memory.stat");
    write(
        top.path(),
        &[
            ("memory.usage_in_bytes", "4096\n"),
            ("memory.max_usage_in_bytes", "8192\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.memsw.limit_in_bytes", "1000000\n"),
            ("memory.stat", stat),
            ("memory.kmem.usage_in_bytes", "600\n"),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            ),
            ("memory.failcnt", "89\n"),
            (
                "blkio.throttle.io_service_bytes",
                "8:0 Read 1\n8:0 Write 2\nTotal 3\n",
            ),
            (
                "cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 5\n",
            ),
        ],
    );
    let mut files = CgroupFiles::new(&cgroups(CgroupVersion::V1, top.path(), ""));
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(
        (sample.memory_usage, sample.memory_peak),
        (Ok(4096), Ok(8192))
    );
    assert_eq!(
        (sample.memory_max, sample.memory_and_swap_max),
        (Ok(Limit::Max), Ok(Limit::Bytes(1_000_000)))
    );
    assert_eq!(sample.swap_usage, Ok(0));
    assert_eq!(sample.memory_stat.unwrap().kernel, Some(600));
    let events = sample.memory_events.unwrap();
    assert_eq!(
        (events.max, events.oom_kill, events.oom),
        (Some(89), Some(3), None)
    );
    assert_eq!(
        sample.io.unwrap()[0].write_bytes,
        2,
        "the local form stands in for the recursive one"
    );
    assert_eq!(sample.cpu.unwrap().throttled, Some(Duration::from_nanos(5)));
    assert_eq!(sample.memory_high.unwrap_err().kind(), ErrorKind::Absent);
    assert_eq!(sample.cpu_pressure.unwrap_err().kind(), ErrorKind::Absent);
}

#[test]
fn one_broken_file_affects_no_other() {
    let (_top, own, mut files) = v2_tree();
    write(&own, &[("memory.stat", "anon lots\n")]);
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(sample.memory_stat.unwrap_err().kind(), ErrorKind::Broken);
    assert_eq!(sample.memory_usage, Ok(4096));
}

#[test]
fn limits_of_the_last_sample_are_repeated_while_the_cgroup_is_there() {
    let (top, own, mut files) = v2_tree();
    let slice = top.path().join("sol.slice");
    let mut buffer = Vec::new();
    let mut limits = |all: bool| {
        let sample = files.sample(all, &mut buffer);
        let levels = files.levels(&sample, &mut buffer).unwrap();
        (
            sample.memory_usage.ok(),
            sample.memory_max.ok(),
            levels.limits.iter().map(|level| level.limit).min(),
        )
    };
    let bytes = |limit| Some(Limit::Bytes(limit));
    let slice_files = [("memory.current", "4500\n"), ("memory.stat", V2_STAT)];
    write(&slice, &slice_files);
    write(&slice, &[("memory.max", "8192\n")]);
    assert_eq!(
        limits(false),
        (Some(4096), Some(Limit::Max), Some(8192)),
        "the first sample"
    );
    write(&slice, &[("memory.max", "6000\n")]);
    write(
        &own,
        &[("memory.max", "5000\n"), ("memory.current", "4097\n")],
    );
    assert_eq!(limits(false), (Some(4097), Some(Limit::Max), Some(8192)));
    assert_eq!(limits(true), (Some(4097), bytes(5000), Some(5000)));
    write(
        &own,
        &[("memory.max", "4500\n"), ("memory.current", "gone\n")],
    );
    assert_eq!(
        limits(false),
        (None, bytes(4500), Some(6000)),
        "none outlives its cgroup"
    );
}

#[test]
fn a_cgroup_that_was_removed_is_gone() {
    let (_top, own, mut files) = v2_tree();
    fs::remove_dir_all(&own).unwrap();
    let mut buffer = Vec::new();
    assert_eq!(
        files
            .sample(true, &mut buffer)
            .memory_usage
            .unwrap_err()
            .kind(),
        ErrorKind::Gone
    );
    let levels = levels_of(&mut files);
    assert_eq!(levels.limits, []);
    assert_eq!(levels.errors[0].kind(), ErrorKind::Gone);
}

#[test]
fn a_missing_hierarchy_gives_its_reason_for_each_value() {
    let mut located = cgroups(CgroupVersion::V2, Path::new("/nowhere"), "x");
    let reason = ReadError::absent(PathBuf::from("/proc/7/cgroup"), "no such hierarchy");
    located.memory = Err(reason.clone());
    let mut files = CgroupFiles::new(&located);
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(
        (&sample.memory_usage, &sample.memory_stat),
        (&Err(reason.clone()), &Err(reason.clone()))
    );
    assert_eq!(files.levels(&sample, &mut Vec::new()), Err(reason));
}

#[test]
fn a_cgroup_is_frozen_by_any_freezer_but_the_root_never_is() {
    let host = tempfile::tempdir().unwrap();
    let (v2, v1) = (host.path().join("unified"), host.path().join("freezer"));
    let own = ProcessCgroups {
        freezer: cgroups(CgroupVersion::V1, &v1, "sol").freezer,
        ..cgroups(CgroupVersion::V2, &v2, "sol")
    };
    let frozen = |own: &ProcessCgroups| CgroupFiles::new(own).sample(true, &mut Vec::new()).frozen;
    assert_eq!(frozen(&own), Ok(None), "nothing is mounted");
    for (events, state, expected) in [
        ("0", "THAWED", false),
        ("0", "FROZEN", true),
        ("1", "THAWED", true),
    ] {
        write(
            &v2.join("sol"),
            &[("cgroup.events", &format!("populated 1\nfrozen {events}\n"))],
        );
        write(&v1.join("sol"), &[("freezer.state", &format!("{state}\n"))]);
        assert_eq!(frozen(&own), Ok(Some(expected)), "{events} {state}");
    }
    assert_eq!(
        frozen(&cgroups(CgroupVersion::V2, &v2, "")),
        Ok(Some(false))
    );
    write(&v2.join("sol"), &[("cgroup.events", "populated 1\n")]);
    assert_eq!(
        frozen(&cgroups(CgroupVersion::V2, &v2, "sol")),
        Ok(None),
        "before Linux 5.2"
    );
    fs::remove_file(v2.join("sol/cgroup.events")).unwrap();
    assert_eq!(frozen(&own).unwrap_err().kind(), ErrorKind::Absent);
}
