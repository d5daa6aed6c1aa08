//! Bundles small records, counting the messages saved.

use super::measure::MeasuredCodec;
use super::{Blob, BundleRow, Interval, plan};
use crate::args::CompressionArgs;
use anyhow::Context as _;
use faultline_stats::block;

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
pub(super) fn rows(
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
            match row(codec, records, &indices, count, args.header + args.ack) {
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
fn row(
    packed: &mut MeasuredCodec,
    records: &[&[u8]],
    indices: &[usize],
    count: usize,
    message: u64,
) -> anyhow::Result<(BundleRow, Option<Blob>)> {
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
    use super::super::measure::packed;
    use super::*;
    use crate::codec::{Codec, Coder};

    #[test]
    fn a_bundle_saves_message_overhead_and_redundancy_between_records() {
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<u8> = (0..150).map(|_| random.u8(..)).collect();
        // Each is noise, which alone does not compress; together they repeat one another.
        let records: Vec<&[u8]> = (0..105).map(|_| noise.as_slice()).collect();
        let codec = Codec::named("zstd").unwrap();
        let mut packed = packed(codec, Coder::new(codec, None).unwrap(), &records).unwrap();
        let indices: Vec<usize> = (0..105).collect();
        let (row, shown) = row(&mut packed, &records, &indices, 10, 76).unwrap();
        assert_eq!((row.blobs, row.ubytes, row.overhead), (10, 1500.0, 684.0));
        assert!(row.cbytes < 200.0 && row.cmp_ratio > 85.0, "{row:?}");
        assert!(row.saved_alone.abs() < 1e-9, "{row:?}");
        let total = 100.0 * (1.0 - (row.cbytes + 76.0) / (1500.0 + 760.0));
        assert!((row.saved.unwrap().value - total).abs() < 1e-6, "{row:?}");
        assert_eq!(shown.map(|(count, u, _)| (count, u)), Some((10, 1500)));
    }
}
