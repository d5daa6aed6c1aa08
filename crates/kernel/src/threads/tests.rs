use std::path::PathBuf;

use super::*;
use crate::ErrorKind;

const STAT: &str = include_str!("../../tests/text/linux-6.18/pid_stat");

/// A pretend process 7 with these threads.
fn pretend(tids: &[u32]) -> (tempfile::TempDir, HostRoot, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = HostRoot::below(folder.path());
    let process = root.procfs.join("7");
    for tid in tids {
        let thread = process.join(format!("task/{tid}"));
        std::fs::create_dir_all(&thread).unwrap();
        std::fs::write(thread.join("stat"), STAT.replace("(cat)", "(solReplayStage)")).unwrap();
        std::fs::write(thread.join("schedstat"), "5 6 7\n").unwrap();
    }
    std::fs::write(process.join("stat"), STAT).unwrap();
    (folder, root, process.join("task"))
}

fn options(descriptors: usize) -> ThreadOptions {
    ThreadOptions { descriptors, with_switches: false }
}

#[test]
fn threads_come_in_the_order_of_their_numbers_whether_held_or_not() {
    for descriptors in [0, 3, 100] {
        let (_folder, root, _) = pretend(&[11, 7, 9]);
        let mut threads = Threads::open(&root, 7, options(descriptors)).unwrap();
        let tids: Vec<u32> = threads.sample().unwrap().iter().map(|thread| thread.tid).collect();
        assert_eq!(tids, [7, 9, 11]);
        let held = threads.known.iter().filter(|thread| thread.held.is_some()).count();
        assert_eq!(held, (descriptors / 2).min(3), "two descriptors for each thread");
    }
}

#[test]
fn a_sample_has_what_the_files_say() {
    let (_folder, root, _) = pretend(&[7]);
    let mut threads = Threads::open(&root, 7, options(2)).unwrap();
    let sample = threads.sample().unwrap()[0];
    assert_eq!((sample.comm.as_bytes(), sample.minflt, sample.start_ticks), (&b"solReplayStage"[..], 100, 89736));
    assert_eq!(sample.run_queue_delay, Some(Duration::from_nanos(6)));
    assert_eq!(sample.voluntary_switches, None);
}

#[test]
fn descriptors_of_ended_threads_serve_the_next_ones() {
    let (_folder, root, task) = pretend(&[7, 9]);
    let mut threads = Threads::open(&root, 7, options(4)).unwrap();
    assert_eq!((threads.sample().unwrap().len(), threads.spare), (2, 0));
    std::fs::remove_dir_all(task.join("9")).unwrap();
    assert_eq!((threads.sample().unwrap().len(), threads.spare), (1, 2));
    std::fs::create_dir(task.join("12")).unwrap();
    for name in ["stat", "schedstat"] {
        std::fs::copy(task.join("7").join(name), task.join("12").join(name)).unwrap();
    }
    assert_eq!((threads.sample().unwrap().len(), threads.spare), (2, 0));
}

#[test]
fn a_kernel_without_scheduler_statistics_leaves_the_delay_unknown() {
    let (_folder, root, task) = pretend(&[7]);
    std::fs::remove_file(task.join("7/schedstat")).unwrap();
    for descriptors in [0, 100] {
        let mut threads = Threads::open(&root, 7, options(descriptors)).unwrap();
        assert_eq!(threads.sample().unwrap()[0].run_queue_delay, None);
    }
}

#[test]
fn a_thread_the_kernel_is_letting_go_of_is_not_in_the_sample() {
    let (_folder, root, task) = pretend(&[7, 9]);
    std::fs::write(task.join("9/stat"), STAT.replace(") R ", ") X ")).unwrap();
    let mut threads = Threads::open(&root, 7, options(0)).unwrap();
    assert_eq!(threads.sample().unwrap().len(), 1);
}

#[test]
fn a_broken_text_names_the_thread_and_the_file() {
    let (_folder, root, task) = pretend(&[7]);
    std::fs::write(task.join("7/schedstat"), "never\n").unwrap();
    let mut threads = Threads::open(&root, 7, options(0)).unwrap();
    let error = threads.sample().unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Broken, task.join("7/schedstat").as_path()));
}

#[test]
fn steady_threads_are_read_without_allocation_of_new_room() {
    let (_folder, root, _) = pretend(&[7, 9, 11]);
    let mut threads = Threads::open(&root, 7, options(100)).unwrap();
    threads.sample().unwrap();
    let places = (threads.samples.as_ptr(), threads.known.as_ptr(), threads.buffer.as_ptr());
    threads.sample().unwrap();
    assert_eq!(places, (threads.samples.as_ptr(), threads.known.as_ptr(), threads.buffer.as_ptr()));
}
