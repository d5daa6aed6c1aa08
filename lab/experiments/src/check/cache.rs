//! Checks that programs support the arms' cache capacity.

use super::Findings;
use super::facts::{HostFacts, Switch};
use crate::plan::{Arm, Lane, Plan, expand};
use std::path::{Path, PathBuf};

/// The arm's binary, the workload's, or the command's first word.
pub(super) fn program_of(plan: &Plan, arm: &Arm, facts: &HostFacts) -> Option<PathBuf> {
    let named = arm.binary.clone().or_else(|| plan.workload.binary.clone());
    named.or_else(|| {
        facts
            .programs
            .get(command_of(plan, arm).first()?)?
            .clone()
            .ok()
    })
}

/// Empty if it has placeholders without a value.
pub(super) fn command_of(plan: &Plan, arm: &Arm) -> Vec<String> {
    let lane = Lane::default();
    let lane = plan.lanes.first().unwrap_or(&lane);
    expand(plan, arm, lane, Path::new("/"), 1).map_or_else(|_| Vec::new(), |found| found.command)
}

pub(super) fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    let variable = &plan.workload.cache_variable;
    for arm in plan.arms.iter().filter(|arm| arm.cache_entries.is_some()) {
        let Some(file) = program_of(plan, arm, facts) else {
            continue;
        };
        if matches!(facts.files.get(&file), Some(Err(_))) {
            continue;
        }
        let (name, shown) = (&arm.name, file.display());
        match facts.switches.get(&file) {
            Some(Switch::There) | None => {}
            Some(Switch::Missing) => found.refuse(
                format!(
                    "arm {name:?} sets cache_entries, but {variable} is not in {shown}: it would be ignored silently"
                ),
                "use a binary with the switch, as scripts/install-agave builds it",
            ),
            Some(Switch::Script) => found.refuse(
                format!(
                    "arm {name:?} sets cache_entries, and {shown} is a script: which program it starts is not known"
                ),
                "name the program that it starts with workload.binary (or binary of the arm), and start {binary} or \
                 $FAULTLINE_BINARY in the script",
            ),
            Some(Switch::Unreadable(why)) => found.refuse(
                format!("arm {name:?} sets cache_entries, and {shown} cannot be looked at: {why}"),
                "name a program file that can be read",
            ),
        }
    }
}
