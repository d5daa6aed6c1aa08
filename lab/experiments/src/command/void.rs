use crate::folder::Folder;
use crate::journal::{Counted, Entry, Journal, Line};
use crate::lock::Lock;
use faultline_common::clock;
use std::path::Path;

/// [`super::advance`] repeats their turns.
pub fn void(folder: &Path, runs: &[&Counted<'_>], why: &str) -> anyhow::Result<()> {
    let folder = Folder::new(folder);
    let _lock = Lock::take(&folder.lock())?;
    let (mut journal, _) = Journal::open(&folder.journal())?;
    for one in runs {
        journal.append(&Line {
            unix_ns: clock::unix_ns(),
            entry: Entry::Void {
                run: one.scheduled.run,
                attempt: one.attempt,
                why: why.to_owned(),
            },
        })?;
    }
    Ok(())
}
