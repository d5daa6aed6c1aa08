use super::*;
use faultline_testkit::eventually::eventually;
use std::fs;

fn fake_host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = HostRoot::below(folder.path());
    (folder, root)
}

fn stat(pid: u32, name: &str, state: char) -> String {
    format!("{pid} ({name}) {state} 1{}\n", " 0".repeat(48))
}

#[test]
fn a_complete_host_is_described() {
    let (_folder, root) = whole_host();
    let state = inspect(&root, &[], &|name| name == "agave-validator");
    assert_eq!(
        boot_id(&root).as_deref(),
        Some("5e3c0c1e-0000-4000-8000-000000000001")
    );
    assert_eq!(
        (state.memory_total, state.swap_total),
        (Some(1 << 20), Some(64 << 10))
    );
    assert_eq!(state.huge_pages.as_deref(), Some("always"));
    assert_eq!(state.governors, ["powersave"]);
    assert_eq!(
        state.listed_processes,
        [ListedProcess {
            pid: 12,
            name: "agave-validator".to_owned(),
        }]
    );
}

fn whole_host() -> (tempfile::TempDir, HostRoot) {
    fake_host(&[
        (
            "proc/sys/kernel/random/boot_id",
            "5e3c0c1e-0000-4000-8000-000000000001\n",
        ),
        ("proc/meminfo", "MemTotal: 1024 kB\nSwapTotal: 64 kB\n"),
        ("proc/12/stat", &stat(12, "agave-validator", 'S')),
        ("proc/13/stat", &stat(13, "agave-validator", 'Z')),
        ("proc/14/stat", &stat(14, "bash", 'S')),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave\n",
        ),
        (
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "powersave\n",
        ),
    ])
}

#[test]
fn an_empty_host_has_unknown_values_instead_of_zeros() {
    let (_folder, root) = fake_host(&[]);
    let state = inspect(&root, &[], &|_| true);
    assert_eq!(state, HostState::default());
    assert_eq!((busy_time(&root), boot_id(&root)), (None, None));
}

#[test]
fn cpu_usage_is_the_increase_of_cpu_time() {
    let at = |busy: u64| {
        let text = format!("cpu  {busy} 0 0 5000 0 0 0 0 0 0\n");
        let (_folder, root) = fake_host(&[
            ("proc/stat", &text),
            ("proc/sys/kernel/osrelease", "6.18\n"),
        ]);
        busy_time(&root).unwrap()
    };
    let ticks = rustix::param::clock_ticks_per_second();
    let (before, after) = (at(1000), at(1000 + 3 * ticks));
    assert_eq!(
        before.mean_busy_cpus(&after, Duration::from_secs(2)),
        Some(1.5)
    );
    assert_eq!(before.mean_busy_cpus(&after, Duration::ZERO), None);
    assert_eq!(
        after.mean_busy_cpus(&before, Duration::from_secs(2)),
        None,
        "time does not run backwards"
    );
}

#[test]
fn a_missing_path_is_on_the_disk_of_its_parent_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (_folder, root) = fake_host(&[]);
    let later = folder.path().join("not/there/yet");
    let disks = inspect(&root, &[folder.path(), &later], &|_| false).disks;
    assert_eq!(
        (&disks[0].path, disks[0].device),
        (&folder.path().to_owned(), disks[1].device)
    );
    assert!(disks.iter().all(|disk| disk.free.is_some()));
}

#[test]
fn the_real_host_is_described_from_available_kernel_files() {
    let state = inspect(&HostRoot::default(), &[Path::new("/")], &|name| {
        name == "no such program"
    });
    let from_meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = from_meminfo
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10;
    assert_eq!(state.memory_total, Some(total));
    assert!(
        boot_id(&HostRoot::default()).is_some_and(|id| id.len() == 36)
            && state.listed_processes.is_empty()
    );
    let before = busy_time(&HostRoot::default()).unwrap();
    eventually(Duration::from_secs(60), "some CPU time is used", || {
        std::hint::black_box((0..1_000_000_u64).fold(0, |sum: u64, n| {
            std::hint::black_box(sum.wrapping_mul(31) ^ n)
        }));
        busy_time(&HostRoot::default()).filter(|now| *now != before)
    });
}
