//! Runs a real leader and a real follower, to try the daemon with them by hand.
#![expect(
    clippy::disallowed_methods,
    reason = "a tool for people: it reads the clock and chooses its exit code"
)]

use std::{
    io::Read,
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use faultline_testkit::{
    Result,
    cluster::{Cluster, ClusterOptions, FirstSnapshot},
    load::Load,
    program,
    voter::Stake,
};

/// Starts a leader, a follower and a load of transactions on loopback; ends after --seconds or when stdin closes.
#[derive(Debug, clap::Parser)]
struct Arguments {
    /// Where the follower pushes its metrics, e.g. http://127.0.0.1:9913
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// Where the leader pushes its metrics
    #[arg(long, value_name = "URL")]
    leader_metrics: Option<String>,
    /// Run for N seconds after the start (default: until stdin closes)
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Capacity of the program caches (default: the validator's own)
    #[arg(long, value_name = "N")]
    cache_entries: Option<u32>,
    /// Memo programs to call
    #[arg(long, value_name = "N", default_value_t = 640)]
    programs: u32,
    /// Transactions per second
    #[arg(long, value_name = "N", default_value_t = 300)]
    rate: u32,
    /// Send no transactions
    #[arg(long)]
    no_load: bool,
    /// The follower fetches its snapshot itself (starts about 40 s later)
    #[arg(long)]
    download: bool,
    /// Start no follower, but print how to start some. They download their snapshots; the first votes if it has stake
    #[arg(long)]
    leader_only: bool,
    /// The follower votes with this stake from the genesis on; the leader has 1,000,000 SOL
    #[arg(long, value_name = "SOL")]
    follower_stake: Option<u64>,
    /// Slots per epoch (default: the validator's own)
    #[arg(long, value_name = "N")]
    slots_per_epoch: Option<u64>,
    /// Folder for ledgers and logs, which is kept (default: a temporary folder)
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Lowest port to use
    #[arg(long, value_name = "N", default_value_t = 18_000)]
    ports: u16,
    /// Do not end when stdin closes
    #[arg(long, requires = "seconds")]
    ignore_stdin: bool,
}

fn main() -> ExitCode {
    program::main("faultline-cluster", run)
}

fn run(arguments: Arguments) -> Result<()> {
    let started = Instant::now();
    let (leader_only, ignore_stdin) = (arguments.leader_only, arguments.ignore_stdin);
    let (programs, seconds) = (arguments.programs, arguments.seconds);
    let rate = if arguments.no_load { 0 } else { arguments.rate };
    let mut cluster = match leader_only {
        true => Cluster::start_leader(options(arguments))?,
        false => Cluster::start(options(arguments))?,
    };
    println!("started after {:.1} s", started.elapsed().as_secs_f64());
    print_validators(&cluster);
    let load = match rate {
        0 => None,
        rate => Some(Load::start(cluster.leader_rpc().address(), rate, programs)?),
    };
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let stdin_closed = (!ignore_stdin).then(watch_stdin);
    while end.is_none_or(|end| Instant::now() < end)
        && !wait(stdin_closed.as_ref(), Duration::from_secs(1))
    {
        if leader_only {
            cluster.check_leader()?
        } else {
            cluster.check()?
        }
    }
    if let Some(load) = load {
        let failed = load.failed();
        println!(
            "load      {} transactions accepted, {failed} refused",
            load.stop()
        );
    }
    Ok(())
}

fn options(arguments: Arguments) -> ClusterOptions {
    let downloads = arguments.download || arguments.leader_only;
    ClusterOptions {
        programs: arguments.programs,
        cache_entries: arguments.cache_entries,
        follower_metrics: arguments.metrics,
        leader_metrics: arguments.leader_metrics,
        first_snapshot: if downloads {
            FirstSnapshot::Downloaded
        } else {
            FirstSnapshot::Copied
        },
        follower_stakes: arguments
            .follower_stake
            .map(Stake::always)
            .into_iter()
            .collect(),
        slots_per_epoch: arguments.slots_per_epoch,
        ports_base: arguments.ports,
        folder: arguments.folder,
        ..ClusterOptions::default()
    }
}

fn print_validators(cluster: &Cluster) {
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
        None => print_follower_commands(cluster),
    }
}

fn print_follower_commands(cluster: &Cluster) {
    let follower = cluster.follower();
    let environment: Vec<String> = follower
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    for (number, address) in cluster.follower_addresses().iter().enumerate() {
        let ledger = cluster.folder().join(format!("follower-{}", number + 1));
        let command = if number == 0 {
            cluster.follower_command(&ledger)
        } else {
            follower.command(address, &ledger)
        };
        let command = command.join(" ");
        println!(
            "follower {} by  {} {command} --log -",
            number + 1,
            environment.join(" ")
        );
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
