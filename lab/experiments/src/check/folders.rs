//! Folders must be distinct, clearable, and no homes.

use super::{Findings, HostFacts};
use crate::plan::{Begin, Plan};
use std::path::Path;

pub fn work_folders(plan: &Plan) -> Vec<(String, &Path)> {
    plan.lanes
        .iter()
        .flat_map(|lane| plan.folders_of(lane))
        .collect()
}

/// Folders that are written to or provide the snapshot.
pub fn named_folders(plan: &Plan) -> Vec<(String, &Path)> {
    let mut all = work_folders(plan);
    all.push(("folder".to_owned(), &plan.folder));
    all.extend(
        plan.restored_from()
            .map(|from| ("begin.from".to_owned(), from)),
    );
    all
}

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let cleared = plan.begin != Begin::AsIs;
    for (what, path) in work_folders(plan) {
        let Some(folder) = facts.folders.get(path) else {
            continue;
        };
        let shown = path.display();
        if folder.blocked.is_some() {
            continue;
        }
        if !cleared && !folder.is_there {
            findings.refuse(
                format!("{what} {shown} is not there, and begin.how is \"as-is\""),
                "make it, or let runs begin with \"download\" or \"restore\"",
            );
        }
        if !cleared {
            continue;
        }
        if let Some(why) = &folder.not_marked {
            findings.refuse(
                format!("{what} cannot be cleared before a run: {why}"),
                format!("faultline experiment init {shown}"),
            );
        }
        let real = folder.real.as_deref().unwrap_or(path);
        if let Some(home) = facts.homes.iter().find(|home| home.starts_with(real)) {
            findings.refuse(
                format!(
                    "{what} {shown} is the home folder {}, or has it inside",
                    home.display()
                ),
                "give it a folder of its own",
            );
        }
    }
    blocked(plan, facts, findings);
    check_distinct(plan, facts, findings);
    check_shared_device(plan, facts, findings);
    if let Some(Err(why)) = &facts.snapshot_source {
        findings.refuse(
            format!("begin.from cannot be copied: {why}"),
            "name a folder with a kept snapshot that can be read",
        );
    }
}

fn blocked(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let mut all = work_folders(plan);
    all.push(("folder".to_owned(), &plan.folder));
    for (what, path) in all {
        if let Some(file) = facts.folder(path).blocked {
            let (shown, file) = (path.display(), file.display());
            findings.refuse(
                format!("{what} {shown} is a folder that cannot be made: {file} is there and is no folder"),
                "name another folder, or move that away",
            );
        }
    }
}

/// A recording competes for the validator's disk.
fn check_shared_device(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let Some(device) = facts.folder(&plan.folder).device else {
        return;
    };
    if let Some((what, path)) = work_folders(plan)
        .into_iter()
        .find(|(_, path)| facts.folder(path).device == Some(device))
    {
        findings.warn(
            format!("folder {} is on the same device as {what} {}", plan.folder.display(), path.display()),
            "put the experiment's folder on another disk, so that recordings take nothing from the runs",
        );
    }
}

/// Symbolic links can make two paths equal.
fn check_distinct(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let all = named_folders(plan);
    for (index, (what, path)) in all.iter().enumerate() {
        let Some(here) = facts.folder(path).real else {
            continue;
        };
        for (other, there) in all.iter().take(index) {
            if facts
                .folder(there)
                .real
                .is_some_and(|there| here.starts_with(&there) || there.starts_with(&here))
            {
                findings.refuse(
                    format!(
                        "{what} {} and {other} {} are in truth the same folder, or one inside the other",
                        path.display(),
                        there.display()
                    ),
                    "keep them apart",
                );
            }
        }
    }
}
