use super::{
    super::{
        Begin, CountedFrom, Kind, Lane, Plan,
        expand::{expand, is_set_by_the_runner},
    },
    SourceLines,
};
use faultline_settings::{ConfigErrors, Unique};
use std::{collections::BTreeSet, path::Path};

const MAX_RUNS: usize = 10_000;

pub fn check(plan: &Plan, source_lines: &SourceLines, config_errors: &ConfigErrors<'_>) {
    arms(plan, source_lines, config_errors);
    lanes(plan, config_errors);
    folders(plan, config_errors);
    stops(plan, source_lines, config_errors);
    if config_errors.is_empty() {
        placeholders(plan, source_lines, config_errors);
    }
}

fn arms(plan: &Plan, source_lines: &SourceLines, config_errors: &ConfigErrors<'_>) {
    let mut names = Unique::default();
    for arm in &plan.arms {
        let owner = format!("arm {:?}", arm.name);
        names.insert(&arm.name, arm.line, owner.clone(), config_errors);
        if let (Some(high), Some(max)) = (arm.memory_high, arm.memory_max)
            && high > max
        {
            let what = format!("{owner}: memory_high is above memory_max, so it never acts");
            config_errors.push(arm.line, what);
        }
        reject_runner_variables(arm.environment.keys(), &owner, arm.line, config_errors);
        let cache_variable = &plan.workload.cache_variable;
        if arm.environment.contains_key(cache_variable) {
            config_errors.push(
                arm.line,
                format!(
                    "{owner}: {cache_variable} is set by the runner; say cache_entries instead"
                ),
            );
        }
        let metrics = "SOLANA_METRICS_CONFIG";
        if arm.environment.contains_key(metrics) || plan.workload.environment.contains_key(metrics)
        {
            config_errors.push(
                arm.line,
                format!(
                    "{owner}: SOLANA_METRICS_CONFIG is set by the runner, so that the recorder hears the validator; \
                     to report elsewhere too, say [forward] in the recorder's config"
                ),
            );
        }
    }
    workload_environment(plan, source_lines.workload, config_errors);
    let runs = plan.runs();
    if runs > MAX_RUNS {
        config_errors.push(
            None,
            format!("these are {runs} runs; {MAX_RUNS} at most: lower replicates"),
        );
    }
}

fn workload_environment(plan: &Plan, line: Option<usize>, config_errors: &ConfigErrors<'_>) {
    let workload = &plan.workload;
    reject_runner_variables(workload.environment.keys(), "workload", line, config_errors);
    if workload.environment.contains_key(&workload.cache_variable) {
        let what = format!(
            "workload: {} belongs to the arms: say cache_entries there",
            workload.cache_variable
        );
        config_errors.push(line, what);
    }
}

fn reject_runner_variables<'k>(
    names: impl Iterator<Item = &'k String>,
    owner: &str,
    line: Option<usize>,
    config_errors: &ConfigErrors<'_>,
) {
    for name in names.filter(|name| is_set_by_the_runner(name)) {
        config_errors.push(
            line,
            format!("{owner}: {name} is set by the runner for scripts; name it otherwise"),
        );
    }
}

fn lanes(plan: &Plan, config_errors: &ConfigErrors<'_>) {
    let required_lanes = if plan.concurrent.is_some() {
        plan.arms.len() + 1
    } else {
        1
    };
    if plan.lanes.len() != required_lanes {
        let why = match plan.concurrent {
            Some(_) => format!(
                "a concurrent plan needs one [[lane]] for each of its {} arms and one for the second run of the arm that \
                 runs twice: {required_lanes}",
                plan.arms.len()
            ),
            None => "runs that follow one another need one lane; for runs at the same time say [concurrent]".to_owned(),
        };
        config_errors.push(
            plan.lanes.first().and_then(|lane| lane.line),
            format!("there are {} lanes; {why}", plan.lanes.len()),
        );
    }
    let mut names = Unique::default();
    for (index, lane) in plan.lanes.iter().enumerate() {
        let owner = format!("lane {:?}", lane.name);
        names.insert(&lane.name, lane.line, owner, config_errors);
        check_ports(plan, lane, config_errors);
        for other in plan.lanes.get(..index).unwrap_or_default() {
            check_separate_lanes(lane, other, config_errors);
        }
    }
    if plan.concurrent.is_some() {
        for arm in plan.arms.iter().filter(|arm| arm.cpus.is_some()) {
            config_errors.push(
                arm.line,
                format!(
                    "arm {:?}: at the same time, CPUs belong to lanes: say cpus there",
                    arm.name
                ),
            );
        }
    }
}

fn check_separate_lanes(lane: &Lane, other: &Lane, config_errors: &ConfigErrors<'_>) {
    let shared = |what: String| {
        config_errors.push(
            lane.line,
            format!("lanes {:?} and {:?} {what}", other.name, lane.name),
        )
    };
    if let (Some(a), Some(b)) = (&lane.identity, &other.identity)
        && a == b
    {
        shared(format!(
            "have the same identity {}, which a cluster takes for one node",
            a.display()
        ));
    }
    if let (Some(a), Some(b)) = (&lane.cpus, &other.cpus)
        && let Some(cpu) = a.numbers().iter().find(|cpu| b.numbers().contains(cpu))
    {
        shared(format!("both have CPU {cpu}"));
    }
    for (a, first) in ports(lane) {
        if let Some((b, _)) = ports(other)
            .into_iter()
            .find(|(_, second)| first.0 <= second.1 && second.0 <= first.1)
        {
            shared(format!(
                "have ports in common: {b} of the one, {a} of the other"
            ));
        }
    }
}

fn check_ports(plan: &Plan, lane: &Lane, config_errors: &ConfigErrors<'_>) {
    let owner = if plan.lanes.len() > 1 {
        format!("lane {:?}", lane.name)
    } else {
        "workload".to_owned()
    };
    let all = ports(lane);
    for (index, (what, (first, last))) in all.iter().enumerate() {
        for (other, (low, high)) in all.get(..index).unwrap_or_default() {
            if first <= high && low <= last {
                let port = first.max(low);
                config_errors.push(
                    lane.line,
                    format!("{owner}: {other} and {what} both have port {port}; keep them apart"),
                );
            }
        }
    }
}

/// JSON-RPC also uses the next port, for subscriptions.
fn ports(lane: &Lane) -> Vec<(&'static str, (u16, u16))> {
    let rpc = lane.rpc_port.map(|port| {
        (
            "rpc_port (and the one above it)",
            (port, port.saturating_add(1)),
        )
    });
    let gossip = lane.gossip_port.map(|port| ("gossip_port", (port, port)));
    let range = lane.port_range.map(|range| ("port_range", range));
    [rpc, gossip, range].into_iter().flatten().collect()
}

type NamedFolder<'p> = (String, &'p Path, Option<usize>);

/// Cleared folders must not contain anything else.
fn folders(plan: &Plan, config_errors: &ConfigErrors<'_>) {
    let mut all: Vec<NamedFolder<'_>> = vec![("folder".to_owned(), &plan.folder, None)];
    let source = plan.restored_from();
    all.extend(source.map(|from| ("begin.from".to_owned(), from, None)));
    for lane in &plan.lanes {
        let folders = plan.folders_of(lane);
        all.extend(folders.map(|(what, path)| (what, path, lane.line)));
    }
    for (index, (what, path, line)) in all.iter().enumerate() {
        if *path == Path::new("/") {
            config_errors.push(*line, format!("{what} is /: give it a folder of its own"));
        }
        for (other, other_path, _) in all.get(..index).unwrap_or_default() {
            let (a, b) = (path.display(), other_path.display());
            if path == other_path {
                config_errors.push(*line, format!("{what} and {other} are the same folder {a}"));
            } else if path.starts_with(other_path) || other_path.starts_with(path) {
                config_errors.push(
                    *line,
                    format!(
                        "{what} ({a}) and {other} ({b}) are one inside the other; keep them apart"
                    ),
                );
            }
        }
    }
    for lane in &plan.lanes {
        let files = [
            ("identity", &lane.identity),
            ("recorder.targets", &plan.recorder.targets),
        ];
        for folder in lane.folders() {
            for (what, file) in &files {
                if let Some(file) = file.as_ref().filter(|file| file.starts_with(folder)) {
                    let (file, folder) = (file.display(), folder.display());
                    config_errors.push(
                        lane.line,
                        format!(
                            "{what} {file} is inside {folder}, which is cleared; keep it elsewhere"
                        ),
                    );
                }
            }
        }
    }
}

fn stops(plan: &Plan, source_lines: &SourceLines, config_errors: &ConfigErrors<'_>) {
    let is_validator = plan.workload.kind == Kind::Validator;
    if !is_validator && plan.stop.counted_from == CountedFrom::FirstTransaction {
        config_errors.push(
            source_lines.counted_from,
            "stop.counted_from: a replay is counted from its start; leave it out",
        );
    }
    if !is_validator && plan.begin == Begin::Download {
        config_errors.push(
            source_lines.how,
            "begin.how: a replay works on a ledger that is there: say \"as-is\" or \"restore\"",
        );
    }
    let is_unbounded = plan.stop.counted_from == CountedFrom::FirstTransaction
        && plan.stop.first_transaction_within.is_none();
    if is_validator && is_unbounded {
        config_errors.push(
            source_lines.first_transaction_within,
            "stop: a run that never executes a transaction would never end: give first_transaction_within a time, or \
             say counted_from = \"start\"",
        );
    }
}

fn placeholders(plan: &Plan, source_lines: &SourceLines, config_errors: &ConfigErrors<'_>) {
    let mut reported = BTreeSet::new();
    for arm in &plan.arms {
        for lane in &plan.lanes {
            let Err(unknown) = expand(plan, arm, lane, Path::new("/"), 1) else {
                continue;
            };
            for unknown in unknown {
                // A placeholder of the workload is reported once.
                let line = if unknown.of_arm {
                    arm.line
                } else {
                    source_lines.workload
                };
                if reported.insert((line, unknown.what.clone())) {
                    config_errors.push(line, unknown.what);
                }
            }
        }
    }
}
