//! `faultline cache`: fetches a run's program lookups, simulates its program cache, compares
//! eviction policies, and checks predictions.

mod address;
pub mod args;
mod block;
mod check;
mod fetch;
mod owners;
mod policies;
mod predict;
mod predicted_run;
mod validator_fetch;
mod validator_trace;

use anyhow::Result;
use args::{CacheArgs, CacheCommand};

/// Returns the text for standard output and the exit code: 1 if `check` failed, or the self-test of
/// `predict` or `policies`, else 0.
pub fn run(args: &CacheArgs) -> Result<(String, u8)> {
    match &args.command {
        CacheCommand::Fetch(args) => match &args.validator_trace {
            Some(from) => validator_fetch::run(args, from),
            None => fetch::fetch(args, fetch::RETRIES),
        },
        CacheCommand::Predict(args) => predict::run(args),
        CacheCommand::Policies(args) => policies::run(args),
        CacheCommand::Check(args) => check::run(args),
    }
}

#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub fn count_lookups(text: &[u8]) -> anyhow::Result<usize> {
        let trace = crate::validator_trace::ValidatorTrace::read(text)?;
        Ok(trace
            .slots
            .values()
            .flat_map(|slot_lookups| slot_lookups.calls())
            .map(|programs| programs.len())
            .sum())
    }
}
