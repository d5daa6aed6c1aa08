//! Checks whether this host can run a plan.
//!
//! The recorder is the daemon `faultlined`. A lane has the folders, ports, CPUs and identity of one
//! run; with `concurrent`, each run of a turn has its own lane.

mod access;
mod environment;
mod folders;
mod gather;
mod limits;
mod memory_search;
mod programs;
mod vote;

pub use folders::{SpaceNeed, space_needs};
pub use gather::{gather_facts, phase_config, program_files};
pub use programs::TOOLS;

use super::plan::{Arm, InitialState, Order, PageCache, Plan, Severity, WorkloadKind};
use crate::host::HostFinding;
use faultline_kernel::LevelMemory;
use faultline_runner::isolation::{CpuSet, LauncherAbilities};
use faultline_text::duration;
use serde::Serialize;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// Key: a program file, and the name of a command-line option or an environment variable.
pub type TextPresences = BTreeMap<(PathBuf, String), TextPresence>;

/// `None` is an unknown fact. `Err` says why a fact is unknown, or why a file or user cannot be used.
#[derive(Clone)]
pub struct HostFacts {
    pub launcher: Result<LauncherFacts, String>,
    pub ram: Option<u64>,
    /// Memory of the cgroups above a run, and of the machine.
    pub outer_limits: Result<Vec<LevelMemory>, String>,
    pub swap: Option<u64>,
    pub cpus: Option<CpuSet>,
    /// The key is the first word of an arm's command.
    pub programs: BTreeMap<String, Result<PathBuf, String>>,
    pub text_presences: TextPresences,
    /// Folders of all lanes and of the experiment, and the source of the snapshot.
    pub folders: BTreeMap<PathBuf, FolderFacts>,
    /// Devices with I/O limits, by their paths in the plan.
    pub io_device_numbers: BTreeMap<PathBuf, Result<u64, String>>,
    pub path_checks: BTreeMap<PathBuf, Result<(), String>>,
    /// For the plan's user, with reasons.
    pub inaccessible: BTreeMap<PathBuf, String>,
    /// Whether `workload.user` is a user of this host.
    pub user: Result<(), String>,
    /// The programs of [`TOOLS`] that are in `PATH`.
    pub tools: BTreeSet<&'static str>,
    pub runs_as_other_user: bool,
    pub recorder_program: Result<PathBuf, String>,
    /// The recorder's verdict on the file `recorder.config`.
    pub recorder_config: Option<Result<(), String>>,
    /// How long a validator must be near the tip until the recorder reports it at the tip.
    pub at_tip_delay: Option<Duration>,
    /// The key is the lane's name.
    pub stakes: BTreeMap<String, Stake>,
    pub snapshot_bytes: Option<Result<u64, String>>,
    /// Rules of `[host]` that this host violates now.
    pub host_violations: Vec<HostFinding>,
    /// Home folders of all users.
    pub home_folders: Vec<PathBuf>,
}

impl HostFacts {
    fn folder(&self, path: &Path) -> FolderFacts {
        self.folders.get(path).cloned().unwrap_or_default()
    }

    fn uses_systemd(&self) -> bool {
        self.launcher.as_ref().is_ok_and(LauncherFacts::is_systemd)
    }
}

#[derive(Clone)]
pub struct LauncherFacts {
    pub name: String,
    pub abilities: LauncherAbilities,
}

impl LauncherFacts {
    fn is_systemd(&self) -> bool {
        self.name == "systemd"
    }
}

/// Whether a program file contains the name of an option or a variable.
#[derive(Debug, Clone, PartialEq)]
pub enum TextPresence {
    Present,
    Missing,
    /// A script; the actual program is unknown.
    Script,
    Unreadable(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Stake {
    /// Lamports; 0 if the cluster does not know the identity.
    Known(u64),
    /// The identity votes, but its stake is not active yet.
    NotYetActive,
    Unknown(String),
}

#[derive(Clone, Default)]
pub struct FolderFacts {
    pub exists: bool,
    pub canonical_path: Option<PathBuf>,
    /// Reason and remedy; `None` if the folder may be cleared.
    pub why_not_clearable: Option<String>,
    /// The device that has or will have the folder.
    pub device: Option<u64>,
    /// The path or its nearest existing parent, if that is not a folder. The folder cannot be made.
    pub non_folder_on_path: Option<PathBuf>,
    /// Free bytes for unprivileged users.
    pub free: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub what: String,
    pub remedy: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, what: impl Into<String>, remedy: impl Into<String>) {
        let finding = Finding {
            severity,
            what: what.into(),
            remedy: remedy.into(),
        };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn refuse(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Refuse, what, remedy);
    }

    fn warn(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Warn, what, remedy);
    }

    fn note(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Note, what, remedy);
    }
}

/// The most severe finding is first. With `vote_confirmed`, a voting validator is accepted.
pub fn check_plan(
    plan: &Plan,
    runs: usize,
    facts: &HostFacts,
    vote_confirmed: bool,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    limits::check(plan, facts, &mut findings);
    programs::check(plan, facts, &mut findings);
    if !vote_confirmed {
        vote::check(plan, &facts.stakes, &facts.path_checks, &mut findings);
    }
    environment::check(plan, &mut findings);
    folders::check(plan, facts, &mut findings);
    access::check(plan, facts, &mut findings);
    folders::check_space(plan, runs, facts, &mut findings);
    memory_search::check(plan, facts, &mut findings);
    check_host(facts, &mut findings);
    check_design(plan, &mut findings);
    check_tip(plan, facts, &mut findings);
    findings.0.sort_by_key(|finding| Reverse(finding.severity));
    findings.0
}

/// Checks the stakes again when an experiment resumes. Only warns: a refusal would stop an unattended
/// experiment, and its plan cannot be changed.
pub fn vote_warnings(plan: &Plan) -> Vec<Finding> {
    let mut findings = Findings::default();
    let stakes = vote::request_stakes(plan, vote::RETRY_POLICY);
    vote::check(plan, &stakes, &gather::path_checks(plan), &mut findings);
    for finding in &mut findings.0 {
        finding.severity = Severity::Warn;
        finding.remedy = "end it by `faultline experiment stop` if this is not intended; --i-vote \
                          suppresses the warning"
            .into();
    }
    findings.0
}

/// A temporary violation may be over when a run begins.
fn check_host(facts: &HostFacts, findings: &mut Findings) {
    for finding in &facts.host_violations {
        let severity = if finding.is_temporary {
            finding.severity.min(Severity::Warn)
        } else {
            finding.severity
        };
        findings.add(
            severity,
            format!("this host now: {}", finding.what),
            "each run checks the rules of [host] again before it begins",
        );
    }
}

/// Warns if runs end before the recorder can report a validator at the tip.
fn check_tip(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    if let (Some(deadline), Some(delay)) = (plan.stop.at_tip_within, facts.at_tip_delay)
        && plan.workload.kind == WorkloadKind::Validator
        && deadline <= delay
    {
        let [deadline, delay] = [deadline, delay].map(duration);
        findings.warn(
            format!(
                "stop.at_tip_within is {deadline}, and the recorder reports the tip only after {delay} near it: every run would end \
                 because the validator is not at the tip in time"
            ),
            format!(
                "more than {delay}, or \"never\"; [phase] at_tip_for of recorder.config sets this time"
            ),
        );
    }
}

fn check_duplicate_arms(plan: &Plan, findings: &mut Findings) {
    let has_name = |texts: Vec<&String>| texts.iter().any(|text| text.contains("{arm}"));
    if has_name(plan.workload.unexpanded_texts()) {
        return;
    }
    let without_name = |arm: &Arm| Arm {
        name: String::new(),
        line: None,
        ..arm.clone()
    };
    for (index, arm) in plan.arms.iter().enumerate() {
        if let Some(twin) = plan
            .arms
            .iter()
            .take(index)
            .find(|other| without_name(other) == without_name(arm))
            && !has_name(arm.unexpanded_texts())
        {
            findings.warn(
                format!(
                    "arms {:?} and {:?} have the same settings: any difference between them is chance",
                    twin.name,
                    arm.name
                ),
                "leave one out, unless you want to measure chance, or a script reads FAULTLINE_ARM",
            );
        }
    }
}

fn check_design(plan: &Plan, findings: &mut Findings) {
    let replicates = plan.replicates;
    if replicates < 3 && plan.memory_search.is_none() {
        let runs = if replicates == 1 {
            "a single run".to_owned()
        } else {
            format!("{replicates} runs")
        };
        findings.warn(
            format!("{runs} of each arm can be described, but not tested against one another"),
            "replicates = 3 or more",
        );
    }
    if plan.initial_state == InitialState::AsIs && plan.workload.kind == WorkloadKind::Validator {
        findings.warn(
            "begin.how is \"as-is\": each run continues from the state that the previous one left, so the starts are not equal",
            "\"download\" or, better, \"restore\"",
        );
    }
    if plan.page_cache == PageCache::Leave {
        findings.warn(
            "begin.page_cache is \"leave\": files that the previous run read are still in the page cache, and no limit accounts for them",
            "\"drop-files\"",
        );
    }
    check_duplicate_arms(plan, findings);
    if plan.concurrent.is_some() || plan.memory_search.is_some() {
        return;
    }
    let arms = plan.arms.len() as u32;
    match plan.order {
        _ if arms < 2 => findings.note(
            "there is one arm, so nothing is compared",
            "name a second arm, or use the report as a description",
        ),
        Order::Abba if replicates % 2 == 1 => findings.note(
            "ABBA cancels a steady drift only with an even number of replicates",
            format!("replicates = {}", replicates + 1),
        ),
        Order::LatinSquare if !replicates.is_multiple_of(arms) => findings.note(
            format!(
                "a Latin square of {arms} arms is complete after {arms} replicates, or a multiple of it"
            ),
            format!("replicates = {}", replicates.next_multiple_of(arms)),
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
