use super::{BlobExample, BundleRow, ClassRow, StoredEstimate, bootstrap_plan, percent_saved};
use crate::{
    args::CompressionArgs,
    codec::{Codec, Coder},
};
use anyhow::{Context, Result};
use faultline_common::clock;
use faultline_stats::block_bootstrap;
use itertools::Itertools;
use std::{iter::zip, time::Duration};

/// More bytes would not make a speed more precise.
const MAX_PASS_BYTES: usize = 1 << 20;
/// The spread of the passes gives the interval of a speed.
const PASSES: usize = 12;
/// Shorter passes repeat their work.
const MIN_PASS_TIME: Duration = Duration::from_millis(2);
/// Limit for all passes of one codec and size class. Two passes run in any case.
const MAX_CPU_TIME: Duration = Duration::from_secs(2);

pub struct CheckedCodec {
    pub codec: Codec,
    coder: Coder,
    compressed_sizes: Vec<usize>,
}

impl CheckedCodec {
    /// Fails if a record is not restored exactly.
    pub fn new(codec: Codec, dictionary: Option<&[u8]>, records: &[&[u8]]) -> Result<Self> {
        let mut coder = Coder::new(codec, dictionary)?;
        let (mut compressed, mut compressed_sizes) = (Vec::new(), Vec::new());
        for (index, record) in records.iter().enumerate() {
            coder
                .round_trip(record, &mut compressed)
                .with_context(|| format!("record {index} of {} bytes", record.len()))?;
            compressed_sizes.push(compressed.len());
        }
        Ok(Self {
            codec,
            coder,
            compressed_sizes,
        })
    }
}

/// Grouped by codec. The last row of each codec is that of all records.
pub fn class_rows(
    codecs: &mut [CheckedCodec],
    records: &[&[u8]],
    args: &CompressionArgs,
) -> Vec<ClassRow> {
    let mut classes = size_classes(&args.classes, records);
    classes.push(("all".to_owned(), (0..records.len()).collect()));
    let mut rows = Vec::new();
    for (range, indices) in classes {
        let speeds = measure_speeds(codecs, records, &indices, args.seed);
        for (checked, speeds) in zip(codecs.iter(), speeds) {
            let sizes = indices.iter().map(|index| {
                let (original, compressed) =
                    (records[*index].len(), checked.compressed_sizes[*index]);
                (Some(original as f64), Some(compressed as f64))
            });
            let (original, compressed): (Vec<_>, Vec<_>) = sizes.unzip();
            let [original_sum, compressed_sum] =
                [&original, &compressed].map(|sizes| sizes.iter().flatten().sum::<f64>());
            let n = indices.len() as f64;
            rows.push(ClassRow {
                codec: checked.codec.name(),
                library: checked.codec.library(),
                range: range.clone(),
                record_count: indices.len() as u64,
                mean_uncompressed_bytes: original_sum / n,
                mean_compressed_bytes: compressed_sum / n,
                saved_percent: percent_saved(compressed_sum / original_sum),
                saved: StoredEstimate::saved(&compressed, &original),
                compress: mean_speed(&speeds.compress),
                decompress: mean_speed(&speeds.decompress),
            });
        }
    }
    rows.sort_by_key(|row| {
        codecs
            .iter()
            .position(|checked| checked.codec.name() == row.codec)
    });
    rows
}

fn measure_speeds(
    codecs: &mut [CheckedCodec],
    records: &[&[u8]],
    indices: &[usize],
    seed: u64,
) -> Vec<Speeds> {
    let mut speeds = codecs.iter().map(|_| Speeds::default()).collect_vec();
    let mut order = (0..codecs.len()).collect_vec();
    let mut random = fastrand::Rng::with_seed(seed);
    // In random order, so that a disturbance affects every codec.
    for _ in 0..PASSES {
        random.shuffle(&mut order);
        for index in &order {
            speeds[*index].run_pass(&mut codecs[*index].coder, records, indices);
        }
    }
    speeds
}

/// (range such as `250-500b` or `900-1KB`, indices of its records). Each limit begins a class.
/// Empty classes are left out.
fn size_classes(limits: &[u64], records: &[&[u8]]) -> Vec<(String, Vec<usize>)> {
    let mut classes = Vec::new();
    let mut from = 0;
    for to in limits
        .iter()
        .map(|limit| Some(*limit as usize))
        .chain([None])
    {
        let sizes = from..to.unwrap_or(usize::MAX);
        let indices = (0..records.len())
            .filter(|index| sizes.contains(&records[*index].len()))
            .collect_vec();
        if !indices.is_empty() {
            let start = format_size(from);
            let range = match to {
                None => format!("{start}+"),
                Some(to) if to < 1000 => format!("{start}-{to}b"),
                Some(to) => format!("{start}-{}", format_size(to)),
            };
            classes.push((range, indices));
        }
        from = sizes.end;
    }
    classes
}

/// As in the study, 1 KB is 1,000 bytes.
fn format_size(bytes: usize) -> String {
    match bytes {
        1_000_000.. if bytes.is_multiple_of(1_000_000) => format!("{}MB", bytes / 1_000_000),
        1000.. if bytes.is_multiple_of(1000) => format!("{}KB", bytes / 1000),
        _ => bytes.to_string(),
    }
}

/// Speeds of each pass, in 10^6 bytes per CPU second.
#[derive(Default)]
struct Speeds {
    compress: Vec<Option<f64>>,
    decompress: Vec<Option<f64>>,
    spent: Duration,
}

impl Speeds {
    fn run_pass(&mut self, coder: &mut Coder, records: &[&[u8]], indices: &[usize]) {
        if self.spent > MAX_CPU_TIME && self.compress.len() >= 2 {
            return;
        }
        let started = clock::thread_cpu();
        let mut bytes = 0;
        let fits_pass = |record: &&[u8]| {
            let is_first = bytes == 0;
            bytes += record.len();
            is_first || bytes <= MAX_PASS_BYTES
        };
        let records = indices
            .iter()
            .map(|index| records[*index])
            .take_while(fits_pass)
            .collect_vec();
        let mut compressed = vec![Vec::new(); records.len()];
        let compress = measure_speed(&records, || {
            // Cannot fail: `CheckedCodec::new` restored every record.
            zip(&records, &mut compressed).all(|(record, out)| coder.compress(record, out).is_ok())
        });
        let mut restored = Vec::new();
        let decompress = measure_speed(&records, || {
            zip(&records, &compressed)
                .all(|(record, bytes)| coder.decompress(bytes, record.len(), &mut restored).is_ok())
        });
        self.compress.push(compress);
        self.decompress.push(decompress);
        self.spent += clock::thread_cpu().saturating_sub(started);
    }
}

/// `None` if `code_all` fails or takes no time.
fn measure_speed(records: &[&[u8]], mut code_all: impl FnMut() -> bool) -> Option<f64> {
    let bytes: usize = records.iter().map(|record| record.len()).sum();
    let started = clock::thread_cpu();
    let mut repeats = 0_u32;
    while code_all() {
        repeats += 1;
        let spent = clock::thread_cpu().saturating_sub(started);
        if spent >= MIN_PASS_TIME || repeats >= 10_000 {
            return (!spent.is_zero())
                .then(|| f64::from(repeats) * bytes as f64 / spent.as_secs_f64() / 1e6);
        }
    }
    None
}

fn mean_speed(passes: &[Option<f64>]) -> Option<StoredEstimate> {
    let mean = block_bootstrap::mean_of_amounts(passes, &bootstrap_plan())?;
    Some(StoredEstimate::from_estimate(&mean, |speed| speed))
}

/// The length of each record (LEB128), then its bytes.
fn encode_blob(records: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let mut length = record.len();
        while length >= 128 {
            out.push((length % 128) as u8 | 128);
            length /= 128;
        }
        out.push(length as u8);
        out.extend_from_slice(record);
    }
    out
}

/// Rows of all codecs, and for each number of records an example of the first codec.
pub fn bundle_rows_and_examples(
    codecs: &mut [CheckedCodec],
    records: &[&[u8]],
    args: &CompressionArgs,
    problems: &mut Vec<String>,
) -> (Vec<BundleRow>, Vec<BlobExample>) {
    let indices = (0..records.len())
        .filter(|index| (records[*index].len() as u64) < args.bundle_below)
        .collect_vec();
    let (mut rows, mut examples) = (Vec::new(), Vec::new());
    for (codec_index, checked) in codecs.iter_mut().enumerate() {
        for count in args.bundle.iter().map(|count| *count as usize) {
            if count > indices.len() {
                continue;
            }
            match measure_bundle(checked, records, &indices, count, args.header + args.ack) {
                Ok((row, example)) => {
                    rows.push(row);
                    if codec_index == 0 {
                        examples.push(example);
                    }
                }
                Err(error) => {
                    problems.push(format!("{} FAILED: {error:#}", checked.codec.name()));
                }
            }
        }
    }
    (rows, examples)
}

/// Needs at least `count` indices. Each message adds `message_bytes`. The example is the blob with
/// the median ratio.
fn measure_bundle(
    checked: &mut CheckedCodec,
    records: &[&[u8]],
    indices: &[usize],
    count: usize,
    message_bytes: u64,
) -> Result<(BundleRow, BlobExample)> {
    let message_overhead = message_bytes as f64;
    let unbundled_overhead = message_overhead * count as f64;
    let mut compressed = Vec::new();
    // Original and compressed bytes.
    let mut blobs = Vec::new();
    let mut alone_bytes = 0.0;
    for indices in indices.chunks_exact(count) {
        let batch = indices.iter().map(|index| records[*index]).collect_vec();
        checked
            .coder
            .round_trip(&encode_blob(&batch), &mut compressed)
            .context("a blob")?;
        blobs.push((batch.concat().len() as f64, compressed.len() as f64));
        for index in indices {
            alone_bytes += checked.compressed_sizes[*index] as f64 + message_overhead;
        }
    }
    let n = blobs.len() as f64;
    let original_sum: f64 = blobs.iter().map(|(bytes, _)| bytes).sum();
    let compressed_sum: f64 = blobs.iter().map(|(_, bytes)| bytes).sum();
    let with_overhead = |(original, compressed): &(f64, f64)| {
        (
            Some(compressed + message_overhead),
            Some(original + unbundled_overhead),
        )
    };
    let (bundled, unbundled): (Vec<_>, Vec<_>) = blobs.iter().map(with_overhead).unzip();
    let row = BundleRow {
        codec: checked.codec.name(),
        records_per_blob: count as u64,
        blob_count: blobs.len() as u64,
        mean_uncompressed_bytes: original_sum / n,
        mean_compressed_bytes: compressed_sum / n,
        saved_percent: percent_saved(compressed_sum / original_sum),
        overhead_saved: unbundled_overhead - message_overhead,
        saved_with_overhead: StoredEstimate::saved(&bundled, &unbundled),
        saved_alone: percent_saved(alone_bytes / (original_sum + unbundled_overhead * n)),
    };
    blobs.sort_by(|a, b| (a.1 * b.0).total_cmp(&(b.1 * a.0)));
    let (original, compressed) = blobs[blobs.len() / 2];
    Ok((row, (count as u64, original as u64, compressed as u64)))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::args, *};

    #[test]
    fn compression_sizes_and_ratio_use_sums_and_include_speeds() {
        let records: Vec<Vec<u8>> = (0..60_usize)
            .map(|index| vec![7; 100 + index * 20])
            .collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let names = ["zlib-6", "lz4", "snappy"];
        let mut all: Vec<CheckedCodec> = Vec::new();
        for name in names {
            let codec = Codec::named(name).unwrap();
            all.push(CheckedCodec::new(codec, None, &records).unwrap());
        }
        let args = args(&["--classes", "500,1000"]);
        let rows = class_rows(&mut all, &records, &args);
        let kinds: Vec<(&str, &str)> = rows
            .iter()
            .map(|row| (row.codec.as_str(), row.range.as_str()))
            .collect();
        assert_eq!(
            kinds[..5],
            [
                ("zlib-6", "0-500b"),
                ("zlib-6", "500-1KB"),
                ("zlib-6", "1KB+"),
                ("zlib-6", "all"),
                ("lz4", "0-500b")
            ]
        );
        let all_of = |codec: &str| {
            rows.iter()
                .find(|row| row.codec == codec && row.range == "all")
                .unwrap()
        };
        for (name, packed) in names.iter().zip(&all) {
            let row = all_of(name);
            let (u, c) = (
                records.iter().map(|r| r.len()).sum::<usize>(),
                packed.compressed_sizes.iter().sum::<usize>(),
            );
            assert!((row.saved_percent - 100.0 * (1.0 - c as f64 / u as f64)).abs() < 1e-9);
            assert!(
                (row.mean_uncompressed_bytes - u as f64 / 60.0).abs() < 1e-9
                    && row.record_count == 60
            );
            let interval = row.saved.unwrap();
            assert!(
                interval.low < row.saved_percent && row.saved_percent < interval.high,
                "{interval:?}"
            );
            assert!(row.compress.unwrap().value > 0.1 && row.decompress.unwrap().value > 0.1);
        }
    }

    #[test]
    fn every_record_belongs_to_one_size_class_named_as_in_the_study() {
        let usual = "250,500,600,700,800,900,1000,10000,100000,1000000,10000000";
        let limits: Vec<u64> = usual
            .split(',')
            .map(|limit| limit.parse().unwrap())
            .collect();
        let sizes = [0, 249, 250, 999, 1000, 20_000, 20_000_000];
        let records: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let found = size_classes(&limits, &records);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "0-250b",
                "250-500b",
                "900-1KB",
                "1KB-10KB",
                "10KB-100KB",
                "10MB+"
            ]
        );
        assert_eq!(
            found
                .iter()
                .map(|(_, indices)| indices.len())
                .sum::<usize>(),
            sizes.len()
        );
    }

    #[test]
    fn records_that_grow_count_as_compressed_alone_and_in_blobs() {
        let mut random = fastrand::Rng::with_seed(5);
        let records: Vec<Vec<u8>> = (0..20)
            .map(|_| (0..150).map(|_| random.u8(..)).collect())
            .collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let codec = Codec::named("lz4").unwrap();
        let mut checked = CheckedCodec::new(codec, None, &records).unwrap();
        let indices: Vec<usize> = (0..20).collect();
        let (row, _) = measure_bundle(&mut checked, &records, &indices, 10, 76).unwrap();
        let compressed: usize = checked.compressed_sizes.iter().sum();
        let all = 20.0 * (150.0 + 76.0);
        let wanted = 100.0 * (1.0 - (compressed as f64 + 20.0 * 76.0) / all);
        assert!(compressed > 20 * 150 && row.saved_percent < 0.0, "{row:?}");
        assert!((row.saved_alone - wanted).abs() < 1e-9, "{row:?}");
    }

    #[test]
    fn a_bundle_saves_message_overhead_and_redundancy_between_records() {
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<u8> = (0..150).map(|_| random.u8(..)).collect();
        // Each is noise, which alone does not compress; together they repeat one another.
        let records: Vec<&[u8]> = (0..105).map(|_| noise.as_slice()).collect();
        let codec = Codec::named("zstd").unwrap();
        let mut checked = CheckedCodec::new(codec, None, &records).unwrap();
        let indices: Vec<usize> = (0..105).collect();
        let (row, (count, original, _)) =
            measure_bundle(&mut checked, &records, &indices, 10, 76).unwrap();
        assert_eq!(
            (
                row.blob_count,
                row.mean_uncompressed_bytes,
                row.overhead_saved
            ),
            (10, 1500.0, 684.0)
        );
        assert!(
            row.mean_compressed_bytes < 200.0 && row.saved_percent > 85.0,
            "{row:?}"
        );
        assert!(row.saved_alone < 0.0, "{row:?}");
        let total = 100.0 * (1.0 - (row.mean_compressed_bytes + 76.0) / (1500.0 + 760.0));
        assert!(
            (row.saved_with_overhead.unwrap().value - total).abs() < 1e-6,
            "{row:?}"
        );
        assert_eq!((count, original), (10, 1500));
    }
}
