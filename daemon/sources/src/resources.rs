//! File systems, disks, network and processors. A task on its own thread samples every 15 s; the
//! tick exports the latest result with its age. A file system that hangs blocks only its own call.

mod disks;
mod filesystems;
mod folders;
mod growth;
mod network;
mod poller;

use super::Registry;
use crate::polling::response_ttl;
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_core::hub::Latest;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Reading, Source, Stamp};
pub use filesystems::{FileSystemUsage, UnavailableFolder, inspect};
pub use folders::Folder;
use poller::Poller;
use std::time::Duration;

/// The tick checks for new results at least this often.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum concurrent calls: one per folder, which may all hang, and some of an earlier process.
pub const MAX_CALLS: usize = folders::MAX_FOLDERS + 4;

#[derive(Debug)]
struct PollResult {
    at: Stamp,
    /// Of the machine. Exported after the process's end too, because a full disk may have caused
    /// it.
    readings: Vec<Reading>,
    /// Of this process only.
    of_process: Option<(ProcessId, Vec<Reading>)>,
    problems: Vec<Problem>,
    up: bool,
}

struct Resources {
    latest: Latest<PollResult>,
    interval: Duration,
    last_reported: Option<Stamp>,
}

impl Poll for Resources {
    fn source(&self) -> Source {
        Source::Resources
    }

    fn every(&self) -> Option<Duration> {
        Some(self.interval.min(MAX_INTERVAL))
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let result = self
            .latest
            .get()
            .filter(|result| context.now.since(result.at) <= response_ttl(self.interval));
        let Some(result) = result else { return output };
        output.readings.clone_from(&result.readings);
        let process = context.target.map(|target| target.process);
        if let Some((_, readings)) = result
            .of_process
            .as_ref()
            .filter(|(of, _)| Some(*of) == process)
        {
            output.readings.extend_from_slice(readings);
        }
        output.received(
            &mut self.last_reported,
            result.at,
            result.up,
            &result.problems,
        );
        output
    }
}

pub(super) fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    let config = &context.config.host;
    if !config.enabled {
        return;
    }
    let latest = Latest::default();
    registry.sampler(Resources {
        latest: latest.clone(),
        interval: config.interval,
        last_reported: None,
    });
    let poller = Poller::new(context, latest);
    registry.member(|stage| stage.task_thread("resources", MAX_CALLS, |stop| poller.run(stop)));
}

#[cfg(test)]
mod tests;
