//! `faultline experiment plan`: checks a plan before it runs.

mod estimate;
mod text;

use super::check::{self, Finding, HostFacts, LauncherFacts, SpaceNeed};
use super::plan::{self, Arm, Plan, Severity};
use super::schedule::{Turn, schedule};
use crate::args::PlanArgs;
pub use estimate::{Estimate, estimate};
use faultline_common::args::UsageError;
use faultline_common::output::json;
use faultline_runner::isolation::Limits;
use itertools::Itertools;
use serde::Serialize;
use std::path::{Path, PathBuf};
pub use text::finding;

pub fn read(file: &Path) -> anyhow::Result<Plan> {
    plan::load(file).map_err(|mistakes| {
        let head = match mistakes.len() {
            1 => "the plan has a mistake".to_owned(),
            some => format!("the plan has {some} mistakes"),
        };
        UsageError(format!("{head}:\n{}", mistakes.iter().join("\n"))).into()
    })
}

/// The exit code is 1 if the plan is refused.
pub fn plan(
    args: &PlanArgs,
    launcher: Result<LauncherFacts, String>,
) -> anyhow::Result<(String, u8)> {
    let plan = read(&args.plan)?;
    let facts = check::gather(&plan, launcher);
    let preview = PlanPreview::new(&plan, &facts, args.i_vote);
    let printed = if args.json {
        json(&preview)?
    } else {
        text::page(&preview)
    };
    Ok((printed, u8::from(!preview.may_run)))
}

#[derive(Debug, Serialize)]
pub struct PlanPreview {
    pub name: String,
    pub plan: PathBuf,
    pub folder: PathBuf,
    /// Absent if no cgroups can be made.
    pub launcher: Option<String>,
    pub may_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchPreview>,
    pub arms: Vec<ArmPreview>,
    pub turns: Vec<Turn>,
    pub estimate: Estimate,
    pub disk: Vec<SpaceNeed>,
    /// Worst first.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
pub struct ArmPreview {
    pub name: String,
    /// Without the CPUs of lanes.
    pub limits: Limits,
    pub cache_entries: Option<u32>,
    pub binary: Option<PathBuf>,
    pub arguments: Vec<String>,
    /// Names only: values may be secrets.
    pub variables: Vec<String>,
}

/// In bytes, seconds and percent.
#[derive(Debug, Serialize)]
pub struct SearchPreview {
    pub from: u64,
    pub width_percent: f64,
    pub settle_seconds: u64,
    pub dwell_seconds: u64,
    pub most_seconds: u64,
    pub horizon_seconds: u64,
}

impl PlanPreview {
    pub fn new(plan: &Plan, facts: &HostFacts, i_vote: bool) -> Self {
        let findings = check::findings(plan, facts, i_vote);
        let turns = schedule(plan);
        let arm = |arm: &Arm| ArmPreview {
            name: arm.name.clone(),
            limits: arm.limits(&plan::Lane::default()),
            cache_entries: arm.cache_entries,
            binary: arm.binary.clone(),
            arguments: arm.arguments.clone(),
            variables: arm.environment.keys().cloned().collect(),
        };
        PlanPreview {
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
            search: plan.search.as_ref().map(|search| SearchPreview {
                from: search.from,
                width_percent: 100.0 * search.width,
                settle_seconds: search.settle.as_secs(),
                dwell_seconds: search.dwell.as_secs(),
                most_seconds: search.most.as_secs(),
                horizon_seconds: search.horizon.as_secs(),
            }),
            arms: plan.arms.iter().map(arm).collect(),
            estimate: estimate(plan, turns.len()),
            turns,
            disk: check::needs(plan, facts),
            findings,
        }
    }
}

#[cfg(test)]
mod tests;
