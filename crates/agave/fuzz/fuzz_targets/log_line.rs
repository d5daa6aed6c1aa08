//! Any log: no panic.
#![no_main]

use faultline_agave::log::{LogLine, LogSplitter};
use faultline_agave::points::Known;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let look = |record: Result<&[u8], _>| {
        let Ok(record) = record else { return };
        let text = String::from_utf8_lossy(record);
        let line = LogLine::parse(&text);
        line.progress();
        if let Some(Ok(point)) = line.point() {
            let checked = point.check();
            if let Some(Err(_)) = Known::parse(&point) {
                assert!(checked.is_err());
            }
        }
    };
    let mut splitter = LogSplitter::with_max_line(1024);
    splitter.feed(data, look);
    splitter.finish(look);
});
