//! The observer test: does a follower replay more slowly while the daemon follows it?
//!
//! A real leader and a real follower run under a fixed load. Blocks without and with the daemon alternate (off, on, on,
//! off, ...), so that a drift of the machine affects both. The test compares the follower's `replay-slot-stats` and the
//! run-queue delay of its replay threads. In both arms the follower pushes to a sink of this program, which forwards the
//! bodies to the daemon while it runs.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool for people: it reads clocks and chooses its exit code"
)]

mod blocks;
mod relay;
mod report;
mod witness;

use std::{
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use blocks::{Block, Cost};
use faultline_testkit::{
    Error, Result,
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    load::Load,
    program,
    sink::Sink,
};
use relay::Relay;
use witness::{Snapshot, host_load, replay_points};

/// The beginning of a block, which does not count: the daemon starts, or has just ended.
const SETTLING: Duration = Duration::from_secs(3);
/// Time in which the follower fills its program cache.
const WARM_UP: Duration = Duration::from_secs(30);
/// Wait for the last push: the follower pushes every 10 s.
const LAST_PUSH: Duration = Duration::from_secs(14);

/// Starts a leader and a follower on loopback under load, compares blocks without and with the daemon, prints Markdown.
#[derive(Debug, clap::Parser)]
struct Arguments {
    /// Blocks, a multiple of 4
    #[arg(long, value_name = "N", default_value_t = 20, default_value_if("short", "true", "4"), value_parser = fours)]
    blocks: usize,
    /// Length of a block in seconds, more than 3
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30,
        default_value_if("short", "true", "10")
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(SETTLING.as_secs() + 1..))]
    seconds: u64,
    /// 4 blocks of 10 s, about 2 minutes in total: shows only that the test works
    #[arg(long)]
    short: bool,
    /// Seconds for which the daemon's own cost is measured at the end
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        default_value_if("short", "true", "10")
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    cost_seconds: u64,
    /// The daemon's sampling interval
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: String,
    /// Transactions per second
    #[arg(long, value_name = "N", default_value_t = 300)]
    rate: u32,
    /// The daemon's program
    #[arg(long, value_name = "FILE", default_value_os_t = program::sibling_program("faultlined"))]
    daemon: PathBuf,
    /// Also write the Markdown to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn fours(text: &str) -> std::result::Result<usize, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &usize| *number > 0 && number.is_multiple_of(4));
    number.ok_or_else(|| "not a positive multiple of 4".to_owned())
}

fn main() -> ExitCode {
    program::main("faultline-observer", |arguments: Arguments| {
        let text = run(&arguments)?;
        println!("{text}");
        let Some(path) = arguments.out else {
            return Ok(());
        };
        std::fs::write(&path, &text).map_err(|source| Error::File { path, source })
    })
}

fn run(arguments: &Arguments) -> Result<String> {
    if !arguments.daemon.is_file() {
        let daemon = arguments.daemon.display();
        return Err(Error::Missing(format!(
            "no daemon at {daemon}: cargo build --release -p faultlined"
        )));
    }
    let sink = Sink::start()?;
    let options = ClusterOptions {
        follower_metrics: Some(sink.url()),
        ..ClusterOptions::default()
    };
    let programs = options.programs;
    let mut cluster = Cluster::start(options)?;
    let load = Load::start(cluster.leader_rpc().address(), arguments.rate, programs)?;
    eprintln!(
        "the follower is at the tip, pid {}; warming up",
        cluster.follower_pid().unwrap_or_default()
    );
    std::thread::sleep(WARM_UP);
    let setup = Setup::new(arguments, sink)?;
    let started_at = Instant::now();
    let mut blocks = Vec::new();
    for number in 0..arguments.blocks {
        cluster.check()?;
        let with_daemon = matches!(number % 4, 1 | 2);
        let length = Duration::from_secs(arguments.seconds);
        let start = started_at + length * u32::try_from(number).unwrap_or(u32::MAX);
        let pid = cluster.follower_pid().unwrap_or_default();
        blocks.push(setup.block(with_daemon, pid, start + SETTLING..start + length)?);
        eprintln!(
            "block {} of {}, load {:.1}",
            number + 1,
            arguments.blocks,
            host_load()
        );
    }
    let pid = cluster.follower_pid().unwrap_or_default();
    let start = Instant::now() + SETTLING;
    let cost = setup.block(
        true,
        pid,
        start..start + Duration::from_secs(arguments.cost_seconds),
    )?;
    eprintln!("waiting for the follower's last push");
    std::thread::sleep(LAST_PUSH);
    let accepted = load.stop();
    let points = replay_points(&setup.relay.sink);
    for block in &mut blocks {
        block.points = points
            .iter()
            .filter(|point| block.span.contains(&point.at))
            .copied()
            .collect();
    }
    Ok(report::markdown(&blocks, cost.cost.as_ref(), accepted))
}

/// What all blocks use.
struct Setup<'a> {
    arguments: &'a Arguments,
    relay: Relay,
    folder: tempfile::TempDir,
}

impl<'a> Setup<'a> {
    fn new(arguments: &'a Arguments, sink: Sink) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|source| Error::File {
            path: std::env::temp_dir(),
            source,
        })?;
        Ok(Setup {
            arguments,
            relay: Relay::start(sink),
            folder,
        })
    }

    /// Runs a block with or without the daemon. Only the time `counted` is measured.
    fn block(&self, with_daemon: bool, follower: u32, counted: Range<Instant>) -> Result<Block> {
        let daemon = with_daemon
            .then(|| self.start_daemon(follower))
            .transpose()?;
        self.relay
            .set_destination(daemon.as_ref().map(Daemon::ingest));
        sleep_until(counted.start);
        let pids = (follower, daemon.as_ref().map(Daemon::pid));
        let (from, before, at) = (nanoseconds(), Snapshot::take(pids)?, Instant::now());
        sleep_until(counted.end);
        let (to, after, took) = (nanoseconds(), Snapshot::take(pids)?, at.elapsed());
        self.relay.set_destination(None);
        let cost = daemon
            .as_ref()
            .map(|daemon| Cost::between(&before, &after, took, daemon))
            .transpose()?;
        if let Some(daemon) = daemon {
            daemon.stop()?;
        }
        let (run_queue_delay, cpu_time) = after.replay_since(&before);
        let per_second = |time: Duration| time.as_secs_f64() / took.as_secs_f64();
        let (run_queue_delay, cpu_time) = (per_second(run_queue_delay), per_second(cpu_time));
        Ok(Block {
            with_daemon,
            span: from..to,
            points: Vec::new(),
            run_queue_delay,
            cpu_time,
            load: host_load(),
            cost,
        })
    }

    fn start_daemon(&self, follower: u32) -> Result<Daemon> {
        let pid = follower.to_string();
        let arguments = ["--pid", &pid, "--interval", &self.arguments.interval];
        Daemon::start(
            &text(&self.arguments.daemon),
            &arguments,
            self.folder.path(),
        )
    }
}

fn sleep_until(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

/// The wall clock, which is also that of the validator's points.
fn nanoseconds() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn short_mode_shortens_all_but_explicit_options() {
        let of = |words: &[&str]| {
            let given = Arguments::try_parse_from([&["x"], words].concat()).unwrap();
            (given.blocks, given.seconds, given.cost_seconds)
        };
        assert_eq!(of(&[]), (20, 30, 60));
        assert_eq!(of(&["--short"]), (4, 10, 10));
        assert_eq!(of(&["--short", "--seconds", "7"]), (4, 7, 10));
        assert!(Arguments::try_parse_from(["x", "--cost-seconds", "0"]).is_err());
    }
}
