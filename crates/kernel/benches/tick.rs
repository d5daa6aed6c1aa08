//! Compares a sample with bare reads of the same descriptors.
//!
//! Rounds of both alternate, so that both see the same load of the machine. The ratio is that of
//! the medians. A bare read is one `pread` of a file into a buffer that is large enough. It does
//! not parse the text.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "measures time; cannot go on without its own files"
)]

use std::{
    fs::{self, File},
    hint::black_box,
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex},
    time::Instant,
};

use faultline_kernel::{CgroupFiles, HostRoot, ProcessFiles, ReadDepth, Threads, locate_cgroups};

const THREADS: usize = 1000;
const PROCESS_BUDGET: f64 = 2.0;
const THREADS_BUDGET: f64 = 1.5;

fn main() {
    println!("microseconds per call, min / median");
    process("1 thread");
    for limited in [1, 3] {
        levels(limited);
    }
    let park = Arc::new((Mutex::new(false), Condvar::new()));
    let workers: Vec<_> = (0..THREADS).map(|n| parked(&park, n)).collect();
    let tids = tids();
    process(&format!("{} threads", tids.len()));
    threads(&tids, ReadDepth::AllThatRan);
    threads(&tids, ReadDepth::AllWithSwitches);
    *park
        .0
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = true;
    park.1.notify_all();
    for worker in workers {
        drop(worker.join());
    }
}

fn parked(park: &Arc<(Mutex<bool>, Condvar)>, n: usize) -> std::thread::JoinHandle<()> {
    let park = Arc::clone(park);
    let builder = std::thread::Builder::new()
        .name(format!("solPool{n:04}"))
        .stack_size(64 * 1024);
    let spawned = builder.spawn(move || {
        let guard = park
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(park.1.wait_while(guard, |over| !*over));
    });
    spawned.expect("a thread")
}

fn tids() -> Vec<u32> {
    let names = fs::read_dir("/proc/self/task")
        .expect("the threads")
        .flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn process(size: &str) {
    let names = [
        "stat",
        "status",
        "io",
        "oom_score",
        "oom_score_adj",
        "limits",
    ];
    let bare: Vec<File> = names
        .iter()
        .map(|name| open(&format!("/proc/self/{name}")))
        .collect();
    let mut files =
        ProcessFiles::open(&HostRoot::default(), std::process::id()).expect("this process");
    let mut buffer = Vec::new();
    let folder = open("/proc/self");
    let sides = compare(
        2000,
        || {
            read_all(&bare);
            black_box(rustix::fs::statat(&folder, "fd", rustix::fs::AtFlags::empty()).is_ok());
        },
        || {
            let sample = black_box(files.sample(true, &mut buffer));
            assert!(sample.stat.is_ok());
        },
    );
    report(
        &format!("process sample, {size}, 6 files and the fd count"),
        sides,
        Some(PROCESS_BUDGET),
    );
}

fn threads(tids: &[u32], depth: ReadDepth) {
    let names: &[&str] = if depth == ReadDepth::AllWithSwitches {
        &["stat", "schedstat", "status"]
    } else {
        &["stat", "schedstat"]
    };
    let bare: Vec<File> = tids
        .iter()
        .flat_map(|tid| {
            names
                .iter()
                .map(move |name| open(&format!("/proc/self/task/{tid}/{name}")))
        })
        .collect();
    for (how, max_descriptors, budget) in [
        ("open", 100_000, Some(THREADS_BUDGET)),
        ("opened each time", 0, None),
    ] {
        let mut threads = Threads::open(&HostRoot::default(), std::process::id(), max_descriptors)
            .expect("this process");
        let mut sample = || {
            assert_eq!(
                threads.sample(depth).expect("the threads").count(),
                tids.len()
            )
        };
        let sides = compare(60, || read_all(&bare), &mut sample);
        report(
            &format!("threads sample, {}, {how}", names.join(" + ")),
            sides,
            budget,
        );
    }
}

/// Compares a sample of the cgroup with its memory levels to a sample without them. The cgroup is
/// nested and of version 1, with many limits. Version 2 needs the same number of reads.
fn levels(limited: usize) {
    let own = fs::read_to_string("/proc/self/cgroup").expect("own cgroups");
    let Some(path) = own
        .lines()
        .find_map(|line| line.split_once(":memory:").map(|(_, path)| path))
    else {
        println!("levels: skipped, no memory controller of version 1");
        return;
    };
    let outer = std::path::Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/'));
    let folders: Vec<_> = ["bench", "bench/b", "bench/b/c"]
        .map(|name| outer.join(name))
        .into();
    if folders.iter().any(|folder| fs::create_dir(folder).is_err()) {
        println!("levels: skipped, no cgroup can be made");
        return;
    }
    for folder in folders.iter().rev().take(limited) {
        fs::write(folder.join("memory.limit_in_bytes"), "8G").expect("a limit");
    }
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("a process");
    let own = folders.last().expect("a folder");
    fs::write(own.join("cgroup.procs"), child.id().to_string()).expect("a move");
    let cgroups = locate_cgroups(&HostRoot::default(), child.id()).expect("its cgroups");
    let [mut alone, mut with] = [CgroupFiles::new(&cgroups), CgroupFiles::new(&cgroups)];
    let (mut buffer, mut other) = (Vec::new(), Vec::new());
    let both = compare(
        2000,
        || {
            black_box(alone.sample(false, &mut buffer));
        },
        || {
            let sample = with.sample(false, &mut other);
            black_box(with.levels(&sample, &mut other).is_ok());
        },
    );
    report(
        &format!("cgroup without and with {limited} limited levels"),
        both,
        None,
    );
    drop(child.kill());
    drop(child.wait());
    for folder in folders.iter().rev() {
        drop(fs::remove_dir(folder));
    }
}

fn open(path: &str) -> File {
    File::open(path).expect("a file of this process")
}

fn read_all(files: &[File]) {
    let mut buffer = [0u8; 4096];
    for file in files {
        black_box(rustix::io::pread(file.as_fd(), &mut buffer, 0).is_ok());
    }
}

/// Microseconds of each round, sorted.
fn compare(rounds: usize, mut bare: impl FnMut(), mut ours: impl FnMut()) -> [Vec<f64>; 2] {
    let mut sides = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
    for _ in 0..rounds {
        sides[0].push(microseconds(&mut bare));
        sides[1].push(microseconds(&mut ours));
    }
    for side in &mut sides {
        side.sort_by(f64::total_cmp);
    }
    sides
}

fn microseconds(run: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e6
}

fn report(what: &str, [bare, ours]: [Vec<f64>; 2], budget: Option<f64>) {
    let median = |side: &[f64]| side[side.len() / 2];
    let ratio = median(&ours) / median(&bare);
    let verdict = match budget {
        Some(budget) if ratio <= budget => format!("within {budget}"),
        Some(budget) => format!("OVER {budget}"),
        None => "no budget".to_owned(),
    };
    println!("{what}");
    println!("  bare {:9.1} / {:9.1}", bare[0], median(&bare));
    println!(
        "  ours {:9.1} / {:9.1}   ratio {ratio:.2}, {verdict}",
        ours[0],
        median(&ours)
    );
}
