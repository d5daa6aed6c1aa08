//! Prepares, begins and polls the runs of a turn, which execute at the same time.

use super::{ActiveRun, RecorderRequest, Runner, TurnError, job, running_search};
use crate::{
    blocks::HostBlock,
    folder::{RECORDING, cgroup_name},
    journal::{Entry, Step},
    judge::was_oom_killed,
    outcome::Outcome,
    plan::{InitialState, PageCache, Severity, WorkloadKind},
    schedule::{ScheduledRun, Turn},
    targets::ScrapeTarget,
    watch::Watch,
};
use anyhow::{Context, Result};
use faultline_common::files::is_disk_full;
use faultline_runner::{
    isolation::{CgroupState, End},
    record::{
        exec_gate_message,
        recorder::{describe_end, metrics_variables},
    },
};
use faultline_text::duration;
use itertools::Itertools;
use rustix::process::Signal;
use std::{path::Path, time::Duration};

const END_CHECK_INTERVAL: Duration = Duration::from_millis(500);
const HOST_WAIT_INTERVAL: Duration = Duration::from_secs(1);
/// With fewer free bytes, nothing can be recorded.
const MIN_FREE_BYTES: u64 = 1 << 20;

enum RunPoll {
    Running,
    /// It still runs, and its time or its search is over. It ends together with the other runs.
    ConcludeTogether,
    /// It has ended, or the runner must end it alone.
    ConcludeNow,
}

struct JobState {
    end: Option<End>,
    cgroup_state: CgroupState,
    is_oom_killed: bool,
    /// How the recorder ended, and its last warning, error or panic.
    recorder_end: Option<(End, String)>,
    /// The first process has exited, but other processes in the cgroup have not.
    has_survivors: bool,
}

fn poll_job(run: &mut ActiveRun) -> Result<JobState> {
    let launched = run.launched.as_mut().context("it was never begun")?;
    let end = launched.poll_end()?;
    let cgroup_state = launched.cgroup_state()?;
    let is_oom_killed = was_oom_killed(&cgroup_state);
    Ok(JobState {
        has_survivors: end.is_some() && !is_oom_killed && !launched.has_no_process()?,
        recorder_end: match &mut run.recorder {
            Some(recorder) => recorder.poll_end()?,
            None => None,
        },
        end,
        cgroup_state,
        is_oom_killed,
    })
}

impl Runner<'_> {
    pub(super) fn run_turn(&mut self, turn: &Turn, attempt: u32) -> Result<(), TurnError> {
        self.journal(Entry::TurnBegun {
            turn: turn.number,
            attempt,
        })?;
        let mut runs: Vec<_> = turn
            .runs
            .iter()
            .map(|scheduled| self.active_run(scheduled, attempt))
            .collect::<Result<_>>()
            .map_err(TurnError::Journal)?;
        self.prepare(turn.number, &mut runs)
            .and_then(|()| self.watch(&mut runs))
            .map_err(|turn_error| self.abandon(&mut runs, turn_error))
    }

    fn active_run(&self, scheduled: &ScheduledRun, attempt: u32) -> Result<ActiveRun> {
        let lane = self
            .plan
            .lanes
            .iter()
            .find(|lane| lane.name == scheduled.lane);
        Ok(ActiveRun {
            scheduled: scheduled.clone(),
            attempt,
            arm: self
                .plan
                .arm(&scheduled.arm)
                .with_context(|| format!("the plan has no arm {:?}", scheduled.arm))?
                .clone(),
            lane: lane
                .with_context(|| format!("the plan has no lane {:?}", scheduled.lane))?
                .clone(),
            folder: self.folder.run(scheduled, attempt),
            ..ActiveRun::default()
        })
    }

    /// The disk is full by the error or by its free bytes. Else `run` has failed.
    pub(super) fn failed_or_disk_full(&self, run: u32, error: &anyhow::Error) -> TurnError {
        let why = format!("{error:#}");
        if is_disk_full(error)
            || self
                .system
                .free_bytes(self.folder.path())
                .is_some_and(|free| free < MIN_FREE_BYTES)
        {
            return TurnError::DiskFull(format!("the disk is full: {why}"));
        }
        TurnError::Failed { run, why }
    }

    pub(super) fn journal_step(&mut self, run: &ActiveRun, step: Step) -> Result<(), TurnError> {
        let (run, attempt) = (run.scheduled.run, run.attempt);
        self.journal(Entry::Step { run, attempt, step })
    }

    fn prepare(&mut self, turn: u32, runs: &mut [ActiveRun]) -> Result<(), TurnError> {
        for run in &*runs {
            self.journal_step(run, Step::Host)?;
        }
        let warnings = self.wait_for_host(runs)?;
        for run in &mut *runs {
            run.notes.extend_from_slice(&warnings);
        }
        for step in [
            Step::Clear,
            Step::Restore,
            Step::DropPageCache,
            Step::Launch,
            Step::Record,
            Step::Begin,
        ] {
            if !self.is_planned(step) {
                continue;
            }
            for run in &mut *runs {
                self.check_stop_request()?;
                self.journal_step(run, step)?;
                self.take_step(step, turn, run)
                    .map_err(|error| self.failed_or_disk_full(run.scheduled.run, &error))?;
            }
        }
        for run in runs {
            self.journal_step(run, Step::Watch)?;
        }
        Ok(())
    }

    fn is_planned(&self, step: Step) -> bool {
        match step {
            Step::Clear => self.plan.initial_state != InitialState::AsIs,
            Step::Restore => self.plan.restored_from().is_some(),
            Step::DropPageCache => self.plan.page_cache != PageCache::Leave,
            _ => true,
        }
    }

    fn take_step(&mut self, step: Step, turn: u32, run: &mut ActiveRun) -> Result<()> {
        let (system, plan) = (&mut self.system, &self.plan);
        match (step, plan.restored_from()) {
            (Step::Clear, _) => run.notes.extend(system.clear_folders(plan, &run.lane)?),
            (Step::Restore, Some(from)) => {
                run.notes
                    .extend(system.restore_folders(plan, &run.lane, from)?);
            }
            (Step::DropPageCache, _) => {
                let dropped = system.drop_page_cache(plan, &run.lane)?;
                run.why_not_cold = dropped.why_not_cold;
                run.notes.extend(dropped.notes);
            }
            (Step::Launch, _) => self.launch(run)?,
            (Step::Record, _) => self.record(turn, run)?,
            (Step::Begin, _) => self.begin_run(run)?,
            _ => {}
        }
        Ok(())
    }

    fn launch(&mut self, run: &mut ActiveRun) -> Result<()> {
        job::make_folder(&run.folder, self.plan.workload.user.as_deref())?;
        let launcher = self.system.launcher();
        let job = job::job(&self.plan, run, &self.experiment_id, launcher)?;
        let launched = launcher.launch(&job)?;
        let differences = job.limits.differences(&launched.limits()?);
        run.launched = Some(launched);
        run.environment = job.environment;
        anyhow::ensure!(
            differences.is_empty(),
            "its limits do not hold: {}",
            differences.join("; ")
        );
        Ok(())
    }

    fn record(&mut self, turn: u32, run: &mut ActiveRun) -> Result<()> {
        let mut labels = run.scheduled.labels(&self.plan.name, turn);
        labels.extend(self.host_block.iter().flat_map(HostBlock::labels));
        let pid = run.launched.as_ref().map(|launched| launched.pid());
        let recorder = self.system.start_recorder(&RecorderRequest {
            name: cgroup_name(
                &self.experiment_id,
                run.scheduled.run,
                run.attempt,
                "recorder",
            ),
            plan: &self.plan,
            folder: &run.folder,
            labels,
            program_cache_entries: run.arm.program_cache_entries,
            pid: pid.filter(|_| self.plan.workload.kind == WorkloadKind::Replay),
            ledger: &run.lane.ledger,
        })?;
        let target = ScrapeTarget::new(
            &self.plan.name,
            &run.scheduled,
            run.attempt,
            recorder.addresses().metrics.clone(),
        );
        run.recorder = Some(recorder);
        self.scrape_targets.insert(run.scheduled.run, target);
        self.write_targets();
        Ok(())
    }

    /// Opens the gate, so that the exec shim executes the program.
    fn begin_run(&mut self, run: &mut ActiveRun) -> Result<()> {
        let recorder = run.recorder.as_ref().context("it is not recorded")?;
        let variables = metrics_variables(recorder.addresses(), |name| {
            let (_, value) = run
                .environment
                .iter()
                .find(|(variable, _)| variable == name)?;
            Some(value.to_string_lossy().into_owned())
        });
        let launched = run.launched.as_mut().context("it was never started")?;
        let began = self.system.now();
        launched.open_exec_gate(&exec_gate_message(&variables))?;
        run.watch = Some(Watch::begin(&self.plan, began));
        self.begin_search(run)?;
        let scheduled = &run.scheduled;
        self.system.print(&format!(
            "run {}: {}, replicate {}, has begun",
            scheduled.run, scheduled.arm, scheduled.replicate
        ));
        Ok(())
    }

    /// Waits until the cool-down is over and the host is fit. Returns warnings about the host.
    fn wait_for_host(&mut self, runs: &[ActiveRun]) -> Result<Vec<String>, TurnError> {
        loop {
            let remaining = self
                .cool_down_over_at
                .saturating_sub(self.system.now().uptime);
            if remaining.is_zero() {
                break;
            }
            self.check_stop_request()?;
            self.system.wait(remaining.min(HOST_WAIT_INTERVAL));
        }
        let first_run = runs.first().map_or(0, |run| run.scheduled.run);
        let wait_began = self.system.now().uptime;
        loop {
            self.check_stop_request()?;
            let findings = self
                .system
                .host_findings(&self.plan, &self.experiment_id)
                .map_err(|error| self.failed_or_disk_full(first_run, &error))?;
            let has_wait_time =
                self.system.now().uptime.saturating_sub(wait_began) < self.plan.host.max_host_wait;
            let has_temporary_problem = findings
                .iter()
                .any(|finding| finding.is_temporary && finding.severity != Severity::Note);
            if has_wait_time && has_temporary_problem {
                self.system.wait(HOST_WAIT_INTERVAL);
                continue;
            }
            let messages = |severity| {
                findings
                    .iter()
                    .filter(move |finding| finding.severity == severity)
                    .map(|finding| &finding.what)
            };
            let refused = messages(Severity::Refuse).join("; ");
            if refused.is_empty() {
                let warnings = messages(Severity::Warn);
                return Ok(warnings.map(|what| format!("warning: {what}")).collect());
            }
            return Err(TurnError::UnfitHost {
                run: first_run,
                why: format!("the host is not fit for a run: {refused}"),
            });
        }
    }

    pub(super) fn check_stop_request(&self) -> Result<(), TurnError> {
        match self.system.stop_request() {
            Some(request) => Err(TurnError::StoppedBy(format!("stopped by {}", request.by))),
            None => Ok(()),
        }
    }

    /// Polls the runs until all have ended. If a run ends early, the other runs continue. Runs
    /// whose time is up are ended together.
    fn watch(&mut self, runs: &mut [ActiveRun]) -> Result<(), TurnError> {
        let poll_interval = if self.plan.memory_search.is_some() {
            running_search::READING_INTERVAL
        } else {
            END_CHECK_INTERVAL
        };
        let mut checked_at = Duration::ZERO;
        loop {
            self.system.wait(poll_interval);
            // First: the signal that stops the runner may have ended the runs, which is no result.
            self.check_stop_request()?;
            // Under systemd, each check for the end is a request to PID 1, so it is not done for
            // every reading of a search.
            let now = self.system.now().uptime;
            let is_check_due = now.saturating_sub(checked_at) >= END_CHECK_INTERVAL;
            if is_check_due {
                checked_at = now;
            }
            let mut runs_to_conclude = Vec::new();
            let mut any_continues = false;
            for run in runs.iter_mut().filter(|run| !run.end_journaled) {
                self.poll_search(run)?;
                if !is_check_due && run.stop_decision.is_none() {
                    any_continues = true;
                    continue;
                }
                match self
                    .poll_run(run)
                    .map_err(|error| self.failed_or_disk_full(run.scheduled.run, &error))?
                {
                    RunPoll::Running => any_continues = true,
                    RunPoll::ConcludeTogether => runs_to_conclude.push(run),
                    RunPoll::ConcludeNow => {
                        self.journal_validator_end(run)?;
                        self.conclude(&mut [run])?;
                    }
                }
            }
            if !any_continues {
                return self.conclude(&mut runs_to_conclude);
            }
        }
    }

    fn poll_run(&mut self, run: &mut ActiveRun) -> Result<RunPoll> {
        let polled = poll_job(run);
        let state = match run.search {
            // A search takes hours, so a short failure does not end it.
            Some(_) => {
                let now = self.system.now().uptime;
                match run.poll_failures.tolerate(now, polled)? {
                    Some(state) => state,
                    None => return Ok(RunPoll::Running),
                }
            }
            None => polled?,
        };
        let watch = run.watch.as_mut().context("it was never begun")?;
        let number = run.scheduled.run;
        if let Some(recorder) = &mut run.recorder {
            for warning in recorder.warnings() {
                let message = format!("run {number}: faultlined: {warning}");
                self.system.print(&message);
            }
        }
        let has_ended = state.end.is_some();
        if let Some((end, last_problem)) = state.recorder_end.filter(|_| !has_ended) {
            anyhow::bail!(
                "faultlined ended in the middle of the run{}",
                describe_end(end, &last_problem)
            );
        }
        if has_ended && !state.is_oom_killed {
            // A log writer may exit a moment later, and the SIGTERM that ended the run may be sent
            // to this program, too, as by `scancel`. So wait for the next poll.
            let had_survivors = std::mem::replace(&mut run.has_survivors, state.has_survivors);
            let by_term = Signal::TERM.as_raw();
            let is_terminated = state
                .end
                .is_some_and(|end| end == End::Signal(by_term) || end == End::Code(128 + by_term));
            let was_terminated = std::mem::replace(&mut run.was_terminated, is_terminated);
            if (run.has_survivors && !had_survivors) || (is_terminated && !was_terminated) {
                return Ok(RunPoll::Running);
            }
        }
        if has_ended || state.is_oom_killed {
            // The cgroup's state says how it ended; the recording is not needed.
            return Ok(RunPoll::ConcludeNow);
        }
        let stop_reason = self.sample_recording(watch, number, &run.folder)?;
        if run.stop_decision.is_none() {
            run.stop_decision = stop_reason.map(|reason| (reason, state.cgroup_state));
        }
        Ok(match &run.stop_decision {
            None => RunPoll::Running,
            Some((Outcome::Completed, _)) => RunPoll::ConcludeTogether,
            Some(_) => RunPoll::ConcludeNow,
        })
    }

    /// The outcome, once there is one. After `Completed`, the run continues until the others are
    /// complete. Fails if nothing is recorded any more.
    fn sample_recording(
        &mut self,
        watch: &mut Watch,
        run: u32,
        folder: &Path,
    ) -> Result<Option<Outcome>> {
        let progress = self.system.progress(&folder.join(RECORDING));
        let stop_reason = watch.sample(self.system.now(), progress.as_ref());
        let free_bytes = self.system.free_bytes(self.folder.path());
        anyhow::ensure!(
            free_bytes.is_none_or(|free| free >= MIN_FREE_BYTES),
            "the recording cannot be written"
        );
        if let Some(silence) = watch.take_new_silence() {
            let silence = duration(silence);
            let message = format!("run {run}: faultlined has recorded nothing for {silence}");
            self.system.print(&message);
        }
        if let Some(silence) = watch.silence_of_dead_recorder() {
            anyhow::bail!("nothing was recorded for {}", duration(silence));
        }
        Ok(stop_reason)
    }
}
