use std::{fs, path::PathBuf};

use super::*;
use crate::ErrorKind;

const STAT: &str = include_str!("../../tests/text/linux-6.18/pid_stat");

/// A simulated process 7 with these threads.
fn simulated_process(tids: &[u32]) -> (tempfile::TempDir, HostRoot, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = HostRoot::below(folder.path());
    let process = root.procfs.join("7");
    for tid in tids {
        let thread = process.join(format!("task/{tid}"));
        fs::create_dir_all(&thread).unwrap();
        fs::write(
            thread.join("stat"),
            STAT.replace("(cat)", "(solReplayStage)"),
        )
        .unwrap();
        fs::write(thread.join("schedstat"), "5 6 7\n").unwrap();
    }
    fs::write(process.join("stat"), STAT).unwrap();
    (folder, root, process.join("task"))
}

#[test]
fn threads_are_sorted_by_tid_with_or_without_open_descriptors() {
    for max_descriptors in [0, 3, 100] {
        let (_folder, root, _) = simulated_process(&[11, 7, 9]);
        let mut threads = Threads::open(&root, 7, max_descriptors).unwrap();
        let tids: Vec<u32> = threads
            .sample(ReadDepth::AllThatRan)
            .unwrap()
            .map(|thread| thread.tid)
            .collect();
        assert_eq!(tids, [7, 9, 11]);
        let open = threads
            .threads
            .iter()
            .filter(|thread| thread.open.is_some())
            .count();
        assert_eq!(
            open,
            (max_descriptors / 2).min(3),
            "two descriptors for each thread"
        );
    }
}

#[test]
fn a_thread_sample_contains_the_values_of_its_files() {
    let (_folder, root, _) = simulated_process(&[7]);
    let mut threads = Threads::open(&root, 7, 2).unwrap();
    let sample = threads
        .sample(ReadDepth::AllThatRan)
        .unwrap()
        .next()
        .unwrap();
    assert_eq!(
        (sample.comm.as_bytes(), sample.minflt, sample.start_ticks),
        (&b"solReplayStage"[..], 100, 89736)
    );
    assert_eq!(sample.on_cpu, Some(Duration::from_nanos(5)));
    assert_eq!(sample.run_queue_delay, Some(Duration::from_nanos(6)));
    assert_eq!(sample.voluntary_switches, None);
}

#[test]
fn descriptors_of_ended_threads_are_reused() {
    let (_folder, root, task) = simulated_process(&[7, 9]);
    let mut threads = Threads::open(&root, 7, 4).unwrap();
    assert_eq!(
        (
            threads.sample(ReadDepth::AllThatRan).unwrap().count(),
            threads.free_descriptors
        ),
        (2, 0)
    );
    fs::remove_dir_all(task.join("9")).unwrap();
    assert_eq!(
        (
            threads.sample(ReadDepth::AllThatRan).unwrap().count(),
            threads.free_descriptors
        ),
        (1, 2)
    );
    fs::create_dir(task.join("12")).unwrap();
    for name in ["stat", "schedstat"] {
        fs::copy(task.join("7").join(name), task.join("12").join(name)).unwrap();
    }
    assert_eq!(
        (
            threads.sample(ReadDepth::AllThatRan).unwrap().count(),
            threads.free_descriptors
        ),
        (2, 0)
    );
}

#[test]
fn a_kernel_without_scheduler_statistics_leaves_delay_and_time_unknown() {
    let (_folder, root, task) = simulated_process(&[7]);
    fs::remove_file(task.join("7/schedstat")).unwrap();
    for max_descriptors in [0, 100] {
        let mut threads = Threads::open(&root, 7, max_descriptors).unwrap();
        let sample = threads
            .sample(ReadDepth::AllCpuTimes)
            .unwrap()
            .next()
            .unwrap();
        assert_eq!((sample.run_queue_delay, sample.on_cpu), (None, None));
    }
}

#[test]
fn an_exiting_thread_is_not_in_the_sample() {
    let (_folder, root, task) = simulated_process(&[7, 9]);
    fs::write(task.join("9/stat"), STAT.replace(") R ", ") X ")).unwrap();
    let mut threads = Threads::open(&root, 7, 0).unwrap();
    assert_eq!(threads.sample(ReadDepth::AllThatRan).unwrap().count(), 1);
}

#[test]
fn a_thread_that_has_not_run_is_not_read_again() {
    let (_folder, root, task) = simulated_process(&[7]);
    let mut threads = Threads::open(&root, 7, 100).unwrap();
    let mut now = |schedstat: &str, minflt: &str, switches: u64| {
        fs::write(task.join("7/schedstat"), schedstat).unwrap();
        fs::write(task.join("7/stat"), STAT.replace(" 100 ", minflt)).unwrap();
        fs::write(
            task.join("7/status"),
            format!("voluntary_ctxt_switches:\t{switches}\n"),
        )
        .unwrap();
        let depth = if switches > 0 {
            ReadDepth::AllWithSwitches
        } else {
            ReadDepth::AllThatRan
        };
        let sample = threads.sample(depth).unwrap().next().unwrap();
        (sample.minflt, sample.voluntary_switches)
    };
    assert_eq!(now("5 6 7\n", " 100 ", 0), (100, None));
    assert_eq!(now("5 6 7\n", " 101 ", 0), (100, None), "idle");
    assert_eq!(now("6 6 7\n", " 101 ", 1), (101, Some(1)), "it ran");
    assert_eq!(now("6 6 7\n", " 102 ", 2), (101, Some(1)), "idle again");
    assert_eq!(now("6 6 8\n", " 102 ", 0), (102, None), "it ran");
    assert_eq!(
        now("6 6 8\n", " 103 ", 3),
        (102, Some(3)),
        "idle since, but not since its switches were read"
    );
    // Values of the kernel that do not count.
    assert_eq!(now("0 0 0\n", " 104 ", 0), (104, None));
    assert_eq!(now("0 0 0\n", " 105 ", 4), (105, Some(4)));
}

#[test]
fn a_mostly_idle_thread_has_new_times_and_cached_faults() {
    let (_folder, root, task) = simulated_process(&[7]);
    let mut threads = Threads::open(&root, 7, 100).unwrap();
    let mut now = |nanos: u64, minflt: &str, depth| {
        fs::write(task.join("7/schedstat"), format!("{nanos} {nanos} 7\n")).unwrap();
        fs::write(task.join("7/stat"), STAT.replace(" 100 ", minflt)).unwrap();
        let sample = threads.sample(depth).unwrap().next().unwrap();
        let times = [sample.on_cpu, sample.run_queue_delay];
        assert_eq!(times, [Some(Duration::from_nanos(nanos)); 2]);
        sample.minflt
    };
    assert_eq!(
        now(5, " 100 ", ReadDepth::AllCpuTimes),
        100,
        "the first sample"
    );
    assert_eq!(
        now(500_005, " 101 ", ReadDepth::AllCpuTimes),
        100,
        "it hardly ran"
    );
    assert_eq!(
        now(1_000_005, " 102 ", ReadDepth::AllCpuTimes),
        102,
        "a millisecond since the last stat"
    );
    assert_eq!(
        now(1_000_006, " 103 ", ReadDepth::AllCpuTimes),
        102,
        "it hardly ran"
    );
    assert_eq!(
        now(1_000_006, " 103 ", ReadDepth::AllThatRan),
        103,
        "it ran since the last stat"
    );
}

#[test]
fn an_idle_thread_is_read_only_by_deeper_samples() {
    let (_folder, root, task) = simulated_process(&[7]);
    let mut threads = Threads::open(&root, 7, 100).unwrap();
    let mut times = |nanos: u64, depth| {
        fs::write(task.join("7/schedstat"), format!("{nanos} {nanos} 7\n")).unwrap();
        let sample = threads.sample(depth).unwrap().next().unwrap();
        assert_eq!(sample.on_cpu, sample.run_queue_delay);
        sample.on_cpu.unwrap().as_nanos()
    };
    assert_eq!(times(5, ReadDepth::Active), 5, "the first sample");
    assert_eq!(times(5, ReadDepth::Active), 5, "a pause");
    assert_eq!(times(5, ReadDepth::AllCpuTimes), 5, "in the same tick");
    assert_eq!(times(6, ReadDepth::Active), 6);
    for _ in 0..IDLE_READS {
        assert_eq!(times(6, ReadDepth::AllThatRan), 6);
    }
    assert_eq!(times(6, ReadDepth::Active), 6);
    assert_eq!(times(7, ReadDepth::Active), 6, "idle");
    assert_eq!(times(8, ReadDepth::AllCpuTimes), 8, "it ran");
    assert_eq!(times(9, ReadDepth::Active), 9);
}

#[test]
fn a_renamed_thread_shows_its_new_name_within_a_millisecond_of_cpu() {
    let (_folder, root, task) = simulated_process(&[7]);
    let mut threads = Threads::open(&root, 7, 100).unwrap();
    let mut name_at = |nanos: u64| {
        fs::write(task.join("7/schedstat"), format!("{nanos} 6 7\n")).unwrap();
        threads
            .sample(ReadDepth::AllCpuTimes)
            .unwrap()
            .next()
            .unwrap()
            .comm
    };
    assert_eq!(name_at(5).as_bytes(), b"solReplayStage");
    fs::write(
        task.join("7/stat"),
        STAT.replace("(cat)", "(solScHandler00)"),
    )
    .unwrap();
    assert_eq!(name_at(900_000).as_bytes(), b"solReplayStage");
    assert_eq!(name_at(1_000_005).as_bytes(), b"solScHandler00");
}

#[test]
fn a_parse_error_names_the_thread_and_the_file() {
    let (_folder, root, task) = simulated_process(&[7]);
    fs::write(task.join("7/schedstat"), "never\n").unwrap();
    let mut threads = Threads::open(&root, 7, 0).unwrap();
    let error = threads.sample(ReadDepth::AllThatRan).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Broken);
    let named = format!("{}:1: ", task.join("7/schedstat").display());
    assert!(error.to_string().starts_with(&named), "{error}");
}

#[test]
fn steady_threads_are_read_without_allocation() {
    let (_folder, root, _) = simulated_process(&[7, 9, 11]);
    let mut threads = Threads::open(&root, 7, 100).unwrap();
    drop(threads.sample(ReadDepth::AllThatRan).unwrap());
    let addresses = (threads.threads.as_ptr(), threads.buffer.as_ptr());
    drop(threads.sample(ReadDepth::AllThatRan).unwrap());
    assert_eq!(
        addresses,
        (threads.threads.as_ptr(), threads.buffer.as_ptr())
    );
}
