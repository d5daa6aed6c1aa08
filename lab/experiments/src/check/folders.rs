//! Folders must be distinct, clearable, and no homes.

use super::Findings;
use super::facts::HostFacts;
use crate::plan::{Begin, Plan};
use std::path::{Path, PathBuf};

pub(super) fn work_folders(plan: &Plan) -> Vec<(String, &Path)> {
    let lanes = plan.lanes.iter();
    lanes.flat_map(|lane| plan.folders_of(lane)).collect()
}

pub(super) fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
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
        if let Some(file) = facts
            .folders
            .get(path)
            .and_then(|folder| folder.blocked.as_ref())
        {
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
    let device = |path: &Path| facts.folders.get(path)?.device;
    let shared = |path: &Path| device(path).is_some() && device(path) == device(&plan.folder);
    if let Some((what, path)) = work_folders(plan)
        .into_iter()
        .find(|(_, path)| shared(path))
    {
        findings.warn(
            format!("folder {} is on the same device as {what} {}", plan.folder.display(), path.display()),
            "put the experiment's folder on another disk, so that recordings take nothing from the runs",
        );
    }
}

/// Symbolic links can make two paths equal.
fn check_distinct(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let mut all = work_folders(plan);
    all.push(("folder".to_owned(), &plan.folder));
    if let Begin::Restore { from } = &plan.begin {
        all.push(("begin.from".to_owned(), from));
    }
    let real = |path: &Path| -> Option<PathBuf> { facts.folders.get(path)?.real.clone() };
    for (index, (what, path)) in all.iter().enumerate() {
        let Some(here) = real(path) else { continue };
        for (other, there) in all.iter().take(index) {
            if real(there).is_some_and(|there| here.starts_with(&there) || there.starts_with(&here))
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
