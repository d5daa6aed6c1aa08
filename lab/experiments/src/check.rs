//! Checks a plan on this host: facts are gathered first, then judged.

mod access;
mod disk;
mod environment;
mod folders;
mod gather;
mod limits;
mod options;
mod programs;
mod search;
mod stake;
mod vote;

pub use disk::{SpaceNeed, needs};
pub use gather::{gather, phase, program_files};
pub use programs::TOOLS;

use super::plan::{Arm, Begin, Kind, Order, PageCache, Plan, Severity};
use crate::host::HostFinding;
use faultline_kernel::LevelMemory;
use faultline_runner::isolation::{Abilities, CpuSet};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// By program file, and option or variable.
pub type Options = BTreeMap<(PathBuf, String), OptionPresence>;

/// Unknown facts are `None`, or `Err` with the reason.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// An error if no cgroups can be made.
    pub launcher: Result<LauncherFacts, String>,
    pub ram: Option<u64>,
    /// The cgroups above a run, and the machine.
    pub levels: Result<Vec<LevelMemory>, String>,
    pub swap: Option<u64>,
    pub cpus: Option<CpuSet>,
    pub programs: BTreeMap<String, Result<PathBuf, String>>,
    pub options: Options,
    /// The folders of all runs and of the experiment.
    pub folders: BTreeMap<PathBuf, FolderFacts>,
    pub io_devices: BTreeMap<PathBuf, Result<u64, String>>,
    /// `Err` if unusable.
    pub files: BTreeMap<PathBuf, Result<(), String>>,
    /// Unusable for the plan's user, with reasons.
    pub inaccessible: BTreeMap<PathBuf, String>,
    pub user: Result<(), String>,
    /// Those of [`TOOLS`] that are in `PATH`.
    pub tools: BTreeSet<&'static str>,
    pub other_user: bool,
    pub recorder: Result<PathBuf, String>,
    pub configuration: Option<Result<(), String>>,
    /// Time near the tip before the daemon reports it.
    pub at_tip_for: Option<Duration>,
    /// By lane: stake of its identity.
    pub stakes: BTreeMap<String, Stake>,
    /// Bytes copied before each run.
    pub snapshot_source: Option<Result<u64, String>>,
    /// Current violations of the plan's host rules.
    pub host: Vec<HostFinding>,
    pub homes: Vec<PathBuf>,
}

impl HostFacts {
    /// Empty if it was not inspected.
    fn folder(&self, path: &Path) -> FolderFacts {
        self.folders.get(path).cloned().unwrap_or_default()
    }

    fn uses_systemd(&self) -> bool {
        let launcher = self.launcher.as_ref();
        launcher.is_ok_and(|launcher| launcher.name == "systemd")
    }
}

#[derive(Debug, Clone)]
pub struct LauncherFacts {
    pub name: String,
    pub can: Abilities,
}

/// Whether the text of a program file has an option or variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionPresence {
    Present,
    Missing,
    /// A script; the actual program is unknown.
    Script,
    Unreadable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stake {
    /// Lamports; 0 if the cluster does not know the identity.
    Known(u64),
    /// No active stake yet, but the identity votes.
    Votes,
    Unknown(String),
}

#[derive(Debug, Clone, Default)]
pub struct FolderFacts {
    pub is_there: bool,
    pub real: Option<PathBuf>,
    /// Why it may not be cleared, with a remedy.
    pub not_marked: Option<String>,
    /// The device that has or will have the folder.
    pub device: Option<u64>,
    /// The path, or a parent, that is no folder.
    pub blocked: Option<PathBuf>,
    /// Free bytes for unprivileged users.
    pub free: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// [`Severity::Ignore`] marks a note that needs no action.
    pub severity: Severity,
    pub what: String,
    pub remedy: String,
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding {
            severity,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    fn refuse(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Refuse, what, remedy);
    }

    fn warn(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Warn, what, remedy);
    }

    fn ignore(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Ignore, what, remedy);
    }
}

/// Returns the worst first. `i_vote` drops objections against a voting validator.
pub fn findings(plan: &Plan, facts: &HostFacts, i_vote: bool) -> Vec<Finding> {
    let mut found = Findings::default();
    limits::check(plan, facts, &mut found);
    programs::check(plan, facts, &mut found);
    options::check(plan, facts, &mut found);
    vote::check(plan, facts, i_vote, &mut found);
    environment::check(plan, &mut found);
    folders::check(plan, facts, &mut found);
    access::check(plan, facts, &mut found);
    disk::check(plan, facts, &mut found);
    search::check(plan, facts, &mut found);
    host(facts, &mut found);
    design(plan, &mut found);
    tip(plan, facts, &mut found);
    let mut all: Vec<Finding> = Vec::new();
    for finding in found.0 {
        if !all.contains(&finding) {
            all.push(finding);
        }
    }
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// Conditions that may pass before a run are only warnings.
fn host(facts: &HostFacts, found: &mut Findings) {
    for finding in &facts.host {
        let severity = if finding.is_temporary {
            finding.severity.min(Severity::Warn)
        } else {
            finding.severity
        };
        found.add(
            severity,
            format!("the host, now: {}", finding.what),
            "it is looked at again before each run, by [host]",
        );
    }
}

/// Warns if `stop.at_tip_within` ends before the daemon can report the tip: it requires some time
/// near the tip.
fn tip(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    if let (Some(tip_deadline), Some(tip_delay)) = (plan.stop.at_tip_within, facts.at_tip_for)
        && plan.workload.kind == Kind::Validator
        && tip_deadline <= tip_delay
    {
        let (tip_deadline, tip_delay) = (
            faultline_text::time(tip_deadline),
            faultline_text::time(tip_delay),
        );
        found.warn(
            format!(
                "stop.at_tip_within is {tip_deadline}, and a validator counts as at the tip after {tip_delay} near it: every run \
                 would end as one that was not at the tip in time"
            ),
            format!("more than {tip_delay}, or \"never\"; [phase] at_tip_for of recorder.config says how long it waits"),
        );
    }
}

/// Arms that differ only in their names.
fn duplicate_arms(plan: &Plan, found: &mut Findings) {
    let texts = plan.workload.texts();
    if texts.iter().any(|text| text.contains("{arm}")) {
        return;
    }
    let without_name = |arm: &Arm| Arm {
        name: String::new(),
        line: None,
        ..arm.clone()
    };
    for (index, arm) in plan.arms.iter().enumerate() {
        if let Some(earlier_arm) = plan
            .arms
            .iter()
            .take(index)
            .find(|other| without_name(other) == without_name(arm))
        {
            found.warn(
                format!("arms {:?} and {:?} set the same: what they differ by is chance", earlier_arm.name, arm.name),
                "leave one out, unless to see that chance, or a script that asks for FAULTLINE_ARM, is why both are there",
            );
        }
    }
}

fn design(plan: &Plan, found: &mut Findings) {
    if plan.replicates < 3 && plan.search.is_none() {
        let runs = if plan.replicates == 1 {
            "a single run".to_owned()
        } else {
            format!("{} runs", plan.replicates)
        };
        found.warn(
            format!("{runs} of each arm can be described, but not tested against one another"),
            "replicates = 3 or more",
        );
    }
    if plan.begin == Begin::AsIs && plan.workload.kind == Kind::Validator {
        found.warn(
            "begin.how is \"as-is\": each run continues from the state that the previous one left, so the starts are not equal",
            "\"download\" or, better, \"restore\"",
        );
    }
    if plan.page_cache == PageCache::Leave {
        found.warn(
            "begin.page_cache is \"leave\": files that the previous run read are still in the page cache, and no limit accounts for them",
            "\"drop-files\"",
        );
    }
    duplicate_arms(plan, found);
    if plan.concurrent.is_some() || plan.search.is_some() {
        return;
    }
    if plan.arms.len() < 2 {
        found.ignore(
            "there is one arm, so nothing is compared",
            "name a second arm, or read it as a description",
        );
        return;
    }
    let arm_count = plan.arms.len() as u32;
    match plan.order {
        Order::Abba if plan.replicates % 2 == 1 => found.ignore(
            "ABBA cancels a steady drift only with an even number of replicates",
            format!("replicates = {}", plan.replicates + 1),
        ),
        Order::LatinSquare if !plan.replicates.is_multiple_of(arm_count) => found.ignore(
            format!("a Latin square of {arm_count} arms is whole after {arm_count} replicates, or a multiple of it"),
            format!("replicates = {}", plan.replicates.next_multiple_of(arm_count)),
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
