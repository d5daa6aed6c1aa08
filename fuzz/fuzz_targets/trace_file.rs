//! Any bytes as a trace, and any records with a right checksum: read and written again without a panic and without a set that
//! no transaction can have.
#![no_main]

use faultline_cache_sim::Trace;
use faultline_cache_sim::file::{Writer, read, read_whole_records};
use faultline_cache_sim::trace::MAX_KEYS;
use libfuzzer_sys::fuzz_target;

/// CRC-32 as of Ethernet.
fn checksum(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 * (sum & 1))
        })
    })
}

/// A file of these records: each its kind, the length of its content below 128, its content.
fn file(mut records: &[u8]) -> Vec<u8> {
    let mut file = b"FLTRACE\x01\x01\x03\x03\x00\x00".to_vec();
    file.extend(checksum([1, 3, 0, 0].into_iter()).to_le_bytes());
    while let [kind, length, rest @ ..] = records {
        let (content, later) = rest.split_at(usize::from(length % 128).min(rest.len()));
        file.extend([*kind, content.len() as u8]);
        file.extend(content);
        file.extend(checksum([*kind].into_iter().chain(content.iter().copied())).to_le_bytes());
        records = later;
    }
    file
}

fn check(trace: &Trace) {
    for set in 0..trace.set_count() {
        assert!(trace.programs_of_set(set as u32).len() <= MAX_KEYS);
    }
    let mut writer = Writer::new(Vec::new(), trace).expect("a vector takes it");
    writer.write(trace).expect("a vector takes it");
    assert_eq!(
        &read(writer.into_inner().as_slice()).expect("what was written"),
        trace
    );
}

fuzz_target!(|bytes: &[u8]| {
    for content in [bytes, &file(bytes)] {
        if let Ok(kept) = read_whole_records(content) {
            assert!(kept.end <= content.len() as u64);
            check(&kept.trace);
        }
    }
});
