//! Copies a recording, also while it is written.

use crate::error::{At, Error};
use crate::file::{self, Part};
use crate::reader::Recording;
use crate::writer::end;
use rusqlite::backup::{Backup, StepResult};
use std::path::Path;

/// Pages at a time (256 KiB): the disk is somebody else's in between.
const STEP_PAGES: i32 = 64;

/// A finished copy of `from` as it is now, in a new file, by SQLite's backup API in small steps. The copy is of one moment,
/// that of the call: its last session ends with its last tick.
///
/// `progress` is told pages copied and pages in all after each step, and may wait there. Until the copy is complete the
/// log of a recording that is being written cannot be cut, and grows by about 50 KB a second.
pub fn backup(from: &Path, to: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    backup_with(from, to, &[], progress)
}

/// The same with further entries of `meta`, such as why it was saved.
pub fn backup_with(
    from: &Path,
    to: &Path,
    meta: &[(&str, &str)],
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let source = Recording::open(from)?;
    let part = Part::new(to)?;
    std::fs::File::create_new(part.path()).at(part.path())?;
    let mut copy = file::open_to_write(part.path(), &file::RECORDING)?;
    {
        // The source holds one read transaction, so that what is written meanwhile does not restart the copy.
        let steps = Backup::new(source.connection(), &mut copy).at(from)?;
        loop {
            let result = steps.step(STEP_PAGES).at(to)?;
            let state = steps.progress();
            let count = |n: i32| u64::try_from(n).unwrap_or(0);
            progress(
                count(state.pagecount - state.remaining),
                count(state.pagecount),
            );
            match result {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked => {
                    return Err(Error::InUse {
                        path: to.to_owned(),
                    });
                }
                _ => {}
            }
        }
    }
    drop(source);
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .at(to)?;
    end(&copy, meta).at(to)?;
    copy.close()
        .map_err(|(_, error)| Error::sqlite(to, error))?;
    part.publish()
}
