//! `faultline campaign`: runs one plan for each release against a pinned baseline, and publishes
//! the results.
//!
//! The list of a campaign has versions, each with a program. A release is a version with results.
//! A round is one execution of the plan with a version and the baseline. A second round confirms
//! differences. The two runs of one replicate in a round are a pair: version and baseline.

pub mod args;
mod changes;
mod collected;
pub mod command;
mod comparability;
mod compare;
mod feed;
mod page;
mod plan;
mod programs;
mod round;
mod settings;
mod status;
mod store;
mod tasks;
mod verdict;
mod verify;
mod work;

#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use crate::{
        settings::RESULTS,
        store::{RunRow, Store},
    };
    use std::path::Path;

    pub fn make(folder: &Path) -> anyhow::Result<()> {
        Store::open(&folder.join(RESULTS))?.add_runs(&[RunRow {
            values: vec![("replay-p95".into(), 1.5)],
            ..RunRow::default()
        }])
    }

    pub fn rows(folder: &Path) -> anyhow::Result<usize> {
        let store = Store::open(&folder.join(RESULTS))?;
        Ok(store.listed_versions()?.len() + store.runs()?.len())
    }
}
