//! What every source that reads the kernel must keep, whatever is the matter with one of its files: the outcome is counted
//! under its name and kind, everything else of the same tick is read as ever, and nothing takes the place of what is not
//! known.
#![allow(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use crate::support::fake_daemon::{FakeDaemon, KERNEL_SOURCES, series};
use faultline_core::config::Config;
use faultline_metrics::{
    ProblemKind, Source, Tick, Value,
    metrics::{
        cgroup::{EVENTS, PAGE_FAULTS, PRESSURE, STAT, USAGE},
        daemon::SOURCE_PROBLEMS,
        memory::EFFECTIVE_LIMIT,
        process::{self as p, START_TIME, STATE, TARGET_INFO},
    },
};
use faultline_testkit::host::FakeHost;
use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    sync::{Arc, LazyLock},
    time::Duration,
};

/// With everything a source can read, so that everything can be missed.
const HOST: &str = "linux-6.1-v2";
const HOST_V1: &str = "linux-5.15-v1";

/// Every source looks again, and reads context switches too.
const LONG: Duration = Duration::from_secs(121);

/// How a file's text is made up.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One number or word.
    Sole,
    /// Lines of a key and a value, of which every kernel has others: without any, nothing is known.
    Keys,
    /// Lines or fields at fixed places.
    Fixed,
    /// A list, which may be empty.
    List,
}
use Form::{Fixed, Keys, List, Sole};

/// A file, who reads it, and the beginnings of the series that cannot be had without it.
struct File {
    host: &'static str,
    path: &'static str,
    form: Form,
    readers: &'static [Source],
    lost: &'static [&'static str],
}

const fn file(
    path: &'static str,
    form: Form,
    readers: &'static [Source],
    lost: &'static [&'static str],
) -> File {
    File {
        host: HOST,
        path,
        form,
        readers,
        lost,
    }
}

const fn file_v1(path: &'static str, form: Form, lost: &'static [&'static str]) -> File {
    File {
        host: HOST_V1,
        path,
        form,
        readers: CGROUP,
        lost,
    }
}

const PROCESS: &[Source] = &[Source::Process];
const THREADS: &[Source] = &[Source::Threads];
const CGROUP: &[Source] = &[Source::Cgroup];
const HOSTS: &[Source] = &[Source::Host];
const INTERRUPTS: &[Source] = &[Source::Interrupts];
const OF_THREADS: &[&str] = &[
    "agave_thread_pool_",
    "agave_process_context_switches",
    "agave_process_block_io",
    "faultline_thread_pools_folded",
];

/// Every file that a polled source reads at a tick.
const FILES: &[File] = &[
    file(
        "proc/4242/stat",
        Fixed,
        &[Source::Process, Source::Threads],
        &[
            "agave_process_",
            "agave_thread_pool_",
            "faultline_thread_pools_folded",
        ],
    ),
    file(
        "proc/4242/status",
        Keys,
        PROCESS,
        &[
            "agave_process_resident",
            "agave_process_swap",
            "agave_process_page_table",
            "agave_memory_",
        ],
    ),
    file("proc/4242/io", Keys, PROCESS, &["agave_process_io_bytes"]),
    file(
        "proc/4242/oom_score",
        Sole,
        PROCESS,
        &["agave_process_oom_score{"],
    ),
    file(
        "proc/4242/oom_score_adj",
        Sole,
        PROCESS,
        &["agave_process_oom_score_adj"],
    ),
    file(
        "proc/4242/limits",
        Fixed,
        PROCESS,
        &["agave_process_max_fds"],
    ),
    file("proc/stat", Fixed, PROCESS, &["agave_process_start_time"]),
    file("proc/4242/task/4243/stat", Fixed, THREADS, OF_THREADS),
    file("proc/4242/task/4243/schedstat", Fixed, THREADS, OF_THREADS),
    file("proc/4242/task/4243/status", Keys, THREADS, OF_THREADS),
    file(
        "proc/sys/kernel/task_delayacct",
        Sole,
        THREADS,
        &["agave_process_block_io", "agave_thread_pool_block_io"],
    ),
    file(
        "proc/4242/cgroup",
        Fixed,
        CGROUP,
        &["agave_cgroup_", "agave_memory_"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.current",
        Sole,
        CGROUP,
        &["agave_cgroup_memory_usage", "agave_memory_"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.peak",
        Sole,
        CGROUP,
        &["agave_cgroup_memory_peak"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.max",
        Sole,
        CGROUP,
        &[
            "agave_cgroup_memory_limit_bytes{limit=\"max\"}",
            "agave_memory_",
        ],
    ),
    file(
        "sys/fs/cgroup/validator.slice/memory.max",
        Sole,
        CGROUP,
        &["agave_memory_"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.high",
        Sole,
        CGROUP,
        &[
            "agave_cgroup_memory_limit_bytes{limit=\"high\"}",
            "agave_memory_high_headroom",
        ],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.swap.max",
        Sole,
        CGROUP,
        &[
            "agave_cgroup_memory_limit_bytes{limit=\"swap_max\"}",
            "agave_memory_swap_headroom",
        ],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.swap.current",
        Sole,
        CGROUP,
        &["agave_cgroup_memory_swap", "agave_memory_swap_headroom"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.stat",
        Keys,
        CGROUP,
        &[
            "agave_cgroup_memory_stat",
            "agave_cgroup_memory_refaults",
            "agave_cgroup_memory_page_faults",
            "agave_cgroup_memory_reclaim",
            "agave_memory_",
        ],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.events",
        Keys,
        CGROUP,
        &["agave_cgroup_memory_events"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/cgroup.events",
        Keys,
        CGROUP,
        &["agave_cgroup_frozen"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/io.stat",
        List,
        CGROUP,
        &["agave_cgroup_io_bytes"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/cpu.stat",
        Keys,
        CGROUP,
        &["agave_cgroup_cpu_throttled"],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/cpu.pressure",
        Fixed,
        CGROUP,
        &["agave_cgroup_pressure_stalled_seconds_total{resource=\"cpu\""],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/memory.pressure",
        Fixed,
        CGROUP,
        &["agave_cgroup_pressure_stalled_seconds_total{resource=\"memory\""],
    ),
    file(
        "sys/fs/cgroup/validator.slice/sol.service/io.pressure",
        Fixed,
        CGROUP,
        &["agave_cgroup_pressure_stalled_seconds_total{resource=\"io\""],
    ),
    file(
        "proc/meminfo",
        Keys,
        &[Source::Host, Source::Cgroup],
        &["agave_host_memory", "agave_memory_"],
    ),
    file(
        "proc/vmstat",
        Keys,
        HOSTS,
        &[
            "agave_host_page_faults",
            "agave_host_swap_pages",
            "agave_host_oom_kills",
        ],
    ),
    file(
        "proc/pressure/cpu",
        Fixed,
        HOSTS,
        &["agave_host_pressure_stalled_seconds_total{resource=\"cpu\""],
    ),
    file(
        "proc/pressure/memory",
        Fixed,
        HOSTS,
        &["agave_host_pressure_stalled_seconds_total{resource=\"memory\""],
    ),
    file(
        "proc/pressure/io",
        Fixed,
        HOSTS,
        &["agave_host_pressure_stalled_seconds_total{resource=\"io\""],
    ),
    file(
        "proc/sys/vm/max_map_count",
        Sole,
        HOSTS,
        &["agave_host_max_map"],
    ),
    file(
        "proc/interrupts",
        Fixed,
        INTERRUPTS,
        &["agave_host_interrupts_total"],
    ),
    file(
        "proc/softirqs",
        Fixed,
        INTERRUPTS,
        &["agave_host_softirqs_"],
    ),
    file_v1(
        "sys/fs/cgroup/memory/system.slice/sol.service/memory.usage_in_bytes",
        Sole,
        &["agave_cgroup_memory_usage", "agave_memory_"],
    ),
    file_v1(
        "sys/fs/cgroup/memory/system.slice/sol.service/memory.max_usage_in_bytes",
        Sole,
        &["agave_cgroup_memory_peak"],
    ),
    file_v1(
        "sys/fs/cgroup/memory/system.slice/sol.service/memory.limit_in_bytes",
        Sole,
        &["agave_cgroup_memory_limit_bytes", "agave_memory_"],
    ),
    file_v1(
        "sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes",
        Sole,
        &["agave_memory_"],
    ),
    file_v1(
        "sys/fs/cgroup/memory/system.slice/sol.service/memory.stat",
        Keys,
        &[
            "agave_cgroup_memory_stat",
            "agave_cgroup_memory_refaults",
            "agave_cgroup_memory_page_faults",
            "agave_cgroup_memory_swap",
            "agave_memory_",
        ],
    ),
    file_v1(
        "sys/fs/cgroup/memory/system.slice/sol.service/memory.oom_control",
        Keys,
        &["agave_cgroup_memory_events"],
    ),
    file_v1(
        "sys/fs/cgroup/freezer/sol/freezer.state",
        Sole,
        &["agave_cgroup_frozen"],
    ),
    file_v1(
        "sys/fs/cgroup/blkio/system.slice/sol.service/blkio.throttle.io_service_bytes_recursive",
        List,
        &["agave_cgroup_io_bytes"],
    ),
    file_v1(
        "sys/fs/cgroup/cpu,cpuacct/system.slice/sol.service/cpu.stat",
        Keys,
        &["agave_cgroup_cpu_throttled"],
    ),
];

/// What a tick read of the kernel.
fn kernels(tick: &Tick) -> BTreeMap<String, Value> {
    let batches = tick
        .batches
        .iter()
        .filter(|batch| KERNEL_SOURCES.contains(&batch.source));
    batches
        .flat_map(|batch| &batch.readings)
        .map(|reading| (series(reading), reading.value.clone()))
        .collect()
}

fn counted(tick: &Tick, source: Source, kind: ProblemKind) -> f64 {
    tick.value_of(&SOURCE_PROBLEMS, &[source.name(), kind.name()])
        .unwrap_or(0.0)
}

/// The damage to one file is counted since `before` (an undamaged host without it), and does no harm beyond that file.
fn hold(
    file: &File,
    what: &str,
    kind: ProblemKind,
    tick: &Tick,
    before: Option<&Tick>,
) -> Result<(), String> {
    let healthy = healthy(file.host);
    let before = before.unwrap_or(&healthy);
    for source in file.readers {
        if counted(tick, *source, kind) - counted(before, *source, kind) < 1.0 {
            return Err(format!(
                "{} {what}: not counted as {} of {}\n",
                file.path,
                kind.name(),
                source.name()
            ));
        }
    }
    unharmed(file, what, tick)
}

/// What the tick still reads is what an undamaged host gives, and only what is in the damaged file is missing.
fn unharmed(file: &File, what: &str, tick: &Tick) -> Result<(), String> {
    let (whole, now) = (kernels(&healthy(file.host)), kernels(tick));
    let name = || format!("{} {what}", file.path);
    for (series, value) in &now {
        if whole.get(series) != Some(value) {
            return Err(format!(
                "{}: {series} reads {value:?} instead of {:?}\n",
                name(),
                whole.get(series)
            ));
        }
    }
    let missing: Vec<&String> = whole
        .keys()
        .filter(|series| !now.contains_key(*series))
        .collect();
    for series in &missing {
        if !file.lost.iter().any(|lost| series.starts_with(lost)) {
            return Err(format!("{}: {series} is lost with it\n", name()));
        }
    }
    if missing.is_empty() {
        Err(format!("{}: nothing is missing\n", name()))
    } else {
        Ok(())
    }
}

/// What an undamaged host gives at its first tick.
fn healthy(host: &str) -> Arc<Tick> {
    static TICKS: LazyLock<[(&str, Arc<Tick>); 2]> =
        LazyLock::new(|| [HOST, HOST_V1].map(|host| (host, FakeDaemon::with_target(host).tick())));
    TICKS
        .iter()
        .find(|(name, _)| *name == host)
        .map(|(_, tick)| Arc::clone(tick))
        .unwrap()
}

/// Runs `check` for every one of these files and reports all that fail together.
fn each<'f>(
    files: impl IntoIterator<Item = &'f File>,
    check: impl Fn(&File) -> Result<(), String>,
) {
    let wrong: String = files
        .into_iter()
        .filter_map(|file| check(file).err())
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Without these nothing is missing, and that is right: a thread whose files are gone has ended, a kernel need not count
/// the wait for a CPU, and a group without a limit's file cannot limit.
const MAY_BE_ABSENT: [&str; 8] = [
    "proc/4242/task/4243/stat",
    "proc/4242/task/4243/status",
    "proc/4242/task/4243/schedstat",
    "sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes",
    "sys/fs/cgroup/memory/system.slice/sol.service/memory.limit_in_bytes",
    "sys/fs/cgroup/validator.slice/memory.max",
    "sys/fs/cgroup/validator.slice/sol.service/memory.max",
    "sys/fs/cgroup/validator.slice/sol.service/memory.swap.max",
];

#[test]
fn every_kernel_source_has_a_file_here() {
    for source in KERNEL_SOURCES.iter() {
        let is_read = FILES.iter().any(|file| file.readers.contains(source));
        assert!(
            is_read,
            "FILES of this test has no file of {}",
            source.name()
        );
    }
}

#[test]
fn a_missing_file_is_counted_absent_and_loses_only_its_own_series() {
    each(
        FILES
            .iter()
            .filter(|file| !MAY_BE_ABSENT.contains(&file.path)),
        |file| {
            let mut fake = FakeDaemon::with_target(file.host);
            fake.host.remove(file.path).unwrap();
            // A folder of a process without `stat` is that of a process that has ended.
            let kind = if file.path == "proc/4242/stat" {
                ProblemKind::Gone
            } else {
                ProblemKind::Absent
            };
            hold(file, "removed", kind, &fake.tick(), None)
        },
    );
}

#[test]
fn an_unparsable_file_is_counted_per_tick_until_it_recovers() {
    for (what, nonsense) in [
        ("garbled", &b"garbage\n"[..]),
        ("binary", b"\xff\xfe\0\x01\n"),
        ("a huge number", b"99999999999999999999999\n"),
    ] {
        // The boot time is read again after a step of the clock alone.
        each(
            FILES.iter().filter(|file| file.path != "proc/stat"),
            |file| {
                let mut fake = FakeDaemon::with_target(file.host);
                let whole = fs::read(fake.host.path(file.path)).unwrap();
                let before = fake.tick_after(LONG);
                // Of a thread that has not run since, nothing is read again.
                if file.path.starts_with("proc/4242/task/") {
                    fake.host
                        .write(
                            "proc/4242/task/4243/schedstat",
                            "5378071246 6969083770 981\n",
                        )
                        .unwrap();
                }
                fake.host.write(file.path, nonsense).unwrap();
                let first = fake.tick_after(LONG);
                hold(file, what, ProblemKind::Broken, &first, Some(&before))?;
                hold(
                    file,
                    what,
                    ProblemKind::Broken,
                    &fake.tick_after(LONG),
                    Some(&first),
                )?;
                fake.host.write(file.path, whole).unwrap();
                let mended = kernels(&fake.tick_after(LONG));
                if mended == kernels(&before) {
                    Ok(())
                } else {
                    Err(format!("{}: not read again\n", file.path))
                }
            },
        );
    }
}

#[test]
fn a_proc_file_truncated_after_its_first_word_is_broken() {
    // Of one word nothing can be cut; a device without counters is an idle one; the first line of `status` is not wanted.
    // The tables of interrupts begin with a space.
    let can_tell = |file: &&File| {
        let has_first_word = !file.path.ends_with("/status") && file.readers != INTERRUPTS;
        has_first_word && !matches!(file.form, Sole | List)
    };
    each(FILES.iter().filter(can_tell), |file| {
        let mut fake = FakeDaemon::with_target(file.host);
        let whole = fs::read(fake.host.path(file.path)).unwrap();
        let word = whole
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || *byte == b':')
            .unwrap();
        fake.host.write(file.path, &whole[..word]).unwrap();
        hold(file, "cut", ProblemKind::Broken, &fake.tick(), None)
    });
}

#[test]
fn an_empty_number_file_or_line_is_reported_as_broken() {
    each(
        FILES
            .iter()
            .filter(|file| matches!(file.form, Sole | Fixed)),
        |file| {
            let mut fake = FakeDaemon::with_target(file.host);
            fake.host.write(file.path, "").unwrap();
            // A process in no hierarchy at all has an empty list of groups. Containers hide interrupts.
            let kind = match file.path {
                "proc/4242/cgroup" | "proc/interrupts" | "proc/softirqs" => ProblemKind::Absent,
                _ => ProblemKind::Broken,
            };
            hold(file, "empty", kind, &fake.tick(), None)
        },
    );
}

#[test]
fn an_empty_key_list_file_gives_no_values_instead_of_zeros() {
    // The sum over threads is then that of the others.
    let of_all = |file: &&File| matches!(file.form, Keys | List) && !file.path.contains("/task/");
    each(FILES.iter().filter(of_all), |file| {
        let mut fake = FakeDaemon::with_target(file.host);
        fake.host.write(file.path, "").unwrap();
        unharmed(file, "empty", &fake.tick())
    });
}

/// Ends the process as the kernel does: what is held of it reads as nothing, and its folder is no more.
fn end(host: &FakeHost) {
    fn empty(folder: &std::path::Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                empty(&path);
            } else if !path.is_symlink() {
                fs::write(path, "").unwrap();
            }
        }
    }
    empty(&host.path("proc/4242"));
    host.remove("proc/4242").unwrap();
}

#[test]
fn a_process_vanishing_between_ticks_is_counted_gone_leaving_only_host_metrics() {
    for ticks_before in [0, 1, 7] {
        let mut fake = FakeDaemon::with_target(HOST);
        for _ in 0..ticks_before {
            fake.tick();
        }
        end(&fake.host);
        let tick = fake.tick_after(LONG);
        for source in [Source::Process, Source::Threads, Source::Cgroup] {
            assert!(
                counted(&tick, source, ProblemKind::Gone) >= 1.0,
                "{} after {ticks_before} ticks",
                source.name()
            );
            let batch = tick
                .batches
                .iter()
                .find(|batch| batch.source == source)
                .unwrap();
            assert!(!batch.up, "{} is up without a process", source.name());
            // When it started is known for as long as it is followed.
            let left = batch
                .readings
                .iter()
                .find(|reading| reading.metric.name != START_TIME.name);
            assert!(left.is_none(), "{}: {left:?}", source.name());
        }
        let host = |tick: &Tick| {
            kernels(tick)
                .into_iter()
                .filter(|(series, _)| series.starts_with("agave_host_"))
                .collect::<Vec<_>>()
        };
        assert_eq!(host(&tick), host(&healthy(HOST)));
    }
}

/// The states with their values, `name=1`.
fn states(tick: &Tick) -> Vec<String> {
    let states = tick
        .readings()
        .filter(|reading| reading.metric.name == STATE.name);
    states
        .map(|reading| {
            format!(
                "{}={}",
                reading.label_values[0],
                reading.value.number().unwrap()
            )
        })
        .collect()
}

/// Writes these fields of `stat` anew, by their numbers in proc_pid_stat(5).
fn set_stat(fake: &FakeDaemon, path: &str, fields: &[(usize, &str)]) {
    let text = fs::read_to_string(fake.host.path(path)).unwrap();
    let (name, rest) = text.trim_end().rsplit_once(") ").unwrap();
    let mut words: Vec<&str> = rest.split(' ').collect();
    for (number, value) in fields {
        words[number - 3] = value;
    }
    fake.host
        .write(path, format!("{name}) {}\n", words.join(" ")))
        .unwrap();
}

/// Fields of `stat`, and what the flags have in common once a thread has begun to exit.
const STATE_FIELD: usize = 3;
const FLAGS: usize = 9;
const VSIZE: usize = 23;
const EXITING: &str = "4227084";
const ALIVE: &str = "4194560";

#[test]
fn one_of_eight_main_thread_states_is_set_or_none_if_unknown() {
    let mut fake = FakeDaemon::with_target(HOST);
    for (letter, name) in [
        ("R", "running"),
        ("D", "disk_sleep"),
        ("T", "stopped"),
        ("X", "dead"),
        ("S", "sleeping"),
    ] {
        set_stat(&fake, "proc/4242/stat", &[(STATE_FIELD, letter)]);
        let states = states(&fake.tick());
        assert_eq!(
            (
                states.len(),
                states.iter().filter(|state| state.ends_with("=0")).count()
            ),
            (8, 7),
            "{states:?}"
        );
        assert!(states.contains(&format!("{name}=1")), "{states:?}");
    }
    set_stat(&fake, "proc/4242/stat", &[(STATE_FIELD, "P")]);
    assert_eq!(states(&fake.tick()), Vec::<String>::new());
}

#[test]
fn virtual_size_is_absent_not_0_once_memory_is_released() {
    let mut fake = FakeDaemon::with_target(HOST);
    assert!(fake.tick().value_of(&p::VIRTUAL, &[]) > Some(0.0));
    set_stat(&fake, "proc/4242/stat", &[(FLAGS, EXITING), (VSIZE, "0")]);
    let tick = fake.tick();
    assert_eq!(tick.value_of(&p::VIRTUAL, &[]), None);
    assert!(
        tick.value_of(&p::THREADS, &[]) > Some(0.0),
        "the rest is still told"
    );
}

#[test]
fn the_boot_time_is_reread_only_after_a_clock_step() {
    let mut fake = FakeDaemon::with_target(HOST);
    let started = fake.tick().value_of(&START_TIME, &[]).unwrap();
    let stat = fs::read_to_string(fake.host.path("proc/stat")).unwrap();
    let (before, boot) = stat.split_once("btime ").unwrap();
    let (boot, after) = boot.split_once('\n').unwrap();
    let boot: u64 = boot.parse().unwrap();
    let set = |fake: &FakeDaemon, boot: u64| {
        let text = format!("{before}btime {boot}\n{after}");
        fake.host.write("proc/stat", text).unwrap();
    };
    set(&fake, boot + 7200);
    for _ in 0..3 {
        let tick = fake.tick_after(LONG);
        assert_eq!(tick.value_of(&START_TIME, &[]), Some(started));
    }
    fake.started += Duration::from_secs(7200);
    let tick = fake.tick();
    assert_eq!(tick.value_of(&START_TIME, &[]), Some(started + 7200.0));
    // A process that is found after the step starts by the new clock.
    set(&fake, boot);
    fake.target = None;
    fake.tick();
    fake.started -= Duration::from_secs(7200);
    fake.tick();
    set(&fake, boot + 1);
    fake.find();
    let tick = fake.tick();
    assert_eq!(tick.value_of(&START_TIME, &[]), Some(started));
}

fn label(tick: &Tick) -> String {
    tick.readings()
        .find(|reading| reading.metric.name == TARGET_INFO.name)
        .unwrap()
        .label_values[6]
        .to_string()
}

/// What a tick read of the cgroup.
fn of_cgroup(tick: &Tick) -> BTreeMap<String, Value> {
    let of = ["agave_cgroup_", "agave_memory_"];
    kernels(tick)
        .into_iter()
        .filter(|(series, _)| of.iter().any(|name| series.starts_with(name)))
        .collect()
}

#[test]
fn a_process_is_followed_into_another_cgroup_including_the_root() {
    let mut fake = FakeDaemon::with_target(HOST);
    assert_eq!(label(&fake.tick()), "/validator.slice/sol.service");
    for path in ["/validator.slice", "/"] {
        fake.host
            .write("proc/4242/cgroup", format!("0::{path}\n"))
            .unwrap();
        assert_eq!(label(&fake.tick()), path, "at the next tick");
    }
    let mut fake = FakeDaemon::with_target(HOST_V1);
    assert!(!of_cgroup(&fake.tick()).is_empty());
    fake.host.write("proc/4242/cgroup", TOPMOST).unwrap();
    let tick = fake.tick();
    assert_eq!(label(&tick), "/");
    assert_eq!(
        tick.value_of(&USAGE, &[]),
        None,
        "this host's topmost cgroup does not count its memory"
    );
}

/// A cgroup with the files of the fixture's and these of its own, for a process to be moved to.
const SMALL: &str = "sys/fs/cgroup/small.scope";

fn memory_events(kills: u64) -> String {
    format!("low 0\nhigh 7000\nmax 1\noom 9\noom_kill {kills}\n")
}

fn memory_pressure(full: u64) -> String {
    format!("some total=5\nfull total={full}\n")
}

fn write_small_cgroup(host: &FakeHost) {
    let old = host.path("sys/fs/cgroup/validator.slice/sol.service");
    for entry in fs::read_dir(old).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        host.write(&format!("{SMALL}/{name}"), fs::read(&path).unwrap())
            .unwrap();
    }
    let stat = "anon 4096\nshmem 0\nactive_file 0\ninactive_file 0\npgfault 10\npgmajfault 2\n";
    for (name, text) in [
        ("memory.max", "104857600\n".to_owned()),
        ("memory.stat", stat.to_owned()),
        ("memory.events", memory_events(40)),
        ("memory.pressure", memory_pressure(4)),
    ] {
        host.write(&format!("{SMALL}/{name}"), text).unwrap();
    }
}

/// Counters of the cgroup: kills, major faults, stalls.
fn cgroup_counters(tick: &Tick) -> [f64; 3] {
    [
        tick.value_of(&EVENTS, &["oom_kill"]),
        tick.value_of(&PAGE_FAULTS, &["major"]),
        tick.value_of(&PRESSURE, &["memory", "full"]),
    ]
    .map(Option::unwrap)
}

#[test]
fn a_moved_process_reports_its_new_cgroup_with_continuous_counters() {
    let mut fake = FakeDaemon::with_target(HOST);
    let before = cgroup_counters(&fake.tick());
    write_small_cgroup(&fake.host);
    let write = |fake: &FakeDaemon, name: &str, text: String| {
        fake.host.write(&format!("{SMALL}/{name}"), text).unwrap();
    };
    fake.host
        .write("proc/4242/cgroup", "0::/small.scope\n")
        .unwrap();
    let tick = fake.tick();
    assert_eq!(tick.value_of(&EFFECTIVE_LIMIT, &[]), Some(104_857_600.0));
    assert_eq!(tick.value_of(&STAT, &["anon"]), Some(4096.0));
    assert_eq!(cgroup_counters(&tick), before, "neither growth nor a reset");
    write(&fake, "memory.events", memory_events(41));
    let [kills, faults, _] = cgroup_counters(&fake.tick());
    assert_eq!((kills, faults), (before[0] + 1.0, before[1]));
    // A cgroup that is made anew under its path counts from zero, also if it had counted nothing before the process came.
    for full in [1_000_000, 2_000_000] {
        write(&fake, "memory.pressure", memory_pressure(full));
        fake.tick();
    }
    write(&fake, "memory.events", memory_events(1));
    write(&fake, "memory.pressure", memory_pressure(1_500_000));
    let [kills, _, stalled] = cgroup_counters(&fake.tick());
    assert_eq!((kills, stalled), (1.0, 1.5));
}

/// What version 1 says of a thread that has begun to exit, and of one in no cgroup.
const TOPMOST: &str = "11:memory:/\n10:blkio:/\n8:cpu,cpuacct:/\n1:name=systemd:/\n";

#[test]
fn an_exiting_v1_process_keeps_its_cgroup_or_a_living_threads() {
    let mut fake = FakeDaemon::with_target(HOST_V1);
    let before = fake.tick();
    assert_eq!(label(&before), "/system.slice/sol.service");
    let threads: Vec<_> = fs::read_dir(fake.host.path("proc/4242/task"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    let exit = |fake: &FakeDaemon, folder: &str| {
        fake.host
            .write(&format!("{folder}/cgroup"), TOPMOST)
            .unwrap();
        set_stat(
            fake,
            &format!("{folder}/stat"),
            &[(STATE_FIELD, "Z"), (FLAGS, EXITING), (VSIZE, "0")],
        );
    };
    // All threads are exiting: nothing tells where they are.
    exit(&fake, "proc/4242");
    for thread in &threads {
        exit(&fake, &format!("proc/4242/task/{}", thread.display()));
    }
    let tick = fake.tick_after(LONG);
    assert_eq!(
        (label(&tick), of_cgroup(&tick)),
        (label(&before), of_cgroup(&before))
    );
    // The main thread alone has exited, and another was moved since.
    fake.host
        .write(
            "proc/4242/task/4243/cgroup",
            TOPMOST.replace(":/\n", ":/system.slice\n"),
        )
        .unwrap();
    set_stat(
        &fake,
        "proc/4242/task/4243/stat",
        &[(STATE_FIELD, "S"), (FLAGS, ALIVE)],
    );
    assert_eq!(label(&fake.tick_after(LONG)), "/system.slice");
}

#[test]
fn a_process_found_while_exiting_has_no_cgroup_instead_of_the_root() {
    let mut fake = FakeDaemon::new(HOST_V1, &Config::default());
    fake.find();
    fake.host.write("proc/4242/cgroup", TOPMOST).unwrap();
    set_stat(&fake, "proc/4242/stat", &[(FLAGS, EXITING)]);
    fs::remove_dir_all(fake.host.path("proc/4242/task")).unwrap();
    let tick = fake.tick();
    assert_eq!((label(&tick), of_cgroup(&tick).len()), (String::new(), 0));
    assert!(counted(&tick, Source::Cgroup, ProblemKind::Gone) >= 1.0);
}

#[test]
fn a_forbidden_file_is_counted_and_loses_only_its_own_series() {
    if !FakeHost::permissions_apply().unwrap() {
        return as_nobody(
            "source_contract::a_forbidden_file_is_counted_and_loses_only_its_own_series",
        );
    }
    each(FILES, |file| {
        let mut fake = FakeDaemon::with_target(file.host);
        fake.host.forbid(file.path).unwrap();
        hold(
            file,
            "forbidden",
            ProblemKind::Forbidden,
            &fake.tick(),
            None,
        )
    });
}

/// Runs one test of this program again as a user whom permissions bind.
#[expect(
    clippy::disallowed_methods,
    reason = "permissions do not bind root, and a test program cannot give its rights back"
)]
fn as_nobody(test: &str) {
    let program = std::env::current_exe().unwrap();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let may_run = Command::new("setpriv")
        .args(user)
        .arg(&program)
        .args(["--list"])
        .output();
    if !may_run.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: root is bound by no permission, and setpriv cannot run {} as another user",
            program.display()
        );
        return;
    }
    let output = Command::new("setpriv")
        .args(user)
        .arg(&program)
        .args(["--exact", test, "--nocapture"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "as nobody:\n{stdout}"
    );
}
