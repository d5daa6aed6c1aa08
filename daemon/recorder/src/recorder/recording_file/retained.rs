use super::super::{Entry, Followed};
use std::sync::Arc;

const MOST: usize = 256;

/// Events, changes of process and manifests during a write failure, in order and bounded. Excludes
/// ticks and points.
#[derive(Debug, Default)]
pub(super) struct RetainedEntries {
    entries: Vec<Entry>,
    /// A change of process did not fit: later entries would belong to the wrong process.
    lost_track: bool,
}

impl RetainedEntries {
    /// Returns how many entries are lost.
    pub(super) fn keep(&mut self, entries: &[Entry]) -> u64 {
        entries.iter().filter(|entry| !self.add(entry)).count() as u64
    }

    fn add(&mut self, entry: &Entry) -> bool {
        let free =
            !self.lost_track && self.entries.iter().filter(|entry| !is_known(entry)).count() < MOST;
        match entry {
            Entry::Tick(_) | Entry::Point(_) => return false,
            Entry::Event(_) if !free => return false,
            // It needs no row of its own: `take` appends the last process.
            Entry::Process(_) if !free => self.lost_track = true,
            Entry::Manifest(more) => self.know(entry, more.target.process),
            Entry::Event(_) | Entry::Process(_) => self.entries.push(entry.clone()),
        }
        true
    }

    /// Replaces the earlier manifest of the same process.
    fn know(&mut self, entry: &Entry, process: faultline_kernel::ProcessId) {
        if self.lost_track {
            return;
        }
        let same = |other: &Entry| matches!(other, Entry::Manifest(known) if known.target.process == process);
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

    /// For a new file that does not know `process` yet.
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

    /// Takes all entries, plus the current process if its change did not fit.
    pub(super) fn take(&mut self, process: Option<&Arc<Followed>>) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.entries);
        if std::mem::take(&mut self.lost_track) {
            entries.push(Entry::Process(process.cloned()));
        }
        entries
    }
}

fn is_known(entry: &Entry) -> bool {
    matches!(entry, Entry::Manifest(_))
}
