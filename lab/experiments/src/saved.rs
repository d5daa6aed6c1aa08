//! Finds and reads an experiment in its folder.

use crate::blocks;
use crate::folder::{self, Folder};
use crate::journal::{self, JournalState};
use crate::plan::{self, Plan};
use crate::plan_command;
use anyhow::{Context, bail};
use faultline_common::args::UsageError;
use faultline_common::files::AtPath;
use itertools::Itertools;
use std::path::Path;

/// `path` is the experiment's folder, or its plan.
pub fn find_folder(path: &Path) -> anyhow::Result<Folder> {
    if std::fs::metadata(path).at(path)?.is_dir() {
        return Ok(Folder::new(&path.canonicalize().at(path)?));
    }
    Ok(Folder::new(&plan_command::read(path)?.folder))
}

/// The plan and the journal of an experiment that was started, with its blocks. Fails if the copy of
/// the plan in the folder was changed since.
pub fn read_started(folder: &Folder) -> anyhow::Result<(Plan, JournalState)> {
    let (plan, mut journal_state) = read_planned(folder)?;
    blocks::join(folder, &mut journal_state)?;
    Ok((plan, journal_state))
}

/// As [`read_started`], without blocks.
pub(crate) fn read_planned(folder: &Folder) -> anyhow::Result<(Plan, JournalState)> {
    let journal_state = JournalState::of(&journal::read(&folder.journal())?);
    let planned = journal_state.planned.as_ref().with_context(|| {
        format!(
            "{}: nothing was begun here: use `faultline experiment run`",
            folder.path().display()
        )
    })?;
    let copy = folder.plan();
    let text = std::fs::read_to_string(&copy).at(&copy)?;
    if folder::digest(&text) != planned.plan {
        bail!(
            "{}: this is not the plan that the experiment was begun with any more: put it back",
            copy.display()
        );
    }
    let plan = plan::parse(&text, &planned.file)
        .map_err(|mistakes| UsageError(mistakes.iter().join("\n")))?;
    // The folder may have been moved.
    Ok((
        Plan {
            folder: folder.path().to_owned(),
            ..plan
        },
        journal_state,
    ))
}
