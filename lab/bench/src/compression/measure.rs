use super::{Blob, BundleRow, ClassRow, Interval, plan};
use crate::{
    args::CompressionArgs,
    codec::{Codec, Coder},
};
use anyhow::{Context as _, Result};
use faultline_common::clock;
use faultline_stats::block;
use std::time::Duration;

/// More bytes per pass would add nothing.
const PASS_BYTES: usize = 1 << 20;
/// The spread of the passes gives the interval of a speed.
const PASSES: usize = 12;
/// Shorter passes repeat their work.
const PASS_TIME: Duration = Duration::from_millis(2);
const MAX_CPU_TIME: Duration = Duration::from_secs(2);

pub struct MeasuredCodec {
    pub codec: Codec,
    coder: Coder,
    sizes: Vec<usize>,
}

/// Fails if a record is not restored exactly.
pub fn packed(codec: Codec, mut coder: Coder, records: &[&[u8]]) -> Result<MeasuredCodec> {
    let mut bytes = Vec::new();
    let mut sizes = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        coder
            .round_trip(record, &mut bytes)
            .with_context(|| format!("record {index} of {} bytes", record.len()))?;
        sizes.push(bytes.len());
    }
    Ok(MeasuredCodec {
        codec,
        coder,
        sizes,
    })
}

fn rows(
    all: &mut [MeasuredCodec],
    records: &[&[u8]],
    range: &str,
    indices: &[usize],
    seed: u64,
) -> Vec<ClassRow> {
    let mut speeds: Vec<Speeds> = all.iter().map(|_| Speeds::default()).collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    // In random order, so that a disturbance affects every codec.
    for _ in 0..PASSES {
        random.shuffle(&mut order);
        for index in &order {
            speeds[*index].pass(&mut all[*index].coder, records, indices);
        }
    }
    let measured = all.iter().zip(&speeds);
    measured
        .map(|(packed, speeds)| row(packed, speeds, records, range, indices))
        .collect()
}

pub fn classes(
    all: &mut [MeasuredCodec],
    records: &[&[u8]],
    args: &CompressionArgs,
) -> Vec<ClassRow> {
    let mut classes = size_classes(&args.classes, records);
    classes.push(("all".to_owned(), (0..records.len()).collect()));
    let mut out: Vec<ClassRow> = classes
        .iter()
        .flat_map(|(range, indices)| rows(all, records, range, indices, args.seed))
        .collect();
    let codecs: Vec<String> = all.iter().map(|packed| packed.codec.name()).collect();
    out.sort_by_key(|row| codecs.iter().position(|codec| *codec == row.codec));
    out
}

/// The indices of the records of each class that has any, with the class's range. `limits` are
/// where one class ends and the next begins.
fn size_classes(limits: &[u64], records: &[&[u8]]) -> Vec<(String, Vec<usize>)> {
    let mut classes = Vec::new();
    let mut from = 0;
    let ends = limits.iter().map(|limit| Some(*limit as usize));
    for to in ends.chain([None]) {
        let within = from..to.unwrap_or(usize::MAX);
        let indices: Vec<usize> = (0..records.len())
            .filter(|index| within.contains(&records[*index].len()))
            .collect();
        if !indices.is_empty() {
            classes.push((range(from, to), indices));
        }
        from = within.end;
    }
    classes
}

/// `250-500b`, `900-1KB`, `1KB-10KB`. As in the study, 1 KB is 1,000 bytes.
fn range(from: usize, to: Option<usize>) -> String {
    let Some(to) = to else {
        return format!("{}+", format_size(from));
    };
    let unit = if to < 1000 { "b" } else { "" };
    format!("{}-{}{unit}", format_size(from), format_size(to))
}

fn format_size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1_000_000 && bytes.is_multiple_of(1_000_000) => {
            format!("{}MB", bytes / 1_000_000)
        }
        _ if bytes >= 1000 && bytes.is_multiple_of(1000) => format!("{}KB", bytes / 1000),
        _ => bytes.to_string(),
    }
}

fn row(
    packed: &MeasuredCodec,
    speeds: &Speeds,
    records: &[&[u8]],
    range: &str,
    indices: &[usize],
) -> ClassRow {
    let of = |bytes: &dyn Fn(usize) -> usize| -> Vec<Option<f64>> {
        indices
            .iter()
            .map(|index| Some(bytes(*index) as f64))
            .collect()
    };
    let original_bytes = of(&|index| records[index].len());
    let compressed_bytes = of(&|index| packed.sizes[index]);
    let sum = |values: &[Option<f64>]| values.iter().flatten().sum::<f64>();
    let n = indices.len().max(1) as f64;
    let (ubytes, cbytes) = (sum(&original_bytes), sum(&compressed_bytes));
    ClassRow {
        codec: packed.codec.name(),
        library: packed.codec.library(),
        range: range.to_owned(),
        datapoints: indices.len() as u64,
        ubytes: ubytes / n,
        cbytes: cbytes / n,
        cmp_ratio: if ubytes > 0.0 {
            100.0 * (1.0 - cbytes / ubytes)
        } else {
            0.0
        },
        interval: block::ratio_of_sums(&compressed_bytes, &original_bytes, &plan())
            .map(|left| Interval::saved(&left)),
        compress: speed(&speeds.compress),
        decompress: speed(&speeds.decompress),
    }
}

#[derive(Default)]
struct Speeds {
    compress: Vec<Option<f64>>,
    decompress: Vec<Option<f64>>,
    spent: Duration,
}

impl Speeds {
    fn pass(&mut self, coder: &mut Coder, records: &[&[u8]], indices: &[usize]) {
        if self.spent > MAX_CPU_TIME && self.compress.len() >= 2 {
            return;
        }
        let begun = clock::thread_cpu();
        let mut bytes = 0;
        let fits_pass = |index: &&usize| {
            let first = bytes == 0;
            bytes += records[**index].len();
            first || bytes <= PASS_BYTES
        };
        let records: Vec<&[u8]> = indices
            .iter()
            .take_while(fits_pass)
            .map(|index| records[*index])
            .collect();
        let mut stored: Vec<Vec<u8>> = records.iter().map(|_| Vec::new()).collect();
        let compress = measure_speed(&records, || {
            // Cannot fail: `packed` restored every record before.
            records
                .iter()
                .zip(&mut stored)
                .all(|(record, out)| coder.compress(record, out).is_ok())
        });
        let mut restored = Vec::new();
        let decompress = measure_speed(&records, || {
            let mut pairs = records.iter().zip(&stored);
            pairs
                .all(|(record, bytes)| coder.decompress(bytes, record.len(), &mut restored).is_ok())
        });
        self.compress.push(compress);
        self.decompress.push(decompress);
        self.spent += clock::thread_cpu().saturating_sub(begun);
    }
}

/// In 10^6 bytes per CPU second.
fn measure_speed(records: &[&[u8]], mut run_once: impl FnMut() -> bool) -> Option<f64> {
    let bytes: usize = records.iter().map(|record| record.len()).sum();
    let begun = clock::thread_cpu();
    let mut times = 0_u32;
    let spent = loop {
        if !run_once() {
            return None;
        }
        times += 1;
        let spent = clock::thread_cpu().saturating_sub(begun);
        if spent >= PASS_TIME || times >= 10_000 {
            break spent;
        }
    };
    (bytes > 0 && !spent.is_zero())
        .then(|| f64::from(times) * bytes as f64 / spent.as_secs_f64() / 1e6)
}

fn speed(passes: &[Option<f64>]) -> Option<Interval> {
    block::amount(passes, &plan()).map(|estimate| Interval::of(&estimate, |speed| speed))
}

/// The length of each record (LEB128), then its bytes.
fn blob(records: &[&[u8]]) -> Vec<u8> {
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

/// The rows of all codecs, and the shown blobs of the first.
pub fn bundles(
    measured: &mut [MeasuredCodec],
    records: &[&[u8]],
    args: &CompressionArgs,
    problems: &mut Vec<String>,
) -> (Vec<BundleRow>, Vec<Blob>) {
    let small = |index: &usize| (records[*index].len() as u64) < args.bundle_below;
    let indices: Vec<usize> = (0..records.len()).filter(small).collect();
    let (mut rows, mut blobs) = (Vec::new(), Vec::new());
    for (nth, codec) in measured.iter_mut().enumerate() {
        for count in args.bundle.iter().map(|count| *count as usize) {
            if count > indices.len() {
                continue;
            }
            match bundle(codec, records, &indices, count, args.header + args.ack) {
                Ok((row, blob)) => {
                    rows.push(row);
                    blobs.extend(blob.filter(|_| nth == 0));
                }
                Err(error) => problems.push(format!("{} FAILED: {error:#}", codec.codec.name())),
            }
        }
    }
    (rows, blobs)
}

/// Bundles of `count` records, of which each message has `message` bytes of its own.
fn bundle(
    packed: &mut MeasuredCodec,
    records: &[&[u8]],
    indices: &[usize],
    count: usize,
    message: u64,
) -> Result<(BundleRow, Option<Blob>)> {
    let message = message as f64;
    let messages = message * count as f64;
    let mut compressed = Vec::new();
    // For each blob: bytes of its records, and bytes of the compressed blob.
    let mut blobs: Vec<(f64, f64)> = Vec::new();
    let mut alone_bytes = 0.0;
    for indices in indices.chunks_exact(count) {
        let batch: Vec<&[u8]> = indices.iter().map(|index| records[*index]).collect();
        let coder = &mut packed.coder;
        coder
            .round_trip(&blob(&batch), &mut compressed)
            .context("a blob")?;
        let bytes: usize = batch.iter().map(|record| record.len()).sum();
        blobs.push((bytes as f64, compressed.len() as f64));
        for index in indices {
            alone_bytes += packed.sizes[*index].min(records[*index].len()) as f64 + message;
        }
    }
    let n = blobs.len() as f64;
    let ubytes: f64 = blobs.iter().map(|(bytes, _)| bytes).sum();
    let cbytes: f64 = blobs.iter().map(|(_, bytes)| bytes).sum();
    let bundled_bytes: Vec<_> = blobs.iter().map(|of| Some(of.1 + message)).collect();
    let unbundled_bytes: Vec<_> = blobs.iter().map(|of| Some(of.0 + messages)).collect();
    let row = BundleRow {
        codec: packed.codec.name(),
        txcount: count as u64,
        blobs: blobs.len() as u64,
        ubytes: ubytes / n.max(1.0),
        cbytes: cbytes / n.max(1.0),
        cmp_ratio: 100.0 * (1.0 - cbytes / ubytes.max(1.0)),
        overhead: messages - message,
        saved: block::ratio_of_sums(&bundled_bytes, &unbundled_bytes, &plan())
            .map(|left| Interval::saved(&left)),
        saved_alone: 100.0 * (1.0 - alone_bytes / (ubytes + messages * n).max(1.0)),
    };
    // The blob with the median ratio.
    blobs.sort_by(|a, b| (a.1 * b.0).total_cmp(&(b.1 * a.0)));
    let median = blobs.get(blobs.len() / 2);
    Ok((
        row,
        median.map(|(ubytes, cbytes)| (count as u64, *ubytes as u64, *cbytes as u64)),
    ))
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
        let mut all: Vec<MeasuredCodec> = Vec::new();
        for name in names {
            let codec = Codec::named(name).unwrap();
            all.push(packed(codec, Coder::new(codec, None).unwrap(), &records).unwrap());
        }
        let args = args(&["--classes", "500,1000"]);
        let rows = classes(&mut all, &records, &args);
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
                packed.sizes.iter().sum::<usize>(),
            );
            assert!((row.cmp_ratio - 100.0 * (1.0 - c as f64 / u as f64)).abs() < 1e-9);
            assert!((row.ubytes - u as f64 / 60.0).abs() < 1e-9 && row.datapoints == 60);
            let interval = row.interval.unwrap();
            assert!(
                interval.low < row.cmp_ratio && row.cmp_ratio < interval.high,
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
    fn a_bundle_saves_message_overhead_and_redundancy_between_records() {
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<u8> = (0..150).map(|_| random.u8(..)).collect();
        // Each is noise, which alone does not compress; together they repeat one another.
        let records: Vec<&[u8]> = (0..105).map(|_| noise.as_slice()).collect();
        let codec = Codec::named("zstd").unwrap();
        let mut packed = packed(codec, Coder::new(codec, None).unwrap(), &records).unwrap();
        let indices: Vec<usize> = (0..105).collect();
        let (row, shown) = bundle(&mut packed, &records, &indices, 10, 76).unwrap();
        assert_eq!((row.blobs, row.ubytes, row.overhead), (10, 1500.0, 684.0));
        assert!(row.cbytes < 200.0 && row.cmp_ratio > 85.0, "{row:?}");
        assert!(row.saved_alone.abs() < 1e-9, "{row:?}");
        let total = 100.0 * (1.0 - (row.cbytes + 76.0) / (1500.0 + 760.0));
        assert!((row.saved.unwrap().value - total).abs() < 1e-6, "{row:?}");
        assert_eq!(shown.map(|(count, u, _)| (count, u)), Some((10, 1500)));
    }
}
