//! What speaks against a plan on this host, before anything is run: facts are gathered first, then judged.

mod cache;
mod disk;
mod facts;
mod folders;
mod gather;
mod keypair;
mod limits;
mod programs;
mod stake;
mod switch;
mod vote;

pub use disk::{Need, needs};
pub use facts::{Facts, FolderFacts, LauncherFacts, Stake, Switch};
pub use gather::gather;

use super::plan::{Order, Plan, Severity};
use serde::{Deserialize, Serialize};

/// Something that speaks against a plan, or should be known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What follows; [`Severity::Ignore`] is a remark.
    pub severity: Severity,
    /// What is so.
    pub what: String,
    /// What can be done about it.
    pub remedy: String,
}

/// A list of findings that is being made.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding { severity, what: what.into(), remedy: remedy.into() });
    }

    fn refuse(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Refuse, what, remedy);
    }

    fn warn(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Warn, what, remedy);
    }

    fn remark(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Ignore, what, remedy);
    }
}

/// Everything that speaks against the plan where these facts hold, each thing once, the gravest first. `i_vote` takes
/// away what speaks against a validator that votes.
pub fn findings(plan: &Plan, facts: &Facts, i_vote: bool) -> Vec<Finding> {
    let mut found = Findings::default();
    limits::check(plan, facts, &mut found);
    programs::check(plan, facts, &mut found);
    cache::check(plan, facts, &mut found);
    vote::check(plan, facts, i_vote, &mut found);
    folders::check(plan, facts, &mut found);
    disk::check(plan, facts, &mut found);
    design(plan, &mut found);
    let mut all: Vec<Finding> = Vec::new();
    for finding in found.0 {
        if !all.contains(&finding) {
            all.push(finding);
        }
    }
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// What the plan can show at all.
fn design(plan: &Plan, found: &mut Findings) {
    if plan.replicates < 3 {
        let runs = if plan.replicates == 1 { "a single run".to_owned() } else { format!("{} runs", plan.replicates) };
        found.warn(
            format!("{runs} of each arm can be described, but not tested against one another"),
            "replicates = 3 or more",
        );
    }
    if plan.concurrent.is_some() {
        return;
    }
    if plan.arms.len() < 2 {
        found.remark("there is one arm, so nothing is compared", "name a second arm, or read it as a description");
        return;
    }
    let turns = plan.arms.len() as u32;
    match plan.order {
        Order::Abba if plan.replicates % 2 == 1 => found.remark(
            "ABBA cancels a steady drift only with an even number of replicates",
            format!("replicates = {}", plan.replicates + 1),
        ),
        Order::LatinSquare if !plan.replicates.is_multiple_of(turns) => found.remark(
            format!("a Latin square of {turns} arms is whole after {turns} replicates, or a multiple of it"),
            format!("replicates = {}", plan.replicates.next_multiple_of(turns)),
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
