//! Runs a real leader and a real follower by hand, to try the daemon on.
#![expect(clippy::disallowed_methods, reason = "a tool for people: it reads the clock and chooses its exit code")]

use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use faultline_testkit::Result;
use faultline_testkit::cluster::{Cluster, ClusterOptions, FirstSnapshot};
use faultline_testkit::load::Load;
use faultline_testkit::program::{self, Options};

const USAGE: &str = "\
usage: faultline-cluster [options]
Starts a leader and a follower on loopback and a load on them; ends after --seconds or when stdin closes.
  --metrics URL         the follower pushes its metrics there, e.g. http://127.0.0.1:9913
  --leader-metrics URL  the leader too
  --seconds N           run for N seconds after the start (default: until stdin closes)
  --cache-entries N     capacity of the program caches (default: the validator's own)
  --programs N          memo programs to call (default 640)
  --rate N              transactions a second (default 300)
  --no-load             no transactions
  --download            the follower fetches its snapshot itself (starts about 40 s later)
  --leader-only         start no follower: it is told how to start some, which download their snapshots
  --folder DIR          ledgers and logs there, kept (default: a temporary folder, removed)
  --ports N             lowest port to use (default 18000)
  --ignore-stdin        do not end when stdin closes (needs --seconds)";

struct Arguments {
    options: ClusterOptions,
    seconds: Option<u64>,
    rate: u32,
    ignore_stdin: bool,
    leader_only: bool,
}

fn main() -> ExitCode {
    program::main("faultline-cluster", USAGE, parse, run)
}

fn parse(given: &mut Options) -> std::result::Result<Arguments, String> {
    let mut arguments = Arguments {
        options: ClusterOptions::default(),
        seconds: None,
        rate: 300,
        ignore_stdin: false,
        leader_only: false,
    };
    let options = &mut arguments.options;
    while let Some(name) = given.next_name() {
        match name {
            "--metrics" => options.follower_metrics = Some(given.value()?),
            "--leader-metrics" => options.leader_metrics = Some(given.value()?),
            "--seconds" => arguments.seconds = Some(given.number()?),
            "--cache-entries" => options.cache_entries = Some(given.number()?),
            "--programs" => options.programs = given.number()?,
            "--rate" => arguments.rate = given.number()?,
            "--no-load" => arguments.rate = 0,
            "--download" => options.first_snapshot = FirstSnapshot::Downloaded,
            "--leader-only" => {
                arguments.leader_only = true;
                options.first_snapshot = FirstSnapshot::Downloaded;
            }
            "--folder" => options.folder = Some(given.value()?.into()),
            "--ports" => options.ports_base = given.number()?,
            "--ignore-stdin" => arguments.ignore_stdin = true,
            _ => return Err(given.unknown()),
        }
    }
    if arguments.ignore_stdin && arguments.seconds.is_none() {
        return Err("--ignore-stdin needs --seconds".to_owned());
    }
    Ok(arguments)
}

fn run(arguments: Arguments) -> Result<()> {
    let begun = Instant::now();
    let programs = arguments.options.programs;
    let mut cluster = match arguments.leader_only {
        true => Cluster::start_leader(arguments.options)?,
        false => Cluster::start(arguments.options)?,
    };
    println!("started after {:.1} s", begun.elapsed().as_secs_f64());
    println!(
        "leader    pid {} rpc {} ledger {}",
        cluster.leader_pid(),
        cluster.leader_rpc().address(),
        show(cluster.leader_ledger())
    );
    match cluster.follower_pid() {
        Some(pid) => {
            let (rpc, ledger) = (cluster.follower_rpc(), show(cluster.follower_ledger()));
            println!("follower  pid {pid} rpc {} ledger {ledger}", rpc.address());
            println!("follower  log {}", show(cluster.follower_log()));
        }
        None => tell_how_to_follow(&cluster),
    }
    let load = match arguments.rate {
        0 => None,
        rate => Some(Load::start(cluster.leader_rpc().address(), rate, programs)?),
    };
    let end = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let stdin_closed = (!arguments.ignore_stdin).then(watch_stdin);
    while end.is_none_or(|end| Instant::now() < end) && !wait(stdin_closed.as_ref(), Duration::from_secs(1)) {
        if arguments.leader_only { cluster.check_leader()? } else { cluster.check()? }
    }
    if let Some(load) = load {
        let failed = load.failed();
        println!("load      {} transactions accepted, {failed} refused", load.stop());
    }
    Ok(())
}

fn tell_how_to_follow(cluster: &Cluster) {
    let follower = cluster.follower();
    let environment: Vec<String> = follower.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    for (number, place) in cluster.places().iter().enumerate() {
        let ledger = cluster.folder().join(format!("follower-{}", number + 1));
        let command = follower.command(place, &ledger).join(" ");
        println!("follower {} by  {} {command} --log -", number + 1, environment.join(" "));
    }
}

fn show(path: &std::path::Path) -> std::path::Display<'_> {
    path.display()
}

/// Waits; true when stdin has closed meanwhile.
fn wait(stdin_closed: Option<&Receiver<()>>, pause: Duration) -> bool {
    match stdin_closed {
        Some(closed) => closed.recv_timeout(pause) != Err(RecvTimeoutError::Timeout),
        None => {
            std::thread::sleep(pause);
            false
        }
    }
}

fn watch_stdin() -> Receiver<()> {
    let (closed, receiver) = channel();
    std::thread::spawn(move || {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
        drop(closed);
    });
    receiver
}
