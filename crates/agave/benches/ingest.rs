//! Measures how many lines a second the splitter reads from captured traffic, in chunks of 16 KiB.
//!
//! Usage: `cargo bench -p faultline-agave [-- FILE.lp]`. Without a file, it reads the captures next
//! to the checkout, or the small fixtures. It runs on one thread and prints the minimum and the
//! median of the rounds.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
#![expect(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a benchmark may stop; its numbers are approximate"
)]

use std::{
    fs,
    hint::black_box,
    io::Read,
    path::{Path, PathBuf},
    time::Instant,
};

use faultline_agave::{
    line::{LineSplitter, Point, host_id_of, name_of},
    points::KnownPoint,
};

const CHUNK: usize = 16 * 1024;
const ROUNDS: usize = 15;

fn main() {
    let capture = load();
    let known = only_known(&capture);
    let (all_lines, known_lines) = (count(&capture), count(&known));
    println!(
        "{all_lines} lines of {} bytes on average, {known_lines} known",
        capture.len() / all_lines.max(1)
    );

    report(
        "split, ignore every line by name and host",
        &capture,
        all_lines,
        |line| u64::from(name_of(line).and_then(|name| host_id_of(line, name)) == Some(b"nobody")),
    );
    report(
        "split, ignore or read (the whole capture)",
        &capture,
        all_lines,
        read_known,
    );
    report(
        "split, read known lines (only those)",
        &known,
        known_lines,
        read_known,
    );
}

fn is_known(name: &[u8]) -> bool {
    KnownPoint::NAMES
        .iter()
        .any(|known| known.as_bytes() == name)
}

fn read_known(line: &[u8]) -> u64 {
    if !name_of(line).is_some_and(is_known) {
        return 0;
    }
    let Ok(point) = Point::parse(line) else {
        return 0;
    };
    u64::from(black_box(KnownPoint::parse(&point)).is_some())
}

fn report(what: &str, body: &[u8], lines: usize, mut each: impl FnMut(&[u8]) -> u64) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let mut splitter = LineSplitter::new();
            let mut used = 0;
            for chunk in body.chunks(CHUNK) {
                splitter.feed(black_box(chunk), |line| used += line.map_or(0, &mut each));
            }
            black_box(used);
            lines as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (slowest, median) = (rounds.first().copied(), rounds.get(ROUNDS / 2).copied());
    println!(
        "{what}: median {:.0}, slowest {:.0} lines/s",
        median.unwrap_or(0.0),
        slowest.unwrap_or(0.0)
    );
}

fn count(body: &[u8]) -> usize {
    body.iter().filter(|&&byte| byte == b'\n').count()
}

fn only_known(capture: &[u8]) -> Vec<u8> {
    let lines = capture.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| name_of(line).is_some_and(is_known))
        .flatten()
        .copied()
        .collect()
}

fn load() -> Vec<u8> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    if let Some(file) = std::env::args().skip(1).find(|arg| !arg.starts_with('-')) {
        return fs::read(file).expect("a readable file");
    }
    for folder in [
        crate_folder.join("../../../shared/agave/captures"),
        crate_folder.join("tests/fixtures"),
    ] {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        return files.iter().flat_map(|file| body_of(file)).collect();
    }
    Vec::new()
}

fn body_of(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).expect("a readable file");
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("lp") => bytes,
        Some("zst") => {
            let mut body = Vec::new();
            let mut reader =
                ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).expect("a zstd file");
            reader.read_to_end(&mut body).expect("a whole zstd file");
            body
        }
        _ => Vec::new(),
    }
}
