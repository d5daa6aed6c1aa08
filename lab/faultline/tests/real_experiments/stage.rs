//! One leader for all, and experiments on its followers, run as a researcher runs them.

use crate::page::Page;
use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions, FirstSnapshot, FollowerAddress},
    eventually::{Condition, wait_for},
    load::Load,
    process::{Program, Running, tail},
    sink::Sink,
};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// More programs than the smaller cache has room for.
const PROGRAMS: u32 = 640;
/// For a whole experiment: each has its runs end after minutes by rules of its own.
const PATIENCE: Duration = Duration::from_secs(900);

/// The leader, and a folder for everything.
pub struct Stage {
    // The leader ends before its folder goes.
    cluster: Cluster,
    folder: tempfile::TempDir,
}

/// One experiment at a time, on a leader that all share.
pub struct Turn {
    pub stage: Arc<Stage>,
    _mine: MutexGuard<'static, ()>,
}

static STAGE: Mutex<Weak<Stage>> = Mutex::new(Weak::new());
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the leader, and until no other experiment runs on it. `None`, told on standard error, where this machine
/// cannot do it.
pub fn turn() -> Result<Option<Turn>> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(None);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !status
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
    {
        eprintln!("SKIPPED: groups with limits are made by root");
        return Ok(None);
    }
    let mut shared = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = match shared.upgrade() {
        Some(stage) => stage,
        None => Arc::new(Stage::start()?),
    };
    *shared = Arc::downgrade(&stage);
    drop(shared);
    Ok(Some(Turn {
        stage,
        _mine: TURN.lock().unwrap_or_else(PoisonError::into_inner),
    }))
}

/// The program of that name: in `FAULTLINE_PROGRAMS`, else where cargo has put the one under test.
fn program(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_BIN_EXE_faultline"));
    let program = match std::env::var_os("FAULTLINE_PROGRAMS") {
        Some(folder) => PathBuf::from(folder).join(name),
        None => own.with_file_name(name),
    };
    assert!(
        program.is_file(),
        "no {}: cargo build -p {name}",
        program.display()
    );
    program
}

/// A folder of results in `target`, emptied.
pub fn results(name: &str) -> PathBuf {
    emptied(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(name))
}

/// That folder, made anew.
pub fn emptied(folder: PathBuf) -> PathBuf {
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            panic!("{}: {error}", folder.display())
        }
        _ => fs::create_dir_all(&folder).expect("a folder for results"),
    }
    folder
}

impl Stage {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nodes = folder.path().join("nodes");
        fs::create_dir(&nodes).expect("a folder for the nodes");
        let cluster = Cluster::start_leader(ClusterOptions {
            programs: PROGRAMS,
            // Followers come and go: each finds its snapshot by gossip, as on any cluster.
            first_snapshot: FirstSnapshot::Downloaded,
            folder: Some(nodes),
            ..ClusterOptions::default()
        })?;
        Ok(Self { cluster, folder })
    }

    /// So many transactions a second over all programs, as long as what is returned lives.
    pub fn load(&self, rate: u32) -> Result<Load> {
        Load::start(self.cluster.leader_rpc().address(), rate, PROGRAMS)
    }

    /// Where followers have room.
    pub fn places(&self) -> &[FollowerAddress] {
        self.cluster.follower_addresses()
    }

    /// The ledger of a place of this experiment.
    pub fn ledger(&self, experiment: &str, place: usize) -> PathBuf {
        self.folder
            .path()
            .join(format!("{experiment}-ledger-{place}"))
    }

    /// Keys of a lane in that place.
    pub fn lane(&self, experiment: &str, number: usize, place: &FollowerAddress) -> String {
        let (ledger, identity) = (self.ledger(experiment, number), &place.identity);
        let FollowerAddress {
            rpc_port,
            gossip_port,
            port_range: (first, last),
            ..
        } = place;
        format!(
            "ledger = {ledger:?}\nidentity = {identity:?}\nrpc_port = {rpc_port}\ngossip_port = {gossip_port}\n\
             port_range = \"{first}-{last}\"\n"
        )
    }

    /// A plan of followers of this leader: what all experiments have in common, with `lanes` after the workload's keys, and
    /// `own` at the end. Runs last `seconds` from the first transaction on.
    pub fn plan(&self, name: &str, folder: &Path, seconds: u32, lanes: &str, own: &str) -> String {
        let follower = self.cluster.follower();
        let words = command(follower.arguments);
        let mut environment = String::new();
        for (name, value) in &follower.environment {
            let comma = if environment.is_empty() { "" } else { ", " };
            write!(environment, "{comma}{name} = {value:?}").expect("a text grows");
        }
        let (binary, entrypoint, rpc) = (
            &follower.program,
            follower.entrypoint,
            self.cluster.leader_rpc().address(),
        );
        let recorder = program("faultlined");
        format!(
            r#"name = {name:?}
folder = {folder:?}

[workload]
command = {words:?}
binary = {binary:?}
environment = {{ {environment} }}
cluster = "localnet"
cluster_rpc = "http://{rpc}"
entrypoints = [{entrypoint:?}]
{lanes}
[begin]
how = "download"
page_cache = "drop-files"

[stop]
duration = "{seconds}s"
counted_from = "first-transaction"
first_transaction_within = "3m"
no_progress_for = "1m"
at_tip_within = "3m"
grace = "30s"

# The leader and the load are on the same machine.
[host]
cool_down = "2s"
patience = "5s"
busy_cpus = {{ at_most = 2.0, otherwise = "warn" }}
free_disk = {{ at_least = "2G", otherwise = "refuse" }}
huge_pages = "ignore"
governor = "ignore"
leftovers = "warn"

[recorder]
program = {recorder:?}
config = "faultlined.toml"

{own}"#
        )
    }

    /// The daemon's configuration: it hands every push on to `upstream`.
    pub fn configuration(&self, plan: &Path, upstream: &Sink) {
        let (config, password) = (
            plan.with_file_name("faultlined.toml"),
            plan.with_file_name("password"),
        );
        fs::write(&password, "secret\n").expect("a password file");
        let text = format!(
            "[threads]\ninterval = \"1s\"\n[phase]\nat_tip_for = \"5s\"\n\
             [forward]\nurl = {:?}\ndb = \"up\"\nuser = \"u\"\npassword_file = {password:?}\n",
            upstream.url()
        );
        fs::write(config, text).expect("a configuration");
    }

    /// Marks the ledgers, checks the plan and runs it to its end; `look` is called again and again meanwhile.
    pub fn run(&self, plan: &Path, ledgers: &[PathBuf], mut look: impl FnMut()) -> Result<()> {
        faultline(&["init"], ledgers);
        println!("{}", faultline(&["plan"], &[plan.to_owned()]));
        let output = plan.with_extension("out");
        let mut runner = Running::start(&Program {
            path: program("faultline"),
            arguments: vec![
                "experiment".to_owned(),
                "run".to_owned(),
                plan.display().to_string(),
            ],
            environment: Vec::new(),
            output: output.clone(),
        })?;
        let status = wait_for(PATIENCE, "the experiment ends", || {
            look();
            Ok(match runner.exit_status()? {
                Some(status) => Condition::Ready(status),
                None => Condition::NotYet(tail(&output, 20)),
            })
        })?;
        let from_experiment = fs::read_to_string(&output).unwrap_or_default();
        println!("{from_experiment}");
        assert!(status.success(), "{status}\n{from_experiment}");
        Ok(())
    }
}

/// `faultline experiment report`, into this folder.
pub fn report(experiment: &Path, out: PathBuf) -> Page {
    println!(
        "{}",
        faultline(
            &["report", "--force", "--out"],
            &[out.clone(), experiment.to_owned()]
        )
    );
    Page(out)
}

/// `faultline experiment WORDS PATHS`, which must go well; what it prints.
fn faultline(words: &[&str], paths: &[PathBuf]) -> String {
    let mut command = Command::new(program("faultline"));
    let output = command
        .arg("experiment")
        .args(words)
        .args(paths)
        .output()
        .expect("faultline can be run");
    let from_experiment = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{words:?}: {from_experiment}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    from_experiment
}

/// The words of a follower, with placeholders for its lane.
fn command(arguments: Vec<String>) -> Vec<String> {
    let mut words = vec!["{binary}".to_owned()];
    words.extend(arguments);
    let of_lane = ["identity", "ledger", "rpc-port", "gossip-port"];
    words.extend(
        of_lane
            .iter()
            .flat_map(|key| [format!("--{key}"), format!("{{{}}}", key.replace('-', "_"))]),
    );
    words.extend(
        [
            "--dynamic-port-range",
            "{port_range}",
            "{entrypoints}",
            "--log",
            "-",
        ]
        .map(str::to_owned),
    );
    words
}
