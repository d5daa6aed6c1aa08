//! Whether the host is fit for a run.

use super::folders_of;
use crate::experiment::plan::{HostRules, Plan, Severity};
use crate::experiment::runner::world::Remark;
use crate::words::bytes;
use faultline_agave::identify::Program;
use faultline_kernel::HostRoot;
use faultline_rig::folders;
use faultline_rig::host::{self, HostState};
use std::path::Path;

/// One that has no arguments to be identified by.
const FIREDANCER: &str = "firedancer";

/// What is known of the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Seen {
    /// Its state; disks are those that are written to.
    pub(super) state: HostState,
    /// CPUs that are used, before a run.
    pub(super) busy: Option<f64>,
    /// Groups of this experiment that are there.
    pub(super) groups: Vec<String>,
    /// Who has files of the plan's folders open, in words.
    pub(super) users: Vec<String>,
}

/// Looks at the host.
pub(super) fn look(plan: &Plan, root: &HostRoot, folder: &Path, busy: Option<f64>, groups: Vec<String>) -> Seen {
    let mut paths: Vec<&Path> = vec![folder];
    paths.extend(plan.lanes.iter().flat_map(folders_of));
    let state = host::look(root, &paths, &is_validator);
    let used = plan.lanes.iter().flat_map(folders_of).flat_map(|folder| folders::users(root, folder));
    Seen { state, busy, groups, users: used.map(|user| user.to_string()).collect() }
}

/// By a process's name, as the kernel cuts it.
fn is_validator(name: &str) -> bool {
    Program::of_comm(name).is_some() || name == FIREDANCER
}

/// What there is to say against a run now.
pub(super) fn remarks(rules: &HostRules, seen: &Seen) -> Vec<Remark> {
    let mut all = Vec::new();
    let mut say = |severity: Severity, passes: bool, what: String| all.push(Remark { severity, passes, what });
    if let Some(busy) = seen.busy.filter(|busy| *busy > rules.busy_cpus.bound) {
        say(rules.busy_cpus.severity, true, format!("{busy:.1} CPUs are busy with something else: end it"));
    }
    for disk in &seen.state.disks {
        if let Some(free) = disk.free.filter(|free| *free < rules.free_disk.bound) {
            let what = format!("{} has only {} free: make room", disk.path.display(), bytes(free));
            say(rules.free_disk.severity, true, what);
        }
    }
    if let Some(swap) = seen.state.swap_total.filter(|swap| *swap > 0) {
        say(rules.swap, false, format!("swap is on ({}): `swapoff -a` ends it", bytes(swap)));
    }
    if seen.state.huge_pages.as_deref() == Some("always") {
        say(rules.huge_pages, false, "transparent huge pages are `always`: choose `madvise`".to_owned());
    }
    if let Some(governor) = seen.state.governors.iter().find(|governor| *governor != "performance") {
        say(rules.governor, false, format!("the CPU governor is `{governor}`: choose `performance`"));
    }
    for group in &seen.groups {
        say(rules.leftovers, true, format!("{group} is left of an earlier run: `faultline experiment stop` ends it"));
    }
    for user in &seen.users {
        say(rules.leftovers, true, format!("{user}: end it"));
    }
    // It is another one's, and may be meant to run, as a cluster of one's own does.
    for other in seen.state.running.iter().filter(|_| seen.users.is_empty()) {
        let what = format!("another validator runs: process {} ({})", other.pid, other.name);
        say(rules.leftovers.min(Severity::Warn), false, what);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_validator_is_known_by_the_name_that_the_kernel_cuts() {
        for name in ["agave-validator", "solana-validato", "solana-test-val", "jito-validator", "fdctl", "firedancer"] {
            assert!(is_validator(name), "{name}");
        }
        assert!(!is_validator("agave-valid") && !is_validator("bash") && !is_validator(""));
    }
}
