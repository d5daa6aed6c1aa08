//! The stall test: does a thread that maps, touches and unmaps memory wait longer while the daemon follows its process?
//!
//! The target is a second process of this program, with many gigabytes in many mappings and many threads. One thread maps
//! 64 KiB every 0.2 ms, touches each page and unmaps it: it waits while another task holds the process's `mmap_lock`.
//! Four arms alternate: no reader; the daemon at its default of 1 s; the daemon at 100 ms with thread pools on every tick;
//! and, as a control that causes stalls, a reader of `smaps_rollup` twice a second.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool for people: it starts itself, reads the clock and exits"
)]

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use faultline_testkit::{Error, Result, daemon::Daemon, proc, program};
use memmap2::{Mmap, MmapMut};

const PROBE_BYTES: usize = 64 * 1024;
const PROBE_INTERVAL: Duration = Duration::from_micros(200);
const PAGE: usize = 4096;
const TARGET_OPTION: &str = "be-the-target";
/// Time in which the daemon opens all files.
const SETTLING: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    NoReader,
    EverySecond,
    TenTimesASecond,
    Rollup,
}

const ARMS: [Arm; 4] = [
    Arm::NoReader,
    Arm::EverySecond,
    Arm::TenTimesASecond,
    Arm::Rollup,
];

impl Arm {
    fn name(self) -> &'static str {
        match self {
            Self::NoReader => "no reader",
            Self::EverySecond => "daemon, every 1 s",
            Self::TenTimesASecond => "daemon, every 100 ms, pools too",
            Self::Rollup => "control: smaps_rollup twice a second",
        }
    }
}

/// Measures how long a thread waits that maps, touches and unmaps memory while the daemon follows its process.
#[derive(Debug, clap::Parser)]
struct Arguments {
    /// Resident memory of the target in GiB
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    gib: usize,
    /// Number of mappings of that memory
    #[arg(long, value_name = "N", default_value_t = 32_768, value_parser = at_least_one)]
    mappings: usize,
    /// Number of parked threads of the target
    #[arg(long, value_name = "N", default_value_t = 1000)]
    threads: usize,
    /// Length of a block in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Blocks of each arm
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,
    /// The daemon's program
    #[arg(long, value_name = "FILE", default_value_os_t = program::sibling_program("faultlined"))]
    daemon: PathBuf,
    #[arg(long = TARGET_OPTION, hide = true)]
    as_target: bool,
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|number: &usize| *number > 0);
    number.ok_or_else(|| "not a positive number".to_owned())
}

fn main() -> ExitCode {
    program::main("faultline-stall", |arguments: Arguments| {
        if arguments.as_target {
            run_as_target(&arguments)
        } else {
            run(&arguments)
        }
    })
}

fn target_error(source: io::Error) -> Error {
    Error::File {
        path: "the target".into(),
        source,
    }
}

/// Holds memory and threads. Prints the probes since the last line for each line of standard input.
fn run_as_target(arguments: &Arguments) -> Result<()> {
    let size = (arguments.gib << 30) / arguments.mappings / PAGE * PAGE;
    let mut mappings: Vec<(MmapMut, Option<Mmap>)> = Vec::with_capacity(arguments.mappings / 2);
    for _ in 0..arguments.mappings.div_ceil(2) {
        // The kernel would merge neighbours of equal protection into one mapping.
        let writable = touched_memory(size).map_err(target_error)?;
        let read_only = touched_memory(size)
            .and_then(MmapMut::make_read_only)
            .map_err(target_error)?;
        mappings.push((writable, Some(read_only)));
    }
    for number in 0..arguments.threads {
        let name = format!("solPool{:02}T{number:03}", number % 70);
        let builder = std::thread::Builder::new().name(name).stack_size(64 * 1024);
        builder.spawn(std::thread::park).map_err(target_error)?;
    }
    let probes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                std::thread::sleep(PROBE_INTERVAL);
                let start = Instant::now();
                let Ok(map) = touched_memory(PROBE_BYTES) else {
                    continue;
                };
                drop(map);
                let took = start.elapsed().as_nanos() as u64;
                probes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(took);
            }
        });
        println!("ready");
        for _ in io::stdin().lines() {
            let taken = std::mem::take(&mut *probes.lock().unwrap_or_else(PoisonError::into_inner));
            let words: Vec<String> = taken.iter().map(u64::to_string).collect();
            println!("{}", words.join(" "));
        }
        drop(mappings);
        std::process::exit(0)
    })
}

fn touched_memory(size: usize) -> io::Result<MmapMut> {
    let mut map = MmapMut::map_anon(size)?;
    map.chunks_mut(PAGE).for_each(|page| page[0] = 1);
    Ok(map)
}

/// The target's process and pipes; killed when dropped.
struct Target {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Target {
    fn start(arguments: &Arguments) -> Result<Self> {
        let program = std::env::current_exe().map_err(target_error)?;
        let mut command = Command::new(program);
        for (name, value) in [
            ("--gib", arguments.gib),
            ("--mappings", arguments.mappings),
            ("--threads", arguments.threads),
        ] {
            command.arg(name).arg(value.to_string());
        }
        let mut child = command
            .arg(format!("--{TARGET_OPTION}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(target_error)?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Missing("the target has no pipes".to_owned()));
        };
        let mut target = Self {
            child,
            commands,
            answers: BufReader::new(answers),
        };
        match target.line()?.as_str() {
            "ready" => Ok(target),
            _ => Err(Error::Missing(
                "the target cannot allocate its memory".to_owned(),
            )),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(target_error)?;
        Ok(line.trim_end().to_owned())
    }

    /// Microseconds that each probe took since the last call.
    fn take(&mut self) -> Result<Vec<f64>> {
        self.commands.write_all(b"\n").map_err(target_error)?;
        let line = self.line()?;
        Ok(line
            .split(' ')
            .filter_map(|word| word.parse::<f64>().ok())
            .map(|nanos| nanos / 1e3)
            .collect())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("the target does not end: {error}");
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut target = Target::start(arguments)?;
    let pid = target.child.id();
    let resident = proc::status_bytes(pid, "VmRSS")?.unwrap_or_default() >> 20;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(target_error)?
        .lines()
        .count();
    println!(
        "target: {resident} MiB resident, {maps} mappings, {} threads",
        arguments.threads + 2
    );
    let mut samples: [Vec<f64>; 4] = Default::default();
    let mut worst: [Vec<f64>; 4] = Default::default();
    for round in 0..arguments.rounds {
        let order: Vec<usize> = if round % 2 == 0 {
            (0..4).collect()
        } else {
            (0..4).rev().collect()
        };
        for arm_index in order {
            let probes = block(arguments, ARMS[arm_index], &mut target)?;
            worst[arm_index].push(probes.iter().copied().fold(0.0, f64::max));
            samples[arm_index].extend(probes);
        }
    }
    println!(
        "\n| reader | probes | p50, us | p99, us | p99.9, us | p99.99, us | worst of each block, ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (arm_index, arm) in ARMS.iter().enumerate() {
        let all = &mut samples[arm_index];
        all.sort_by(f64::total_cmp);
        let at = |share: f64| {
            all.get(((all.len() as f64 - 1.0) * share) as usize)
                .copied()
                .unwrap_or_default()
        };
        let worst: Vec<String> = worst[arm_index]
            .iter()
            .map(|us| format!("{:.2}", us / 1e3))
            .collect();
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
            arm.name(),
            all.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(0.9999),
            worst.join(", ")
        );
    }
    Ok(())
}

/// Probes of one block of an arm.
fn block(arguments: &Arguments, arm: Arm, target: &mut Target) -> Result<Vec<f64>> {
    let pid = target.child.id();
    let folder = tempfile::tempdir().map_err(target_error)?;
    let daemon = match arm {
        Arm::EverySecond => Some(start(arguments, pid, "1s", "5s", folder.path())?),
        Arm::TenTimesASecond => Some(start(arguments, pid, "100ms", "100ms", folder.path())?),
        Arm::NoReader | Arm::Rollup => None,
    };
    std::thread::sleep(SETTLING);
    let cpu_before = daemon
        .as_ref()
        .map(|daemon| cpu(daemon.pid()))
        .transpose()?;
    target.take()?;
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while Instant::now() < end {
        if arm == Arm::Rollup {
            fs::read(format!("/proc/{pid}/smaps_rollup")).map_err(target_error)?;
        }
        std::thread::sleep(
            Duration::from_millis(500).min(end.saturating_duration_since(Instant::now())),
        );
    }
    let probes = target.take()?;
    if let (Some(daemon), Some(before)) = (daemon, cpu_before) {
        let share = (cpu(daemon.pid())? - before) / arguments.seconds as f64 * 100.0;
        let resident =
            proc::status_bytes(daemon.pid(), "VmRSS")?.unwrap_or_default() as f64 / 1_048_576.0;
        println!(
            "{}: the daemon took {share:.2} % of one core and has {resident:.1} MiB",
            arm.name()
        );
        daemon.stop()?;
    }
    Ok(probes)
}

fn start(
    arguments: &Arguments,
    pid: u32,
    interval: &str,
    pools: &str,
    folder: &std::path::Path,
) -> Result<Daemon> {
    let config = folder.join("c.toml");
    let text =
        format!("[sampling]\ninterval = \"{interval}\"\n[threads]\ninterval = \"{pools}\"\n");
    fs::write(&config, text).map_err(|source| Error::File {
        path: config.clone(),
        source,
    })?;
    let (program, config, pid) = (
        arguments.daemon.display().to_string(),
        config.display().to_string(),
        pid.to_string(),
    );
    Daemon::start(&program, &["--config", &config, "--pid", &pid], folder)
}

/// CPU seconds of all threads since their start.
fn cpu(pid: u32) -> Result<f64> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).map_err(|source| Error::File {
        path: folder.into(),
        source,
    })?;
    let texts = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("schedstat")).ok());
    Ok(texts
        .filter_map(|text| text.split(' ').next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_number_below_one_is_refused() {
        assert!(Arguments::try_parse_from(["x", "--threads", "0"]).is_ok());
        for option in ["--gib", "--mappings", "--seconds", "--rounds"] {
            assert!(
                Arguments::try_parse_from(["x", option, "0"]).is_err(),
                "{option}"
            );
        }
    }
}
