//! Checks a plan on this host: facts are gathered first, then judged.

mod access;
mod configuration;
mod disk;
mod environment;
mod facts;
mod folders;
mod gather;
mod limits;
mod options;
mod poh;
mod programs;
mod search;
mod stake;
mod switch;
mod vote;

pub use disk::{SpaceNeed, needs};
pub use facts::{FolderFacts, HostFacts, LauncherFacts, OptionPresence, Options, Stake};
pub use gather::{gather, program_files};
pub use poh::recorder_cpus;
pub use programs::TOOLS;

use super::plan::{Arm, Begin, Kind, Order, PageCache, Plan, Severity};
use serde::Serialize;

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
