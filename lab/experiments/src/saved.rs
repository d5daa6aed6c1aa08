//! Finds and reads an experiment in its folder.

use crate::{
    blocks,
    folder::{self, ExperimentFolder},
    journal::{self, JournalState},
    plan::{self, Plan},
    plan_command,
};
use anyhow::{Context, Result, bail};
use faultline_common::{
    args::UsageError,
    files::{AtPath, open_regular},
};
use itertools::Itertools;
use std::{io, path::Path};
use toml::{Table, Value};

/// `path` is the experiment's folder, or its plan.
pub fn find_folder(path: &Path) -> Result<ExperimentFolder> {
    if path.metadata().at(path)?.is_dir() {
        return Ok(ExperimentFolder::new(&path.canonicalize().at(path)?));
    }
    Ok(ExperimentFolder::new(&plan_command::read(path)?.folder))
}

/// Reads the plan and the journal of an experiment, and merges the journals of its host blocks. A
/// host block is turns that one host executes with a separate journal. Fails if nothing has begun,
/// or if the copy of the plan in the folder has changed since.
pub fn read_with_host_blocks(folder: &ExperimentFolder) -> Result<(Plan, JournalState)> {
    let (plan, mut journal_state) = read_without_host_blocks(folder)?;
    blocks::merge_host_blocks(folder, &mut journal_state)?;
    for problem in &journal_state.unreadable_journals {
        blocks::warn_unreadable(problem);
    }
    Ok((plan, journal_state))
}

/// As [`read_with_host_blocks`], but does not read the journals of the host blocks.
pub fn read_without_host_blocks(folder: &ExperimentFolder) -> Result<(Plan, JournalState)> {
    let journal_state = JournalState::of(&journal::read(&folder.journal())?);
    let planned = journal_state.planned.as_ref().with_context(|| {
        format!("{folder}: nothing was begun here: use `faultline experiment run`")
    })?;
    let plan = read_copy(folder, &planned.file, Some(&planned.plan_digest))?;
    Ok((plan, journal_state))
}

/// As [`read_with_host_blocks`]. But if the folder has no host blocks, a changed plan and an empty
/// journal are not errors.
pub fn read_for_report(folder: &ExperimentFolder) -> Result<(Plan, JournalState)> {
    if folder.has_host_blocks() {
        return read_with_host_blocks(folder);
    }
    let journal_state = JournalState::of(&journal::read(&folder.journal())?);
    let planned = journal_state.planned.as_ref();
    let file = planned.map_or_else(|| folder.plan(), |planned| planned.file.clone());
    let plan = read_copy(folder, &file, None)?;
    Ok((plan, journal_state))
}

/// Reads the copy of the plan. `file` is the path of the plan when the experiment began: relative
/// paths in the plan and messages refer to it.
fn read_copy(
    folder: &ExperimentFolder,
    file: &Path,
    expected_digest: Option<&str>,
) -> Result<Plan> {
    let copy = folder.plan();
    let text = open_regular(&copy).and_then(io::read_to_string).at(&copy)?;
    if expected_digest.is_some_and(|expected| folder::digest(&text) != expected) {
        bail!(
            "{}: this is not the plan that the experiment was begun with: put the old one back",
            copy.display()
        );
    }
    let plan = plan::parse(&text, file).map_err(|errors| UsageError(errors.iter().join("\n")))?;
    // The folder may have been moved.
    Ok(Plan {
        folder: folder.path().to_owned(),
        ..plan
    })
}

/// Fails if the text of the plan has changed. The error names the changed keys.
pub fn refuse_changed(old: &Plan, new: &Plan) -> Result<()> {
    if old.text == new.text {
        return Ok(());
    }
    let keys = differences(&old.text, &new.text);
    let what = if keys.is_empty() {
        "comments or layout".to_owned()
    } else {
        keys.join(", ")
    };
    bail!(
        "{}: the plan has changed since the experiment was begun ({what}): put the old one back ({} is a copy), or run the new plan \
         with another `folder`",
        new.file.display(),
        old.folder.join(folder::PLAN).display(),
    )
}

fn differences(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after].map(|text| text.parse().unwrap_or_default());
    changed_keys("", &before, &after)
}

fn changed_keys(prefix: &str, before: &Table, after: &Table) -> Vec<String> {
    let mut changed = Vec::new();
    for key in before.keys().chain(after.keys()).sorted().dedup() {
        let name = format!("{prefix}{key}");
        match (before.get(key), after.get(key)) {
            (a, b) if a == b => {}
            (Some(Value::Table(a)), Some(Value::Table(b))) => {
                changed.extend(changed_keys(&format!("{name}."), a, b));
            }
            _ => changed.push(name),
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    #[test]
    fn a_report_needs_neither_the_first_line_nor_the_plan_of_the_beginning() {
        let root = tempfile::tempdir().unwrap();
        let folder = ExperimentFolder::new(root.path());
        let text = "name = \"b\"\nfolder = \"/f\"\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n\
                    [begin]\nhow = \"as-is\"\n[[arm]]\nname = \"x\"\n";
        std::fs::write(folder.plan(), text).unwrap();
        Journal::create(&folder.journal()).unwrap();
        assert!(read_with_host_blocks(&folder).is_err());
        let (plan, _) = read_for_report(&folder).unwrap();
        assert_eq!(
            (plan.name.as_str(), plan.folder.as_path()),
            ("b", root.path())
        );
    }

    #[test]
    fn a_device_in_place_of_the_journal_or_the_plan_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let folder = ExperimentFolder::new(root.path());
        let link = |path: &Path| std::os::unix::fs::symlink("/dev/null", path).unwrap();
        let error = |folder| format!("{:#}", read_for_report(folder).err().unwrap());
        link(&folder.journal());
        let refused = |path: &Path| format!("{}: is not a regular file", path.display());
        let text = error(&folder);
        assert!(text.starts_with(&refused(&folder.journal())), "{text}");
        std::fs::remove_file(folder.journal()).unwrap();
        Journal::create(&folder.journal()).unwrap();
        link(&folder.plan());
        let text = error(&folder);
        assert!(text.starts_with(&refused(&folder.plan())), "{text}");
    }

    #[test]
    fn changed_plan_keys_are_reported_with_their_tables() {
        let before = "name = 'a'\n[stop]\nduration = '1h'\ngrace = '1m'\n[[arm]]\nname = 'x'\n";
        let after = "name = 'a' # as before\nseed = 1\n[stop]\nduration = '2h'\ngrace = '1m'\n[[arm]]\nname = 'y'\n";
        assert_eq!(differences(before, after), ["arm", "seed", "stop.duration"]);
        assert_eq!(differences(before, before), [""; 0]);
    }
}
