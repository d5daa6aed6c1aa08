//! File systems, disks, network and processors. A task on its own thread samples every 15 s; the
//! tick exports the latest result with its age. A file system that hangs blocks only its own call.

mod disks;
mod filesystems;
mod growth;
mod network;
mod poller;

use super::Registry;
use crate::{polling::PolledSource, tick::BuildContext};
use faultline_core::hub::Latest;
use faultline_metrics::Source;
pub use filesystems::{FileSystemUsage, Folder, UnavailableFolder, inspect};
use poller::Poller;

/// Maximum concurrent calls: one per folder, which may all hang, and some of an earlier process.
pub const MAX_CALLS: usize = filesystems::MAX_FOLDERS + 4;

pub(super) fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    let config = &context.config.host;
    if !config.enabled {
        return;
    }
    let latest = Latest::default();
    registry.sampler(PolledSource::new(
        Source::Resources,
        config.interval,
        latest.clone(),
    ));
    let poller = Poller::new(context, latest);
    registry.on_start(|stage| stage.task_thread("resources", MAX_CALLS, |stop| poller.run(stop)));
}

#[cfg(test)]
mod tests;
