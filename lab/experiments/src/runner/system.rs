//! The runner's environment, kept small for fakes in tests.

use crate::{
    host::HostFinding,
    judge::CacheTotals,
    plan::{Lane, Plan},
    search::Reading,
    targets::Target,
    watch::Now,
};
use anyhow::Result;
use faultline_recording::{Progress, TickRow};
use faultline_runner::{
    isolation::{End, GroupName, Launcher},
    record::recorder::Addresses,
};
use std::{path::Path, time::Duration};

pub trait System {
    fn now(&self) -> Now;

    fn boot(&self) -> String;

    fn host_name(&self) -> String;

    /// Returns earlier on an event.
    fn wait(&mut self, at_most: Duration);

    fn stop_request(&self) -> Option<StopRequest>;

    fn print(&mut self, words: &str);

    fn launcher(&self) -> &dyn Launcher;

    fn host(&mut self, plan: &Plan, scope: &str) -> Result<Vec<HostFinding>>;

    fn clear(&mut self, plan: &Plan, lane: &Lane) -> Result<Vec<String>>;

    fn restore(&mut self, plan: &Plan, lane: &Lane, from: &Path) -> Result<Vec<String>>;

    /// Drops the page cache and checks what is left.
    fn cool(&mut self, plan: &Plan, lane: &Lane) -> Result<CacheDropped>;

    /// On return the recorder listens and follows the `pid`, if given.
    fn record(&mut self, recorder_request: &RecorderRequest<'_>) -> Result<Box<dyn Recorder>>;

    /// Observes the cgroup of this process.
    fn observe(&mut self, pid: u32, recording: &Path) -> Box<dyn Observer>;

    fn announce(&mut self, file: &Path, targets: &[Target]) -> Result<()>;

    /// `None` if the recording cannot be read now.
    fn progress(&mut self, recording: &Path) -> Option<Progress>;

    fn cache(&mut self, recording: &Path) -> Result<CacheTotals>;

    fn ticks(&mut self, recording: &Path) -> Result<Vec<TickRow>>;

    fn free_bytes(&self, folder: &Path) -> Option<u64>;
}

pub trait Observer {
    /// The reading lacks the out-of-memory state.
    fn read(&mut self, at: Duration) -> Reading;
}

#[derive(Debug, Default)]
pub struct CacheDropped {
    pub lines: Vec<String>,
    pub not_cold: Option<String>,
}

#[derive(Debug, Clone)]
pub struct StopRequest {
    pub by: String,
    /// The request was repeated: do not wait.
    pub force: bool,
}

#[derive(Debug)]
pub struct RecorderRequest<'a> {
    pub name: GroupName,
    pub plan: &'a Plan,
    pub folder: &'a Path,
    pub labels: Vec<(String, String)>,
    pub cache_entries: Option<u32>,
    /// `None`: follow the validator with the `ledger`.
    pub pid: Option<u32>,
    pub ledger: &'a Path,
}

/// Dropping it kills it.
pub trait Recorder {
    fn addresses(&self) -> &Addresses;

    /// How it ended, with its last warning or error (may be empty).
    fn ended(&mut self) -> Result<Option<(End, String)>>;

    fn warnings(&mut self) -> Vec<String>;

    /// A failure loses no mark: the journal has it.
    fn mark(&mut self, name: &str, kind: &str) -> Result<()>;

    /// Waits briefly until the recording shows the end.
    fn wait_for_end_event(&mut self);

    /// Fails if it did not end in order.
    fn finish(self: Box<Self>) -> Result<()>;
}
