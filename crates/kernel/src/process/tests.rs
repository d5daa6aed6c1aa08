use super::*;
use crate::ErrorKind;
use std::fs;

const STAT: &str = include_str!("../../tests/text/linux-6.18/pid_stat");

/// A simulated host with process 7, whose folder has only the file `stat`.
fn simulated_host(stat: &str) -> (tempfile::TempDir, HostRoot, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = HostRoot::below(folder.path());
    let process = root.procfs.join("7");
    fs::create_dir_all(&process).unwrap();
    fs::write(process.join("stat"), stat).unwrap();
    (folder, root, process)
}

#[test]
fn a_file_missing_in_this_kernel_is_absent_without_affecting_others() {
    let (_folder, root, process) = simulated_host(STAT);
    let mut files = ProcessFiles::open(&root, 7).unwrap();
    assert_eq!(
        files.id(),
        ProcessId {
            pid: 7,
            start_ticks: 89736
        }
    );
    fs::write(process.join("oom_score"), "666\n").unwrap();
    fs::write(process.join("io"), "read_bytes: none\n").unwrap();
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(sample.stat.unwrap().minflt, Some(100));
    assert_eq!(
        sample.oom_and_fds.oom_score,
        Ok(666),
        "a file that appears later is found"
    );
    assert_eq!(sample.status.unwrap_err().kind(), ErrorKind::Absent);
    let broken = sample.io.unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::Broken);
    let named = format!("{}:", process.join("io").display());
    assert!(broken.to_string().starts_with(&named), "{broken}");
}

#[test]
fn limits_of_the_last_sample_are_repeated_while_the_process_is_there() {
    let (_folder, root, process) = simulated_host(STAT);
    let mut files = ProcessFiles::open(&root, 7).unwrap();
    let set = |soft: u64| {
        let line = format!(
            "Max open files            {soft}                 4096                 files\n"
        );
        fs::write(process.join("limits"), line).unwrap();
        fs::write(process.join("oom_score"), format!("{soft}\n")).unwrap();
    };
    let mut buffer = Vec::new();
    let values = |sample: ProcessSample| {
        let limits = sample.oom_and_fds;
        let soft = limits.max_fds.ok().flatten();
        (soft, limits.oom_score.ok())
    };
    let both = |value: u64| (Some(value), Some(value));
    set(1024);
    assert_eq!(values(files.sample(false, &mut buffer)), both(1024));
    set(2048);
    assert_eq!(values(files.sample(false, &mut buffer)), both(1024));
    assert_eq!(values(files.sample(true, &mut buffer)), both(2048));
    let zombie = STAT.replace(") R ", ") Z ");
    for (stat, value) in [(zombie.as_str(), 4096), ("gone\n", 8192)] {
        set(value);
        fs::write(process.join("stat"), stat).unwrap();
        let last = files.sample(false, &mut buffer);
        assert_eq!(
            values(last),
            both(value),
            "none outlives its process: {stat}"
        );
    }
}

#[test]
fn a_process_reusing_the_pid_is_not_the_same_process() {
    let (_folder, root, process) = simulated_host(STAT);
    let mut files = ProcessFiles::open(&root, 7).unwrap();
    fs::remove_dir_all(&process).unwrap();
    fs::create_dir(&process).unwrap();
    fs::write(process.join("oom_score"), "1\n").unwrap();
    assert_eq!(
        files
            .sample(true, &mut Vec::new())
            .oom_and_fds
            .oom_score
            .unwrap_err()
            .kind(),
        ErrorKind::Gone
    );
}

#[test]
fn a_process_being_torn_down_has_no_totals() {
    let (_folder, root, _) = simulated_host(&STAT.replace(") R ", ") X "));
    let mut files = ProcessFiles::open(&root, 7).unwrap();
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(
        (sample.stat.unwrap_err().kind(), sample.state),
        (ErrorKind::Gone, Some(pid_stat::State::Dead))
    );
}

#[test]
fn a_missing_process_is_gone() {
    let (_folder, root, _) = simulated_host(STAT);
    assert_eq!(
        ProcessFiles::open(&root, 8).unwrap_err().kind(),
        ErrorKind::Gone
    );
}

#[test]
fn without_its_main_thread_a_process_is_described_by_another_thread() {
    let ended = STAT.replace(" R ", " Z ");
    let fields: Vec<&str> = ended.split(' ').collect();
    let with_threads = |flags: &str, threads: &str| {
        let mut fields = fields.clone();
        (fields[8], fields[19]) = (flags, threads);
        fields.join(" ")
    };
    let (_folder, root, process) = simulated_host(&with_threads("4", "2"));
    fs::write(process.join("status"), "Name:\tx\nThreads:\t2\n").unwrap();
    fs::write(process.join("cmdline"), "").unwrap();
    // The size is the number of descriptors: 0 for a thread that has ended.
    fs::write(process.join("fd"), "").unwrap();
    for (thread, flags) in [("8", "4"), ("9", "0")] {
        let folder = process.join("task").join(thread);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stat"), with_threads(flags, "2")).unwrap();
        let status = "Name:\tx\nVmSize:\t8 kB\nRssAnon:\t4 kB\nThreads:\t2\n";
        fs::write(folder.join("status"), status).unwrap();
        fs::write(folder.join("cmdline"), format!("program\0{thread}\0")).unwrap();
        fs::write(folder.join("fd"), thread).unwrap();
    }
    let mut files = ProcessFiles::open(&root, 7).unwrap();
    assert_eq!(files.cmdline().unwrap(), ["program", "9"]);
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(sample.state, Some(State::Zombie));
    assert_eq!(sample.status.unwrap().rss_anon, Some(4096));
    assert_eq!(sample.oom_and_fds.open_fds, Ok(1));
    // The same for a thread whose files are open when the main thread ends, and when that thread
    // itself ends.
    fs::write(process.join("task/9/status"), "Name:\tx\n").unwrap();
    fs::write(process.join("task/8/stat"), with_threads("0", "2")).unwrap();
    let sample = files.sample(true, &mut Vec::new());
    assert_eq!(sample.status.unwrap().rss_anon, Some(4096));
    assert_eq!(files.cmdline().unwrap(), ["program", "8"]);
}
