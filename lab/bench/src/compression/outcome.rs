use faultline_stats::block::{Estimate, Plan, Reliability};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    #[serde(deserialize_with = "reliability")]
    pub(crate) reliable: Reliability,
}

impl Interval {
    /// The value, then the ends of its interval.
    pub(crate) fn ends(&self) -> [f64; 3] {
        [self.value, self.low, self.high]
    }
}

/// Older results have no reason for an unreliable interval.
fn reliability<'de, D: Deserializer<'de>>(from: D) -> Result<Reliability, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Flag(bool),
        Reliability(Reliability),
    }
    Ok(match Stored::deserialize(from)? {
        Stored::Flag(true) => Reliability::Reliable,
        // No size of a change compensates for this reason.
        Stored::Flag(false) => Reliability::TooRare,
        Stored::Reliability(reliable) => reliable,
    })
}

impl Interval {
    /// Transforms an estimate by a monotonic function.
    pub(crate) fn of(estimate: &Estimate, transform: impl Fn(f64) -> f64) -> Interval {
        let (one, other) = (transform(estimate.low), transform(estimate.high));
        let value = transform(estimate.value);
        Interval {
            value,
            low: one.min(other),
            high: one.max(other),
            reliable: estimate.reliable,
        }
    }

    pub(crate) fn saved(left: &Estimate) -> Interval {
        Interval::of(left, |left| 100.0 * (1.0 - left))
    }
}

/// Fewer resamples than the default, because there are many records, codecs and classes.
pub(crate) fn plan() -> Plan {
    Plan {
        resamples: 2_000,
        ..Plan::default()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassRow {
    pub(crate) codec: String,
    /// Empty in older results.
    #[serde(default)]
    pub(crate) library: String,
    /// `250-500b`, or `all`.
    pub(crate) range: String,
    pub(crate) datapoints: u64,
    /// Mean per record.
    pub(crate) ubytes: f64,
    /// Mean per record.
    pub(crate) cbytes: f64,
    /// Percent saved, from the sums.
    pub(crate) cmp_ratio: f64,
    pub(crate) interval: Option<Interval>,
    /// In 10^6 bytes per CPU second.
    pub(crate) compress: Option<Interval>,
    pub(crate) decompress: Option<Interval>,
}

/// Over blobs of `txcount` records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BundleRow {
    pub(crate) codec: String,
    pub(crate) txcount: u64,
    pub(crate) blobs: u64,
    pub(crate) ubytes: f64,
    pub(crate) cbytes: f64,
    pub(crate) cmp_ratio: f64,
    /// Mean bytes of messages and ACKs saved by a blob.
    pub(crate) overhead: f64,
    /// In percent, messages and ACKs included.
    pub(crate) saved: Option<Interval>,
    /// Percent saved if every record is sent alone, compressed if that is smaller.
    pub(crate) saved_alone: f64,
}

/// Records of one blob, their bytes, and the compressed bytes.
pub(crate) type Blob = (u64, u64, u64);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Overhead {
    pub(crate) header: u64,
    pub(crate) ack: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FetchTable {
    pub(crate) codec: String,
    pub(crate) records: u64,
    pub(crate) in_flight: u64,
    pub(crate) bandwidth: Option<u64>,
    pub(crate) repeats: u64,
    /// Numbers of fetched records at which the columns give times.
    pub(crate) steps: Vec<u64>,
    pub(crate) columns: Vec<FetchColumn>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FetchColumn {
    pub(crate) latency_ms: f64,
    pub(crate) uncmp: Vec<f64>,
    pub(crate) cmp: Vec<f64>,
    pub(crate) uncmp_bytes: u64,
    pub(crate) cmp_bytes: u64,
    /// Extra seconds with compression.
    pub(crate) difference: Option<Interval>,
}

impl Outcome {
    /// Rows of all records together.
    pub(crate) fn overall_rows(&self) -> impl Iterator<Item = &ClassRow> {
        self.classes.iter().filter(|row| row.range == "all")
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) preset: String,
    pub(crate) version: String,
    pub(crate) started_unix_ns: i64,
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) kind: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) records: u64,
    /// Without records that trained the dictionary.
    pub(crate) tested: u64,
    pub(crate) dictionary: Option<u64>,
    pub(crate) overhead: Overhead,
    /// Only smaller records are bundled.
    pub(crate) bundle_below: u64,
    pub(crate) classes: Vec<ClassRow>,
    pub(crate) bundles: Vec<BundleRow>,
    /// One blob per size, of the first codec.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) fetch: Option<FetchTable>,
    pub(crate) problems: Vec<String>,
}
