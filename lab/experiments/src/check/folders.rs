//! Checks that folders are distinct, may be cleared and are no home folders, and that their disks
//! have space.

use super::{Findings, HostFacts, program_files};
use crate::plan::{Cluster, InitialState, Plan, WorkloadKind};
use faultline_text::{bytes, counted, duration, shell_quoted};
use itertools::Itertools;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// At one sample per second: 94 MiB in twelve hours (docs/PERFORMANCE.md), plus a margin.
const RECORDING_BYTES_PER_HOUR: u64 = 8 << 20;
/// A full and an incremental snapshot of mainnet-beta.
const DOWNLOADED_SNAPSHOT_BYTES: u64 = 100 << 30;

/// Ledger, accounts and snapshots of all lanes. The text, such as `ledger of lane "a"`, names the
/// folder in messages. A lane is a set of folders for one run at a time. With `concurrent`, each of
/// the runs that execute at the same time has its own lane.
pub fn work_folders(plan: &Plan) -> Vec<(String, &Path)> {
    plan.lanes
        .iter()
        .flat_map(|lane| plan.folders_of(lane))
        .collect()
}

pub fn written_and_read_folders(plan: &Plan) -> Vec<(String, &Path)> {
    let mut all = written_folders(plan);
    all.extend(
        plan.restored_from()
            .map(|from| ("begin.from".to_owned(), from)),
    );
    all
}

fn written_folders(plan: &Plan) -> Vec<(String, &Path)> {
    let mut all = work_folders(plan);
    all.push(("folder".to_owned(), &plan.folder));
    all
}

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let programs = program_files(plan);
    for (name, path) in work_folders(plan) {
        let Some(folder) = facts.folders.get(path) else {
            continue;
        };
        if folder.non_folder_on_path.is_some() {
            continue;
        }
        let path_text = path.display();
        if plan.initial_state == InitialState::AsIs {
            if !folder.exists {
                findings.refuse(
                    format!("{name} {path_text} is not there, and begin.how is \"as-is\""),
                    "make it, or let runs begin with \"download\" or \"restore\"",
                );
            }
            continue;
        }
        if let Some(why) = &folder.why_not_clearable {
            findings.refuse(
                format!("{name} cannot be cleared before a run: {why}"),
                format!("faultline experiment init {}", shell_quoted(path)),
            );
        }
        let real = folder.canonical_path.as_deref().unwrap_or(path);
        let is_inside = |program: &Path| {
            program.starts_with(path) || program.canonicalize().is_ok_and(|p| p.starts_with(real))
        };
        for program in programs
            .iter()
            .chain(&facts.recorder_program)
            .filter(|program| is_inside(program))
        {
            let program = program.display();
            findings.refuse(
                format!("{program} is inside {name} {path_text}, which is cleared before a run"),
                "keep the program elsewhere",
            );
        }
        if let Some(home) = facts
            .home_folders
            .iter()
            .find(|home| home.starts_with(real))
        {
            findings.refuse(
                format!(
                    "{name} {path_text} is the home folder {}, or contains it",
                    home.display()
                ),
                "give it a folder of its own",
            );
        }
    }
    check_paths(plan, facts, findings);
    check_distinct(plan, facts, findings);
    check_shared_device(plan, facts, findings);
}

/// Each written folder can be made.
fn check_paths(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    for (name, path) in written_folders(plan) {
        if let Some(file) = facts.folder(path).non_folder_on_path {
            let (path_text, file) = (path.display(), file.display());
            findings.refuse(
                format!(
                    "{name} {path_text} is a folder that cannot be made: {file} exists and is not a folder"
                ),
                "name another folder, or move this file away",
            );
        }
    }
}

fn check_shared_device(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let Some(device) = facts.folder(&plan.folder).device else {
        return;
    };
    if let Some((name, path)) = work_folders(plan)
        .into_iter()
        .find(|(_, path)| facts.folder(path).device == Some(device))
    {
        findings.warn(
            format!(
                "folder {} is on the same device as {name} {}",
                plan.folder.display(),
                path.display()
            ),
            "put the experiment's folder on another disk, so that writing recordings does not slow down the runs",
        );
    }
}

/// Symbolic links can make two different paths equal.
fn check_distinct(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let folders = written_and_read_folders(plan)
        .into_iter()
        .filter_map(|(name, path)| {
            let real = facts.folder(path).canonical_path?;
            Some((format!("{name} {}", path.display()), real))
        })
        .collect_vec();
    for (index, (folder, real)) in folders.iter().enumerate() {
        for (other, other_real) in folders.iter().take(index) {
            if real.starts_with(other_real) || other_real.starts_with(real) {
                findings.refuse(
                    format!("{folder} and {other} are the same folder, or one is inside the other"),
                    "name separate folders",
                );
            }
        }
    }
}

#[derive(Serialize)]
pub struct SpaceNeed {
    pub folder: PathBuf,
    pub bytes: u64,
    /// What needs the space, and how exact the number is.
    pub what: String,
    /// Whether a lack of this space is only a warning, because `bytes` is an estimate or a run first
    /// clears the folder.
    #[serde(rename = "rough")]
    pub only_warns: bool,
    pub free: Option<u64>,
}

/// `runs` is the number of runs whose recordings are written to `plan.folder`.
pub fn space_needs(plan: &Plan, runs: usize, facts: &HostFacts) -> Vec<SpaceNeed> {
    let need = |folder: &Path, bytes: u64, what: String, only_warns: bool| SpaceNeed {
        folder: folder.to_owned(),
        bytes,
        what,
        only_warns,
        free: facts.folder(folder).free,
    };
    let interval_seconds = plan.recorder.interval.as_secs_f64();
    let bytes_per_hour = RECORDING_BYTES_PER_HOUR as f64 / interval_seconds;
    let run_time = plan.max_run_time().unwrap_or(plan.stop.duration);
    let bytes_per_run = (bytes_per_hour * run_time.as_secs_f64() / 3600.0) as u64;
    let mut needs = vec![need(
        &plan.folder,
        bytes_per_run.max(1 << 20).saturating_mul(runs as u64),
        format!(
            "recordings of {} of up to {}; logs come on top",
            counted(runs as f64, "run"),
            duration(run_time)
        ),
        false,
    )];
    let is_validator = plan.workload.kind == WorkloadKind::Validator;
    let (bytes, what) = match (
        &plan.initial_state,
        &facts.snapshot_bytes,
        plan.workload.cluster,
    ) {
        (InitialState::Restore { .. }, Some(Ok(bytes)), _) => {
            (*bytes, "the snapshot of begin.from, before each run")
        }
        (InitialState::Download, _, Some(Cluster::MainnetBeta)) if is_validator => (
            DOWNLOADED_SNAPSHOT_BYTES,
            "a snapshot of mainnet-beta, roughly; accounts and ledger come on top",
        ),
        _ => return needs,
    };
    for lane in &plan.lanes {
        let folder = lane.snapshots.as_ref().unwrap_or(&lane.ledger);
        needs.push(need(folder, bytes, what.to_owned(), true));
    }
    needs
}

pub fn check_space(plan: &Plan, runs: usize, facts: &HostFacts, findings: &mut Findings) {
    if let Some(Err(why)) = &facts.snapshot_bytes {
        findings.refuse(
            format!("begin.from cannot be copied: {why}"),
            "name a folder with a snapshot that can be read",
        );
    }
    let mut by_device: BTreeMap<u64, Vec<SpaceNeed>> = BTreeMap::new();
    for need in space_needs(plan, runs, facts) {
        if let Some(device) = facts.folder(&need.folder).device {
            by_device.entry(device).or_default().push(need);
        }
    }
    for needs in by_device.values() {
        let Some(free) = needs.iter().find_map(|need| need.free) else {
            continue;
        };
        let (mut required, mut all) = (0_u64, 0_u64);
        for need in needs {
            all = all.saturating_add(need.bytes);
            if !need.only_warns {
                required = required.saturating_add(need.bytes);
            }
        }
        let folders = needs.iter().map(|need| need.folder.display()).join(", ");
        let [required_text, all_text, free_text] = [required, all, free].map(bytes);
        if required > free {
            findings.refuse(
                format!("{folders}: {required_text} are needed, and {free_text} are free"),
                "free space, or use other disks",
            );
        } else if all > free {
            findings.warn(
                format!("{folders}: roughly {all_text} are needed, and {free_text} are free"),
                "free space, or use other disks; what a run clears first is not yet counted as free",
            );
        }
    }
}
