//! `faultline experiment plan`: everything that can be said of a plan before it is run.

mod estimate;
mod text;

pub use estimate::{Estimate, estimate};
pub use text::finding;

use super::check::{self, Finding, HostFacts, LauncherFacts, Need};
use super::plan::{self, Arm, Plan, Search, Severity};
use super::schedule::{Turn, schedule};
use crate::args::PlanArgs;
use faultline_command::args::WrongUsage;
use faultline_command::output::json;
use faultline_isolation::Limits;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Reads a plan's file.
///
/// # Errors
/// [`WrongUsage`] with every mistake, one a line.
pub fn read(file: &Path) -> anyhow::Result<Plan> {
    plan::load(file).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        let head = match lines.len() {
            1 => "the plan has a mistake".to_owned(),
            some => format!("the plan has {some} mistakes"),
        };
        WrongUsage(format!("{head}:\n{}", lines.join("\n"))).into()
    })
}

/// The answer and the exit code: 0 for a plan that may run here, 1 for one that is refused.
///
/// # Errors
/// [`WrongUsage`] for a plan with mistakes.
pub fn plan(
    args: &PlanArgs,
    launcher: Result<LauncherFacts, String>,
) -> anyhow::Result<(String, u8)> {
    let plan = read(&args.plan)?;
    let facts = check::gather(&plan, launcher);
    let outlook = Outlook::new(&plan, &facts, args.i_vote);
    let printed = if args.json {
        json(&outlook)?
    } else {
        text::page(&outlook)
    };
    Ok((printed, u8::from(!outlook.may_run)))
}

/// What lies before a plan.
#[derive(Debug, Serialize)]
pub struct Outlook {
    /// Of the experiment.
    pub name: String,
    /// Its plan.
    pub plan: PathBuf,
    /// Its folder.
    pub folder: PathBuf,
    /// How groups would be made; absent where they cannot be.
    pub launcher: Option<String>,
    /// Whether nothing speaks against it strongly enough.
    pub may_run: bool,
    /// What is searched in each run, if it is no comparison of arms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchOutlook>,
    /// Its arms.
    pub arms: Vec<ArmOutlook>,
    /// Its runs, in their order.
    pub turns: Vec<Turn>,
    /// How long it takes.
    pub estimate: Estimate,
    /// The room it needs.
    pub disk: Vec<Need>,
    /// What speaks against it, the gravest first.
    pub findings: Vec<Finding>,
}

/// An arm, as far as it differs from the workload.
#[derive(Debug, Serialize)]
pub struct ArmOutlook {
    /// Its name.
    pub name: String,
    /// What its runs may use; without the CPUs of lanes.
    pub limits: Limits,
    /// Entries of the program cache.
    pub cache_entries: Option<u32>,
    /// Its program file.
    pub binary: Option<PathBuf>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Names of the variables that it sets; values may be secrets.
    pub variables: Vec<String>,
}

/// A search, in bytes, seconds and percent.
#[derive(Debug, Serialize)]
pub struct SearchOutlook {
    /// First headroom.
    pub from: u64,
    /// Widest interval that is an answer.
    pub width_percent: f64,
    /// On the way to a limit, at least.
    pub settle_seconds: u64,
    /// Under a limit.
    pub dwell_seconds: u64,
    /// Longest search.
    pub most_seconds: u64,
    /// How far growth is extrapolated.
    pub horizon_seconds: u64,
}

impl SearchOutlook {
    fn new(search: &Search) -> Self {
        SearchOutlook {
            from: search.from,
            width_percent: 100.0 * search.width,
            settle_seconds: search.settle.as_secs(),
            dwell_seconds: search.dwell.as_secs(),
            most_seconds: search.most.as_secs(),
            horizon_seconds: search.horizon.as_secs(),
        }
    }
}

impl ArmOutlook {
    fn new(arm: &Arm) -> Self {
        ArmOutlook {
            name: arm.name.clone(),
            limits: arm.limits(&plan::Lane::default()),
            cache_entries: arm.cache_entries,
            binary: arm.binary.clone(),
            arguments: arm.arguments.clone(),
            variables: arm.environment.keys().cloned().collect(),
        }
    }
}

impl Outlook {
    /// What can be said where these facts hold.
    pub fn new(plan: &Plan, facts: &HostFacts, i_vote: bool) -> Self {
        let findings = check::findings(plan, facts, i_vote);
        let turns = schedule(plan);
        Outlook {
            name: plan.name.clone(),
            plan: plan.file.clone(),
            folder: plan.folder.clone(),
            launcher: facts
                .launcher
                .as_ref()
                .ok()
                .map(|launcher| launcher.name.clone()),
            may_run: findings
                .iter()
                .all(|finding| finding.severity < Severity::Refuse),
            search: plan.search.as_ref().map(SearchOutlook::new),
            arms: plan.arms.iter().map(ArmOutlook::new).collect(),
            estimate: estimate(plan, turns.len()),
            turns,
            disk: check::needs(plan, facts),
            findings,
        }
    }
}

#[cfg(test)]
mod tests;
