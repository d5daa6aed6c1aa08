//! What the node may run out of: file systems, disks, the network, processors.
//!
//! A task on a thread of its own looks every 15 s; the tick reads what it has found, with its age. A file system that hangs
//! keeps only the call that waits for it.

mod disks;
mod filesystems;
mod folders;
mod growth;
mod network;
mod poller;

pub(crate) use filesystems::{Held, Lacking, look};
#[cfg(test)]
pub(crate) use folders::Folder;
pub use poller::Poller;

use crate::hub::Latest;
use crate::sources::asking::life;
use crate::tick::{Finding, Look, Poll};
use faultline_catalog::{Problem, Reading, Source, Stamp};
use faultline_kernel::ProcessId;
use std::time::Duration;

/// The tick asks for news at least so often.
const LONGEST: Duration = Duration::from_secs(5);

/// Calls that may wait at the same time: one for each folder, of which all may hang, and some of those of a process before.
pub(crate) const MOST_CALLS: usize = folders::MOST_FOLDERS + 4;

/// What one poll has found.
#[derive(Debug)]
struct Known {
    at: Stamp,
    /// Of the machine: stays when the process ends, as a full disk may have ended it.
    readings: Vec<Reading>,
    /// Of the process, and no other one.
    of_process: Option<(ProcessId, Vec<Reading>)>,
    problems: Vec<Problem>,
    up: bool,
}

/// What the task has found, for the tick. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Handle(Latest<Known>);

/// File systems, disks, the network, processors.
pub struct Resources {
    /// What the task has found.
    pub found: Handle,
    /// From poll to poll of the task.
    pub interval: Duration,
    /// When that was found which was told last.
    pub told: Option<Stamp>,
}

impl Poll for Resources {
    fn source(&self) -> Source {
        Source::Resources
    }

    fn every(&self) -> Option<Duration> {
        Some(self.interval.min(LONGEST))
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::default();
        let known = self
            .found
            .0
            .get()
            .filter(|known| look.now.since(known.at) <= life(self.interval));
        let Some(known) = known else { return finding };
        finding.readings.clone_from(&known.readings);
        let process = look.target.map(|target| target.process);
        if let Some((_, readings)) = known
            .of_process
            .as_ref()
            .filter(|(of, _)| Some(*of) == process)
        {
            finding.readings.extend_from_slice(readings);
        }
        finding.repeated = self.told.replace(known.at) == Some(known.at);
        finding.heard = Some(known.at);
        finding.up = known.up;
        finding.problems.clone_from(&known.problems);
        finding
    }
}

#[cfg(test)]
mod tests;
