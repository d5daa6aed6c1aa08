use crate::folder::Folder;
use crate::journal::{Entry, Journal, Line};
use crate::lock::Lock;
use faultline_common::clock;
use std::path::Path;
use std::time::SystemTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoidRun {
    /// [`crate::schedule::Scheduled::run`].
    pub run: u32,
    pub attempt: u32,
}

/// [`super::advance`] repeats their turns.
pub fn void(folder: &Path, runs: &[VoidRun], why: &str) -> anyhow::Result<()> {
    let folder = Folder::new(folder);
    let _lock = Lock::take(&folder.lock())?;
    let (mut journal, _) = Journal::open(&folder.journal())?;
    for one in runs {
        let now = clock::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        journal.append(&Line {
            unix_ns: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
            entry: Entry::Void {
                run: one.run,
                attempt: one.attempt,
                why: why.to_owned(),
            },
        })?;
    }
    Ok(())
}
