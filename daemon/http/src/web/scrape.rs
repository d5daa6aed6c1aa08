//! `/metrics`: the exposition of the newest tick, encoded once for all scrapers.

use crate::sinks::prometheus::{
    ConstantLabels, DroppedSeries, EncodedExposition, Exposition, ExpositionFormat,
};
use faultline_metrics::Tick;
use flate2::{Compress, CompressError, Compression, FlushCompress, Status};
use hyper::body::Bytes;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};

const MIN_BYTES_TO_COMPRESS: usize = 1024;

#[derive(Debug, Default)]
pub struct ExpositionCache {
    cache: Mutex<CachedExpositions>,
    constant_labels: Arc<ConstantLabels>,
    dropped_series: DroppedSeries,
}

#[derive(Debug, Default)]
struct CachedExpositions {
    exposition: Option<Exposition>,
    /// The newest of each format: of the tick of `exposition`, or of the tick scraped before it.
    by_format: [Option<CachedExposition>; 3],
    compressor: Option<Compressor>,
}

#[derive(Debug)]
struct CachedExposition {
    encoded: EncodedExposition,
    compressed: Option<Bytes>,
}

impl ExpositionCache {
    pub fn new(constant_labels: ConstantLabels, dropped: DroppedSeries) -> Self {
        Self {
            cache: Mutex::default(),
            constant_labels: Arc::new(constant_labels),
            dropped_series: dropped,
        }
    }

    /// Returns the encoded exposition, and whether it is compressed. Small ones are not compressed.
    pub fn get(
        &self,
        tick: &Arc<Tick>,
        exposition_format: ExpositionFormat,
        use_gzip: bool,
    ) -> Result<(Bytes, bool), fmt::Error> {
        let mut cache = self.cache.lock();
        let exposition = self.exposition(&mut cache, tick);
        let CachedExpositions {
            by_format,
            compressor,
            ..
        } = &mut *cache;
        let cached = cached_exposition(
            &mut by_format[exposition_format as usize],
            &exposition,
            exposition_format,
        )?;
        let plain = &cached.encoded.bytes;
        if !use_gzip || plain.len() <= MIN_BYTES_TO_COMPRESS {
            return Ok((plain.clone(), false));
        }
        if let Some(compressed) = &cached.compressed {
            return Ok((compressed.clone(), true));
        }
        match compressor.get_or_insert_default().compress(plain) {
            Ok(compressed) => Ok((cached.compressed.insert(compressed).clone(), true)),
            Err(error) => {
                tracing::error!(%error, "the exposition could not be compressed");
                Ok((plain.clone(), false))
            }
        }
    }

    fn exposition(&self, cache: &mut CachedExpositions, tick: &Arc<Tick>) -> Exposition {
        let last = cache.exposition.take();
        let current = last
            .as_ref()
            .filter(|last| last.tick_number() == tick.number);
        let exposition = current.cloned().unwrap_or_else(|| {
            let exposition = Exposition::new(tick, &self.constant_labels, last.as_ref());
            self.dropped_series.add(&exposition);
            // Frees the expositions of formats that no client requested during the last tick.
            let last_number = last.as_ref().map(Exposition::tick_number);
            for cached in &mut cache.by_format {
                cached.take_if(|cached| last_number != Some(cached.encoded.tick_number()));
            }
            exposition
        });
        cache.exposition.insert(exposition).clone()
    }
}

fn cached_exposition<'a>(
    entry: &'a mut Option<CachedExposition>,
    exposition: &Exposition,
    exposition_format: ExpositionFormat,
) -> Result<&'a mut CachedExposition, fmt::Error> {
    let cached = match entry.take() {
        Some(last) if last.encoded.tick_number() == exposition.tick_number() => last,
        last => CachedExposition {
            encoded: exposition
                .encode(exposition_format, last.as_ref().map(|last| &last.encoded))?,
            compressed: None,
        },
    };
    Ok(entry.insert(cached))
}

/// gzip at the fastest level: slower levels gain little for repetitive text. The compressor is
/// reused, because allocating its 240 kB costs as much as the compression.
#[derive(Debug)]
struct Compressor(Compress);

impl Default for Compressor {
    fn default() -> Self {
        // 8 KiB. The largest window (32 KiB) takes 96 kB more memory and makes the result 2 % smaller.
        const WINDOW_BITS: u8 = 13;
        Self(Compress::new_gzip(Compression::fast(), WINDOW_BITS))
    }
}

impl Compressor {
    fn compress(&mut self, plain: &[u8]) -> Result<Bytes, CompressError> {
        // A compressed exposition is a few times this size.
        const GROWTH_BYTES: usize = 4096;
        self.0.reset();
        let (mut out, mut read_bytes) = (Vec::new(), 0);
        loop {
            out.reserve_exact(GROWTH_BYTES);
            let rest = plain.get(read_bytes..).unwrap_or_default();
            let status = self.0.compress_vec(rest, &mut out, FlushCompress::Finish)?;
            if status == Status::StreamEnd {
                return Ok(out.into());
            }
            read_bytes = usize::try_from(self.0.total_in()).unwrap_or(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::{Batch, Reading, Source, Stamp, metrics};
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn tick(number: u64, value: u64) -> Arc<Tick> {
        let readings = (0..50)
            .map(|n: u32| {
                Reading::integer(
                    &metrics::daemon::INGEST_LINES,
                    [n.to_string().into()],
                    value,
                )
            })
            .collect();
        let batch = Batch {
            readings,
            ..Batch::empty(Source::Daemon, Stamp::default())
        };
        Arc::new(Tick {
            number,
            at: Stamp::default(),
            batches: vec![Arc::new(batch)],
        })
    }

    fn get(
        cache: &ExpositionCache,
        tick: &Arc<Tick>,
        exposition_format: ExpositionFormat,
        gzip: bool,
    ) -> (Bytes, bool) {
        cache.get(tick, exposition_format, gzip).unwrap()
    }

    #[test]
    fn a_tick_is_encoded_once_for_equal_requests() {
        let cache = ExpositionCache::default();
        let first = get(&cache, &tick(1, 7), ExpositionFormat::Classic, true);
        let second = get(&cache, &tick(1, 7), ExpositionFormat::Classic, true);
        assert!(first.1 && second.1);
        assert_eq!(first.0.as_ptr(), second.0.as_ptr());
        let plain = get(&cache, &tick(1, 7), ExpositionFormat::Classic, false);
        assert!(!plain.1 && plain.0.starts_with(b"# HELP"));
    }

    #[test]
    fn the_scrape_cache_separates_formats_and_ticks() {
        let cache = ExpositionCache::default();
        let text = |tick: &Arc<Tick>, exposition_format| {
            String::from_utf8(get(&cache, tick, exposition_format, false).0.to_vec()).unwrap()
        };
        assert!(!text(&tick(1, 7), ExpositionFormat::Classic).contains("# EOF"));
        assert!(text(&tick(1, 7), ExpositionFormat::OpenMetrics).ends_with("# EOF\n"));
        let protobuf = get(&cache, &tick(1, 7), ExpositionFormat::Protobuf, false).0;
        assert!(
            protobuf
                .windows(28)
                .any(|w| w == b"faultline_ingest_lines_total")
        );
        assert!(!text(&tick(1, 7), ExpositionFormat::Classic).contains('\0'));
        assert!(
            text(&tick(2, 8), ExpositionFormat::Classic)
                .contains("faultline_ingest_lines_total{result=\"0\"} 8\n")
        );
    }

    #[test]
    fn every_compressed_exposition_is_complete() {
        let mut compressor = Compressor::default();
        let incompressible = |n: u64| ((n * n * 2_654_435_761) >> 7).to_le_bytes();
        for length in [0, 1, 5_000, 700, 200_000] {
            let plain: Vec<u8> = (0..).flat_map(incompressible).take(length).collect();
            let mut read = Vec::new();
            GzDecoder::new(&*compressor.compress(&plain).unwrap())
                .read_to_end(&mut read)
                .unwrap();
            assert_eq!(read, plain, "{length} bytes");
        }
    }

    #[test]
    fn a_small_exposition_is_not_compressed() {
        let empty = Arc::new(Tick {
            number: 1,
            at: Stamp::default(),
            batches: Vec::new(),
        });
        assert!(
            !get(
                &ExpositionCache::default(),
                &empty,
                ExpositionFormat::OpenMetrics,
                true
            )
            .1
        );
    }
}
