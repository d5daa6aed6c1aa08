//! Any bytes as the journal of an experiment: read, and its state concluded, without a panic.
#![no_main]

use faultline_experiments::journal::{JournalState, read};
use libfuzzer_sys::fuzz_target;
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = folder.path().join("journal.jsonl");
    fs::write(&path, bytes).expect("a journal");
    let Ok(lines) = read(&path) else {
        return;
    };
    let state = JournalState::of(&lines);
    let _ = (state.next_attempt(), state.unfinished_runs(), state.completed_runs());
});
