//! Any body: no panic, and the same lines however it is cut. The first byte says where.
#![no_main]

use faultline_agave::BadLine;
use faultline_agave::line::{LineSplitter, Point};
use faultline_agave::points::Known;
use libfuzzer_sys::fuzz_target;

fn split(body: &[u8], chunk: usize) -> Vec<Result<Vec<u8>, BadLine>> {
    let mut splitter = LineSplitter::with_max_line(256);
    let mut found = Vec::new();
    for chunk in body.chunks(chunk.max(1)) {
        splitter.feed(chunk, |line| found.push(line.map(<[u8]>::to_vec)));
        assert!(splitter.memory() <= 4096);
    }
    splitter.finish(|line| found.push(line.map(<[u8]>::to_vec)));
    found
}

fuzz_target!(|data: &[u8]| {
    let Some((&chunk, body)) = data.split_first() else { return };
    let whole = split(body, usize::MAX);
    assert_eq!(whole, split(body, usize::from(chunk)));
    for line in whole.into_iter().flatten() {
        if let Ok(point) = Point::parse(&line) {
            let checked = point.check();
            if let Some(Err(_)) = Known::parse(&point) {
                assert!(checked.is_err());
            }
        }
    }
});
