//! Checks that the sections of a plan agree with one another. A lane is the folders, ports and CPUs
//! of one run. In a concurrent plan, the runs of all arms execute at the same time.

use super::{
    super::{
        CountedFrom, InitialState, Lane, Plan, WorkloadKind,
        expand::{expand, is_placeholder_variable},
    },
    SourceLines,
};
use faultline_settings::{ConfigErrors, Unique};
use faultline_text::duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const MAX_RUNS: usize = 10_000;
const METRICS_CONFIG: &str = "SOLANA_METRICS_CONFIG";

pub fn check(plan: &Plan, source_lines: &SourceLines, errors: &ConfigErrors<'_>) {
    check_arms(plan, errors);
    let line = source_lines.workload;
    let workload = &plan.workload;
    refuse_placeholder_variables(&workload.environment, "workload", line, errors);
    let cache_variable = &workload.program_cache_variable;
    if workload.environment.contains_key(cache_variable) {
        let what = format!(
            "workload: remove {cache_variable} from the environment, and set cache_entries in the arms"
        );
        errors.push(line, what);
    }
    let runs = plan.run_count();
    if runs > MAX_RUNS {
        errors.push(
            None,
            format!("the plan has {runs} runs, and {MAX_RUNS} is the maximum: lower replicates"),
        );
    }
    check_lanes(plan, errors);
    check_folders(plan, errors);
    check_begin_and_stop(plan, source_lines, errors);
    if errors.is_empty() {
        check_placeholders(plan, line, errors);
    }
    check_search(plan, source_lines.search, errors);
}

fn check_arms(plan: &Plan, errors: &ConfigErrors<'_>) {
    let workload = &plan.workload;
    let mut names = Unique::default();
    for arm in &plan.arms {
        let owner = format!("arm {:?}", arm.name);
        names.insert(&arm.name, arm.line, &owner, errors);
        if let (Some(high), Some(max)) = (arm.memory_high, arm.memory_max)
            && high > max
        {
            let what = format!("{owner}: memory_high is above memory_max, so it has no effect");
            errors.push(arm.line, what);
        }
        refuse_placeholder_variables(&arm.environment, &owner, arm.line, errors);
        let cache_variable = &workload.program_cache_variable;
        if arm.environment.contains_key(cache_variable) {
            let what = format!(
                "{owner}: {cache_variable} is set by the runner; set cache_entries instead"
            );
            errors.push(arm.line, what);
        }
        if [&arm.environment, &workload.environment]
            .into_iter()
            .any(|environment| environment.contains_key(METRICS_CONFIG))
        {
            errors.push(
                arm.line,
                format!(
                    "{owner}: remove {METRICS_CONFIG} from its environment or the workload's: it is set by the runner, so that \
                     the recorder gets the datapoints; to report elsewhere too, use [forward] in the recorder's config"
                ),
            );
        }
    }
}

/// Reports each variable that has the value of a placeholder.
fn refuse_placeholder_variables(
    environment: &BTreeMap<String, String>,
    owner: &str,
    line: Option<usize>,
    errors: &ConfigErrors<'_>,
) {
    for name in environment
        .keys()
        .filter(|name| is_placeholder_variable(name))
    {
        errors.push(
            line,
            format!("{owner}: {name} is set by the runner for scripts; name it otherwise"),
        );
    }
}

fn check_lanes(plan: &Plan, errors: &ConfigErrors<'_>) {
    let arms = plan.arms.len();
    let (required_lanes, reason) = match plan.concurrent {
        Some(_) => (
            arms + 1,
            format!(
                "a concurrent plan needs one [[lane]] for each of its {arms} arms and one for the second run of the arm that \
                 runs twice: {}",
                arms + 1
            ),
        ),
        None => (
            1,
            "runs that follow one another need exactly one [[lane]]; for runs at the same time, add [concurrent]".to_owned(),
        ),
    };
    if plan.lanes.len() != required_lanes {
        errors.push(
            plan.lanes.first().and_then(|lane| lane.line),
            format!("there are {} lanes; {reason}", plan.lanes.len()),
        );
    }
    let mut names = Unique::default();
    for (index, lane) in plan.lanes.iter().enumerate() {
        let owner = format!("lane {:?}", lane.name);
        names.insert(&lane.name, lane.line, owner, errors);
        check_ports(plan, lane, errors);
        for other in plan.lanes.iter().take(index) {
            check_separate_lanes(lane, other, errors);
        }
    }
    if plan.concurrent.is_some() {
        for arm in plan.arms.iter().filter(|arm| arm.cpus.is_some()) {
            errors.push(
                arm.line,
                format!(
                    "arm {:?}: in a concurrent plan, set cpus in the lanes, not in the arm",
                    arm.name
                ),
            );
        }
    }
}

fn check_separate_lanes(lane: &Lane, other: &Lane, errors: &ConfigErrors<'_>) {
    let report_conflict = |what| {
        errors.push(
            lane.line,
            format!("lanes {:?} and {:?} {what}", other.name, lane.name),
        )
    };
    if let (Some(identity), Some(other_identity)) = (&lane.identity, &other.identity)
        && identity == other_identity
    {
        report_conflict(format!(
            "have the same identity {}, so a cluster takes their validators for one node",
            identity.display()
        ));
    }
    if let (Some(cpus), Some(other_cpus)) = (&lane.cpus, &other.cpus)
        && let Some(cpu) = cpus
            .numbers()
            .iter()
            .find(|cpu| other_cpus.numbers().contains(cpu))
    {
        report_conflict(format!("both have CPU {cpu}"));
    }
    for (key, range) in port_ranges(lane) {
        if let Some((other_key, _)) = port_ranges(other)
            .into_iter()
            .find(|(_, other_range)| find_shared_port(range, *other_range).is_some())
        {
            report_conflict(format!(
                "have ports in common: {other_key} of the first, {key} of the second"
            ));
        }
    }
}

fn check_ports(plan: &Plan, lane: &Lane, errors: &ConfigErrors<'_>) {
    let owner = if plan.lanes.len() > 1 {
        format!("lane {:?}", lane.name)
    } else {
        "workload".to_owned()
    };
    let all = port_ranges(lane);
    for (index, (key, range)) in all.iter().enumerate() {
        for (other_key, other_range) in all.iter().take(index) {
            if let Some(port) = find_shared_port(*range, *other_range) {
                errors.push(
                    lane.line,
                    format!(
                        "{owner}: {other_key} and {key} both have port {port}; keep them apart"
                    ),
                );
            }
        }
    }
}

/// Ranges include their ends.
fn find_shared_port(one: (u16, u16), other: (u16, u16)) -> Option<u16> {
    let first = one.0.max(other.0);
    (first <= one.1.min(other.1)).then_some(first)
}

/// Keys and ranges of ports. JSON-RPC also uses the next port, for subscriptions.
fn port_ranges(lane: &Lane) -> Vec<(&'static str, (u16, u16))> {
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

/// No folder may be inside another. A file that must be kept may not be inside a folder that is
/// cleared before a run.
fn check_folders(plan: &Plan, errors: &ConfigErrors<'_>) {
    let mut all = vec![("folder".to_owned(), plan.folder.as_path(), None)];
    all.extend(
        plan.restored_from()
            .map(|from| ("begin.from".to_owned(), from, None)),
    );
    for lane in &plan.lanes {
        all.extend(
            plan.folders_of(lane)
                .map(|(key, path)| (key, path, lane.line)),
        );
    }
    for (index, (key, path, line)) in all.iter().enumerate() {
        if *path == Path::new("/") {
            errors.push(*line, format!("{key} is /: give it another folder"));
        }
        for (other_key, other_path, _) in all.iter().take(index) {
            let (shown, other_shown) = (path.display(), other_path.display());
            if path == other_path {
                errors.push(
                    *line,
                    format!("{key} and {other_key} are the same folder {shown}"),
                );
            } else if path.starts_with(other_path) || other_path.starts_with(path) {
                errors.push(
                    *line,
                    format!(
                        "{key} ({shown}) and {other_key} ({other_shown}) are one inside the other; keep them apart"
                    ),
                );
            }
        }
    }
    if plan.initial_state != InitialState::AsIs {
        check_kept_files(plan, errors);
    }
}

fn check_kept_files(plan: &Plan, errors: &ConfigErrors<'_>) {
    for lane in &plan.lanes {
        let files = [
            ("identity", &lane.identity),
            ("recorder.targets", &plan.recorder.targets),
            ("recorder.config", &plan.recorder.config),
        ];
        for folder in lane.folders() {
            for (what, file) in &files {
                if let Some(file) = file.as_ref().filter(|file| file.starts_with(folder)) {
                    let (file, folder) = (file.display(), folder.display());
                    errors.push(
                        lane.line,
                        format!(
                            "{what} {file} is inside {folder}, which is cleared before a run; keep the file elsewhere"
                        ),
                    );
                }
            }
        }
    }
}

fn check_begin_and_stop(plan: &Plan, source_lines: &SourceLines, errors: &ConfigErrors<'_>) {
    let is_validator = plan.workload.kind == WorkloadKind::Validator;
    if !is_validator && plan.stop.counted_from == CountedFrom::FirstTransaction {
        errors.push(
            source_lines.counted_from,
            "stop.counted_from: the duration of a replay counts from its start; leave this key out",
        );
    }
    if !is_validator && plan.initial_state == InitialState::Download {
        errors.push(
            source_lines.begin_how,
            "begin.how: a replay needs an existing ledger: set \"as-is\" or \"restore\"",
        );
    }
    let is_unbounded = plan.stop.counted_from == CountedFrom::FirstTransaction
        && plan.stop.first_transaction_within.is_none();
    if is_validator && is_unbounded {
        errors.push(
            source_lines.first_transaction_within,
            "stop: a run that never executes a transaction would never end: set first_transaction_within to a time, or \
             set counted_from = \"start\"",
        );
    }
}

fn check_search(plan: &Plan, line: Option<usize>, errors: &ConfigErrors<'_>) {
    let Some(search) = &plan.memory_search else {
        return;
    };
    if plan.workload.kind == WorkloadKind::Replay {
        errors.push(
            line,
            "search: a replay has no tip to keep up with; set workload.kind = \"validator\"",
        );
    }
    // A dwell is the time for which a search keeps one limit, after `settle_time`.
    let min_duration = (search.settle_time + search.dwell) * 10;
    if search.max_duration < min_duration {
        let [max_duration, min_duration] = [search.max_duration, min_duration].map(duration);
        errors.push(
            line,
            format!(
                "search.most is {max_duration}, but ten times settle and dwell take {min_duration}: \
                 raise most, or lower settle or dwell"
            ),
        );
    }
}

fn check_placeholders(plan: &Plan, workload_line: Option<usize>, errors: &ConfigErrors<'_>) {
    // Each arm and lane expands the workload again, but an error in it is reported once.
    let mut reported = BTreeSet::new();
    for arm in &plan.arms {
        for lane in &plan.lanes {
            let expanded = expand(plan, arm, lane, Path::new("/"), 1);
            for error in expanded.err().unwrap_or_default() {
                let line = if error.is_in_arm {
                    arm.line
                } else {
                    workload_line
                };
                if reported.insert((line, error.message.clone())) {
                    errors.push(line, error.message);
                }
            }
        }
    }
}
