mod followed;

use super::*;
use crate::tick::{SampleContext, Sampler};
use faultline_core::supervisor::WorkerGroup;
use faultline_metrics::{Metric, Stamp};
use std::{fs, path::Path};

const INTERVAL: Duration = Duration::from_secs(15);

fn folder(what: &'static str, path: impl AsRef<Path>) -> Folder {
    Folder {
        purpose: what,
        path: path.as_ref().to_owned(),
    }
}

fn mounts() -> Arc<Mounts> {
    Arc::new(Mounts::read(&HostRoot::default(), Some(std::process::id())).unwrap())
}

fn number(readings: &[Reading], metric: &Metric) -> Option<f64> {
    readings
        .iter()
        .find(|reading| std::ptr::eq(reading.metric, metric))?
        .value
        .number()
}

fn readings(systems: &mut FileSystems, now: Stamp) -> Vec<Reading> {
    let mut out = Vec::new();
    let usages = systems.usages();
    let disks = vec![Vec::new(); usages.len()];
    systems.add_readings(&usages, &disks, now, INTERVAL, &mut out);
    out
}

#[expect(
    clippy::disallowed_methods,
    reason = "a call that never comes back, without a thread"
)]
fn hang(systems: &mut FileSystems, which: usize) {
    systems.folder_polls[which].pending_call = Some(tokio::spawn(std::future::pending()));
}

#[tokio::test]
async fn folders_on_one_file_system_share_a_series_listing_them() {
    let (root, clock, place) = (
        HostRoot::default(),
        Clock::start(),
        tempfile::tempdir().unwrap(),
    );
    let mut systems = FileSystems::default();
    let there = [
        folder("snapshots", place.path()),
        folder("ledger", place.path().join("not/yet")),
    ];
    systems.set_folders(there.into());
    systems
        .poll_folders(&root, Some(std::process::id()), &mounts(), clock)
        .await;
    assert_eq!(systems.usages().len(), 1);
    let out = readings(&mut systems, clock.now());
    let labels: Vec<&str> = out[0]
        .label_values
        .iter()
        .map(|text| text.as_str())
        .collect();
    assert_eq!(
        (out[0].metric.name, labels[1]),
        ("agave_filesystem_info", "ledger,snapshots")
    );
    let space = rustix::fs::statvfs(place.path()).unwrap();
    assert_eq!(
        number(&out, &m::FILESYSTEM_SIZE),
        Some((space.f_blocks * space.f_frsize) as f64)
    );
    assert!(number(&out, &m::FILESYSTEM_AVAIL) <= number(&out, &m::FILESYSTEM_SIZE));
    assert_eq!(number(&out, &m::FILESYSTEM_READ_ONLY), Some(0.0));
    assert_eq!(systems.problems().count(), 0);
    assert!(out.len() <= 8, "{out:?}");
}

#[tokio::test]
async fn a_hanging_file_system_blocks_nothing_and_its_sample_ages() {
    let (root, clock, place) = (
        HostRoot::default(),
        Clock::start(),
        tempfile::tempdir().unwrap(),
    );
    let mut systems = FileSystems::default();
    systems.set_folders(vec![
        folder("snapshots", "/proc"),
        folder("ledger", place.path()),
    ]);
    systems.poll_folders(&root, None, &mounts(), clock).await;
    let answered = systems.usages()[0].sampled_at;
    hang(&mut systems, 0);
    systems.poll_folders(&root, None, &mounts(), clock).await;
    let usages = systems.usages();
    assert_eq!(
        (usages.len(), usages[0].sampled_at),
        (2, answered),
        "the call that hangs is not made again"
    );
    assert!(usages[1].sampled_at > answered, "the other one is");
    let problems: Vec<Problem> = systems.problems().collect();
    assert_eq!(
        (problems.len(), problems[0].kind),
        (1, ProblemKind::Broken),
        "{problems:?}"
    );
    let later = Stamp {
        uptime: answered.uptime + INTERVAL * 4,
        ..answered
    };
    let hung = readings(&mut systems, later)
        .into_iter()
        .filter(|one| one.label_values[1].as_str() == "snapshots");
    let hung: Vec<Reading> = hung.collect();
    assert_eq!(
        (number(&hung, &m::FILESYSTEM_AGE), hung.len()),
        (Some(60.0), 2),
        "its values are no longer true"
    );
    // Another process with the same folders does not ask either.
    systems.set_folders(vec![folder("snapshots", "/proc"), folder("ledger", "/")]);
    assert_eq!(
        systems.problems().next().map(|problem| problem.kind),
        Some(ProblemKind::Broken)
    );
}

#[test]
fn a_late_response_has_the_age_of_its_read() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let blocker = tokio::task::spawn_blocking(move || released.recv());
        let (root, clock, mut systems) =
            (HostRoot::default(), Clock::start(), FileSystems::default());
        let mounts = mounts();
        systems.set_folders(vec![folder("ledger", "/")]);
        let poll = systems.poll_folders(&root, None, &mounts, clock);
        let millisecond = Duration::from_millis(1);
        assert!(tokio::time::timeout(millisecond, poll).await.is_err());
        drop(release);
        blocker.await.unwrap().unwrap_err();
        let is_pending = |systems: &FileSystems| {
            let call = systems.folder_polls[0].pending_call.as_ref();
            !call.unwrap().is_finished()
        };
        while is_pending(&systems) {
            tokio::time::sleep(millisecond).await;
        }
        let read_before = clock.now();
        systems.poll_folders(&root, None, &mounts, clock).await;
        assert!(systems.usages()[0].sampled_at <= read_before);
    });
}

#[tokio::test]
async fn a_folder_without_a_file_system_is_reported_by_name() {
    let mut systems = FileSystems::default();
    systems.set_folders(vec![folder("ledger", "/no/such/mount")]);
    systems
        .poll_folders(&HostRoot::default(), None, &Arc::default(), Clock::start())
        .await;
    let problems: Vec<Problem> = systems.problems().collect();
    assert_eq!(problems[0].kind, ProblemKind::Absent);
    assert!(
        problems[0].what.starts_with("ledger /no/such/mount: "),
        "{}",
        problems[0].what
    );
    assert!(
        !systems.is_up(),
        "a container without the validator's mounts is seen"
    );
    let own = Mounts {
        process: Vec::new(),
        reader: mounts().reader.clone(),
    };
    systems.set_folders(vec![folder("ledger", "/")]);
    systems
        .poll_folders(&HostRoot::default(), None, &Arc::new(own), Clock::start())
        .await;
    assert!(systems.is_up());
    let out = readings(&mut systems, Clock::start().now());
    assert_eq!(
        number(&out, &m::FILESYSTEM_READ_ONLY),
        None,
        "of the daemon's own mount nothing follows"
    );
    systems.set_folders(Vec::new());
    assert!(systems.is_up(), "another program has no folders");
}

#[test]
fn mounts_of_an_exited_process_are_kept_until_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let (root, line) = (
        HostRoot::below(folder.path()),
        "1 0 259:1 / / OPTION - ext4 /dev/nvme0n1p1 rw\n",
    );
    let write = |process: &str, option| {
        let place = root.procfs.join(process);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("mountinfo"), line.replace("OPTION", option)).unwrap();
    };
    write("self", "ro");
    write("42", "rw");
    let stat = format!("42 (x) S 1 {}", "0 ".repeat(40));
    fs::write(root.procfs.join("42/stat"), stat).unwrap();
    let (process, mut mounted) = (
        |pid| {
            Some(ProcessId {
                pid,
                start_ticks: 7,
            })
        },
        MountCache::default(),
    );
    let mut read = |process| {
        let mounts = mounted.read(&root, process).unwrap();
        mounts
            .process
            .iter()
            .map(|mount| mount.options.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(read(process(42)), ["rw"]);
    fs::remove_dir_all(root.procfs.join("42")).unwrap();
    assert_eq!([read(process(42)), read(None)], [["rw"], ["rw"]]);
    assert_eq!(
        read(process(43)),
        [""; 0],
        "of another process nothing is known"
    );
}

#[tokio::test]
async fn hanging_folders_leave_one_blocking_thread_for_others() {
    let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
    let (served, was_served) = tokio::sync::oneshot::channel();
    let (hang, never) = std::sync::mpsc::channel::<()>();
    let never = Arc::new(std::sync::Mutex::new(never));
    workers
        .task_thread("resources", MAX_BLOCKING_CALLS, move |_| async move {
            for _ in 0..filesystems::MAX_FOLDERS {
                let never = Arc::clone(&never);
                tokio::task::spawn_blocking(move || drop(never.lock().map(|never| never.recv())));
            }
            tokio::task::spawn_blocking(move || served.send(()))
                .await
                .ok();
        })
        .unwrap();
    let was_served = tokio::time::timeout(Duration::from_secs(60), was_served).await;
    drop(hang);
    assert_eq!(was_served, Ok(Ok(())));
}

#[tokio::test]
async fn the_disk_under_a_real_file_system_counts_as_the_kernel_does() {
    let root = HostRoot::default();
    let own = mounts();
    let Some(mount) = own.reader.iter().find(|mount| mount.device.major != 0) else {
        eprintln!("skipped: no file system here lies on a disk");
        return;
    };
    let mut systems = FileSystems::default();
    systems.set_folders(vec![folder("ledger", &mount.mount_point)]);
    systems
        .poll_folders(&root, None, &own, Clock::start())
        .await;
    let disks = [block::under(
        &root,
        &systems.usages()[0].file_system.mount,
        disks::MAX_DISKS,
    )];
    let mut output = SourceOutput::default();
    disks::add_readings(
        &root,
        &disks,
        &mut BusyTimes::default(),
        Clock::start(),
        &mut output,
    );
    assert_eq!(output.problems, []);
    let out = output.readings;
    let name = &disks[0][0].name;
    let text = fs::read_to_string("/sys/class/block/".to_owned() + name + "/stat").unwrap();
    let stat: Vec<f64> = text
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let mut written = out.iter().filter(|one| {
        std::ptr::eq(one.metric, &m::DISK_BYTES) && one.label_values[1].as_str() == "write"
    });
    let written = written.next_back().unwrap().value.number().unwrap();
    assert!(
        written > 0.0 && written <= stat[6] * 512.0,
        "{written} and then {text}"
    );
    assert!(number(&out, &m::DISK_BUSY) > Some(0.0));
}

#[test]
fn process_series_end_with_the_process_and_host_series_continue() {
    let process = ProcessId {
        pid: 4242,
        start_ticks: 7,
    };
    let reading = |metric, value| Reading::integer(metric, [], value);
    let known = PollResult {
        polled_at: Stamp::default(),
        output: SourceOutput {
            readings: vec![Reading::integer(&m::CPU_THROTTLES, ["core".into()], 3)],
            up: true,
            ..SourceOutput::default()
        },
        process_readings: Some((process, vec![reading(&m::UDP_SOCKETS, 12)])),
    };
    let latest = Latest::default();
    latest.set(Some(Arc::new(known)));
    let mut source = PollResultSampler::new(INTERVAL, latest);
    let host = crate::tests::host_constants();
    let (root, process_state) = (HostRoot::default(), crate::tick::ProcessState::default());
    let polled = Some(Stamp::default());
    let mut at = |seconds| {
        let now = Stamp {
            uptime: Duration::from_secs(seconds),
            ..Stamp::default()
        };
        let output = source.sample(&SampleContext {
            now,
            target: None,
            root: &root,
            host: &host,
            boot_time: &Ok(0),
            process_state: &process_state,
        });
        (output.up, output.received_at, output.readings.len())
    };
    assert_eq!(
        [at(1), at(45), at(46)],
        [(true, polled, 1), (true, polled, 1), (false, None, 0)]
    );
}
