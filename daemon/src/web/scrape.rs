//! `/metrics`: the newest tick as a page, encoded once however many scrapers ask.

use crate::sinks::prometheus::{ConstantLabels, Dialect, DroppedSeries, page};
use faultline_catalog::Tick;
use flate2::{Compress, CompressError, Compression, FlushCompress, Status};
use hyper::body::Bytes;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Below this a compressed page saves nothing.
const WORTH_COMPRESSING: usize = 1024;

/// The pages of the newest tick that somebody asked for, one per dialect and encoding.
#[derive(Debug, Default)]
pub(super) struct Pages {
    encoded: Mutex<EncodedPages>,
    dropped: DroppedSeries,
}

#[derive(Debug, Default)]
struct EncodedPages {
    /// The tick that the pages show, without series that collide.
    tick: Option<Arc<Tick>>,
    pages: Vec<(Dialect, bool, Bytes)>,
    compressor: Compressor,
}

impl EncodedPages {
    fn find(&self, dialect: Dialect, gzip: bool) -> Option<Bytes> {
        self.pages
            .iter()
            .find(|(d, g, _)| (*d, *g) == (dialect, gzip))
            .map(|(_, _, page)| page.clone())
    }

    /// The tick to show, for which pages are encoded from now on.
    fn show(
        &mut self,
        tick: &Arc<Tick>,
        constant: &ConstantLabels,
        dropped: &DroppedSeries,
    ) -> Arc<Tick> {
        let shown = self.tick.take().filter(|shown| shown.number == tick.number);
        let shown = shown.unwrap_or_else(|| {
            self.pages.clear();
            dropped.without_collisions(tick, constant)
        });
        Arc::clone(self.tick.insert(shown))
    }

    fn plain(
        &mut self,
        tick: &Arc<Tick>,
        dialect: Dialect,
        constant: &ConstantLabels,
    ) -> Result<Bytes, fmt::Error> {
        if let Some(page) = self.find(dialect, false) {
            return Ok(page);
        }
        let page = Bytes::from(page(tick, dialect, constant)?);
        self.pages.push((dialect, false, page.clone()));
        Ok(page)
    }
}

impl Pages {
    /// Counts in `dropped` the series that it leaves out.
    pub(super) fn new(dropped: DroppedSeries) -> Self {
        Pages {
            encoded: Mutex::default(),
            dropped,
        }
    }

    /// The page, and whether it is compressed: only if the scraper takes that and it is worth it. The error of [`page`].
    pub(super) fn get(
        &self,
        tick: &Arc<Tick>,
        dialect: Dialect,
        gzip: bool,
        constant: &ConstantLabels,
    ) -> Result<(Bytes, bool), fmt::Error> {
        let mut kept = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        let tick = kept.show(tick, constant, &self.dropped);
        if gzip && let Some(compressed) = kept.find(dialect, true) {
            return Ok((compressed, true));
        }
        let plain = kept.plain(&tick, dialect, constant)?;
        if !gzip || plain.len() <= WORTH_COMPRESSING {
            return Ok((plain, false));
        }
        match kept.compressor.compress(&plain) {
            Ok(compressed) => {
                kept.pages.push((dialect, true, compressed.clone()));
                Ok((compressed, true))
            }
            Err(error) => {
                tracing::error!(%error, "the page could not be compressed");
                Ok((plain, false))
            }
        }
    }
}

/// Compresses as gzip, at the fastest level: on a page that repeats itself line by line the others save little more. Its
/// Compresses as gzip, at the fastest level: on a page that repeats itself line by line the others save little more. Its
/// memory is kept, since 240 kB from the kernel for each page cost as much as the compression.
#[derive(Debug)]
struct Compressor(Compress);

impl Default for Compressor {
    fn default() -> Self {
        // 8 KiB. The largest window, of 32 KiB, takes 96 kB more of memory, and pages are 2 % smaller.
        const WINDOW_BITS: u8 = 13;
        Compressor(Compress::new_gzip(Compression::fast(), WINDOW_BITS))
    }
}

impl Compressor {
    fn compress(&mut self, plain: &[u8]) -> Result<Bytes, CompressError> {
        self.0.reset();
        let piece = plain.len() / 6 + 64;
        let mut out = Vec::with_capacity(piece);
        loop {
            let read = usize::try_from(self.0.total_in()).unwrap_or(usize::MAX);
            let rest = plain.get(read..).unwrap_or_default();
            if self.0.compress_vec(rest, &mut out, FlushCompress::Finish)? == Status::StreamEnd {
                return Ok(out.into());
            }
            out.reserve(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_catalog::{Batch, Reading, Source, Stamp, metrics};
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn tick(number: u64, value: u64) -> Arc<Tick> {
        let readings = (0..50)
            .map(|n: u32| {
                Reading::counter(
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

    fn get(pages: &Pages, tick: &Arc<Tick>, dialect: Dialect, gzip: bool) -> (Bytes, bool) {
        pages
            .get(tick, dialect, gzip, &ConstantLabels::new())
            .unwrap()
    }

    #[test]
    fn a_tick_is_encoded_once_for_all_who_ask_the_same() {
        let pages = Pages::default();
        let first = get(&pages, &tick(1, 7), Dialect::Classic, true);
        let second = get(&pages, &tick(1, 7), Dialect::Classic, true);
        assert!(first.1 && second.1);
        assert_eq!(first.0.as_ptr(), second.0.as_ptr());
        let plain = get(&pages, &tick(1, 7), Dialect::Classic, false);
        assert!(!plain.1 && plain.0.starts_with(b"# HELP"));
    }

    #[test]
    fn dialects_and_ticks_are_not_mixed_up() {
        let pages = Pages::default();
        let text = |tick: &Arc<Tick>, dialect| {
            String::from_utf8(get(&pages, tick, dialect, false).0.to_vec()).unwrap()
        };
        assert!(!text(&tick(1, 7), Dialect::Classic).contains("# EOF"));
        assert!(text(&tick(1, 7), Dialect::OpenMetrics).ends_with("# EOF\n"));
        let protobuf = get(&pages, &tick(1, 7), Dialect::Protobuf, false).0;
        assert!(
            protobuf
                .windows(28)
                .any(|w| w == b"faultline_ingest_lines_total")
        );
        assert!(!text(&tick(1, 7), Dialect::Classic).contains('\0'));
        assert!(
            text(&tick(2, 8), Dialect::Classic)
                .contains("faultline_ingest_lines_total{result=\"0\"} 8\n")
        );
    }

    #[test]
    fn every_compressed_page_is_whole() {
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
    fn a_small_page_is_not_compressed() {
        let empty = Arc::new(Tick {
            number: 1,
            at: Stamp::default(),
            batches: Vec::new(),
        });
        assert!(!get(&Pages::default(), &empty, Dialect::OpenMetrics, true).1);
    }
}
