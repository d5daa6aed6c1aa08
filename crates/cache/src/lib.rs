//! `faultline cache`: what a recorded run says of program caches of other sizes.
//!
//! A recording (`recorded`) has the slots and what the cache did in them; blocks are public (`fetch`). What follows from both
//! is computed by `faultline-cachesim`.

mod address;
pub mod args;
mod block;
mod check;
mod fetch;
mod owners;
mod policies;
mod predict;
mod predicted_run;
pub mod prediction;
mod prepared;
mod recorded;
#[cfg(test)]
mod stand_in;
mod trace_file;
mod witness;
mod written;

use args::{Cache, CacheArgs};

/// Does what was asked. The answer is for standard output; the exit code is 0, or 1 if it was refused.
///
/// # Errors
/// What was wrong, with what to do about it.
pub fn run(args: &CacheArgs) -> anyhow::Result<(String, u8)> {
    match &args.what {
        Cache::Fetch(args) => match &args.validator_trace {
            Some(from) => witness::run(args, from),
            None => fetch::run(args),
        },
        Cache::Predict(args) => predict::run(args),
        Cache::Policies(args) => policies::run(args),
        Cache::Check(args) => check::run(args),
    }
}

/// The reader of what a validator writes, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    /// How many programs are in all its calls.
    pub fn lookups(text: &[u8]) -> anyhow::Result<usize> {
        let written = crate::written::Written::read(text)?;
        let calls = written
            .slots
            .values()
            .flat_map(|slot_lookups| slot_lookups.calls());
        Ok(calls.map(|programs| programs.len()).sum())
    }
}
