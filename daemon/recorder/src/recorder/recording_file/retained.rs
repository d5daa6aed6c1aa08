use super::super::{FollowedProcess, RecordingEntry};
use std::{mem, sync::Arc};

/// Maximum events and changes of process. Manifests are not counted.
const MAX_ENTRIES: usize = 256;

/// Entries kept while the recording cannot be written, in order: events, changes of process and
/// manifests. Ticks and points are dropped.
#[derive(Default)]
pub struct RetainedEntries {
    pub entries: Vec<RecordingEntry>,
    /// A change of process did not fit. Later events and manifests are dropped, because they would
    /// belong to the wrong process.
    has_dropped_change: bool,
}

impl RetainedEntries {
    /// Returns how many ticks, points and events are lost.
    pub fn keep(&mut self, entries: &[RecordingEntry]) -> u64 {
        entries.iter().filter(|entry| !self.add(entry)).count() as u64
    }

    fn add(&mut self, entry: &RecordingEntry) -> bool {
        let is_accepting = !self.has_dropped_change
            && self
                .entries
                .iter()
                .filter(|entry| !matches!(entry, RecordingEntry::Manifest(_)))
                .count()
                < MAX_ENTRIES;
        match entry {
            RecordingEntry::Tick(_) | RecordingEntry::Point(_) => return false,
            RecordingEntry::Event(_) if !is_accepting => return false,
            // Not stored: `take` appends the current process.
            RecordingEntry::ProcessChange(_) if !is_accepting => self.has_dropped_change = true,
            RecordingEntry::Manifest(manifest) => self.add_manifest(entry, manifest.target.process),
            RecordingEntry::Event(_) | RecordingEntry::ProcessChange(_) => {
                self.entries.push(entry.clone())
            }
        }
        true
    }

    /// Replaces an older manifest of `process` since the last change of process, or appends it.
    fn add_manifest(&mut self, entry: &RecordingEntry, process: faultline_kernel::ProcessId) {
        if self.has_dropped_change {
            return;
        }
        let is_change = |other: &RecordingEntry| matches!(other, RecordingEntry::ProcessChange(_));
        let last_change = self.entries.iter().rposition(is_change).unwrap_or(0);
        match self.entries.iter_mut().skip(last_change).find(|other| {
            matches!(
                other,
                RecordingEntry::Manifest(known) if known.target.process == process
            )
        }) {
            Some(before) => *before = entry.clone(),
            None => self.entries.push(entry.clone()),
        }
    }

    /// Inserts `process` before the entries, for a new file. Does nothing if a change of process was
    /// retained or dropped.
    pub fn prepend_process(&mut self, process: Option<&Arc<FollowedProcess>>) {
        if !self.has_dropped_change
            && !self
                .entries
                .iter()
                .any(|entry| matches!(entry, RecordingEntry::ProcessChange(_)))
        {
            self.entries
                .insert(0, RecordingEntry::ProcessChange(process.cloned()));
        }
    }

    /// Takes all entries, plus the current process if its change did not fit.
    pub fn take(&mut self, process: Option<&Arc<FollowedProcess>>) -> Vec<RecordingEntry> {
        let mut entries = mem::take(&mut self.entries);
        if mem::take(&mut self.has_dropped_change) {
            entries.push(RecordingEntry::ProcessChange(process.cloned()));
        }
        entries
    }
}
