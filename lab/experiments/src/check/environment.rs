//! Detects log filters that suppress required datapoints.

use super::Findings;
use crate::plan::{Plan, WorkloadKind};

/// A module creates its datapoints only if it may log at `info`.
const LOG_VARIABLE: &str = "RUST_LOG";

/// In all versions from 2.0.5 to 4.4.0.
const DATAPOINT_MODULES: [&str; 6] = [
    "solana_core::replay_stage",
    "solana_core::optimistic_confirmation_verifier",
    "solana_ledger::blockstore_processor",
    "solana_runtime::bank::metrics",
    "solana_runtime::bank_forks",
    "solana_cost_model::cost_tracker",
];

/// The report of a replay needs their datapoints, frozen banks and total time.
const REPLAY_LOG_MODULES: [&str; 4] = [
    "solana_metrics::metrics",
    "solana_runtime::bank",
    "solana_runtime::bank::metrics",
    "solana_ledger::blockstore_processor",
];

pub fn check(plan: &Plan, findings: &mut Findings) {
    let (modules, harm, value): (&[&str], _, _) = match plan.workload.kind {
        WorkloadKind::Replay => (
            &REPLAY_LOG_MODULES,
            "the report of a replay reads slots and cache numbers from its log",
            "solana=info,agave=info",
        ),
        WorkloadKind::Validator => (
            &DATAPOINT_MODULES,
            "its datapoints are not made, and replay times and cache numbers come from datapoints",
            "solana=info,agave=info,solana_metrics=warn",
        ),
    };
    let mut environments = vec![("the workload".to_owned(), &plan.workload.environment)];
    environments.extend(
        plan.arms
            .iter()
            .map(|arm| (format!("arm {:?}", arm.name), &arm.environment)),
    );
    for (subject, variables) in environments {
        if let Some(filter) = variables.get(LOG_VARIABLE)
            && let Some(module) = modules.iter().find(|module| !passes_info(filter, module))
        {
            findings.warn(
                format!(
                    "{LOG_VARIABLE} of {subject} is {filter:?}, which keeps {module} from logging at info: {harm}"
                ),
                format!("{LOG_VARIABLE}={value}, or leave it out"),
            );
        }
    }
}

/// env_logger's rules: directives `NAME=LEVEL`, `NAME` or `LEVEL`, separated by commas. The longest
/// matching prefix decides; of equal names the last. Invalid directives are skipped. Without a
/// valid directive, only errors pass.
fn passes_info(filter: &str, module: &str) -> bool {
    let mut parts = filter.split('/');
    let directives = parts.next().unwrap_or_default();
    // After one `/`, a pattern for lines follows. With a second `/`, env_logger ignores the filter.
    if parts.nth(1).is_some() {
        return false;
    }
    directives
        .split(',')
        .filter_map(parse_directive)
        .filter(|(name, _)| module.starts_with(name))
        .max_by_key(|(name, _)| name.len())
        .is_some_and(|(_, passes)| passes)
}

/// Name, and whether `info` passes. An empty name means all modules.
fn parse_directive(text: &str) -> Option<(&str, bool)> {
    let text = text.trim();
    match text
        .split_once('=')
        .map(|(name, level)| (name, level.trim()))
    {
        // A name without a level allows everything.
        Some((name, "")) => Some((name, true)),
        Some((name, level)) => Some((name, allows_info(level)?)),
        None if text.is_empty() => None,
        None => Some(allows_info(text).map_or((text, true), |allows_info| ("", allows_info))),
    }
}

fn allows_info(level: &str) -> Option<bool> {
    match level.to_ascii_lowercase().as_str() {
        "info" | "debug" | "trace" => Some(true),
        "off" | "error" | "warn" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter, whether it lets all required datapoints pass, and whether it lets all log lines of
    /// a replay pass. env_logger 0.9.3 (Agave 2.x) and env_filter 2.0.0 (Agave 4.x) agree.
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
    fn a_log_filter_is_parsed_like_the_validator_parses_it() {
        for (filter, points, log) in FILTERS {
            assert_eq!(
                DATAPOINT_MODULES
                    .iter()
                    .all(|module| passes_info(filter, module)),
                points,
                "points of {filter:?}"
            );
            assert_eq!(
                REPLAY_LOG_MODULES
                    .iter()
                    .all(|module| passes_info(filter, module)),
                log,
                "log of {filter:?}"
            );
        }
    }
}
