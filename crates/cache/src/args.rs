//! The command line of `cache`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `cache`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 success, 1 failure or refused, 64 wrong usage.")]
pub struct CacheArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: Cache,
}

/// What can be done with a recording and the blocks of its slots.
#[derive(Debug, Subcommand)]
pub enum Cache {
    /// Read the blocks of a recording's slots from a JSON-RPC node.
    Fetch(FetchArgs),
}

/// `cache fetch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline cache fetch run.fltl --rpc http://127.0.0.1:8899
  faultline cache fetch run.fltl --rpc https://rpc.example.org/?api-key=KEY

Writes run.trace: which programs each transaction looked up. It can be interrupted; run it again to continue. Any node with these \
blocks will do, also days later. The node is sent one request per slot, and one per 100 accounts that were not seen before.")]
pub struct FetchArgs {
    /// The recording.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The node. Its address is not stored.
    #[arg(long, value_name = "URL")]
    pub rpc: String,
    /// The file to write or continue [default: RUN with the extension .trace].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Requests at the same time.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub requests: u8,
    /// Also read so many slots before the recording, which warm the simulated cache [default: 0 if the recording begins with the \
    /// validator's start, otherwise 5000].
    #[arg(long, value_name = "SLOTS")]
    pub before: Option<u64>,
}
