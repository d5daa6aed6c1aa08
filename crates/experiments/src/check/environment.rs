//! A log filter with which the validator would not make the datapoints that the report needs.

use super::Findings;
use crate::plan::{Kind, Plan};
use std::collections::BTreeMap;

/// Sets the log level of each module, and with it which datapoints are made: one is made only where the module that
/// makes it may log at `info`.
const LOG: &str = "RUST_LOG";

/// The modules that make the datapoints of a recording, in all versions from 2.0.5 to 4.4.0. `solana_metrics` is none of
/// them: it only prints into the log what was made.
const DATAPOINTS: [&str; 6] = [
    "solana_core::replay_stage",
    "solana_core::optimistic_confirmation_verifier",
    "solana_ledger::blockstore_processor",
    "solana_runtime::bank::metrics",
    "solana_runtime::bank_forks",
    "solana_cost_model::cost_tracker",
];

/// The modules whose lines the report of a replay reads from its log: datapoints, frozen banks, the time in all.
const REPLAY_LOG: [&str; 4] = [
    "solana_metrics::metrics",
    "solana_runtime::bank",
    "solana_runtime::bank::metrics",
    "solana_ledger::blockstore_processor",
];

pub(super) fn check(plan: &Plan, found: &mut Findings) {
    let replay = plan.workload.kind == Kind::Replay;
    let mut inspect = |whose: String, variables: &BTreeMap<String, String>| {
        let Some(filter) = variables.get(LOG) else {
            return;
        };
        let modules: &[&str] = if replay { &REPLAY_LOG } else { &DATAPOINTS };
        let Some(module) = modules.iter().find(|module| !takes_info(filter, module)) else {
            return;
        };
        let head =
            format!("{LOG} of {whose} is {filter:?}, which keeps {module} from logging at info");
        if replay {
            found.warn(
                format!(
                    "{head}: the report of a replay reads slots and cache numbers from its log"
                ),
                format!("{LOG}=solana=info,agave=info, or leave it out"),
            );
        } else {
            found.warn(
                format!("{head}: its datapoints are not made, and replay times and cache numbers come from datapoints"),
                format!("{LOG}=solana=info,agave=info,solana_metrics=warn, or leave it out"),
            );
        }
    };
    inspect("the workload".to_owned(), &plan.workload.environment);
    plan.arms
        .iter()
        .for_each(|arm| inspect(format!("arm {:?}", arm.name), &arm.environment));
}

/// Whether a filter lets `info` of this module through, as env_logger reads it: directives `NAME=LEVEL`, `NAME` or
/// `LEVEL`, separated by commas. The longest name that the module's begins with decides; of equal names the last. What is
/// no directive is skipped, and without any directive only errors pass.
fn takes_info(filter: &str, module: &str) -> bool {
    let mut parts = filter.split('/');
    let directives = parts.next().unwrap_or_default();
    // One `/` begins a pattern for the lines that are printed; with more, env_logger ignores everything.
    if parts.nth(1).is_some() {
        return false;
    }
    let matching = directives
        .split(',')
        .filter_map(directive)
        .filter(|(name, _)| module.starts_with(name));
    matching
        .max_by_key(|(name, _)| name.len())
        .is_some_and(|(_, info)| info)
}

/// The name of a directive, empty if it is for all modules, and whether its level lets `info` through.
fn directive(text: &str) -> Option<(&str, bool)> {
    let text = text.trim();
    let (name, level) = match text.split_once('=') {
        Some((name, level)) => (name, level.trim()),
        None if text.is_empty() => return None,
        None => takes(text).map_or((text, ""), |_| ("", text)),
    };
    // A name alone lets everything through.
    let takes = if level.is_empty() {
        Some(true)
    } else {
        takes(level)
    };
    takes.map(|takes| (name, takes))
}

/// Whether a level lets `info` through; `None` for what is no level.
fn takes(level: &str) -> Option<bool> {
    let is = |known: &&str| level.eq_ignore_ascii_case(known);
    match ["info", "debug", "trace"].iter().any(is) {
        true => Some(true),
        false => ["off", "error", "warn"].iter().any(is).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter, whether all points are made, and whether the log of a replay has what is read from it. The same as
    /// env_logger 0.9.3 (Agave 2.x) and env_filter 2.0.0 (Agave 4.x) say.
    const FILTERS: [(&str, bool, bool); 33] = [
        ("solana=info,agave=info", true, true),
        ("solana=info,agave=info,solana_metrics=warn", true, false),
        ("solana_metrics=warn,agave=info,solana=info", true, false),
        ("solana=info,agave=info,solana_metrics=off", true, false),
        ("solana=info", true, true),
        ("solana", true, true),
        ("solana=", true, true),
        ("info", true, true),
        ("INFO", true, true),
        ("debug", true, true),
        (" solana = info ", false, false),
        ("solana= info ,", true, true),
        ("warn,solana=info", true, true),
        ("solana=warn,solana=info", true, true),
        ("solana=info,solana=warn", false, false),
        ("info,solana=warn", false, false),
        ("info,solana_core=error", false, true),
        ("info,solana_core::replay_stage=warn", false, true),
        ("info,solana_runtime::bank=warn", false, false),
        (
            "info,solana_runtime::bank=warn,solana_runtime::bank_forks=info",
            false,
            false,
        ),
        ("info,solana_runtime::bank_forks=warn", false, true),
        (
            "info,solana_program_runtime=warn,solana_gossip=off",
            true,
            true,
        ),
        ("solana_core=info", false, false),
        ("agave=info", false, false),
        ("warn", false, false),
        ("error", false, false),
        ("off", false, false),
        ("", false, false),
        (",", false, false),
        ("solana=loud", false, false),
        ("solana=info=warn,agave=info", false, false),
        ("solana=info/bank frozen", true, true),
        ("solana=info/a/b", false, false),
    ];

    #[test]
    fn a_filter_is_read_as_the_validator_reads_it() {
        for (filter, points, log) in FILTERS {
            assert_eq!(
                DATAPOINTS.iter().all(|module| takes_info(filter, module)),
                points,
                "points of {filter:?}"
            );
            assert_eq!(
                REPLAY_LOG.iter().all(|module| takes_info(filter, module)),
                log,
                "log of {filter:?}"
            );
        }
    }
}
