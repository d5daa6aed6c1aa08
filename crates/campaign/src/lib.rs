//! `faultline campaign`: release after release against a pinned baseline, by one plan, in one table that keeps itself.
//!
//! In reading order: [`args`]; `settings` (what `campaign.toml` says), `store` (`results.db`), `programs` (built or found once),
//! `watch` (which versions there are), `round` (the plans of a version), `work` (runs what has no result), `collected` (its rows), `mark` (when a difference is marked), `compare` (what differs, and how sure that is),
//! `verify` (recordings against their digests), `changes`, `page` and `feed` (what is published), `power` and `plan` (what marks can show), `shown` (status, export), `command` (what is asked for).

pub mod args;
mod changes;
mod collected;
pub mod command;
mod compare;
mod feed;
mod mark;
mod page;
mod plan;
mod power;
mod programs;
mod round;
mod settings;
mod shown;
mod store;
mod verify;
mod watch;
mod work;

/// The reader of `results.db`, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use crate::store::{RunRow, Store};
    use std::path::Path;

    /// Makes an empty one in a folder.
    pub fn make(folder: &Path) -> anyhow::Result<()> {
        Store::open(folder)?.add_runs(&[RunRow {
            values: vec![("replay-p95".into(), 1.5)],
            ..RunRow::default()
        }])
    }

    /// How many versions and runs a folder has.
    pub fn rows(folder: &Path) -> anyhow::Result<usize> {
        let store = Store::open(folder)?;
        Ok(store.listed()?.len() + store.runs()?.len())
    }
}
