//! Bundles small records, counting the messages saved.

use super::measure::Packed;
use super::outcome::{Blob, BundleRow, Interval, Overhead, plan};
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

pub(crate) fn row(
    packed: &mut Packed,
    records: &[&[u8]],
    (places, count): (&[usize], usize),
    overhead: Overhead,
) -> anyhow::Result<(BundleRow, Option<Blob>)> {
    let message = (overhead.header + overhead.ack) as f64;
    let (mut bytes, mut restored) = (Vec::new(), Vec::new());
    let (mut ubytes, mut cbytes, mut alone) = (Vec::new(), Vec::new(), 0.0);
    for places in places.chunks_exact(count) {
        let some: Vec<&[u8]> = places.iter().map(|index| records[*index]).collect();
        let blob = blob(&some);
        packed.coder.compress(&blob, &mut bytes).context("a blob")?;
        packed
            .coder
            .decompress(&bytes, blob.len(), &mut restored)
            .context("a blob")?;
        anyhow::ensure!(restored == blob, "another blob came back");
        ubytes.push(some.iter().map(|record| record.len()).sum::<usize>() as f64);
        cbytes.push(bytes.len() as f64);
        alone += places
            .iter()
            .map(|index| packed.sizes[*index].min(records[*index].len()) as f64 + message)
            .sum::<f64>();
    }
    let n = ubytes.len().max(1) as f64;
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let sent: Vec<Option<f64>> = cbytes.iter().map(|bytes| Some(bytes + message)).collect();
    let without: Vec<Option<f64>> = ubytes
        .iter()
        .map(|bytes| Some(bytes + message * count as f64))
        .collect();
    let of_all = sum(&ubytes) + message * count as f64 * ubytes.len() as f64;
    let row = BundleRow {
        codec: packed.codec.name(),
        txcount: count as u64,
        blobs: ubytes.len() as u64,
        ubytes: sum(&ubytes) / n,
        cbytes: sum(&cbytes) / n,
        cmp_ratio: 100.0 * (1.0 - sum(&cbytes) / sum(&ubytes).max(1.0)),
        overhead: message * (count as f64 - 1.0),
        saved: block::ratio_of_sums(&sent, &without, &plan()).map(|left| Interval::saved(&left)),
        saved_alone: 100.0 * (1.0 - alone / of_all.max(1.0)),
    };
    Ok((
        row,
        middle(&ubytes, &cbytes).map(|(u, c)| (count as u64, u as u64, c as u64)),
    ))
}

/// The blob with the median ratio.
fn middle(ubytes: &[f64], cbytes: &[f64]) -> Option<(f64, f64)> {
    let mut both: Vec<(f64, f64)> = ubytes.iter().copied().zip(cbytes.iter().copied()).collect();
    both.sort_by(|a, b| (a.1 * b.0).total_cmp(&(b.1 * a.0)));
    both.get(both.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::measure::packed;
    use super::*;
    use crate::codec::{Codec, Coder};

    #[test]
    fn a_blob_saves_messages_and_what_records_have_in_common() {
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<u8> = (0..150).map(|_| random.u8(..)).collect();
        // Each is noise, which alone does not compress; together they repeat one another.
        let records: Vec<&[u8]> = (0..105).map(|_| noise.as_slice()).collect();
        let codec = Codec::named("zstd").unwrap();
        let mut packed = packed(codec, Coder::new(codec, None).unwrap(), &records).unwrap();
        let places: Vec<usize> = (0..105).collect();
        let overhead = Overhead {
            header: 24,
            ack: 52,
        };
        let (row, shown) = row(&mut packed, &records, (&places, 10), overhead).unwrap();
        assert_eq!((row.blobs, row.ubytes, row.overhead), (10, 1500.0, 684.0));
        assert!(row.cbytes < 200.0 && row.cmp_ratio > 85.0, "{row:?}");
        assert!(row.saved_alone.abs() < 1e-9, "{row:?}");
        let total = 100.0 * (1.0 - (row.cbytes + 76.0) / (1500.0 + 760.0));
        assert!((row.saved.unwrap().value - total).abs() < 1e-6, "{row:?}");
        assert_eq!(shown.map(|(count, u, _)| (count, u)), Some((10, 1500)));
    }
}
