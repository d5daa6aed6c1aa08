//! `/metrics`: the newest tick as a page, encoded once however many scrapers ask.

use crate::sinks::prometheus::{ConstantLabels, Dialect, page};
use faultline_catalog::Tick;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Below this a compressed page saves nothing.
const WORTH_COMPRESSING: usize = 1024;

/// The pages of the newest tick that somebody asked for, one per dialect and encoding.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The number of the tick that the pages show.
    tick: u64,
    pages: Vec<(Dialect, bool, Bytes)>,
}

impl Kept {
    fn find(&self, dialect: Dialect, gzip: bool) -> Option<Bytes> {
        self.pages.iter().find(|(d, g, _)| (*d, *g) == (dialect, gzip)).map(|(_, _, page)| page.clone())
    }

    fn plain(&mut self, tick: &Tick, dialect: Dialect, constant: &ConstantLabels) -> Bytes {
        if let Some(page) = self.find(dialect, false) {
            return page;
        }
        let page = Bytes::from(page(tick, dialect, constant));
        self.pages.push((dialect, false, page.clone()));
        page
    }
}

impl Pages {
    /// The page, and whether it is compressed: only if the scraper takes that and it is worth it.
    pub(super) fn get(&self, tick: &Tick, dialect: Dialect, gzip: bool, constant: &ConstantLabels) -> (Bytes, bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.tick != tick.number {
            kept.tick = tick.number;
            kept.pages.clear();
        }
        if gzip && let Some(compressed) = kept.find(dialect, true) {
            return (compressed, true);
        }
        let plain = kept.plain(tick, dialect, constant);
        if !gzip || plain.len() <= WORTH_COMPRESSING {
            return (plain, false);
        }
        match compress(&plain) {
            Ok(compressed) => {
                kept.pages.push((dialect, true, compressed.clone()));
                (compressed, true)
            }
            Err(error) => {
                tracing::error!(%error, "the page could not be compressed");
                (plain, false)
            }
        }
    }
}

/// The fastest level: on a page that repeats itself line by line the others save little more.
fn compress(plain: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 6), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_catalog::{Batch, Reading, Source, Stamp, metrics};
    use std::sync::Arc;

    fn tick(number: u64, value: u64) -> Tick {
        let readings = (0..50).map(|_| Reading::counter(&metrics::daemon::TICKS, [], value)).collect();
        let batch = Batch { readings, ..Batch::empty(Source::Daemon, Stamp::default()) };
        Tick { number, at: Stamp::default(), batches: vec![Arc::new(batch)] }
    }

    #[test]
    fn a_tick_is_encoded_once_for_all_who_ask_the_same() {
        let (pages, none) = (Pages::default(), ConstantLabels::new());
        let first = pages.get(&tick(1, 7), Dialect::Classic, true, &none);
        let second = pages.get(&tick(1, 7), Dialect::Classic, true, &none);
        assert!(first.1 && second.1);
        assert_eq!(first.0.as_ptr(), second.0.as_ptr());
        let plain = pages.get(&tick(1, 7), Dialect::Classic, false, &none);
        assert!(!plain.1 && plain.0.starts_with(b"# HELP"));
    }

    #[test]
    fn dialects_and_ticks_are_not_mixed_up() {
        let (pages, none) = (Pages::default(), ConstantLabels::new());
        let text = |tick: &Tick, dialect| String::from_utf8(pages.get(tick, dialect, false, &none).0.to_vec()).unwrap();
        assert!(!text(&tick(1, 7), Dialect::Classic).contains("# EOF"));
        assert!(text(&tick(1, 7), Dialect::OpenMetrics).ends_with("# EOF\n"));
        assert!(
            pages
                .get(&tick(1, 7), Dialect::Protobuf, false, &none)
                .0
                .windows(21)
                .any(|w| w == b"faultline_ticks_total")
        );
        assert!(!text(&tick(1, 7), Dialect::Classic).contains('\0'));
        assert!(text(&tick(2, 8), Dialect::Classic).contains("faultline_ticks_total 8\n"));
    }

    #[test]
    fn a_small_page_is_not_compressed() {
        let empty = Tick { number: 1, at: Stamp::default(), batches: Vec::new() };
        assert!(!Pages::default().get(&empty, Dialect::OpenMetrics, true, &ConstantLabels::new()).1);
    }
}
