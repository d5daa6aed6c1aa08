//! What has to be told later, when it could not be written at its time.

use super::super::{Entry, Followed};
use std::sync::Arc;

/// Events and changes of process that are kept while nothing can be written.
const MOST: usize = 256;

/// Events, changes of process and what became known of it, in order and bounded. Ticks and points are not kept.
#[derive(Debug, Default)]
pub(super) struct KeptEntries {
    entries: Vec<Entry>,
    /// A change of process found no room: what comes after it would belong to the wrong one.
    lost_track: bool,
}

impl KeptEntries {
    /// Keeps what is to be kept of `entries`; how many of them are lost.
    pub(super) fn keep(&mut self, entries: &[Entry]) -> u64 {
        entries.iter().filter(|entry| !self.add(entry)).count() as u64
    }

    /// False if it is lost.
    fn add(&mut self, entry: &Entry) -> bool {
        let room =
            !self.lost_track && self.entries.iter().filter(|entry| !is_known(entry)).count() < MOST;
        match entry {
            Entry::Tick(_) | Entry::Point(_) => return false,
            Entry::Event(_) if !room => return false,
            // It has no row of its own that could be lost: the last of them is known without this.
            Entry::Process(_) if !room => self.lost_track = true,
            Entry::Known(more) => self.know(entry, more.target.process),
            Entry::Event(_) | Entry::Process(_) => self.entries.push(entry.clone()),
        }
        true
    }

    /// Replaces what was known of the same process.
    fn know(&mut self, entry: &Entry, process: faultline_kernel::ProcessId) {
        if self.lost_track {
            return;
        }
        let same =
            |other: &Entry| matches!(other, Entry::Known(known) if known.target.process == process);
        let changed = |other: &Entry| matches!(other, Entry::Process(_));
        let since = self.entries.iter().rposition(changed).unwrap_or(0);
        match self
            .entries
            .iter_mut()
            .skip(since)
            .find(|other| same(other))
        {
            Some(before) => *before = entry.clone(),
            None => self.entries.push(entry.clone()),
        }
    }

    /// What is kept belongs to a file that does not know `process` yet.
    pub(super) fn begin_with(&mut self, process: Option<&Arc<Followed>>) {
        if !self.lost_track
            && !self
                .entries
                .iter()
                .any(|entry| matches!(entry, Entry::Process(_)))
        {
            self.entries.insert(0, Entry::Process(process.cloned()));
        }
    }

    /// Everything that is kept, and who is followed after it, if that did not fit in; nothing is kept any more.
    pub(super) fn take(&mut self, process: Option<&Arc<Followed>>) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.entries);
        if std::mem::take(&mut self.lost_track) {
            entries.push(Entry::Process(process.cloned()));
        }
        entries
    }
}

fn is_known(entry: &Entry) -> bool {
    matches!(entry, Entry::Known(_))
}
