use crate::{
    error::{AttachPath, Error},
    file::{self, TempFile},
    reader::Recording,
    writer::end_last_session,
};
use rusqlite::backup::{Backup, StepResult};
use std::path::Path;

/// 256 KiB per step, so that others can use the disk in between.
const STEP_PAGES: i32 = 64;

/// Copies `from` into a new file with SQLite's backup API in small steps. The copy is of the moment
/// of the call: its last session ends with its last tick.
///
/// `progress` gets copied and total pages after each step, and may wait. Meanwhile the log of a
/// live recording cannot be truncated and grows by about 50 KB a second. `meta` are further entries
/// of the table `meta`, such as the reason for the copy.
pub fn backup(
    from: &Path,
    to: &Path,
    meta: &[(&str, &str)],
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let source = Recording::open(from)?;
    let part = TempFile::new(to)?;
    std::fs::File::create_new(part.path()).at(part.path())?;
    let mut copy = file::open_to_write(part.path(), &file::RECORDING)?;
    {
        // The source has one read transaction, so that writes do not restart the copy.
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
    end_last_session(&copy, meta).at(to)?;
    copy.close()
        .map_err(|(_, error)| Error::sqlite(to, error))?;
    part.publish()
}
