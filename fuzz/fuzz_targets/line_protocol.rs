//! Any pushed body: no panic, bounded memory, and the same lines however it is cut.
#![no_main]

use faultline_agave::BadLine;
use faultline_agave::line::{LineSplitter, Point, host_id_of, name_of};
use faultline_agave::points::KnownPoint;
use libfuzzer_sys::fuzz_target;

/// Short, so that overlong lines are common.
const MAX_LINE: usize = 256;

/// Twice what the splitter promises to keep, since an allocation is rounded up.
const MOST_MEMORY: usize = 2 * (MAX_LINE + 137);

fn split<'b>(chunks: impl Iterator<Item = &'b [u8]>) -> Vec<Result<Vec<u8>, BadLine>> {
    let mut splitter = LineSplitter::with_max_line(MAX_LINE);
    let mut found = Vec::new();
    for chunk in chunks {
        splitter.feed(chunk, |line| found.push(line.map(<[u8]>::to_vec)));
        assert!(
            splitter.memory_bytes() <= MOST_MEMORY,
            "{} bytes kept",
            splitter.memory_bytes()
        );
    }
    splitter.finish(|line| found.push(line.map(<[u8]>::to_vec)));
    found
}

fn look(line: &[u8]) {
    let Ok(point) = Point::parse(line) else {
        return;
    };
    assert_eq!(name_of(line), Some(point.name().as_bytes()));
    let checked = point.check();
    if let (Ok(()), Some(host_id)) = (&checked, host_id_of(line, point.name().as_bytes())) {
        assert_eq!(point.tag("host_id").map(str::as_bytes), Some(host_id));
    }
    if let Some(Err(_)) = KnownPoint::parse(&point) {
        assert!(checked.is_err());
    }
}

fuzz_target!(|body: &[u8]| {
    let bytewise = split(body.chunks(1));
    assert_eq!(split(faultline_fuzz::chunks(body)), bytewise);
    assert_eq!(split(std::iter::once(body)), bytewise);
    for line in bytewise.into_iter().flatten() {
        look(&line);
    }
    // As one line too, with newlines where the splitter never leaves any.
    look(body);
});
