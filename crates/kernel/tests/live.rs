//! Tests against the running kernel: what it reports about a process that the test controls.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Child, Command},
    sync::mpsc,
    thread::JoinHandle,
};

use faultline_kernel::{
    CgroupFiles, ErrorKind, HostConstants, HostFiles, HostRoot, Level, Limit, ProcessFiles,
    ReadDepth, ReadError, Threads, locate_cgroups,
};

/// Enough descriptors for all threads.
const MAX_OPEN_FILES: usize = 10_000;

#[expect(
    clippy::disallowed_methods,
    reason = "a process of the test's own to be read and killed"
)]
fn sleeper() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Threads that wait until this is dropped.
struct Waiting {
    ends: Vec<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Waiting {
    fn new(count: usize) -> Self {
        let mut waiting = Self { ends: Vec::new() };
        waiting.add(count);
        waiting
    }

    fn add(&mut self, count: usize) {
        for _ in 0..count {
            let (end, wait) = mpsc::channel::<()>();
            let (started, has_started) = mpsc::channel();
            let thread = std::thread::Builder::new()
                .name("waiting) (x".into())
                .spawn(move || {
                    started.send(()).unwrap();
                    assert!(wait.recv().is_err());
                });
            has_started.recv().unwrap();
            self.ends.push((end, thread.unwrap()));
        }
    }

    /// Ends some of the threads, and waits until the kernel has removed them.
    fn end(&mut self, count: usize) {
        for (end, thread) in self.ends.drain(..count) {
            drop(end);
            thread.join().unwrap();
        }
    }
}

fn waiting_tids(threads: &mut Threads) -> BTreeSet<u32> {
    let sample = threads.sample(ReadDepth::AllThatRan).unwrap();
    sample
        .filter(|thread| thread.comm.as_bytes() == b"waiting) (x")
        .map(|thread| thread.tid)
        .collect()
}

#[test]
fn every_process_file_of_this_process_parses() {
    let root = HostRoot::default();
    let pid = std::process::id();
    let mut files = ProcessFiles::open(&root, pid).unwrap();
    let (mut buffer, pinned) = (Vec::new(), vec![1u8; 1 << 20]);
    let first = files.sample(true, &mut buffer);
    let stat = first.stat.unwrap();
    assert_eq!((stat.pid, stat.start_ticks), (pid, files.id().start_ticks));
    let status = first.status.unwrap();
    assert!(status.rss_anon.unwrap() >= pinned.len() as u64);
    let parts = [status.rss_anon, status.rss_file, status.rss_shmem].map(Option::unwrap);
    assert_eq!(status.vm_rss.unwrap(), parts.iter().sum::<u64>());
    assert!(
        first
            .oom_and_fds
            .max_fds
            .unwrap()
            .is_none_or(|soft| soft >= 10)
    );
    assert!(first.oom_and_fds.oom_score.unwrap() <= 2000);
    assert!((-1000..=1000).contains(&first.oom_and_fds.oom_score_adj.unwrap()));
    let second = files.sample(true, &mut buffer);
    assert!(second.stat.unwrap().minflt >= stat.minflt);
    let [before, after] = [first.io, second.io].map(|io| io.unwrap().read_bytes.unwrap());
    assert!(after >= before);
    assert!(
        files.cmdline().unwrap()[0]
            .to_str()
            .unwrap()
            .contains("live")
    );
    assert_eq!(files.exe().unwrap(), std::env::current_exe().unwrap());
}

#[test]
fn every_host_file_of_this_machine_parses() {
    let root = HostRoot::default();
    let memory = root
        .read_proc("meminfo", faultline_kernel::parse::memory::Meminfo::parse)
        .unwrap();
    let host = HostFiles::new(&root).sample(true, &mut Vec::new());
    assert!(memory.total.unwrap() > memory.free.unwrap());
    let vmstat = host.vmstat.unwrap();
    assert!(vmstat.pgfault.unwrap() >= vmstat.pgmajfault.unwrap());
    assert!(
        vmstat.oom_kill.is_some(),
        "the file is larger than what one read gives"
    );
    assert!(host.max_map_count.unwrap() > 0);
    let constants = HostConstants::read(&root).unwrap();
    assert!(constants.page_size >= 4096 && constants.clock_ticks_per_second > 0);
    assert!(constants.kernel_release.contains('.'));
    assert!(root.boot_time_seconds().unwrap() > 1_000_000_000);
    assert!(root.pids().unwrap().contains(&std::process::id()));
}

#[test]
fn open_descriptors_are_counted_without_listing() {
    let child = sleeper();
    let root = HostRoot::default();
    let mut files = ProcessFiles::open(&root, child.id()).unwrap();
    let listed = || {
        fs::read_dir(format!("/proc/{}/fd", child.id()))
            .unwrap()
            .count() as u64
    };
    // A program that is being loaded opens and closes its libraries.
    let agreed =
        (0..100_000).any(
            |_| match files.sample(true, &mut Vec::new()).oom_and_fds.open_fds {
                Ok(counted) => counted == listed(),
                Err(error) => error.kind() == ErrorKind::Absent,
            },
        );
    end(child);
    assert!(agreed, "only a kernel before 6.2 may not know");
}

#[test]
fn a_killed_process_is_gone_in_every_file() {
    let root = HostRoot::default();
    let child = sleeper();
    let pid = child.id();
    let mut files = ProcessFiles::open(&root, pid).unwrap();
    let mut threads = Threads::open(&root, pid, MAX_OPEN_FILES).unwrap();
    let mut buffer = Vec::new();
    assert!(files.sample(true, &mut buffer).stat.is_ok());
    assert_eq!(threads.sample(ReadDepth::AllThatRan).unwrap().count(), 1);
    end(child);
    let sample = files.sample(true, &mut buffer);
    let gone = |error: Option<ReadError>| error.map(|error| error.kind()) == Some(ErrorKind::Gone);
    assert!(gone(sample.stat.err()) && gone(sample.status.err()) && gone(sample.io.err()));
    assert!(
        gone(sample.oom_and_fds.oom_score.err()) && gone(sample.oom_and_fds.oom_score_adj.err())
    );
    assert!(gone(sample.oom_and_fds.open_fds.err()) && gone(sample.oom_and_fds.max_fds.err()));
    assert!(gone(threads.sample(ReadDepth::AllThatRan).err()));
    assert!(gone(files.cmdline().err()));
    assert!(gone(ProcessFiles::open(&root, pid).err()));
    assert!(gone(locate_cgroups(&root, pid).err()));
}

/// A joined thread may remain in `/proc` for a moment.
fn eventually_waiting(threads: &mut Threads, expected: usize) -> BTreeSet<u32> {
    let mut samples = (0..10_000).map(|_| waiting_tids(threads));
    let found = samples.find(|tids| tids.len() == expected);
    found.unwrap()
}

#[test]
fn starting_and_ending_threads_are_followed_with_or_without_open_descriptors() {
    let root = HostRoot::default();
    let mut waiting = Waiting::new(8);
    for max_descriptors in [10_000, 5, 0] {
        let mut threads = Threads::open(&root, std::process::id(), max_descriptors).unwrap();
        let before = waiting_tids(&mut threads);
        assert_eq!(before.len(), 8);
        assert_eq!(waiting_tids(&mut threads), before);
        waiting.end(3);
        waiting.add(3);
        // As many threads as before, but other ones.
        let after = eventually_waiting(&mut threads, 8);
        assert!(after.difference(&before).count() <= 3 && before.intersection(&after).count() >= 5);
        waiting.end(2);
        eventually_waiting(&mut threads, 6);
        waiting.add(2);
        assert_eq!(waiting_tids(&mut threads).len(), 8);
    }
}

#[test]
fn the_faults_of_living_threads_do_not_exceed_those_of_the_process() {
    let root = HostRoot::default();
    let mut threads = Threads::open(&root, std::process::id(), MAX_OPEN_FILES).unwrap();
    let sum: u64 = threads
        .sample(ReadDepth::AllThatRan)
        .unwrap()
        .map(|thread| thread.minflt)
        .sum();
    let process = ProcessFiles::open(&root, std::process::id())
        .unwrap()
        .sample(true, &mut Vec::new());
    assert!(sum > 0 && sum <= process.stat.unwrap().minflt.unwrap());
}

/// Minor faults and voluntary context switches of a thread of this process: field 10 of `stat` and
/// the first line about switches in `status`.
fn faults_and_switches(tid: u32) -> (u64, u64) {
    let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).unwrap();
    let (stat, status) = (read("stat"), read("status"));
    let fields = stat.rsplit_once(')').unwrap().1;
    let switches = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
        .unwrap();
    (
        fields.split_whitespace().nth(7).unwrap().parse().unwrap(),
        switches.trim().parse().unwrap(),
    )
}

#[test]
fn an_active_thread_is_reread_and_an_idle_one_stays_correct() {
    let (work, works) = mpsc::channel::<usize>();
    let (done, is_done) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("faulting".into())
        .spawn(move || {
            for pages in works {
                drop(std::hint::black_box(vec![1_u8; pages * 4096]));
                done.send(()).unwrap();
            }
        });
    let mut threads =
        Threads::open(&HostRoot::default(), std::process::id(), MAX_OPEN_FILES).unwrap();
    for pages in [0, 1, 0, 0, 5_000, 0, 20_000, 1] {
        if pages > 0 {
            work.send(pages).unwrap();
            is_done.recv().unwrap();
        }
        // The thread may not sleep yet. Then it counts a switch between the two reads.
        let agreed = (0..100_000).any(|_| {
            let sample = threads
                .sample(ReadDepth::AllWithSwitches)
                .unwrap()
                .find(|thread| thread.comm.as_bytes() == b"faulting");
            sample.is_some_and(|thread| {
                (thread.minflt, thread.voluntary_switches.unwrap())
                    == faults_and_switches(thread.tid)
            })
        });
        assert!(agreed, "{pages} pages");
    }
    drop(work);
    thread.unwrap().join().unwrap();
}

#[test]
fn context_switches_are_read_only_if_requested() {
    let root = HostRoot::default();
    let mut threads = Threads::open(&root, std::process::id(), MAX_OPEN_FILES).unwrap();
    for depth in [
        ReadDepth::AllThatRan,
        ReadDepth::AllWithSwitches,
        ReadDepth::AllThatRan,
    ] {
        for thread in threads.sample(depth).unwrap() {
            let wanted = depth == ReadDepth::AllWithSwitches;
            assert_eq!(thread.voluntary_switches.is_some(), wanted);
            assert_eq!(thread.involuntary_switches.is_some(), wanted);
        }
    }
}

/// A memory cgroup of version 1 that the test creates. Missing if the machine has no version 1, or
/// forbids it.
struct V1Cgroup {
    folder: PathBuf,
}

impl V1Cgroup {
    fn new(name: &str) -> Option<Self> {
        let folder = PathBuf::from(format!(
            "/sys/fs/cgroup/memory/{name}-{}",
            std::process::id()
        ));
        fs::create_dir(&folder).ok()?;
        let cgroup = Self { folder };
        cgroup
            .folder
            .join("memory.limit_in_bytes")
            .exists()
            .then_some(cgroup)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }
}

impl Drop for V1Cgroup {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.folder));
    }
}

#[test]
fn a_real_v1_cgroup_is_located_limited_removed_and_found_again() {
    let Some(outer) = V1Cgroup::new("faultline-kernel-test") else {
        eprintln!("skipped: no v1 memory cgroup can be made here");
        return;
    };
    let inner = V1Cgroup {
        folder: outer.folder.join("inner"),
    };
    fs::create_dir(&inner.folder).unwrap();
    outer.write("memory.limit_in_bytes", "64M");
    let child = sleeper();
    inner.write("cgroup.procs", &child.id().to_string());

    let located = locate_cgroups(&HostRoot::default(), child.id()).unwrap();
    assert_eq!(*located.memory.as_ref().unwrap().folder, *inner.folder);
    let (mut files, mut buffer) = (CgroupFiles::new(&located), Vec::new());
    let sample = files.sample(true, &mut buffer);
    assert_eq!(sample.memory_max, Ok(Limit::Max));
    assert!(
        sample.memory_usage.is_ok() && sample.memory_peak.is_ok() && sample.memory_stat.is_ok()
    );
    assert_eq!(sample.memory_events.as_ref().unwrap().oom_kill, Some(0));
    let levels = files.levels(&sample, &mut buffer).unwrap();
    let parent = levels.limits.first().unwrap();
    assert_eq!((parent.id, parent.limit), (Level::Cgroup(1), 64 << 20));
    let name = outer.folder.file_name().unwrap().to_str().unwrap();
    assert!(parent.path.ends_with(name), "{}", parent.path);

    end(child);
    fs::remove_dir(&inner.folder).unwrap();
    assert_eq!(
        files
            .sample(true, &mut buffer)
            .memory_usage
            .unwrap_err()
            .kind(),
        ErrorKind::Gone
    );
    fs::create_dir(&inner.folder).unwrap();
    let sample = files.sample(true, &mut buffer);
    assert_eq!(
        sample.memory_usage,
        Ok(0),
        "the new cgroup is found under the same path"
    );
    let levels = files.levels(&sample, &mut buffer).unwrap();
    assert_eq!(levels.limits.first().unwrap().limit, 64 << 20);
}
