//! Executes a plan; each step is journaled before it is executed.
//!
//! A turn is the runs that execute at the same time, an attempt one execution of it. A lane is the
//! folders, ports and CPUs of one run of a turn. A host block is turns that one host executes with
//! a separate journal.

mod end;
mod job;
mod real;
mod running_search;
mod turn;

use super::{
    blocks::HostBlock,
    folder::{ExperimentFolder, cgroup_name},
    host::HostFinding,
    journal::{Entry, Journal, JournalLine, JournalState, NextAttempt, Planned},
    judge::{ProgramCacheTotals, RunPeriod},
    outcome::{Ending, Outcome},
    plan::{Arm, Lane, Plan},
    schedule::{ScheduledRun, Turn},
    search::Reading,
    targets::{self, ScrapeTarget},
    watch::{Timestamp, Watch},
};
use anyhow::Result;
use faultline_common::{clock::from_nanoseconds, files::is_disk_full};
use faultline_recording::{ProcessRow, Progress, TickRow};
use faultline_runner::{
    isolation::{CgroupName, CgroupState, End, Launched, Launcher},
    record::recorder::Addresses,
};
use itertools::Itertools;
pub use real::RealSystem;
use running_search::{FailureTimer, RunningSearch};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// Time from SIGTERM to SIGKILL for processes of an earlier runner.
const SWEEP_GRACE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub enum ExperimentEnd {
    Finished,
    /// By a request or a full disk. All texts say why, and how to resume.
    Stopped(String),
    /// Too many attempts at a turn failed since this runner began.
    GaveUp(String),
    /// The host is not fit for its host block. Another host may be.
    UnfitHost(String),
}

/// Why the runs of a turn are abandoned. After `Failed` and `UnfitHost`, the turn may be tried again.
enum TurnError {
    StoppedBy(String),
    DiskFull(String),
    Failed {
        run: u32,
        why: String,
    },
    UnfitHost {
        run: u32,
        why: String,
    },
    /// The journal cannot be written, or the plan does not match it. The runner stops.
    Journal(anyhow::Error),
}

#[derive(Default)]
struct ActiveRun {
    scheduled: ScheduledRun,
    attempt: u32,
    arm: Arm,
    lane: Lane,
    folder: PathBuf,
    notes: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    launched: Option<Box<dyn Launched>>,
    recorder: Option<Box<dyn Recorder>>,
    /// `None` until the program begins.
    watch: Option<Watch>,
    search: Option<RunningSearch>,
    /// Since when reads of its cgroup have failed.
    poll_failures: FailureTimer,
    /// Why the runner ends it, and the cgroup's state at that decision.
    stop_decision: Option<(Outcome, CgroupState)>,
    /// At the last poll, its first process had exited, but others in its cgroup had not.
    has_survivors: bool,
    /// At the last poll, SIGTERM had ended it.
    was_terminated: bool,
    /// Why some of its files may have been in the page cache at its start.
    why_not_cold: Option<String>,
    run_period: Option<RunPeriod>,
    end_journaled: bool,
}

/// What the runner needs of the host. It is small, because tests implement a fake.
pub trait System {
    fn now(&self) -> Timestamp;

    fn boot_id(&self) -> String;

    fn host_name(&self) -> String;

    /// May return earlier, as on a signal.
    fn wait(&mut self, at_most: Duration);

    fn stop_request(&self) -> Option<StopRequest>;

    fn print(&mut self, message: &str);

    fn launcher(&self) -> &dyn Launcher;

    fn host_findings(&mut self, plan: &Plan, experiment_id: &str) -> Result<Vec<HostFinding>>;

    fn clear_folders(&mut self, plan: &Plan, lane: &Lane) -> Result<Vec<String>>;

    fn restore_folders(&mut self, plan: &Plan, lane: &Lane, from: &Path) -> Result<Vec<String>>;

    /// Also counts the pages that are still cached.
    fn drop_page_cache(&mut self, plan: &Plan, lane: &Lane) -> Result<PageCacheDropped>;

    /// On return the recorder listens and records. It follows the `pid` if the request has one.
    fn start_recorder(&mut self, request: &RecorderRequest<'_>) -> Result<Box<dyn Recorder>>;

    fn observer(&mut self, pid: u32, recording: &Path) -> Box<dyn Observer>;

    fn write_targets(&mut self, file: &Path, targets: &[ScrapeTarget]) -> Result<()>;

    /// `None` if the recording cannot be read now.
    fn progress(&mut self, recording: &Path) -> Option<Progress>;

    fn program_cache_totals(&mut self, recording: &Path) -> Result<ProgramCacheTotals>;

    /// A tick is one sample of the recorder.
    fn ticks(&mut self, recording: &Path) -> Result<Vec<TickRow>>;

    fn processes(&mut self, recording: &Path) -> Result<Vec<ProcessRow>>;

    fn free_bytes(&self, folder: &Path) -> Option<u64>;
}

pub trait Observer {
    /// Leaves [`Reading::out_of_memory`] to the caller, which has the cgroup's state.
    fn read(&mut self, at: Duration) -> Reading;
}

pub struct PageCacheDropped {
    pub notes: Vec<String>,
    pub why_not_cold: Option<String>,
}

#[derive(Clone)]
pub struct StopRequest {
    pub by: String,
    /// The request was repeated: do not wait.
    pub force: bool,
}

pub struct RecorderRequest<'a> {
    pub name: CgroupName,
    pub plan: &'a Plan,
    pub folder: &'a Path,
    pub labels: Vec<(String, String)>,
    pub program_cache_entries: Option<u32>,
    /// `None`: the recorder follows the validator that uses `ledger`.
    pub pid: Option<u32>,
    pub ledger: &'a Path,
}

/// Dropping it kills the recorder.
pub trait Recorder {
    fn addresses(&self) -> &Addresses;

    /// How the recorder ended, with its last warning, error or panic (may be empty).
    fn poll_end(&mut self) -> Result<Option<(End, String)>>;

    fn warnings(&mut self) -> Vec<String>;

    /// If this fails, the journal still has the event.
    fn mark(&mut self, name: &str, kind: &str) -> Result<()>;

    /// Waits briefly until the recording has the end of the run.
    fn wait_for_end_event(&mut self);

    /// Ends the recorder. Fails if it exits with an error or has to be killed.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The caller holds the lock of the experiment.
pub struct Runner<'w> {
    plan: Plan,
    folder: ExperimentFolder,
    experiment_id: String,
    journal: Journal,
    journal_state: JournalState,
    system: &'w mut dyn System,
    /// Uptime at the end of the cool-down after the last run on this host.
    cool_down_over_at: Duration,
    host_block: Option<HostBlock>,
    /// Entries of the Prometheus target file, by run.
    scrape_targets: BTreeMap<u32, ScrapeTarget>,
}

impl<'w> Runner<'w> {
    pub fn begin(plan: Plan, turns: Vec<Turn>, system: &'w mut dyn System) -> Result<Self> {
        let folder = ExperimentFolder::new(&plan.folder);
        let journal = Journal::create(&folder.journal())?;
        let launcher = system.launcher().name().to_owned();
        let planned = Entry::Planned(Planned::new(&plan, launcher, turns));
        let mut runner = Runner::new(plan, folder, journal, system);
        runner.write(planned)?;
        Ok(runner)
    }

    pub fn resume(plan: Plan, system: &'w mut dyn System) -> Result<Self> {
        let folder = ExperimentFolder::new(&plan.folder);
        let (journal, lines) = Journal::open(&folder.journal())?;
        let mut runner = Runner::new(plan, folder, journal, system);
        runner.journal_state = JournalState::of(&lines);
        if let Some(ended) = runner.journal_state.last_end_unix_ns {
            runner.begin_cool_down(ended);
        }
        Ok(runner)
    }

    pub fn in_host_block(mut self, host_block: Option<HostBlock>) -> Self {
        if let Some(ended) = host_block.as_ref().and_then(|block| block.last_end_unix_ns) {
            self.begin_cool_down(ended);
        }
        // Simultaneous host blocks cannot share a targets file. `None` is a file in `folder`.
        if host_block.is_some() {
            self.plan.recorder.targets = None;
        }
        self.host_block = host_block;
        self
    }

    /// The run may have ended before this process began.
    fn begin_cool_down(&mut self, run_ended_unix_ns: i64) {
        let now = self.system.now();
        let passed = from_nanoseconds(now.unix_ns.saturating_sub(run_ended_unix_ns));
        let remaining = self.plan.host.cool_down.saturating_sub(passed);
        self.cool_down_over_at = self.cool_down_over_at.max(now.uptime + remaining);
    }

    fn new(
        plan: Plan,
        folder: ExperimentFolder,
        journal: Journal,
        system: &'w mut dyn System,
    ) -> Self {
        let experiment_id = folder.unique_name(&plan.name);
        Runner {
            plan,
            folder,
            experiment_id,
            journal,
            journal_state: JournalState::default(),
            system,
            cool_down_over_at: Duration::ZERO,
            host_block: None,
            scrape_targets: BTreeMap::new(),
        }
    }

    /// If this fails, current runs have been ended, and the experiment can be resumed.
    pub fn run(mut self) -> Result<ExperimentEnd> {
        self.write(Entry::Runner {
            pid: std::process::id(),
            boot: self.system.boot_id(),
            host: self.system.host_name(),
        })?;
        self.end_leftovers()?;
        self.write_targets();
        while let Some(next) = self.journal_state.next_attempt() {
            if next.failed >= self.plan.attempts_per_turn {
                let why = why_given_up(&next, &self.journal_state);
                return self.journal_stop(why).map(ExperimentEnd::GaveUp);
            }
            let (turn, attempt) = (next.turn.clone(), next.attempt);
            match self.run_turn(&turn, attempt) {
                Err(TurnError::UnfitHost { why, .. }) if self.host_block.is_some() => {
                    return self.journal_stop(why).map(ExperimentEnd::UnfitHost);
                }
                Ok(()) | Err(TurnError::Failed { .. } | TurnError::UnfitHost { .. }) => {}
                Err(TurnError::StoppedBy(why) | TurnError::DiskFull(why)) => {
                    return self.journal_stop(why).map(ExperimentEnd::Stopped);
                }
                Err(TurnError::Journal(error)) => return Err(self.cannot_write(error)),
            }
        }
        if !self.journal_state.finished {
            self.write(Entry::Finished)?;
        }
        Ok(ExperimentEnd::Finished)
    }

    /// Ends processes of an earlier runner, and journals the end of their runs.
    fn end_leftovers(&mut self) -> Result<()> {
        let mut ended_leftovers = self
            .system
            .launcher()
            .sweep(&self.experiment_id, SWEEP_GRACE)?;
        for (run, attempt) in self.journal_state.unfinished_runs() {
            let prefix = cgroup_name(&self.experiment_id, run, attempt, "").to_string();
            let notes = ended_leftovers
                .extract_if(.., |name| name.starts_with(&prefix))
                .map(|name| format!("left behind and ended: {name}"))
                .collect();
            self.system
                .print(&format!("run {run} was cut off and will be repeated"));
            self.write(Entry::RunEnded {
                run,
                attempt,
                ending: Box::new(Ending {
                    notes,
                    ..Ending::new(Outcome::runner_killed())
                }),
            })?;
            // It may have executed until now.
            self.begin_cool_down(self.system.now().unix_ns);
        }
        for name in ended_leftovers {
            self.system.print(&format!(
                "cgroup {name} was left behind by a killed runner, and has been ended"
            ));
        }
        Ok(())
    }

    /// If the Prometheus target file cannot be written, the runs continue.
    fn write_targets(&mut self) {
        let file = targets::path(&self.plan, &self.folder);
        let targets = self.scrape_targets.values().cloned().collect_vec();
        if let Err(error) = self.system.write_targets(&file, &targets) {
            self.system.print(&format!(
                "warning: the targets file for Prometheus cannot be written: {error:#}"
            ));
        }
    }

    fn write(&mut self, entry: Entry) -> Result<()> {
        let line = JournalLine {
            unix_ns: self.system.now().unix_ns,
            entry,
        };
        self.journal.append(&line)?;
        self.journal_state.add(line);
        Ok(())
    }

    fn journal(&mut self, entry: Entry) -> Result<(), TurnError> {
        self.write(entry).map_err(TurnError::Journal)
    }

    /// Returns why the runner stops, and how to resume.
    fn journal_stop(&mut self, why: String) -> Result<String> {
        // On a full disk this fails, but `resume` needs only the earlier lines.
        let _ = self.write(Entry::Stopped { why: why.clone() });
        Ok(format!("{why}; {}", self.how_to_resume()))
    }

    fn cannot_write(&self, error: anyhow::Error) -> anyhow::Error {
        let hint = if is_disk_full(&error) {
            "free space on the disk of the experiment's folder, then "
        } else {
            ""
        };
        error.context(format!(
            "the experiment has stopped; {hint}{}",
            self.how_to_resume()
        ))
    }

    fn how_to_resume(&self) -> String {
        match &self.host_block {
            Some(host_block) => host_block.how_to_resume.clone(),
            None => format!("`faultline experiment resume {:#}` continues", self.folder),
        }
    }
}

fn why_given_up(next: &NextAttempt<'_>, journal_state: &JournalState) -> String {
    let newest = journal_state.newest_attempt(next.turn);
    let why = newest
        .into_iter()
        .flat_map(|newest| newest.runs.values())
        .filter_map(|run| run.ended.as_ref())
        .find_map(|(ending, _)| ending.outcome.failure());
    let mut runs = next
        .turn
        .runs
        .iter()
        .map(|run| format!("{} ({})", run.run, run.arm));
    let times = match next.failed {
        1 => "once".to_owned(),
        failed => format!("{failed} times"),
    };
    format!(
        "run {} failed {times}, the last time because {}",
        runs.join(", "),
        why.unwrap_or("it was interrupted")
    )
}
