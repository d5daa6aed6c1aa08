use sha2::{Digest, Sha256};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::PublicKey;

#[derive(Debug, PartialEq)]
pub enum Process {
    Validator(Validator),
    /// A validator's program that does not run a validator: `monitor`, `exit`, `--version`. Also
    /// `fdctl run`, which starts the validator as `fdctl run-agave`.
    Subcommand(String),
    /// Anything else, including a process without arguments (a zombie).
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// Jito's binary has the same name.
    AgaveValidator,
    /// Name before Agave, and of some forks.
    SolanaValidator,
    JitoValidator,
    TestValidator,
    /// Frankendancer. Its settings come from a file, not from arguments.
    Fdctl,
}

impl Program {
    /// In the order of the variants: name, and the default of `--ledger`.
    const TABLE: [(Self, &'static str, Option<&'static str>); 5] = [
        (Self::AgaveValidator, "agave-validator", Some("ledger")),
        (Self::SolanaValidator, "solana-validator", Some("ledger")),
        (Self::JitoValidator, "jito-validator", Some("ledger")),
        (
            Self::TestValidator,
            "solana-test-validator",
            Some("test-ledger"),
        ),
        (Self::Fdctl, "fdctl", None),
    ];

    pub fn of_comm(comm: &str) -> Option<Self> {
        let cut = |name: &'static str| name.get(..15).unwrap_or(name);
        Self::TABLE
            .iter()
            .find(|(_, name, _)| comm == *name || comm == cut(name))
            .map(|&(program, ..)| program)
    }

    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// Relative to the working directory. `None` for Frankendancer.
    pub fn default_ledger(self) -> Option<&'static str> {
        Self::TABLE[self as usize].2
    }
}

/// Paths are as given: relative ones are relative to the process's working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    pub program: Program,
    pub ledger: Option<PathBuf>,
    pub identity: Option<PathBuf>,
    /// `--rpc-port`. `None`: no JSON-RPC, except for solana-test-validator, which then uses 8899.
    pub rpc_port: Option<u16>,
    /// Address or host of the JSON-RPC listener: `--rpc-bind-address`; else 127.0.0.1 with
    /// `--private-rpc`; else the first `--bind-address`; else `None`, which is all addresses.
    pub rpc_host: Option<String>,
    /// `--vote-account`, if it is an address and not the path of a keypair.
    pub vote_account: Option<PublicKey>,
    /// `--log`, `-o`: a path, or `-` for standard error. `None` for solana-test-validator, whose
    /// option takes no value.
    pub log: Option<PathBuf>,
    /// CPU of a block producer's proof-of-history thread. `None` for Frankendancer and
    /// solana-test-validator.
    pub poh_cpu: Option<PohCpu>,
    /// The node is healthy while it is at most this many slots behind:
    /// `--health-check-slot-distance`, else 128.
    pub health_distance: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PohCpu {
    /// `--poh-pinned-cpu-core`, since 4.2: the number of the CPU.
    Number(usize),
    /// `--experimental-poh-pinned-cpu-core`, else 0. Since 4.2 it is the number of the CPU. Before
    /// 4.2 it was an index into the CPUs that the process may use.
    NumberOrIndex(usize),
}

pub const DEFAULT_HEALTH_DISTANCE: u64 = 128;

impl Validator {
    pub fn ledger_or_default(&self) -> Option<&Path> {
        self.ledger
            .as_deref()
            .or_else(|| self.program.default_ledger().map(Path::new))
    }
}

const SUBCOMMANDS: [&str; 15] = [
    "authorized-voter",
    "contact-info",
    "exit",
    "help",
    "init",
    "manage-block-production",
    "monitor",
    "plugin",
    "repair-shred-from-peer",
    "repair-whitelist",
    "set-identity",
    "set-log-filter",
    "set-public-address",
    "staked-nodes-overrides",
    "wait-for-restart-window",
];
const INFO_OPTIONS: [&str; 4] = ["--help", "-h", "--version", "-V"];
/// Options whose value might equal the name of a subcommand.
const PATH_OPTIONS: [&str; 9] = [
    "--ledger",
    "-l",
    "--identity",
    "-i",
    "--log",
    "-o",
    "--accounts",
    "--snapshots",
    "--vote-account",
];

/// `args` is `/proc/PID/cmdline` split at its zero bytes.
pub fn identify<S: AsRef<OsStr>>(comm: &str, args: &[S]) -> Process {
    let Some(program) = Program::of_comm(comm.trim_end_matches('\n')) else {
        return Process::Other;
    };
    let Some((_, args)) = args.split_first() else {
        return Process::Other;
    };
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    // Subcommands and options are ASCII.
    let words: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap_or("")).collect();
    let path = |names: &[&str]| option(&args, names).map(PathBuf::from);
    let text = |names: &[&str]| option(&args, names)?.to_str();
    match subcommand(program, &words) {
        Some(name) => Process::Subcommand(name.to_owned()),
        None => Process::Validator(Validator {
            program,
            ledger: path(&["--ledger", "-l"]),
            identity: path(&["--identity", "-i"]),
            rpc_port: text(&["--rpc-port"]).and_then(|port| port.parse().ok()),
            rpc_host: rpc_host(&args),
            vote_account: text(&["--vote-account"]).and_then(|account| account.parse().ok()),
            poh_cpu: poh_cpu(program, &args),
            health_distance: text(&["--health-check-slot-distance"])
                .and_then(|slots| slots.parse().ok())
                .unwrap_or(DEFAULT_HEALTH_DISTANCE),
            log: path(&["--log", "-o"]).filter(|_| program != Program::TestValidator),
        }),
    }
}

fn rpc_host(args: &[&OsStr]) -> Option<String> {
    let host = |name: &str| option(args, &[name])?.to_str().map(ToOwned::to_owned);
    let is_private = args.iter().any(|arg| *arg == "--private-rpc");
    host("--rpc-bind-address")
        .or_else(|| is_private.then(|| "127.0.0.1".to_owned()))
        .or_else(|| host("--bind-address"))
}

fn poh_cpu(program: Program, args: &[&OsStr]) -> Option<PohCpu> {
    if matches!(program, Program::Fdctl | Program::TestValidator) {
        return None;
    }
    let number = |text: &OsStr| text.to_str()?.parse().ok();
    if let Some(given) = option(args, &["--poh-pinned-cpu-core"]) {
        return number(given).map(PohCpu::Number);
    }
    match option(args, &["--experimental-poh-pinned-cpu-core"]) {
        Some(given) => number(given).map(PohCpu::NumberOrIndex),
        None => Some(PohCpu::NumberOrIndex(0)),
    }
}

fn subcommand<'a>(program: Program, args: &[&'a str]) -> Option<&'a str> {
    if program == Program::Fdctl {
        return (!args.contains(&"run-agave")).then_some(args.first().copied().unwrap_or(""));
    }
    let before = std::iter::once("").chain(args.iter().copied());
    let info_or_subcommand = args.iter().zip(before).find(|(arg, before)| {
        let is_subcommand = SUBCOMMANDS.contains(*arg);
        INFO_OPTIONS.contains(*arg)
            || (is_subcommand
                && program != Program::TestValidator
                && !PATH_OPTIONS.contains(before))
    });
    info_or_subcommand.map(|(arg, _)| *arg)
}

fn option<'a>(args: &'a [&OsStr], names: &[&str]) -> Option<&'a OsStr> {
    option_values(args, names).first().copied()
}

/// Values of these options in their order, as `--x v`, `--x=v`, `-x v` or `-xv`.
pub fn option_values<'a, S: AsRef<OsStr>>(args: &'a [S], names: &[&str]) -> Vec<&'a OsStr> {
    let mut values = Vec::new();
    let mut args = args.iter().map(|arg| arg.as_ref().as_bytes());
    while let Some(arg) = args.next() {
        for name in names {
            let value = match arg.strip_prefix(name.as_bytes()) {
                Some(b"") => args.next(),
                Some([b'=', value @ ..]) => Some(value),
                Some(value) if !name.starts_with("--") => Some(value),
                _ => continue,
            };
            values.extend(value.map(OsStr::from_bytes));
            break;
        }
    }
    values
}

/// The tag `host_id` of datapoints until the validator knows its identity: base58 of the SHA-256 of
/// the host name. solana-test-validator (tested: 2.1.14) never replaces it.
pub fn startup_host_id(hostname: &str) -> String {
    bs58::encode(Sha256::digest(hostname.as_bytes())).into_string()
}

#[cfg(test)]
mod tests;
