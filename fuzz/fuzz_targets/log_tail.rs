//! Any order of writes, rotations and looks: every line of the log comes once.
#![no_main]

#[path = "../../daemon/log-tail/tests/file/model.rs"]
mod model;
#[path = "../../daemon/log-tail/tests/file/probe.rs"]
mod probe;

use libfuzzer_sys::fuzz_target;
use model::{Model, Step};

/// Steps are system calls: a few hundred show what thousands would.
const MOST_STEPS: usize = 300;

fuzz_target!(|steps: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder for the log");
    let mut model = Model::new(folder.path());
    let (steps, _) = steps.as_chunks();
    for step in steps.iter().take(MOST_STEPS) {
        model.take(&Step::of(*step));
    }
    model.check();
});
