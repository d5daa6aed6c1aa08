//! Any log: no panic, and the same records however it is cut.
#![no_main]

use faultline_agave::BadLine;
use faultline_agave::log::{LogLine, LogSplitter};
use faultline_agave::points::KnownPoint;
use libfuzzer_sys::fuzz_target;

fn split<'b>(chunks: impl Iterator<Item = &'b [u8]>) -> Vec<Result<Vec<u8>, BadLine>> {
    let mut splitter = LogSplitter::with_max_line(512);
    let mut found = Vec::new();
    for chunk in chunks {
        splitter.feed(chunk, |record| found.push(record.map(<[u8]>::to_vec)));
    }
    splitter.finish(|record| found.push(record.map(<[u8]>::to_vec)));
    found
}

fuzz_target!(|log: &[u8]| {
    let whole = split(std::iter::once(log));
    assert_eq!(split(log.chunks(1)), whole);
    assert_eq!(split(faultline_fuzz::chunks(log)), whole);
    for record in whole.into_iter().flatten() {
        let text = String::from_utf8_lossy(&record);
        let line = LogLine::parse(&text);
        line.progress();
        if let Some(Ok(point)) = line.point() {
            let checked = point.check();
            if let Some(Err(_)) = KnownPoint::parse(&point) {
                assert!(checked.is_err());
            }
        }
    }
});
