use super::{OutArgs, parse_limit};
use crate::codec::{CODEC_NAMES, Codec};
use clap::{Args, ValueEnum, value_parser};
use faultline_text::parse_time;
use std::{path::PathBuf, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum RecordKind {
    /// Each transaction as it is sent between nodes.
    Transactions,
    /// Each block as `getBlock` answers it: JSON with transactions in base64.
    Blocks,
    /// The data of each account.
    Accounts,
}

impl RecordKind {
    pub(crate) fn name_and_default_count(self) -> (&'static str, usize) {
        match self {
            Self::Transactions => ("transactions", 5000),
            Self::Blocks => ("blocks", 200),
            Self::Accounts => ("accounts", 1000),
        }
    }
}

#[derive(Debug, Args)]
pub struct CompressionArgs {
    /// JSON-RPC address of a node; its newest finalized blocks are requested one at a time.
    #[arg(value_name = "URL", required_unless_present = "files")]
    pub url: Option<String>,
    /// Take records from files instead: each file of a folder is one; in a file that ends in .b64,
    /// each line is one, in base64.
    #[arg(long, value_name = "PATHS", num_args = 1.., conflicts_with_all = ["url", "kind", "accounts", "ca", "save"])]
    pub files: Vec<PathBuf>,
    /// What to request from the node.
    #[arg(long, default_value = "transactions")]
    pub kind: RecordKind,
    /// Accounts to request, instead of those of the newest transactions.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub accounts: Vec<String>,
    /// Maximum number of records [default: 5000 transactions, 200 blocks, 1000 accounts, all of
    /// files].
    #[arg(long, short = 'n', value_name = "N", value_parser = value_parser!(u32).range(2..=100_000))]
    pub records: Option<u32>,
    /// Time between two requests.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_time)]
    pub pace: Duration,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Write the records of the node to this new file, which must end in .b64, for --files.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Codecs to compare. The tables of the published study and the fetch use only the first.
    #[arg(
        long, value_name = "LIST", value_delimiter = ',', value_parser = parse_codec,
        default_value = "zlib-6,zstd-3,zstd-3+dict,lz4,snappy,brotli-5,lzo"
    )]
    pub codecs: Vec<Codec>,
    /// Percent of the records that train the dictionary, if a codec needs one: the first, of blocks
    /// the oldest. No codec is measured on them.
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = value_parser!(u8).range(1..=90))]
    pub train: u8,
    /// The largest dictionary.
    #[arg(long, value_name = "SIZE", default_value = "110K", value_parser = parse_limit)]
    pub dictionary: usize,
    /// Sizes in bytes at which a class of records ends and the next begins.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "250,500,600,700,800,900,1000,10000,100000,1000000,10000000"
    )]
    pub classes: Vec<u64>,
    /// Numbers of records to compress together, as one blob.
    #[arg(
        long, value_name = "LIST", value_delimiter = ',', default_value = "2,5,10,50,175",
        value_parser = value_parser!(u32).range(2..=10_000)
    )]
    pub bundle: Vec<u32>,
    /// Only records smaller than this are bundled.
    #[arg(long, value_name = "BYTES", default_value = "500")]
    pub bundle_below: u64,
    /// Bytes of the header of a message, as which a record or a blob is sent.
    #[arg(long, value_name = "BYTES", default_value = "24", value_parser = value_parser!(u64).range(..=10_000))]
    pub header: u64,
    /// Bytes of the ACK of a message.
    #[arg(long, value_name = "BYTES", default_value = "52", value_parser = value_parser!(u64).range(..=10_000))]
    pub ack: u64,
    /// Number of records to fetch over loopback, with and without compression; 0 for none.
    #[arg(long, value_name = "N", default_value = "200", value_parser = value_parser!(u32).range(..=100_000))]
    pub fetch: u32,
    /// Latencies to add to each answer of the fetch; each is measured.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0ms,30ms,60ms", value_parser = parse_latency)]
    pub latencies: Vec<Duration>,
    /// Requests of the fetch in flight at the same time.
    #[arg(long, value_name = "N", default_value = "16", value_parser = value_parser!(u16).range(1..=1024))]
    pub in_flight: u16,
    /// Maximum bytes a second of the fetch [default: as fast as this machine sends].
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    pub bandwidth: Option<usize>,
    /// How often all records are fetched for each latency, with and without compression.
    #[arg(long, value_name = "N", default_value = "3", value_parser = value_parser!(u16).range(1..=100))]
    pub repeats: u16,
    /// Decides the order of measurements.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    pub output: OutArgs,
}

fn parse_codec(name: &str) -> Result<Codec, String> {
    Codec::named(name).ok_or_else(|| format!("{name:?} is no codec; there are {CODEC_NAMES}"))
}

fn parse_latency(text: &str) -> Result<Duration, String> {
    let time = if text.trim() == "0" {
        Duration::ZERO
    } else {
        parse_time(text)?
    };
    if time > Duration::from_secs(10) {
        return Err(format!("{text:?} is more than 10s"));
    }
    Ok(time)
}
