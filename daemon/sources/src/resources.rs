//! File systems, disks, network and processors. A task on its own thread samples every 15 s; the
//! tick exports the latest result with its age. A file system that hangs blocks only its own call.

mod disks;
mod filesystems;
mod folders;
mod growth;
mod network;
mod poller;

use super::Registry;
use crate::asking::life;
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_core::hub::Latest;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Reading, Source, Stamp};
pub use filesystems::{FileSystemUsage, Lacking, inspect};
pub use folders::Folder;
use poller::Poller;
use std::time::Duration;

/// Maximum interval at which the tick checks for new results.
const LONGEST: Duration = Duration::from_secs(5);

/// Maximum concurrent calls: one per folder, which may all hang, and some of an earlier process.
pub const MOST_CALLS: usize = folders::MOST_FOLDERS + 4;

#[derive(Debug)]
struct PollResult {
    at: Stamp,
    /// Of the machine: kept after the process ends, because a full disk may have ended it.
    readings: Vec<Reading>,
    /// Of this process only.
    of_process: Option<(ProcessId, Vec<Reading>)>,
    problems: Vec<Problem>,
    up: bool,
}

struct Resources {
    found: Latest<PollResult>,
    interval: Duration,
    last_reported: Option<Stamp>,
}

impl Poll for Resources {
    fn source(&self) -> Source {
        Source::Resources
    }

    fn every(&self) -> Option<Duration> {
        Some(self.interval.min(LONGEST))
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let known = self
            .found
            .get()
            .filter(|known| context.now.since(known.at) <= life(self.interval));
        let Some(known) = known else { return output };
        output.readings.clone_from(&known.readings);
        let process = context.target.map(|target| target.process);
        if let Some((_, readings)) = known
            .of_process
            .as_ref()
            .filter(|(of, _)| Some(*of) == process)
        {
            output.readings.extend_from_slice(readings);
        }
        output.received(&mut self.last_reported, known.at, known.up, &known.problems);
        output
    }
}

pub(super) fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    let config = &context.config.host;
    if !config.enabled {
        return;
    }
    let found = Latest::default();
    registry.sampler(Resources {
        found: found.clone(),
        interval: config.interval,
        last_reported: None,
    });
    let poller = Poller::new(context, found);
    registry.member(|stage| stage.task_thread("resources", MOST_CALLS, |stop| poller.run(stop)));
}

#[cfg(test)]
mod tests;
