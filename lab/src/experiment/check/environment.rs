//! Variables with which a validator would tell the recorder nothing.

use super::Findings;
use crate::experiment::plan::Plan;
use std::collections::BTreeMap;

/// Filters what a validator logs, and with it what it measures: a point is made only where the log would take it.
const LOG: &str = "RUST_LOG";
/// Modules whose points the report rests on, and the one that writes points into the log.
const MODULES: [&str; 4] =
    ["solana_core::replay_stage", "solana_runtime::bank", "solana_program_runtime", "solana_metrics::metrics"];

pub(super) fn check(plan: &Plan, found: &mut Findings) {
    let mut look = |whose: String, variables: &BTreeMap<String, String>| {
        let Some(filter) = variables.get(LOG) else { return };
        if let Some(module) = MODULES.iter().find(|module| !takes_info(filter, module)) {
            found.warn(
                format!(
                    "{LOG} of {whose} is {filter:?}, which silences {module} at `info`: its datapoints are not made"
                ),
                "begin it with \"solana=info,\", or leave it out: replay times and cache numbers come from datapoints",
            );
        }
    };
    look("the workload".to_owned(), &plan.workload.environment);
    plan.arms.iter().for_each(|arm| look(format!("arm {:?}", arm.name), &arm.environment));
}

/// Whether a filter as env_logger reads it lets `info` of this module through: the longest name that the module begins
/// with decides, and a level without a name is for all others.
fn takes_info(filter: &str, module: &str) -> bool {
    let directives = filter.split('/').next().unwrap_or_default().split(',').map(str::trim);
    let (mut longest, mut takes) = (None, false);
    for directive in directives.filter(|directive| !directive.is_empty()) {
        let (name, level) = match directive.split_once('=') {
            Some((name, level)) => (name.trim(), Some(level.trim())),
            None if is_level(directive) => ("", Some(directive)),
            None => (directive, None),
        };
        let level = level.filter(|level| !level.is_empty()).map(str::to_ascii_lowercase);
        if level.as_ref().is_some_and(|level| !is_level(level)) || !module.starts_with(name) {
            continue;
        }
        if longest.is_none_or(|longest| name.len() >= longest) {
            longest = Some(name.len());
            takes = level.is_none_or(|level| ["info", "debug", "trace"].contains(&level.as_str()));
        }
    }
    takes
}

fn is_level(word: &str) -> bool {
    ["off", "error", "warn", "info", "debug", "trace"].contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_as_the_validator_reads_it() {
        let quiet =
            ["warn", "off", "", "solana=warn", "info,solana_core=error", "solana_core=info", "agave=info", "x=y"];
        for filter in quiet {
            assert!(MODULES.iter().any(|module| !takes_info(filter, module)), "{filter:?}");
        }
        let loud =
            ["info", "solana=info", "INFO", "debug", "solana", "solana=", "warn,solana=info", "solana=info,x=off"];
        for filter in loud {
            assert!(MODULES.iter().all(|module| takes_info(filter, module)), "{filter:?}");
        }
    }
}
