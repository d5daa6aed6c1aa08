use super::{ArmPreview, PlanPreview, SearchPreview};
use crate::{check::Finding, plan::Severity};
use faultline_text::{bytes, counted, size, table, time};
use itertools::Itertools;
use std::time::Duration;

/// `--json` has all rows.
const MAX_ROWS: usize = 200;

pub fn page(preview: &PlanPreview) -> String {
    let estimate = &preview.estimate;
    let shortest = seconds(estimate.shortest_seconds);
    let takes = match estimate.longest_seconds {
        Some(longest) => format!("{shortest} to {}", seconds(longest)),
        None => format!("{shortest} at least"),
    };
    let mut out = format!(
        "{}   {}\nfolder     {}\nlauncher   {}\ntakes      {takes}\n           {}\n",
        preview.name,
        preview.plan.display(),
        preview.folder.display(),
        preview.launcher.as_deref().unwrap_or("none"),
        estimate.assumed
    );
    for (index, need) in preview.disk.iter().enumerate() {
        let head = if index == 0 { "disk" } else { "" };
        let free = need.free.map_or("unknown".to_owned(), bytes);
        let (bytes, folder) = (bytes(need.bytes), need.folder.display());
        out += &format!(
            "{head:<10} {bytes} in {folder} ({free} free): {}\n",
            need.what
        );
    }
    let tried = match &preview.search {
        Some(search) => search_steps(search),
        None => arms(&preview.arms),
    };
    let (schedule, findings) = (schedule(preview), findings(&preview.findings));
    out + &format!("\n{tried}\n{schedule}\n{findings}")
}

fn seconds(seconds: u64) -> String {
    time(Duration::from_secs(seconds))
}

fn arms(arms: &[ArmPreview]) -> String {
    let rows = arms
        .iter()
        .map(|arm| vec![arm.name.clone(), arm_settings(arm)]);
    table(&["arm", "what it sets"], rows.collect())
}

fn search_steps(search: &SearchPreview) -> String {
    let (from, width) = (size(search.from), search.width_percent);
    let [settle, dwell, most, horizon] = [
        search.settle_seconds,
        search.dwell_seconds,
        search.most_seconds,
        search.horizon_seconds,
    ]
    .map(seconds);
    format!(
        "Each run searches the least memory by moving its own limit: unreclaimable memory plus a headroom, set every second.\n\
         1. Without a limit until it is at the tip, then twice {dwell} as the reference, and again after every third dwell.\n\
         2. A headroom of {from}, then 8 % less each time until one fails. On the way to a limit at least {settle}, then {dwell} under it.\n\
         3. Between what kept up and what failed, until the interval of 90 % is at most {width:.0} % wide, or after 50 dwells.\n\
         4. Both ends of the interval three times each, twice as long.\n\
         The limit is lifted after each failure, and at once if the validator is in danger. A search ends after {most} at the latest.\n\
         If unreclaimable memory would grow by more than 5 % in {horizon}, the answer is the memory for 1, 12 and 24 h.\n"
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
        "nothing: as the workload is".to_owned()
    } else {
        all
    }
}

fn schedule(preview: &PlanPreview) -> String {
    let lanes = preview.turns.iter().any(|turn| turn.runs.len() > 1);
    let mut rows = Vec::new();
    for turn in &preview.turns {
        let mut number = turn.number.to_string();
        for run in &turn.runs {
            let mut row = vec![
                // Only in the first row of a turn.
                std::mem::take(&mut number),
                run.run.to_string(),
                run.arm_name("second"),
                run.replicate.to_string(),
            ];
            row.extend(lanes.then(|| run.lane.clone()));
            rows.push(row);
        }
    }
    let omitted = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    let mut heads = vec!["turn", "run", "arm", "replicate"];
    heads.extend(lanes.then_some("lane"));
    let mut out = table(&heads, rows);
    if omitted > 0 {
        out += &format!("... and {omitted} more; --json shows all\n");
    }
    out
}

fn findings(findings: &[Finding]) -> String {
    let shown: String = findings.iter().map(|found| finding(found) + "\n").collect();
    let count = |severity| {
        findings
            .iter()
            .filter(|found| found.severity == severity)
            .count() as f64
    };
    let (refused, warned) = (count(Severity::Refuse), count(Severity::Warn));
    let may_run = if refused > 0.0 {
        format!("It cannot run: {} to fix.\n", counted(refused, "thing"))
    } else if warned > 0.0 {
        format!("It may run, with {}.\n", counted(warned, "warning"))
    } else {
        "It may run.\n".to_owned()
    };
    shown + &may_run
}

pub fn finding(finding: &Finding) -> String {
    let head = match finding.severity {
        Severity::Ignore => "note",
        Severity::Warn => "warning",
        Severity::Refuse => "refused",
    };
    format!("{head:<8} {}\n         -> {}", finding.what, finding.remedy)
}
