//! Any answer to a batch: no panic, and one outcome for each call.
#![no_main]

use faultline_agave::rpc::{Call, Commitment, RequestBatch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let batch = RequestBatch::new([
        Call::EpochInfo,
        Call::Slot(Commitment::Processed),
        Call::Health,
        Call::Version,
        Call::Identity,
        Call::MaxShredInsertSlot,
    ]);
    if let Ok(answers) = batch.read(data) {
        assert_eq!(answers.len(), batch.calls().len());
    }
});
