//! `faultline experiment plan`: checks a plan before it runs. A turn is the runs that execute at the
//! same time, each in its lane: folders, ports and CPUs. A search moves the memory limit of a
//! validator to find the least memory with which it keeps up. A dwell is the time for which the
//! search keeps one limit.

use super::{
    check::{self, Finding, HostFacts, LauncherFacts, SpaceNeed},
    plan::{self, Arm, Plan, Severity, WorkloadKind},
    schedule::{Turn, schedule},
};
use crate::args::PlanArgs;
use anyhow::Result;
use faultline_common::{args::UsageError, output::json};
use faultline_runner::isolation::Limits;
use faultline_text::{bytes, counted, duration, size, table};
use itertools::Itertools;
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Rows of turns on the page. `--json` prints all.
const MAX_ROWS: usize = 200;

pub fn read(file: &Path) -> Result<Plan> {
    plan::load(file).map_err(|mistakes| {
        let head = match mistakes.len() {
            1 => "the plan has a mistake".to_owned(),
            some => format!("the plan has {some} mistakes"),
        };
        UsageError(format!("{head}:\n{}", mistakes.iter().join("\n"))).into()
    })
}

/// Returns the output and the exit code, which is 1 if the plan is refused. A launcher makes the
/// cgroups of the runs: systemd or this program.
pub fn preview_plan(
    args: &PlanArgs,
    launcher: Result<LauncherFacts, String>,
) -> Result<(String, u8)> {
    let plan = read(&args.plan)?;
    let facts = check::gather_facts(&plan, launcher);
    let preview = PlanPreview::new(&plan, &facts, args.vote_confirmed);
    let printed = if args.json {
        json(&preview)?
    } else {
        render_page(&preview)
    };
    Ok((printed, u8::from(!preview.may_run)))
}

#[derive(Serialize)]
pub struct PlanPreview {
    pub name: String,
    pub plan: PathBuf,
    pub folder: PathBuf,
    /// Name of what makes the cgroups of the runs. `None` if no cgroups can be made.
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
    /// The CPUs of a lane are not included.
    pub limits: Limits,
    pub cache_entries: Option<u32>,
    pub binary: Option<PathBuf>,
    pub arguments: Vec<String>,
    /// Names only: values may be secrets.
    pub variables: Vec<String>,
}

#[derive(Serialize)]
pub struct SearchPreview {
    /// Headroom: what a limit leaves above memory that cannot be reclaimed.
    #[serde(rename = "from")]
    pub first_headroom_bytes: u64,
    /// At this relative width of the 90 % interval of the answer, the search stops.
    #[serde(rename = "width_percent")]
    pub max_interval_width_percent: f64,
    /// Minimum wait between a change of the limit and the dwell.
    pub settle_seconds: u64,
    pub dwell_seconds: u64,
    /// From the time when the validator reaches the tip.
    #[serde(rename = "most_seconds")]
    pub max_duration_seconds: u64,
    /// Growth of memory is extrapolated to this time.
    pub horizon_seconds: u64,
}

impl PlanPreview {
    pub fn new(plan: &Plan, facts: &HostFacts, vote_confirmed: bool) -> Self {
        let findings = check::check_plan(plan, plan.run_count(), facts, vote_confirmed);
        let turns = schedule(plan);
        let preview_arm = |arm: &Arm| ArmPreview {
            name: arm.name.clone(),
            limits: arm.limits(&plan::Lane::default()),
            cache_entries: arm.program_cache_entries,
            binary: arm.binary.clone(),
            arguments: arm.arguments.clone(),
            variables: arm.environment.keys().cloned().collect(),
        };
        Self {
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
            search: plan.memory_search.as_ref().map(|search| SearchPreview {
                first_headroom_bytes: search.first_headroom,
                max_interval_width_percent: 100.0 * search.max_interval_width,
                settle_seconds: search.settle_time.as_secs(),
                dwell_seconds: search.dwell.as_secs(),
                max_duration_seconds: search.max_duration.as_secs(),
                horizon_seconds: search.growth_horizon.as_secs(),
            }),
            arms: plan.arms.iter().map(preview_arm).collect(),
            estimate: estimate(plan, turns.len()),
            turns,
            disk: check::space_needs(plan, plan.run_count(), facts),
            findings,
        }
    }
}

/// Duration of the experiment if no run ends early.
#[derive(Serialize)]
pub struct Estimate {
    pub turns: usize,
    /// If no run waits for its first transaction or the tip. A search takes its minimum.
    pub shortest_seconds: u64,
    /// If each run waits as long as allowed.
    pub longest_seconds: u64,
    /// What the two durations assume, in words.
    pub assumed: String,
}

pub fn estimate(plan: &Plan, turns: usize) -> Estimate {
    let turn_count = u32::try_from(turns).unwrap_or(u32::MAX);
    let (stop, cool_down) = (&plan.stop, plan.host.cool_down);
    let all_turns = |per_turn: Duration| {
        let cool_downs = cool_down.saturating_mul(turn_count.saturating_sub(1));
        per_turn
            .saturating_mul(turn_count)
            .saturating_add(cool_downs)
    };
    let shortest_run = plan.memory_search.as_ref().map_or(stop.duration, |search| {
        search.min_duration().min(stop.duration)
    });
    // A plan that does not limit this wait is refused.
    let max_wait = plan.max_start_time().unwrap_or_default();
    let awaited = match &plan.memory_search {
        Some(_) => "the tip",
        None => "its first transaction",
    };
    let waits = [plan.host.max_host_wait, stop.grace, stop.duration];
    let longest = all_turns(waits.into_iter().fold(max_wait, Duration::saturating_add));
    let run_length = match &plan.memory_search {
        Some(_) => format!("{} to {}", duration(shortest_run), duration(stop.duration)),
        None => duration(stop.duration),
    };
    let mut assumed = format!("{} of {run_length}", counted(turns as f64, "turn"));
    if turns > 1 {
        assumed += &format!(", {} between them", duration(cool_down));
    }
    if plan.workload.kind == WorkloadKind::Replay {
        assumed += "; a replay ends when its work is done, and then its turn ends";
    }
    assumed += "; at most, each turn also waits";
    if !max_wait.is_zero() {
        assumed += &format!(" {} for {awaited},", duration(max_wait));
    }
    assumed += &format!(
        " {} for a quiet host and {} for the run to stop",
        duration(plan.host.max_host_wait),
        duration(stop.grace)
    );
    assumed += "; the time to clear and copy folders and to repeat runs is not included";
    Estimate {
        turns,
        shortest_seconds: all_turns(shortest_run).as_secs(),
        longest_seconds: longest.as_secs(),
        assumed,
    }
}

fn render_page(preview: &PlanPreview) -> String {
    let estimate = &preview.estimate;
    let [shortest, longest] =
        [estimate.shortest_seconds, estimate.longest_seconds].map(format_seconds);
    let mut out = format!(
        "{}   {}\nfolder     {}\nlauncher   {}\ntakes      {shortest} to {longest}\n           {}\n",
        preview.name,
        preview.plan.display(),
        preview.folder.display(),
        preview.launcher.as_deref().unwrap_or("none"),
        estimate.assumed
    );
    for (index, need) in preview.disk.iter().enumerate() {
        let head = if index == 0 { "disk" } else { "" };
        let free = need.free.map_or("unknown".to_owned(), bytes);
        let (needed, folder) = (bytes(need.bytes), need.folder.display());
        out += &format!(
            "{head:<10} {needed} in {folder} ({free} free): {}\n",
            need.what
        );
    }
    let procedure = match &preview.search {
        Some(search) => search_steps(search),
        None => table(
            &["arm", "settings"],
            preview
                .arms
                .iter()
                .map(|arm| vec![arm.name.clone(), arm_settings(arm)])
                .collect(),
        ),
    };
    let (turns, findings) = (turn_table(preview), findings_text(&preview.findings));
    out + &format!("\n{procedure}\n{turns}\n{findings}")
}

fn format_seconds(seconds: u64) -> String {
    duration(Duration::from_secs(seconds))
}

fn search_steps(search: &SearchPreview) -> String {
    let first_headroom = size(search.first_headroom_bytes);
    let max_width = search.max_interval_width_percent;
    let [settle, dwell, max_duration, horizon] = [
        search.settle_seconds,
        search.dwell_seconds,
        search.max_duration_seconds,
        search.horizon_seconds,
    ]
    .map(format_seconds);
    format!(
        "Each run searches the least memory. Every second it sets its own limit: unreclaimable memory plus a headroom.\n\
         1. It runs without a limit until it is at the tip. Two dwells of {dwell} without a limit are the reference; after every third dwell with a limit, another follows.\n\
         2. It tries a headroom of {first_headroom}, then 8 % less each time until one fails. After each change of the headroom it waits at least {settle}, then measures for {dwell}.\n\
         3. It tries headrooms between those that kept up and those that failed, until the 90 % interval is at most {max_width:.0} % wide, or for 50 dwells.\n\
         4. It tries each end of the interval three times, in dwells of twice the length.\n\
         The limit is removed after each failure, and immediately if the validator is in danger. A search lasts at most {max_duration} from the tip.\n\
         If unreclaimable memory would grow by more than 5 % in {horizon}, the report has the memory for 1, 12 and 24 h.\n"
    )
}

fn arm_settings(arm: &ArmPreview) -> String {
    let limits = &arm.limits;
    let limit =
        |name: &str, value: Option<u64>| value.map(|value| format!("{name} {}", size(value)));
    let entries = arm.cache_entries;
    let (cpus, binary) = (limits.cpus.as_ref(), arm.binary.as_ref());
    let devices = limits.io.iter().map(|limit| limit.device.display());
    let all = [
        limit("memory_max", limits.memory_max),
        limit("memory_high", limits.memory_high),
        limit("swap_max", limits.swap_max),
        entries.map(|entries| format!("cache_entries {entries}")),
        cpus.map(|cpus| format!("cpus {cpus}")),
        binary.map(|binary| format!("binary {}", binary.display())),
    ]
    .into_iter()
    .flatten()
    .chain(devices.map(|device| format!("io {device}")))
    .chain((!arm.arguments.is_empty()).then(|| arm.arguments.join(" ")))
    .chain(arm.variables.iter().map(|name| format!("{name}=...")))
    .join(", ");
    if all.is_empty() {
        "nothing: it runs the workload unchanged".to_owned()
    } else {
        all
    }
}

fn turn_table(preview: &PlanPreview) -> String {
    let has_lanes = preview.turns.iter().any(|turn| turn.runs.len() > 1);
    let mut rows = Vec::new();
    for turn in &preview.turns {
        // Only the first row of a turn has its number.
        let mut number = turn.number.to_string();
        for run in &turn.runs {
            let mut row = vec![
                std::mem::take(&mut number),
                run.run.to_string(),
                // Marks the second run of the arm that runs twice in a turn.
                run.arm_name("second"),
                run.replicate.to_string(),
            ];
            row.extend(has_lanes.then(|| run.lane.clone()));
            rows.push(row);
        }
    }
    let omitted = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    let mut heads = vec!["turn", "run", "arm", "replicate"];
    heads.extend(has_lanes.then_some("lane"));
    let mut out = table(&heads, rows);
    if omitted > 0 {
        out += &format!("... and {omitted} more; --json shows all\n");
    }
    out
}

fn findings_text(findings: &[Finding]) -> String {
    let shown: String = findings
        .iter()
        .map(|finding| finding_text(finding) + "\n")
        .collect();
    let count = |severity| {
        findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let may_run = match (count(Severity::Refuse), count(Severity::Warn)) {
        (0, 0) => "It may run.\n".to_owned(),
        (0, warned) => format!("It may run, with {}.\n", counted(warned as f64, "warning")),
        (refused, _) => format!(
            "It cannot run: {} to fix.\n",
            counted(refused as f64, "thing")
        ),
    };
    shown + &may_run
}

pub fn finding_text(finding: &Finding) -> String {
    let head = match finding.severity {
        Severity::Note => "note",
        Severity::Warn => "warning",
        Severity::Refuse => "refused",
    };
    format!("{head:<8} {}\n         -> {}", finding.what, finding.remedy)
}

#[cfg(test)]
mod tests;
