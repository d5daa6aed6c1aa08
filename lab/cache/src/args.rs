use clap::{Args, Subcommand};
use faultline_cache_prediction::prediction::PredictionInputArgs;
use faultline_cache_sim::{Policy, policy::NAMED_POLICIES};
use faultline_text::parse_size;
use std::path::PathBuf;

/// Name of the policy of the recorded Agave version.
pub(crate) const AGAVE: &str = "agave";

#[derive(Args)]
#[command(after_help = "Exit codes: 0 success, 1 failure or refused, 64 wrong usage.")]
pub struct CacheArgs {
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// What can be done with a recording and the blocks of its slots.
#[derive(Subcommand)]
pub enum CacheCommand {
    /// Read the blocks of a recording's slots from a JSON-RPC node.
    Fetch(FetchArgs),
    /// Predict misses, reloads, evictions and time at other sizes.
    Predict(PredictArgs),
    /// Compare eviction policies on the recorded run.
    Policies(PoliciesArgs),
    /// Compare predictions from one run with other runs.
    Check(CheckArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  faultline cache predict run.fltl
  faultline cache predict run.fltl --sizes 512,1024,2048 --json

The recorded size is predicted first. If a counter is off by more than 10 %, or by more than 10 if less than 100 was recorded, nothing \
else is predicted and the exit code is 1.")]
pub struct PredictArgs {
    /// The recording.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    #[command(flatten)]
    pub input: PredictionInputArgs,
    /// Sizes in entries [default: 256 to 8192]. The recorded size and 8192 are added.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    pub sizes: Vec<u64>,
    /// Write the prediction into this file for the daemon's `status.evidence`. The rest of the
    /// file does not change.
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the table as CSV.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  faultline cache policies run.fltl
  faultline cache policies run.fltl --size 1024 --attack 20 --json
  faultline cache policies run.fltl --policy agave,agave-4.4.0,sieve --fill 0.8,0.9,1.0 --csv
  faultline cache policies run.fltl --bytes 800M

Prints the misses of each policy and the time of the program cache in replay, with 90 % and with 100 % of the entries in use, and the \
least possible misses (MIN, which knows the future). Then it prints the misses with an attack: more transactions in each block, each \
with a program that is never called again. Misses of these programs are not counted.

With --bytes, a program takes the size of its code, not of its compiled code. MIN has the least possible misses only for a limit in \
entries. The row `bound` is a lower limit of the misses. Perhaps no policy reaches it.")]
pub struct PoliciesArgs {
    /// The recording.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    #[command(flatten)]
    pub input: PredictionInputArgs,
    /// Entries [default: those of the recorded cache].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    pub size: Option<u64>,
    /// Limit the code in the cache instead of its entries.
    #[arg(long, value_name = "SIZE", conflicts_with = "size", value_parser = parse_bytes)]
    pub bytes: Option<u64>,
    /// Policies by name.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_policy, help = policy_help())]
    pub policy: Vec<String>,
    /// Shares of the size up to which a policy fills the cache [default: 0.9,1.0].
    #[arg(long = "fill", value_name = "SHARE,...", value_delimiter = ',', value_parser = parse_fill)]
    pub fill_percents: Vec<u64>,
    /// Transactions of the attack in each block [default: a tenth of the mean number in a block].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub attack: Option<u32>,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the table as CSV.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  faultline cache check 512.fltl 256.fltl 1024.fltl

The command compares slots that both runs replayed. If these slots are few and OTHER has a trace next to it, the lookups of that trace are \
simulated, with the costs of compiling in RUN, or in OTHER if they cannot be fitted to RUN. If the slots are few and OTHER has no trace, \
whole runs are compared, and predictions are scaled by the number of transactions. This assumes the same kind of workload. The predicted \
intervals then also include the variation between the blocks of RUN. The row \"at its own costs\" uses the compile times \
of OTHER, because a busy machine is slower. It is not judged. The exit code is 1 if any other row is off by more than 10 %, or by more \
than 10 if less than 100 was recorded.")]
pub struct CheckArgs {
    /// The recording with a trace.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Recordings of the same workload, with other sizes.
    #[arg(value_name = "OTHER", required = true)]
    pub others: Vec<PathBuf>,
    #[command(flatten)]
    pub input: PredictionInputArgs,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  faultline cache fetch run.fltl --rpc http://127.0.0.1:8899
  faultline cache fetch run.fltl --rpc https://rpc.example.org/?api-key=KEY
  faultline cache fetch run.fltl --validator-trace cache.txt

Writes run.trace: which programs each transaction looked up. It can be interrupted; run it again to continue. Any node with these \
blocks will do, also days later. The node is sent one request per slot, and requests for up to 100 new accounts each.")]
pub struct FetchArgs {
    /// The recording.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The node. Its address is not stored.
    #[arg(long, value_name = "URL", required_unless_present = "validator_trace")]
    pub rpc: Option<String>,
    /// Instead of a node: the file that the validator or agave-ledger-tool wrote.
    /// scripts/install-agave --trace builds the validator, and with --ledger-tool also that tool.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rpc", "ca", "requests", "before"])]
    pub validator_trace: Option<PathBuf>,
    /// The file to write or continue [default: RUN with the extension .trace].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Maximum number of requests at the same time.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub requests: u8,
    /// Also read this many slots before the recording, to warm the simulated cache
    /// [default: 0 if the recording begins with the validator's start, otherwise 5000].
    #[arg(long, value_name = "SLOTS")]
    pub before: Option<u64>,
}

fn policy_names() -> String {
    NAMED_POLICIES.map(|(name, _)| name).join(", ")
}

fn policy_help() -> String {
    format!(
        "Policies: agave (of the recorded version), agave-VERSION, {} [default: agave and all others]",
        policy_names()
    )
}

fn parse_policy(name: &str) -> Result<String, String> {
    match name.parse::<Policy>() {
        Err(error) if name.starts_with("agave-") => Err(error.to_string()),
        Err(error) if name != AGAVE => Err(format!(
            "{error}: use agave, agave-VERSION as in agave-4.4.0, {}",
            policy_names()
        )),
        _ => Ok(name.to_owned()),
    }
}

fn parse_fill(text: &str) -> Result<u64, String> {
    let percent = text.trim().parse::<f64>().ok().map(|share| share * 100.0);
    percent
        .filter(|percent| {
            (0.999..100.001).contains(percent) && (percent - percent.round()).abs() < 1e-6
        })
        .map(|percent| percent.round() as u64)
        .ok_or_else(|| {
            format!("{text:?} is not a share from 0.01 to 1 in whole percent, such as 0.9")
        })
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("a cache of this size holds nothing".to_owned()),
        bytes => Ok(bytes),
    }
}
