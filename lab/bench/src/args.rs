mod compression;

pub use compression::{CompressionArgs, RecordKind};

use crate::{
    answer::Encoding,
    protocol::{Named, Protocol},
    stream::LinkShape,
};
use clap::{Args, Subcommand, ValueEnum, value_parser};
use faultline_text::{parse_size, parse_time};
use itertools::Itertools;
use std::{
    ops::{RangeBounds, RangeInclusive},
    path::PathBuf,
    time::Duration,
};

#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: Bench,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Compare encodings of account data over accounts of several sizes.
    Encoding(EncodingArgs),
    /// Compare codecs over transactions, blocks or accounts: bytes, speed, and the time to fetch
    /// them.
    Compression(CompressionArgs),
    /// Compare nodes on the same requests.
    Nodes(NodesArgs),
    /// Compare HTTP with WebSocket on Solana or an EVM chain: single reads and writes, and series.
    Transport(TransportArgs),
    /// Send the requests of a plan: any methods, over any nodes and transports.
    Run(RunArgs),
    /// Show results that --out has written.
    Report(ReportArgs),
    /// Compare two result files; exit code 1 if the later run is worse, has problems, or has other
    /// settings or requests.
    Diff(DiffArgs),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Format {
    /// Tables for a terminal.
    Table,
    /// One line of JSON with everything except single requests.
    Json,
    /// One line for each request of each arm (what is compared). Results of `bench compression`: one
    /// line for each codec and size class.
    Csv,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The results that --out has written.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How to show the results.
    #[arg(long, default_value = "table")]
    pub format: Format,
    /// Write a Parquet table to this new file instead, with every request. Results of
    /// `bench compression`: with every codec and size class.
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub parquet: Option<PathBuf>,
    /// Write a page instead. If PAGE ends in .html, it is a new file, else a folder for the page,
    /// Markdown, tables and figures.
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["format", "parquet"])]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The earlier results.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The later results.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Changes up to this margin do not matter: in percent of the earlier mean, and for failures in
    /// percent of the requests.
    #[arg(long, value_name = "PERCENT", default_value = "5", allow_negative_numbers = true, value_parser = parse_margin)]
    pub margin: f64,
}

/// What becomes of the results.
#[derive(Debug, Args)]
pub struct OutArgs {
    /// Write every request to this new file, for `bench report` and `bench diff`.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to show the results.
    #[arg(long, default_value = "table")]
    pub format: Format,
    /// Print the first requests instead of sending any. {random}, {hex}, SLOT and ADDRESS stand for
    /// values from the nodes. `bench transport` prints its tasks instead.
    #[arg(long, conflicts_with_all = ["out", "format"])]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct EncodingArgs {
    /// Encodings to compare; the first is the reference: base64, base64+zstd, base58, jsonParsed.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "base64,base64+zstd", value_parser = |name: &str| parse_named::<Encoding>("encoding", name))]
    pub encodings: Vec<Encoding>,
    /// Accounts to request [default: five of mainnet-beta, of 904 to 10,136 bytes].
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub accounts: Vec<String>,
    /// Request only these bytes of each account, as in 0:1024.
    #[arg(long, value_name = "OFFSET:LENGTH", value_parser = parse_slice)]
    pub data_slice: Option<(u64, u64)>,
    /// Links to simulate, one after the other: added round-trip time, and bandwidth if it is
    /// limited, as in 0ms,30ms,30ms@20Mbit.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_link)]
    pub links: Vec<LinkShape>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub output: OutArgs,
}

#[derive(Debug, Args)]
pub struct NodesArgs {
    /// JSON-RPC addresses of the nodes; the first is the reference.
    #[arg(value_name = "URL", num_args = 2..=8, required = true)]
    pub urls: Vec<String>,
    /// Chain of the nodes: solana, evm, starknet.
    #[arg(long, value_name = "CHAIN", default_value = "solana")]
    pub chain: String,
    /// Methods to call [default: getBlock,getBlockTime,getSlot; on evm
    /// eth_getBlockByNumber,eth_getBlockReceipts,eth_blockNumber; on starknet
    /// starknet_getBlockWithTxs,starknet_getEvents].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub methods: Vec<String>,
    /// Slots, or blocks of evm and starknet, for methods that take one; each round draws one at random
    /// [default: those that all nodes have].
    #[arg(long, value_name = "FROM:TO", value_parser = parse_range)]
    pub slots: Option<(u64, u64)>,
    /// Data folder of a node on this machine, to measure its disk space. Repeat it for each node in
    /// their order; write - for a node on another machine.
    #[arg(long, value_name = "FOLDER")]
    pub data: Vec<PathBuf>,
    /// Time limit for measuring each folder of --data; the size of a folder that takes longer is
    /// unknown.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_timeout)]
    pub data_time: Duration,
    /// Slots, or blocks of evm and starknet, that a node may be behind the most advanced node.
    #[arg(long, value_name = "COUNT", default_value = "10")]
    pub max_lag: u64,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub output: OutArgs,
}

#[derive(Debug, Args)]
pub struct TransportArgs {
    /// WebSocket address of the node, as in ws://127.0.0.1:8900 [default: one port above that of
    /// HTTP if the address has a port, else the same address].
    #[arg(long, value_name = "URL")]
    pub websocket: Option<String>,
    /// Transports to compare; the first is the reference: http (HTTP/1.1 over a persistent
    /// connection), http-new (a new connection for each request), http2 (left out if the node does
    /// not offer it), websocket.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "http,http-new,http2,websocket", value_parser = |name: &str| parse_named::<Protocol>("transport", name))]
    pub transports: Vec<Protocol>,
    /// Reads or writes in a series. Series are measured in addition to single reads and writes.
    #[arg(long, value_name = "N", default_value = "30", value_parser = value_parser!(u32).range(2..=1000))]
    pub in_a_row: u32,
    /// Time between two polls over HTTP for the effect of a transaction.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = parse_timeout)]
    pub poll: Duration,
    /// Rounds that count: in each, everything is done once over every transport, in random order.
    #[arg(long, short = 'n', value_name = "N", default_value = "30", value_parser = value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Warm-up rounds, before those that count.
    #[arg(long, value_name = "N", default_value = "1")]
    pub warm_up: u32,
    /// Decides the order.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    /// How long to wait for one write or read.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// How many requests of each transport may fail, in percent; if more do, the exit code is 1
    /// [default: 0].
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub max_failures: Option<f64>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub output: OutArgs,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The plan, in TOML. It sets what other commands set by options, such as rounds and timeout.
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// How many requests of each arm of the plan may fail, in percent; if more do, the exit code is 1.
    /// Answers are verified with answer = "account", and by default with several arms
    /// [default: 0 if any answer is verified, else 100].
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub max_failures: Option<f64>,
    #[command(flatten)]
    pub output: OutArgs,
}

/// The node that gets the requests.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// JSON-RPC address of the node, as in http://127.0.0.1:8899.
    #[arg(value_name = "URL")]
    pub url: String,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// How many requests are sent, and how fast.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Rounds that count: in each, every request is sent once, in random order.
    #[arg(long, short = 'n', value_name = "N", default_value = "1000", value_parser = value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Warm-up rounds, before those that count.
    #[arg(long, value_name = "N", default_value = "20")]
    pub warm_up: u32,
    /// Requests at the same time [default: 1; with --rate: 64].
    #[arg(long, short, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Send this many requests a second without waiting for answers; latency counts from the
    /// scheduled time of a request.
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Decides the order of requests.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    /// How long to wait for one answer.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// The largest answer that is read.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_limit)]
    pub max_answer: usize,
    /// How many requests of each encoding or node may fail, in percent; if more do, the exit code is 1.
    /// Accounts are verified, and answers that must be equal on all nodes
    /// [default: 0 if any answer is verified, else 100].
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub max_failures: Option<f64>,
}

pub(crate) fn first_duplicate<T: PartialEq>(values: &[T]) -> Option<&T> {
    values
        .iter()
        .enumerate()
        .find(|(index, value)| values[..*index].contains(value))
        .map(|(_, value)| value)
}

fn parse_named<T: Named>(what: &str, name: &str) -> Result<T, String> {
    T::named(name).ok_or_else(|| {
        let known = T::ALL.iter().map(|(name, _)| name).join(", ");
        format!("{name:?} is no {what}; there are {known}")
    })
}

fn parse_percent(text: &str, range: impl RangeBounds<f64>) -> Option<f64> {
    let text = text.trim();
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
    percent.filter(|percent| range.contains(percent))
}

fn parse_margin(text: &str) -> Result<f64, String> {
    parse_percent(text, 0.0..1000.0).ok_or_else(|| {
        format!("{text:?} is not a margin: write it in percent, from 0 to below 1000")
    })
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_percent(text, 0.0..=100.0)
        .ok_or_else(|| format!("{text:?} is not a share: write it in percent, from 0 to 100"))
}

fn parse_link(text: &str) -> Result<LinkShape, String> {
    LinkShape::parse(text).ok_or_else(|| {
        format!(
            "{text:?} is not a link: write it as 30ms (up to 1m) or 30ms@20Mbit (from 0.01Mbit to 100000Mbit)"
        )
    })
}

fn parse_pair(text: &str) -> Option<(u64, u64)> {
    let (first, second) = text.split_once(':')?;
    Some((first.trim().parse().ok()?, second.trim().parse().ok()?))
}

fn parse_slice(text: &str) -> Result<(u64, u64), String> {
    parse_pair(text).ok_or_else(|| format!("{text:?} is not OFFSET:LENGTH, such as 0:1024"))
}

/// Both ends are included.
fn parse_range(text: &str) -> Result<(u64, u64), String> {
    parse_pair(text)
        .filter(|(from, to)| from <= to)
        .ok_or_else(|| format!("{text:?} is not FROM:TO, such as 1000:2000"))
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse().ok();
    rate.filter(|rate| RATE_RANGE.contains(rate))
        .ok_or_else(|| format!("{text:?} is not a rate: write 0.001 to 1000000 requests a second"))
}

/// Requests a second.
pub(crate) const RATE_RANGE: RangeInclusive<f64> = 0.001..=1e6;

pub(crate) fn is_valid_timeout(time: &Duration) -> bool {
    !time.is_zero() && *time <= Duration::from_secs(3600)
}

pub(crate) fn valid_answer_limit(bytes: u64) -> Option<usize> {
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| (1024..=1 << 30).contains(bytes))
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    Some(parse_time(text)?)
        .filter(is_valid_timeout)
        .ok_or_else(|| format!("{text:?} is not a time from 1ms to 1h"))
}

fn parse_limit(text: &str) -> Result<usize, String> {
    valid_answer_limit(parse_size(text)?)
        .ok_or_else(|| format!("{text:?} is not a size from 1K to 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_at_most_one_percent_sign() {
        assert_eq!(["5", " 5% "].map(parse_margin), [Ok(5.0), Ok(5.0)]);
        for wrong in ["5%%", "%", "-1", "1000", "nan"] {
            assert!(parse_margin(wrong).is_err(), "{wrong}");
        }
    }
}
