//! A real leader that votes and roots, and a real follower that replays the leader's blocks, on loopback.
//!
//! With [`FirstSnapshot::Copied`] the leader warps to [`WARP_SLOT`] at its start, which makes a snapshot at once instead of
//! after 100 slots. The follower gets copies of this snapshot and of the genesis, because gossip does not announce the
//! snapshot of a warp. With [`FirstSnapshot::Downloaded`] it downloads its snapshot as usual.

mod commands;
mod follower;

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::{
    Error, Result,
    binaries::{Binaries, SKIP_MESSAGE},
    eventually::{Condition, wait_for},
    ports::PortBlock,
    process::{Running, tail},
    rpc::Rpc,
    transaction::{GenesisAccount, PAYERS},
    voter::Stake,
};
use commands::Layout;
pub use commands::metrics_config;
pub use follower::{Follower, FollowerAddress, MAX_FOLLOWERS};

/// The slot to which the leader warps at its start.
pub const WARP_SLOT: u64 = 10;
/// A follower counts as following if it is at most this many slots behind its leader ...
const MAX_SLOTS_BEHIND: u64 = 4;
/// ... and has replayed this many slots: a new follower is near its leader at first, then stalls for seconds until the
/// first repair.
const MIN_REPLAYED_SLOTS: u64 = 8;

/// Options of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Memo programs in the genesis, at [`crate::transaction::program_address`]`(0..programs)`.
    pub programs: u32,
    /// Code of these programs, used in turn; empty: that of the memo program.
    pub program_files: Vec<PathBuf>,
    /// Number of further programs with the same code, at the next addresses, which the first payer may upgrade.
    pub upgradeable: u32,
    /// Number of funded payers: [`crate::transaction::payers`].
    pub payers: u32,
    /// Further accounts in the genesis.
    pub accounts: Vec<GenesisAccount>,
    /// Capacity of both nodes' program caches; needs a validator that honours `AGAVE_PROGRAM_CACHE_ENTRIES`.
    /// `None` leaves the version's own (512 in 2.1.14).
    pub cache_entries: Option<u32>,
    /// Where the follower pushes its metrics, `http://host:port`; `None`: nowhere.
    pub follower_metrics: Option<String>,
    /// Where the leader pushes its metrics; `None`: nowhere.
    pub leader_metrics: Option<String>,
    /// Further environment variables of the follower; they override those of the options above.
    pub follower_environment: Vec<(String, String)>,
    /// Further environment variables of the leader; they override those of the options above.
    pub leader_environment: Vec<(String, String)>,
    /// Stake with which the follower votes from the genesis on; empty: it does not vote. With more than a third of all
    /// stake, the leader cannot root a slot without it.
    pub follower_stakes: Vec<Stake>,
    /// Slots per epoch; `None`: the version's own, some thousand.
    pub slots_per_epoch: Option<u64>,
    /// Further arguments of the follower.
    pub follower_arguments: Vec<String>,
    /// Another `agave-validator` for [`Cluster::start_follower`]; `None`: that of [`Binaries::find`].
    pub follower_program: Option<PathBuf>,
    /// Where the follower's first snapshot comes from; from Agave 4.2 on always downloaded.
    pub first_snapshot: FirstSnapshot,
    /// Lowest port to use; the first free block of [`crate::ports::BLOCK`] ports from here on is taken.
    pub ports_base: u16,
    /// Folder for ledgers and logs, kept afterwards; `None`: a temporary one, kept only when a test panics.
    pub folder: Option<PathBuf>,
    /// Maximum wait for the leader's snapshot, and for the follower to reach the tip.
    pub deadline: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            programs: 640,
            program_files: Vec::new(),
            upgradeable: 0,
            payers: PAYERS,
            accounts: Vec::new(),
            cache_entries: None,
            follower_metrics: None,
            leader_metrics: None,
            follower_environment: Vec::new(),
            leader_environment: Vec::new(),
            follower_stakes: Vec::new(),
            slots_per_epoch: None,
            follower_arguments: Vec::new(),
            follower_program: None,
            first_snapshot: FirstSnapshot::Copied,
            ports_base: 18_000,
            folder: None,
            deadline: Duration::from_secs(180),
        }
    }
}

/// Where the follower's first snapshot comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstSnapshot {
    /// Copied from the leader's folder: the follower is at the tip after some 15 s.
    Copied,
    /// Found by gossip and downloaded over HTTP, once the leader has made one at slot 100.
    Downloaded,
}

/// Two validators. Both are killed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: the follower first, the folder and the ports last.
    follower: Option<Running>,
    leader: Running,
    options: ClusterOptions,
    genesis_hash: String,
    layout: Layout,
    temporary: Option<tempfile::TempDir>,
    _ports: PortBlock,
}

impl Cluster {
    /// Starts both and waits until the follower is at the tip.
    ///
    /// # Errors
    /// [`Error::Missing`] without binaries (see [`SKIP_MESSAGE`]); [`Error::Ended`] when a validator dies, with the end
    /// of its output; [`Error::Late`] when one of the two waits exceeds [`ClusterOptions::deadline`].
    pub fn start(options: ClusterOptions) -> Result<Self> {
        let mut cluster = Self::start_leader(options)?;
        cluster.start_follower()?;
        cluster.wait_until_following()?;
        Ok(cluster)
    }

    /// Starts the leader only and waits until it has a snapshot.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_leader(mut options: ClusterOptions) -> Result<Self> {
        let binaries = Binaries::find().ok_or_else(|| Error::Missing(SKIP_MESSAGE.to_owned()))?;
        // The snapshot of a warp has no leader, so a follower would refuse it.
        if binaries.version >= vec![4, 2] {
            options.first_snapshot = FirstSnapshot::Downloaded;
        }
        let ports = PortBlock::claim(options.ports_base)?;
        let temporary = match &options.folder {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(Error::file(&env::temp_dir()))?),
        };
        let folder = match (&options.folder, &temporary) {
            (Some(given), _) => given.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => env::temp_dir(),
        };
        let layout = Layout::prepare(folder, binaries, &ports, &options)?;
        let leader = Running::start(&layout.leader_program(&options))?;
        let genesis_hash = String::new();
        let mut cluster = Self {
            follower: None,
            leader,
            options,
            genesis_hash,
            layout,
            temporary,
            _ports: ports,
        };
        cluster.wait_for_snapshot()?;
        let hash = cluster.leader_rpc().call("getGenesisHash", json!([]))?;
        hash.as_str()
            .unwrap_or_default()
            .clone_into(&mut cluster.genesis_hash);
        Ok(cluster)
    }

    /// Starts the follower (again) and returns its pid at once; see [`Cluster::wait_until_following`]. The first start gets
    /// the first snapshot, later ones use the ledger of the last one. A follower that still runs is killed.
    ///
    /// # Errors
    /// [`Error::Start`], [`Error::File`].
    pub fn start_follower(&mut self) -> Result<u32> {
        self.kill_follower()?;
        if self.options.first_snapshot == FirstSnapshot::Copied {
            self.layout.copy_snapshot()?;
        }
        let follower = Running::start(
            &self
                .layout
                .follower_program(&self.options, &self.genesis_hash),
        )?;
        let pid = follower.pid();
        self.follower = Some(follower);
        Ok(pid)
    }

    /// The command of a follower that another program starts, see [`Cluster::follower_addresses`]. It finds its snapshot by
    /// gossip, so the leader needs [`FirstSnapshot::Downloaded`].
    pub fn follower(&self) -> Follower {
        self.layout.follower(&self.genesis_hash)
    }

    /// The whole command line of a follower at the first address. It votes if it has stake.
    pub fn follower_command(&self, ledger: &Path) -> Vec<String> {
        self.layout
            .follower_command(&self.options, &self.genesis_hash, ledger)
    }

    /// The addresses for followers. [`Cluster::start_follower`] uses the first one.
    pub fn follower_addresses(&self) -> &[FollowerAddress; MAX_FOLLOWERS] {
        &self.layout.follower_addresses
    }

    /// Checks that the leader runs.
    ///
    /// # Errors
    /// [`Error::Ended`] with the end of its output when it does not.
    pub fn check_leader(&mut self) -> Result<()> {
        self.leader.check()
    }

    /// Kills the follower (SIGKILL) and waits for its end. No error if none runs.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill_follower(&mut self) -> Result<()> {
        self.follower
            .take()
            .map_or(Ok(()), |mut follower| follower.kill())
    }

    /// Changes the running follower's identity to this keypair file, through its admin socket.
    ///
    /// # Errors
    /// [`Error::Start`]; [`Error::Ended`] when it refuses.
    pub fn set_follower_identity(&self, keypair: &Path) -> Result<()> {
        let ledger = self.follower_ledger().to_string_lossy();
        let keypair = keypair.to_string_lossy();
        crate::process::run_to_success(
            self.layout.validator(),
            &["--ledger", &ledger, "set-identity", &keypair],
        )
    }

    /// Waits until the follower has replayed 8 slots and is at most 4 behind the newest of the leader.
    ///
    /// # Errors
    /// [`Error::Ended`], [`Error::Late`]; [`Error::Missing`] when no follower was started.
    pub fn wait_until_following(&mut self) -> Result<()> {
        let (leader, follower) = (self.leader_rpc(), self.follower_rpc());
        let mut first = None;
        wait_for(
            self.options.deadline,
            "the follower is at the leader's tip",
            || {
                self.check()?;
                let own = match follower.processed_slot() {
                    Ok(slot) => slot,
                    Err(error) => return Ok(Condition::NotYet(error.to_string())),
                };
                let tip = leader.processed_slot()?;
                let replayed = own.saturating_sub(*first.get_or_insert(own));
                let follows =
                    replayed >= MIN_REPLAYED_SLOTS && tip.saturating_sub(own) <= MAX_SLOTS_BEHIND;
                Ok(if follows {
                    Condition::Ready(())
                } else {
                    Condition::NotYet(format!("follower at {own}, leader at {tip}"))
                })
            },
        )
    }

    /// Checks that both validators run.
    ///
    /// # Errors
    /// [`Error::Ended`] for the one that does not; [`Error::Missing`] when there is no follower.
    pub fn check(&mut self) -> Result<()> {
        self.leader.check()?;
        self.follower.as_mut().map_or_else(
            || Err(Error::Missing("no follower runs".to_owned())),
            Running::check,
        )
    }

    pub fn leader_pid(&self) -> u32 {
        self.leader.pid()
    }

    /// The follower's process id; `None` while none runs.
    pub fn follower_pid(&self) -> Option<u32> {
        self.follower.as_ref().map(Running::pid)
    }

    /// The leader's JSON-RPC.
    pub fn leader_rpc(&self) -> Rpc {
        Rpc::new(loopback(self.layout.leader_rpc_port))
    }

    /// The follower's JSON-RPC; answers once the follower has loaded its ledger.
    pub fn follower_rpc(&self) -> Rpc {
        Rpc::new(loopback(self.layout.follower_rpc_port))
    }

    /// The leader's ledger folder; holds `admin.rpc`.
    pub fn leader_ledger(&self) -> &Path {
        &self.layout.leader_ledger
    }

    /// The follower's ledger folder; holds `admin.rpc`.
    pub fn follower_ledger(&self) -> &Path {
        &self.layout.follower_ledger
    }

    /// The follower's log, of all its starts.
    pub fn follower_log(&self) -> &Path {
        &self.layout.follower_log
    }

    pub fn leader_log(&self) -> PathBuf {
        self.layout.leader_ledger.join("validator.log")
    }

    pub fn folder(&self) -> &Path {
        &self.layout.folder
    }

    pub fn programs(&self) -> u32 {
        self.options.programs
    }

    fn wait_for_snapshot(&mut self) -> Result<()> {
        let rpc = self.leader_rpc();
        let wanted = match self.options.first_snapshot {
            FirstSnapshot::Copied => WARP_SLOT,
            FirstSnapshot::Downloaded => 100,
        };
        let leader = &mut self.leader;
        wait_for(self.options.deadline, "the leader has a snapshot", || {
            leader.check()?;
            Ok(match rpc.call("getHighestSnapshotSlot", json!([])) {
                Ok(slots) if slots["full"].as_u64().is_some_and(|slot| slot >= wanted) => {
                    Condition::Ready(())
                }
                Ok(slots) => Condition::NotYet(slots.to_string()),
                Err(error) => Condition::NotYet(error.to_string()),
            })
        })
    }

    fn print_tails(&self) {
        for (name, path) in [
            ("leader", self.leader_log()),
            ("follower", self.layout.follower_log.clone()),
        ] {
            eprintln!(
                "--- the end of the {name}'s log, {} ---\n{}",
                path.display(),
                tail(&path, 20)
            );
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_tails();
            if let Some(temporary) = self.temporary.take() {
                eprintln!("kept: {}", temporary.keep().display());
            }
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
