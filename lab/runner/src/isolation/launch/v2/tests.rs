use super::*;
use std::path::PathBuf;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn limits_are_parsed_in_the_kernels_format() {
    let folder = folder(&[
        ("memory.max", "67108864\n"),
        ("memory.high", "max\n"),
        ("memory.swap.max", "0\n"),
        ("cpuset.cpus", "0-3\n"),
        ("cpuset.cpus.effective", "0-1\n"),
        (
            "io.max",
            "254:16 rbps=1048576 wbps=max riops=max wiops=100\n",
        ),
    ]);
    let limits = limits(folder.path(), &[]).unwrap();
    assert_eq!(limits.memory_max, Some(64 << 20));
    assert_eq!(limits.memory_high, None);
    assert_eq!(limits.swap_max, Some(0));
    assert_eq!(limits.cpus.unwrap().to_string(), "0-1");
    let [io] = limits.io.as_slice() else {
        panic!("{:?}", limits.io)
    };
    assert_eq!(io.device, PathBuf::from("/dev/block/254:16"));
    assert_eq!((io.read_bytes, io.write_bytes), (Some(1 << 20), None));
    assert_eq!((io.read_operations, io.write_operations), (None, Some(100)));
}

#[test]
fn missing_files_and_an_empty_cpu_set_mean_no_limit() {
    let folder = folder(&[
        ("cpuset.cpus", "\n"),
        ("cpuset.cpus.effective", "0-1\n"),
        ("io.max", ""),
    ]);
    assert_eq!(limits(folder.path(), &[]).unwrap(), Limits::default());
}

#[test]
fn an_invalid_limit_text_is_an_error_naming_its_file() {
    for (name, text) in [
        ("memory.max", "much"),
        ("cpuset.cpus", "a"),
        ("io.max", "8 rbps=1"),
        ("io.max", "8:0 rbps=x"),
    ] {
        let folder = folder(&[(name, text)]);
        let error = limits(folder.path(), &[]).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn v2_cgroup_state_contains_only_existing_values() {
    let folder = folder(&[
        (
            "memory.events",
            "low 0\nhigh 12\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n",
        ),
        ("memory.peak", "70000000\n"),
        ("memory.stat", "anon 4096\nfile 8192\n"),
        (
            "memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
        ),
    ]);
    let state = cgroup_state(folder.path()).unwrap();
    assert_eq!(state.memory_events.get("oom_kill"), Some(&1));
    assert_eq!(state.memory_events.get("high"), Some(&12));
    assert_eq!(state.memory_peak, Some(70_000_000));
    assert_eq!(state.memory_current, None);
    assert_eq!((state.anon, state.file), (Some(4096), Some(8192)));
    assert_eq!(state.pressure.len(), 1);
    assert_eq!(
        state.pressure["memory"],
        Pressure {
            some_us: 7,
            full_us: 5
        }
    );
}

#[test]
fn a_removed_group_is_an_error_without_state() {
    assert!(cgroup_state(Path::new("/nonexistent/cgroup")).is_err());
}
