//! What a runner needs of the world around it: so much, and no more, has to be pretended in a test of its order.

use crate::host::HostFinding;
use crate::judge::cache;
use crate::plan::{Lane, Plan};
use crate::search::Reading;
use crate::targets::Target;
use crate::watch::Now;
use faultline_isolation::{End, GroupName, Launcher};
use faultline_recording::{Progress, TickRow};
use std::path::Path;
use std::time::Duration;

/// The host, the clock, the terminal, and what is beside a run.
pub trait System {
    /// The time.
    fn now(&self) -> Now;

    /// Names the boot of the host; two boots have two names.
    fn boot(&self) -> String;

    /// Waits so long, or until something may have happened.
    fn wait(&mut self, at_most: Duration);

    /// Who asks to stop, since the beginning.
    fn stop_request(&self) -> Option<StopRequest>;

    /// Tells whoever watches.
    fn print(&mut self, words: &str);

    /// How programs are started.
    fn launcher(&self) -> &dyn Launcher;

    /// What there is to say against beginning a run now.
    ///
    /// # Errors
    /// The host cannot be looked at.
    fn host(&mut self, plan: &Plan, scope: &str) -> anyhow::Result<Vec<HostFinding>>;

    /// Clears a lane's folders; what was done, in words.
    ///
    /// # Errors
    /// One of them is not marked, in use, or cannot be cleared.
    fn clear(&mut self, plan: &Plan, lane: &Lane) -> anyhow::Result<Vec<String>>;

    /// Copies what is kept into a lane's folders; what was done, in words.
    ///
    /// # Errors
    /// It cannot be read, or there is no room.
    fn restore(&mut self, plan: &Plan, lane: &Lane, from: &Path) -> anyhow::Result<Vec<String>>;

    /// Drops from the page cache what the plan says, and looks what is left.
    ///
    /// # Errors
    /// It cannot be dropped.
    fn cool(&mut self, plan: &Plan, lane: &Lane) -> anyhow::Result<Cooled>;

    /// Starts a recorder, which listens, and follows the process if it was told one, when this returns.
    ///
    /// # Errors
    /// It cannot be started, or ended at once.
    fn record(&mut self, order: &Order<'_>) -> anyhow::Result<Box<dyn Recorder>>;

    /// What looks at a run for its search: at the group of this process, and at this recording.
    fn observe(&mut self, pid: u32, recording: &Path) -> Box<dyn Observer>;

    /// Tells whoever scrapes which recorders there are now.
    ///
    /// # Errors
    /// The file cannot be written.
    fn announce(&mut self, file: &Path, targets: &[Target]) -> anyhow::Result<()>;

    /// How far a recording has come; `None` if it cannot be read at this moment.
    fn progress(&mut self, recording: &Path) -> Option<Progress>;

    /// What a recording says of the program cache.
    ///
    /// # Errors
    /// It cannot be read.
    fn cache(&mut self, recording: &Path) -> anyhow::Result<cache::CacheTotals>;

    /// The ticks of a recording, in the order of time.
    ///
    /// # Errors
    /// It cannot be read.
    fn ticks(&mut self, recording: &Path) -> anyhow::Result<Vec<TickRow>>;

    /// Free bytes on the disk of a folder; `None` if that cannot be told.
    fn free_bytes(&self, folder: &Path) -> Option<u64>;
}

/// Looks at a run for its search.
pub trait Observer {
    /// What is known at this moment. Whether the group is out of memory is not its to tell.
    fn read(&mut self, at: Duration) -> Reading;
}

/// How cold a run begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cooled {
    /// What was done and what was found, in words.
    pub lines: Vec<String>,
    /// Why it cannot be said that the files are cold; `None` where they are.
    pub not_cold: Option<String>,
}

/// A wish to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRequest {
    /// Whose.
    pub by: String,
    /// Whether it was wished more than once: then nobody is waited for.
    pub force: bool,
}

/// What a recorder is told.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// Its group.
    pub name: GroupName,
    /// Which plan.
    pub plan: &'a Plan,
    /// The folder of the run: recording and log go there.
    pub folder: &'a Path,
    /// Labels of the recording.
    pub labels: Vec<(String, String)>,
    /// Entries of the program cache, where the run's arm sets them.
    pub cache_entries: Option<u32>,
    /// The process to follow; without it, the validator of the lane's ledger.
    pub pid: Option<u32>,
    /// The ledger.
    pub ledger: &'a Path,
}

/// A daemon that records. Dropping it ends it by force.
pub trait Recorder {
    /// The address that a validator is to push to; `None` if the daemon takes no pushes.
    fn ingest(&self) -> Option<String>;

    /// The address that a Prometheus scrapes.
    fn metrics(&self) -> String;

    /// How it ended, if it did, with its last complaint; that is empty if it had none.
    ///
    /// # Errors
    /// The system cannot say.
    fn ended(&mut self) -> anyhow::Result<Option<(End, String)>>;

    /// Warnings and errors that it told since the last call.
    fn complaints(&mut self) -> Vec<String>;

    /// Sets a mark in the recording, of this kind. Without one nothing is lost: the journal has it.
    ///
    /// # Errors
    /// It takes none.
    fn mark(&mut self, name: &str, kind: &str) -> anyhow::Result<()>;

    /// Waits until the recording says that the process it follows has ended; not for long.
    fn see_the_end(&mut self);

    /// Ends it in order.
    ///
    /// # Errors
    /// It did not end in order.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}
