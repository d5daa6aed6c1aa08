//! `bench compression`: codecs on transactions, blocks or accounts, alone and bundled, and their
//! effect on fetch time. Names in results are those of the study, P. Tschipper's "Block Compression
//! (Datastream Compression) test results".

mod diff;
mod fetch;
mod measure;
mod page;
mod records;
mod show;
#[cfg(test)]
mod tests;

use crate::{
    args::{CompressionArgs, RecordKind, first_duplicate},
    codec, store,
};
use anyhow::{Result, ensure};
pub use diff::changes;
use faultline_common::{args::UsageError, clock, output::say};
use faultline_stats::block_bootstrap::{self, Estimate, IntervalPlan, Reliability};
use faultline_text::counted;
use measure::CheckedCodec;
pub use page::report as page;
use records::Records;
use serde::{Deserialize, Deserializer, Serialize};
pub use show::{render, write_parquet};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct StoredEstimate {
    value: f64,
    low: f64,
    high: f64,
    #[serde(rename = "reliable", deserialize_with = "reliability")]
    reliability: Reliability,
}

impl StoredEstimate {
    fn value_and_ends(self) -> [f64; 3] {
        [self.value, self.low, self.high]
    }

    /// `transform` must be monotonic.
    fn from_estimate(estimate: &Estimate, transform: impl Fn(f64) -> f64) -> Self {
        let [value, end, other_end] = estimate.value_and_ends().map(transform);
        Self {
            value,
            low: end.min(other_end),
            high: end.max(other_end),
            reliability: estimate.reliability,
        }
    }

    /// Percent saved; `None` with fewer than two values.
    fn saved(compressed: &[Option<f64>], original: &[Option<f64>]) -> Option<Self> {
        let ratio = block_bootstrap::ratio_of_sums(compressed, original, &bootstrap_plan())?;
        Some(Self::from_estimate(&ratio, percent_saved))
    }
}

fn percent_saved(ratio: f64) -> f64 {
    100.0 * (1.0 - ratio)
}

/// Older results do not store why an interval is unreliable.
fn reliability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reliability, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Flag(bool),
        Reliability(Reliability),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Flag(true) => Reliability::Reliable,
        // With this reason, not even a large change is established.
        Stored::Flag(false) => Reliability::TooRare,
        Stored::Reliability(reliability) => reliability,
    })
}

/// Fewer resamples than usual: there are many records, codecs and classes.
fn bootstrap_plan() -> IntervalPlan {
    IntervalPlan {
        resamples: 2_000,
        ..IntervalPlan::default()
    }
}

#[derive(Serialize, Deserialize)]
struct ClassRow {
    codec: String,
    /// Empty in older results.
    #[serde(default)]
    library: String,
    /// `250-500b`, or `all`.
    range: String,
    #[serde(rename = "datapoints")]
    record_count: u64,
    #[serde(rename = "ubytes")]
    mean_uncompressed_bytes: f64,
    #[serde(rename = "cbytes")]
    mean_compressed_bytes: f64,
    /// Percent of all bytes of the class.
    #[serde(rename = "cmp_ratio")]
    saved_percent: f64,
    /// Estimate of `saved_percent`.
    #[serde(rename = "interval")]
    saved: Option<StoredEstimate>,
    /// In 10^6 uncompressed bytes per CPU second.
    compress: Option<StoredEstimate>,
    decompress: Option<StoredEstimate>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BundleRow {
    codec: String,
    #[serde(rename = "txcount")]
    records_per_blob: u64,
    #[serde(rename = "blobs")]
    blob_count: u64,
    #[serde(rename = "ubytes")]
    mean_uncompressed_bytes: f64,
    #[serde(rename = "cbytes")]
    mean_compressed_bytes: f64,
    /// Percent of the records' own bytes.
    #[serde(rename = "cmp_ratio")]
    saved_percent: f64,
    /// Bytes of headers and ACKs that a blob avoids.
    #[serde(rename = "overhead")]
    overhead_saved: f64,
    /// Percent saved of all bytes, including headers and ACKs.
    #[serde(rename = "saved")]
    saved_with_overhead: Option<StoredEstimate>,
    /// The same if every record is sent alone, always compressed.
    saved_alone: f64,
}

/// Records in a blob, their bytes, and the compressed bytes.
type BlobExample = (u64, u64, u64);

/// Bytes that each message adds.
#[derive(Serialize, Deserialize)]
struct Overhead {
    header: u64,
    ack: u64,
}

#[derive(Serialize, Deserialize)]
struct FetchTable {
    codec: String,
    records: u64,
    in_flight: u64,
    /// In bytes per second.
    bandwidth: Option<u64>,
    repeats: u64,
    /// Numbers of fetched records, for the times in `columns`.
    #[serde(rename = "steps")]
    record_counts: Vec<u64>,
    columns: Vec<FetchColumn>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FetchColumn {
    latency_ms: f64,
    /// Mean seconds until each of [`FetchTable::record_counts`], uncompressed.
    #[serde(rename = "uncmp")]
    uncompressed_seconds: Vec<f64>,
    /// The same, compressed.
    #[serde(rename = "cmp")]
    compressed_seconds: Vec<f64>,
    #[serde(rename = "uncmp_bytes")]
    uncompressed_bytes: u64,
    #[serde(rename = "cmp_bytes")]
    compressed_bytes: u64,
    /// Positive if compression is slower.
    #[serde(rename = "difference")]
    extra_seconds: Option<StoredEstimate>,
}

impl Outcome {
    fn row(&self, codec: &str, range: &str) -> Option<&ClassRow> {
        self.classes
            .iter()
            .find(|row| row.codec == codec && row.range == range)
    }

    fn overall_rows(&self) -> impl Iterator<Item = &ClassRow> {
        self.classes.iter().filter(|row| row.range == "all")
    }
}

#[derive(Serialize, Deserialize)]
pub struct Outcome {
    /// Always `compression`.
    #[serde(rename = "preset")]
    subcommand: String,
    version: String,
    started_unix_ns: i64,
    source: String,
    #[serde(rename = "kind")]
    record_kind: Option<String>,
    notes: Vec<String>,
    records: u64,
    /// Measured records: all except those that trained the dictionary.
    tested: u64,
    #[serde(rename = "dictionary")]
    dictionary_bytes: Option<u64>,
    overhead: Overhead,
    /// In bytes.
    bundle_below: u64,
    classes: Vec<ClassRow>,
    bundles: Vec<BundleRow>,
    /// For each number of records, the first codec's blob with the median ratio.
    #[serde(rename = "blobs")]
    blob_examples: Vec<BlobExample>,
    fetch: Option<FetchTable>,
    problems: Vec<String>,
}

pub fn run(args: &CompressionArgs) -> Result<(String, u8)> {
    validate(args)?;
    if args.output.dry_run {
        return Ok((records::dry_run(args)?, 0));
    }
    for (option, path) in [("--out", &args.output.out), ("--save", &args.save)] {
        if let Some(path) = path {
            store::check_new(option, path)?;
        }
    }
    let records = records::read(args)?;
    ensure!(
        records.all.len() >= 2,
        "{}: fewer than two records{}{}",
        records.source,
        match records.empty_count {
            0 => String::new(),
            empty => format!("; left out: {}", counted(empty as f64, "empty record")),
        },
        records
            .early_end_suffix
            .map_or_else(String::new, |suffix| format!(" (ended early{suffix})"))
    );
    let outcome = measure(args, records)?;
    let mut code = u8::from(!outcome.problems.is_empty());
    let text = render(&outcome, args.output.format)?;
    if let Some(path) = &args.output.out
        && let Err(error) = store::write_document(path, &outcome)
    {
        say(&format!("the results could not be saved: {error:#}"));
        code = 1;
    }
    Ok((text, code))
}

fn validate(args: &CompressionArgs) -> Result<(), UsageError> {
    let usage_error = |message: &str| Err(UsageError(message.to_owned()));
    if let Some(codec) = first_duplicate(&args.codecs) {
        return usage_error(&format!("--codecs names {} twice", codec.name()));
    }
    if args.classes.first() == Some(&0) || !args.classes.is_sorted_by(|a, b| a < b) {
        return usage_error("--classes: sizes above 0, each larger than the one before");
    }
    if !args.accounts.is_empty() && args.kind != RecordKind::Accounts {
        return usage_error("--accounts needs --kind accounts");
    }
    if let Some(path) = &args.save
        && path.extension().is_none_or(|extension| extension != "b64")
    {
        return usage_error("--save: the file's name must end in .b64");
    }
    Ok(())
}

fn measure(args: &CompressionArgs, records: Records) -> Result<Outcome> {
    let started_unix_ns = clock::unix_ns();
    let mut problems = Vec::new();
    if let Some(suffix) = records.early_end_suffix {
        let count = records.all.len();
        problems.push(format!(
            "ended early{suffix}; only the {count} records that were read are measured"
        ));
    }
    problems.extend(records.save_error);
    let all = Vec::from_iter(records.all.iter().map(Vec::as_slice));
    let (dictionary, tested) = dictionary_and_tested(args, &all, &mut problems);
    let mut checked = Vec::new();
    for codec in &args.codecs {
        if codec.needs_dictionary() && dictionary.is_none() {
            continue;
        }
        match CheckedCodec::new(*codec, dictionary.as_deref(), tested) {
            Ok(codec) => checked.push(codec),
            Err(error) => problems.push(format!("{} FAILED: {error:#}", codec.name())),
        }
    }
    say(&format!(
        "{}, {}: measuring sizes and speeds",
        counted(tested.len() as f64, "record"),
        counted(checked.len() as f64, "codec")
    ));
    let classes = measure::class_rows(&mut checked, tested, args);
    let (bundles, blob_examples) =
        measure::bundle_rows_and_examples(&mut checked, tested, args, &mut problems);
    let fetch = match checked.first() {
        Some(first) if args.fetch > 0 => Some(fetch::measure_fetch(
            first.codec,
            dictionary.as_deref(),
            tested,
            args,
        )?),
        _ => None,
    };
    Ok(Outcome {
        subcommand: "compression".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns,
        source: records.source,
        record_kind: records.kind_name.map(str::to_owned),
        notes: records.notes,
        records: all.len() as u64,
        tested: tested.len() as u64,
        dictionary_bytes: dictionary.map(|dictionary| dictionary.len() as u64),
        overhead: Overhead {
            header: args.header,
            ack: args.ack,
        },
        bundle_below: args.bundle_below,
        classes,
        bundles,
        blob_examples,
        fetch,
        problems,
    })
}

/// The dictionary, if a codec needs one, and the records that did not train it.
fn dictionary_and_tested<'a>(
    args: &CompressionArgs,
    all: &'a [&'a [u8]],
    problems: &mut Vec<String>,
) -> (Option<Vec<u8>>, &'a [&'a [u8]]) {
    if !args.codecs.iter().any(|codec| codec.needs_dictionary()) {
        return (None, all);
    }
    let (train, test) = all.split_at(all.len() * usize::from(args.train) / 100);
    match codec::train_dictionary(train, args.dictionary) {
        Ok(dictionary) => (Some(dictionary), test),
        Err(error) => {
            problems.push(format!(
                "no dictionary from {} records: {error:#}",
                train.len()
            ));
            (None, all)
        }
    }
}
