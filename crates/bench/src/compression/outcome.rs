//! What a run of `bench compression` found, as it is kept and shown.

use faultline_stats::block::{Estimate, Plan, Reliability};
use serde::{Deserialize, Deserializer, Serialize};

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether the interval keeps its promise.
    #[serde(deserialize_with = "reliability")]
    pub(crate) reliable: Reliability,
}

impl Interval {
    /// The value, then the ends of its interval.
    pub(crate) fn ends(&self) -> [f64; 3] {
        [self.value, self.low, self.high]
    }
}

/// Older results do not say why an interval is not reliable.
fn reliability<'de, D: Deserializer<'de>>(from: D) -> Result<Reliability, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Flag(bool),
        Reliability(Reliability),
    }
    Ok(match Stored::deserialize(from)? {
        Stored::Flag(true) => Reliability::Reliable,
        // Of all reasons, one that no size of a change makes up for.
        Stored::Flag(false) => Reliability::TooRare,
        Stored::Reliability(reliable) => reliable,
    })
}

impl Interval {
    /// Of an estimate, through a function that grows or falls everywhere.
    pub(crate) fn of(estimate: &Estimate, through: impl Fn(f64) -> f64) -> Interval {
        let (one, other) = (through(estimate.low), through(estimate.high));
        let value = through(estimate.value);
        Interval {
            value,
            low: one.min(other),
            high: one.max(other),
            reliable: estimate.reliable,
        }
    }

    /// Percent that is saved, of a ratio of what is left.
    pub(crate) fn saved(left: &Estimate) -> Interval {
        Interval::of(left, |left| 100.0 * (1.0 - left))
    }
}

/// How intervals are made. Records are many, and so are codecs and classes.
pub(crate) fn plan() -> Plan {
    Plan {
        resamples: 2_000,
        ..Plan::default()
    }
}

/// One codec over the records of one size class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassRow {
    pub(crate) codec: String,
    /// Name and version; empty in results of older versions.
    #[serde(default)]
    pub(crate) library: String,
    /// `250-500b`, as the study writes it; `all`.
    pub(crate) range: String,
    pub(crate) datapoints: u64,
    /// Mean of a record.
    pub(crate) ubytes: f64,
    /// Mean of a compressed record.
    pub(crate) cbytes: f64,
    /// Percent of the bytes that are saved, of the sums.
    pub(crate) cmp_ratio: f64,
    /// The same with its interval; `None` of fewer than two records.
    pub(crate) interval: Option<Interval>,
    /// Million bytes of records per second of CPU.
    pub(crate) compress: Option<Interval>,
    /// The same backwards.
    pub(crate) decompress: Option<Interval>,
}

/// One codec over blobs of so many small records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BundleRow {
    pub(crate) codec: String,
    pub(crate) txcount: u64,
    pub(crate) blobs: u64,
    /// Mean bytes of a blob's records.
    pub(crate) ubytes: f64,
    /// Mean bytes of a compressed blob.
    pub(crate) cbytes: f64,
    /// Percent of the records' bytes that are saved.
    pub(crate) cmp_ratio: f64,
    /// Mean bytes of messages and ACKs that a blob saves.
    pub(crate) overhead: f64,
    /// Percent saved of all bytes, messages and ACKs included.
    pub(crate) saved: Option<Interval>,
    /// The same if every record is compressed alone, or sent as it is where that is smaller.
    pub(crate) saved_alone: f64,
}

/// Of one blob: its records, their bytes, its bytes when compressed.
pub(crate) type Blob = (u64, u64, u64);

/// What messages cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Overhead {
    pub(crate) header: u64,
    pub(crate) ack: u64,
}

/// Fetching records one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FetchTable {
    pub(crate) codec: String,
    pub(crate) records: u64,
    pub(crate) in_flight: u64,
    /// Bytes a second; `None` if not limited.
    pub(crate) bandwidth: Option<u64>,
    pub(crate) repeats: u64,
    /// Records after which each line of the table is written.
    pub(crate) steps: Vec<u64>,
    pub(crate) columns: Vec<FetchColumn>,
}

/// One added latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FetchColumn {
    pub(crate) latency_ms: f64,
    /// Seconds until each step, mean of the repeats.
    pub(crate) uncmp: Vec<f64>,
    /// The same with compression.
    pub(crate) cmp: Vec<f64>,
    /// Bytes of all answers.
    pub(crate) uncmp_bytes: u64,
    /// The same with compression.
    pub(crate) cmp_bytes: u64,
    /// Seconds that all records take longer with compression, from record to record.
    pub(crate) difference: Option<Interval>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// `compression`.
    pub(crate) preset: String,
    pub(crate) version: String,
    pub(crate) started_unix_ns: i64,
    /// Where the records come from, as it may be shown.
    pub(crate) source: String,
    /// Transactions, blocks or accounts; `None` of records from files.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) records: u64,
    /// Those that were measured: not those that the dictionary was trained on.
    pub(crate) tested: u64,
    /// Bytes of the dictionary.
    pub(crate) dictionary: Option<u64>,
    pub(crate) overhead: Overhead,
    /// Records from this size on are not bundled.
    pub(crate) bundle_below: u64,
    pub(crate) classes: Vec<ClassRow>,
    pub(crate) bundles: Vec<BundleRow>,
    /// A blob of each size, of the first codec.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) fetch: Option<FetchTable>,
    pub(crate) problems: Vec<String>,
}
