//! Checks the rules in `[host]` of a plan before a run.

use crate::plan::{HostRules, InitialState, Plan, Severity};
use faultline_agave::identify::Program;
use faultline_kernel::HostRoot;
use faultline_runner::isolation::{
    folders,
    host::{self, Disk, HostState},
};
use faultline_text::bytes;
use itertools::{Itertools, chain};

#[derive(Debug, Clone)]
pub struct HostFinding {
    pub severity: Severity,
    /// The condition may end by itself, so the runner waits.
    pub is_temporary: bool,
    pub what: String,
}

/// The names of [`Program`].
pub(crate) const KNOWN_VALIDATORS: &str =
    "agave-validator, solana-validator, jito-validator, solana-test-validator or fdctl";
/// Name of a validator that [`Program::of_comm`] does not know.
const FIREDANCER: &str = "firedancer";

/// `busy_cpus`: CPUs that other programs use.
pub(crate) fn host_findings(
    plan: &Plan,
    root: &HostRoot,
    busy_cpus: Option<f64>,
    leftover_cgroups: &[String],
) -> Vec<HostFinding> {
    let paths = chain!([plan.folder.as_path()], plan.work_folders()).collect_vec();
    let mut state = host::inspect(root, &paths, &is_validator);
    add_space_of_clearing(plan, root, &mut state.disks);
    let folders = plan.work_folders();
    let processes = folders
        .flat_map(|folder| folders::processes_using(root, folder))
        .collect_vec();
    let leftovers = plan.host.leftovers;
    let mut all = state_findings(&plan.host, busy_cpus, &state);
    let cgroup_texts = leftover_cgroups.iter().map(|cgroup| {
        format!(
            "cgroup {cgroup} is left over from an earlier run: `faultline experiment stop` removes it"
        )
    });
    let process_texts = processes.iter().map(|process| format!("{process}: end it"));
    all.extend(chain!(cgroup_texts, process_texts).map(|what| HostFinding {
        severity: leftovers,
        is_temporary: true,
        what,
    }));
    if processes.is_empty() {
        // At most a warning: a private cluster has several validators. A validator that uses the
        // work folders has a finding above.
        all.extend(state.listed_processes.iter().map(|validator| HostFinding {
            severity: leftovers.min(Severity::Warn),
            is_temporary: false,
            what: format!(
                "another validator runs: process {} ({})",
                validator.pid, validator.name
            ),
        }));
    }
    all
}

/// Measures the space only if a disk lacks it, because that reads all of the work folders.
fn add_space_of_clearing(plan: &Plan, root: &HostRoot, disks: &mut [Disk]) {
    let rule = &plan.host.free_disk;
    if plan.initial_state == InitialState::AsIs
        || rule.severity == Severity::Note
        || !disks
            .iter()
            .filter_map(|disk| disk.free)
            .any(|free| free < rule.bound)
    {
        return;
    }
    for folder in plan.work_folders() {
        let disk = disks.iter().find(|disk| disk.path == folder);
        let Some(device) = disk.and_then(|disk| disk.device) else {
            continue;
        };
        let Ok(preview) = folders::would_clear(folder, root) else {
            continue;
        };
        for disk in disks.iter_mut().filter(|disk| disk.device == Some(device)) {
            disk.free = disk.free.map(|free| free.saturating_add(preview.bytes));
        }
    }
}

/// `name` is a `comm`, which the kernel truncates to 15 bytes.
fn is_validator(name: &str) -> bool {
    Program::of_comm(name).is_some() || name == FIREDANCER
}

/// Only load is temporary: the other conditions do not end by themselves.
fn state_findings(
    rules: &HostRules,
    busy_cpus: Option<f64>,
    state: &HostState,
) -> Vec<HostFinding> {
    let busy_cpus = busy_cpus.filter(|busy| *busy > rules.busy_cpus.bound);
    let mut all = Vec::from_iter(busy_cpus.map(|busy| HostFinding {
        severity: rules.busy_cpus.severity,
        is_temporary: true,
        what: format!("other programs use {busy:.1} CPUs: end them"),
    }));
    let mut add_finding = |severity: Severity, what: String| {
        all.push(HostFinding {
            severity,
            is_temporary: false,
            what,
        })
    };
    for disk in &state.disks {
        if let Some(free) = disk.free.filter(|free| *free < rules.free_disk.bound) {
            let [free, wanted] = [free, rules.free_disk.bound].map(bytes);
            let what = format!(
                "{} has only {free} free, and host.free_disk wants {wanted}: free space, or set at_least of host.free_disk",
                disk.path.display()
            );
            add_finding(rules.free_disk.severity, what);
        }
    }
    if let Some(swap) = state.swap_total.filter(|swap| *swap > 0) {
        let what = format!("swap is on ({}): `swapoff -a` switches it off", bytes(swap));
        add_finding(rules.swap_enabled, what);
    }
    if state.huge_pages.as_deref() == Some("always") {
        let what = "transparent huge pages are `always`: choose `madvise`";
        add_finding(rules.huge_pages, what.to_owned());
    }
    if let Some(governor) = state
        .governors
        .iter()
        .find(|governor| *governor != "performance")
    {
        let what = format!("the CPU governor is `{governor}`: choose `performance`");
        add_finding(rules.governor, what);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Rule;
    use std::{path::Path, time::Duration};

    #[test]
    fn every_validator_is_recognised_by_its_truncated_comm() {
        for name in [
            "agave-validator",
            "solana-validato",
            "solana-test-val",
            "jito-validator",
            "fdctl",
            "firedancer",
        ] {
            assert!(is_validator(name), "{name}");
        }
        assert!(!is_validator("agave-valid") && !is_validator("bash") && !is_validator(""));
    }

    #[test]
    fn space_cleared_before_a_run_counts_as_free_on_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger");
        folders::init(&ledger, Duration::ZERO).unwrap();
        std::fs::write(ledger.join("1.sst"), vec![1; 3 << 20]).unwrap();
        let text = |how: &str| {
            format!(
                "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"{how}\"\n[workload]\ncommand = [\"v\"]\n\
                 ledger = \"ledger\"\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n"
            )
        };
        let free = |how: &str| -> Vec<u64> {
            let plan = crate::plan::parse(&text(how), &folder.path().join("plan.toml")).unwrap();
            let disk = |path: &Path, device| Disk {
                path: path.into(),
                device: Some(device),
                free: Some(7),
            };
            let mut disks = [
                disk(&plan.folder, 1),
                disk(&ledger, 1),
                disk(Path::new("/other"), 2),
            ];
            add_space_of_clearing(&plan, &HostRoot::default(), &mut disks);
            disks.iter().filter_map(|disk| disk.free).collect()
        };
        let with = free("download");
        assert!(
            with[0] == with[1] && with[0] >= 3 << 20 && with[2] == 7,
            "{with:?}"
        );
        assert_eq!(free("as-is"), [7; 3]);
    }

    #[test]
    fn waiting_is_offered_for_busy_cpus_but_not_for_disk_space() {
        let severity = Severity::Refuse;
        let rules = HostRules {
            cool_down: Duration::ZERO,
            max_host_wait: Duration::ZERO,
            busy_cpus: Rule {
                bound: 1.0,
                severity,
            },
            free_disk: Rule {
                bound: 900 << 30,
                severity,
            },
            swap_enabled: severity,
            huge_pages: severity,
            governor: severity,
            leftovers: severity,
        };
        let disk = Disk {
            path: "/l".into(),
            device: None,
            free: Some(26 << 30),
        };
        let state = HostState {
            disks: vec![disk],
            ..HostState::default()
        };
        let found = state_findings(&rules, Some(2.0), &state);
        let is_temporary: Vec<bool> = found.iter().map(|finding| finding.is_temporary).collect();
        assert_eq!(is_temporary, [true, false], "{found:?}");
        assert_eq!(
            found[1].what,
            "/l has only 26.0 GiB free, and host.free_disk wants 900.0 GiB: free space, or set at_least of host.free_disk"
        );
    }
}
