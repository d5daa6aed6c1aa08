//! A record sink for tests that stores its input.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "for tests: each uses a part, and what cannot go on fails it"
)]

use faultline_log_tail::{RecordSink, RecordWriter};
use faultline_metrics::Stamp;
use std::{
    fs::{File, OpenOptions},
    path::Path,
    sync::{Arc, Mutex},
};

/// Stores the records that a follower committed.
#[derive(Debug, Clone, Default)]
pub struct Probe(Arc<Mutex<ProbeState>>);

#[derive(Debug, Default)]
struct ProbeState {
    open: Option<Vec<String>>,
    records: Vec<String>,
    bad: u64,
}

impl Probe {
    /// A writer to this sink.
    pub fn records(&self) -> RecordWriter {
        RecordWriter::new(Box::new(self.clone()))
    }

    /// Committed records in their order.
    pub fn seen(&self) -> Vec<String> {
        self.0.lock().unwrap().records.clone()
    }

    /// Number of bad lines.
    pub fn bad(&self) -> u64 {
        self.0.lock().unwrap().bad
    }

    /// The numbers in the lines of [`numbered`], in their order.
    pub fn numbers(&self) -> Vec<u64> {
        let seen = self.0.lock().unwrap();
        seen.records
            .iter()
            .filter_map(|record| {
                record
                    .split_once(" value=")?
                    .1
                    .split_once('i')?
                    .0
                    .parse()
                    .ok()
            })
            .collect()
    }

    /// Number of committed records.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().records.len()
    }
}

impl RecordSink for Probe {
    fn begin(&mut self, _: Stamp) {
        let before = self.0.lock().unwrap().open.replace(Vec::new());
        assert_eq!(before, None, "the stretch before was not committed");
    }

    fn record(&mut self, record: &str) {
        self.0
            .lock()
            .unwrap()
            .open
            .as_mut()
            .expect("a stretch was begun")
            .push(record.to_owned());
    }

    fn count_bad_record(&mut self) {
        self.0.lock().unwrap().bad += 1;
    }

    fn commit(&mut self, _: Stamp) {
        let mut seen = self.0.lock().unwrap();
        let open = seen.open.take().expect("a stretch was begun");
        seen.records.extend(open);
    }
}

/// A datapoint that carries a number, as the log prints it, with its newline.
pub fn numbered(number: u64) -> String {
    format!(
        "[2025-03-01T12:00:00.{number:09}Z INFO  solana_metrics::metrics] datapoint: numbered value={number}i other=1i\n"
    )
}

/// The file at `path`, new or appended to.
pub fn append(path: &Path) -> File {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap()
}
