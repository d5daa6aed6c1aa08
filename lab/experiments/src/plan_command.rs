//! `faultline experiment plan`: checks a plan before it runs.

mod text;

use super::{
    check::{self, Finding, HostFacts, LauncherFacts, SpaceNeed},
    plan::{self, Arm, CountedFrom, Kind, Plan, Severity},
    schedule::{Turn, schedule},
};
use crate::args::PlanArgs;
use anyhow::Result;
use faultline_common::{args::UsageError, output::json};
use faultline_runner::isolation::Limits;
use faultline_text::{counted, time};
use itertools::Itertools;
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
pub use text::finding;

pub fn read(file: &Path) -> Result<Plan> {
    plan::load(file).map_err(|mistakes| {
        let head = match mistakes.len() {
            1 => "the plan has a mistake".to_owned(),
            some => format!("the plan has {some} mistakes"),
        };
        UsageError(format!("{head}:\n{}", mistakes.iter().join("\n"))).into()
    })
}

/// The exit code is 1 if the plan is refused.
pub fn plan(args: &PlanArgs, launcher: Result<LauncherFacts, String>) -> Result<(String, u8)> {
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

#[derive(Serialize)]
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

#[derive(Serialize)]
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
#[derive(Serialize)]
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
            disk: check::space_needs(plan, facts),
            findings,
        }
    }
}

/// Runs that end early make it shorter.
#[derive(Serialize)]
pub struct Estimate {
    pub turns: usize,
    /// Each run executes transactions at once and takes its full time.
    pub shortest_seconds: u64,
    /// Each run waits as long as allowed. `None` without a bound.
    pub longest_seconds: Option<u64>,
    pub assumed: String,
}

pub fn estimate(plan: &Plan, turns: usize) -> Estimate {
    let turn_count = u32::try_from(turns).unwrap_or(u32::MAX);
    let stop = &plan.stop;
    let all_turns = |each: Duration| {
        let cool_downs = plan
            .host
            .cool_down
            .saturating_mul(turn_count.saturating_sub(1));
        each.saturating_mul(turn_count).saturating_add(cool_downs)
    };
    let each = plan.search.as_ref().map_or(stop.duration, |search| {
        search.min_duration().min(stop.duration)
    });
    let (wait, what) = match (
        &plan.search,
        stop.counted_from,
        stop.first_transaction_within,
    ) {
        // A search counts from the tip, and the start may take as long.
        (Some(search), ..) => (Some(search.most), "the tip"),
        (None, CountedFrom::Start, _) => (Some(Duration::ZERO), ""),
        (None, CountedFrom::FirstTransaction, within) => (within, "its first transaction"),
    };
    let longest = wait.map(|wait| {
        let waits = [plan.host.patience, stop.grace, stop.duration];
        all_turns(waits.into_iter().fold(wait, Duration::saturating_add))
    });
    let length = match &plan.search {
        Some(_) => format!("{} to {}", time(each), time(stop.duration)),
        None => time(stop.duration),
    };
    let mut assumed = format!("{} of {length}", counted(turns as f64, "turn"));
    if turns > 1 {
        assumed += &format!(", {} between them", time(plan.host.cool_down));
    }
    if plan.workload.kind == Kind::Replay {
        assumed += "; a replay ends with its work, and its turn with it";
    }
    if let Some(wait) = wait {
        assumed += "; at the latest, each turn also waits";
        if !wait.is_zero() {
            assumed += &format!(" {} for {what},", time(wait));
        }
        assumed += &format!(
            " {} for a quiet host and {} for its end",
            time(plan.host.patience),
            time(stop.grace)
        );
    }
    assumed += "; clearing, copying and repeated runs come on top";
    Estimate {
        turns,
        shortest_seconds: all_turns(each).as_secs(),
        longest_seconds: longest.map(|time| time.as_secs()),
        assumed,
    }
}

#[cfg(test)]
mod tests;
