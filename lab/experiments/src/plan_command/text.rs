use super::{ArmPreview, PlanPreview, SearchPreview};
use crate::check::Finding;
use crate::plan::Severity;
use faultline_text::{bytes, size, table, time};
use std::time::Duration;

/// `--json` has all rows.
const MAX_ROWS: usize = 200;

pub(super) fn page(preview: &PlanPreview) -> String {
    let mut out = format!("{}   {}\n", preview.name, preview.plan.display());
    out += &format!("folder     {}\n", preview.folder.display());
    out += &format!(
        "launcher   {}\n",
        preview.launcher.as_deref().unwrap_or("none")
    );
    let estimate = &preview.estimate;
    out += &match estimate.longest_seconds {
        Some(longest) => format!(
            "takes      {} to {}\n",
            seconds(estimate.shortest_seconds),
            seconds(longest)
        ),
        None => format!(
            "takes      {} at least\n",
            seconds(estimate.shortest_seconds)
        ),
    };
    out += &format!("           {}\n", estimate.assumed);
    for (index, need) in preview.disk.iter().enumerate() {
        let head = if index == 0 { "disk" } else { "" };
        let free = need.free.map_or("unknown".to_owned(), bytes);
        let (bytes, folder) = (bytes(need.bytes), need.folder.display());
        out += &format!(
            "{head:<10} {bytes} in {folder} ({free} free): {}\n",
            need.what
        );
    }
    out += &match &preview.search {
        Some(search) => format!("\n{}", search_steps(search)),
        None => format!("\n{}", arms(&preview.arms)),
    };
    out += &format!("\n{}", schedule(preview));
    out += &format!("\n{}", findings(preview));
    out
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
    let mut all: Vec<String> = [
        limit("memory_max", limits.memory_max),
        limit("memory_high", limits.memory_high),
        limit("swap_max", limits.swap_max),
        arm.cache_entries
            .map(|entries| format!("cache_entries {entries}")),
        limits.cpus.as_ref().map(|cpus| format!("cpus {cpus}")),
        arm.binary
            .as_ref()
            .map(|binary| format!("binary {}", binary.display())),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.extend(
        limits
            .io
            .iter()
            .map(|limit| format!("io {}", limit.device.display())),
    );
    all.extend((!arm.arguments.is_empty()).then(|| arm.arguments.join(" ")));
    all.extend(arm.variables.iter().map(|name| format!("{name}=...")));
    if all.is_empty() {
        "nothing: as the workload is".to_owned()
    } else {
        all.join(", ")
    }
}

fn schedule(preview: &PlanPreview) -> String {
    let lanes = preview.turns.iter().any(|turn| turn.runs.len() > 1);
    let mut rows = Vec::new();
    for turn in &preview.turns {
        for (index, run) in turn.runs.iter().enumerate() {
            let number = if index == 0 {
                turn.number.to_string()
            } else {
                String::new()
            };
            let mut row = vec![
                number,
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

fn findings(preview: &PlanPreview) -> String {
    let mut out: String = preview
        .findings
        .iter()
        .map(|found| finding(found) + "\n")
        .collect();
    let count = |severity| {
        preview
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (refused, warned) = (count(Severity::Refuse), count(Severity::Warn));
    let pluralised = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    out += &match (refused, warned) {
        (0, 0) => "It may run.\n".to_owned(),
        (0, warned) => format!("It may run, with {}.\n", pluralised(warned, "warning")),
        (refused, _) => format!("It cannot run: {} to fix.\n", pluralised(refused, "thing")),
    };
    out
}

pub fn finding(finding: &Finding) -> String {
    let head = match finding.severity {
        Severity::Ignore => "note",
        Severity::Warn => "warning",
        Severity::Refuse => "refused",
    };
    format!("{head:<8} {}\n         -> {}", finding.what, finding.remedy)
}
