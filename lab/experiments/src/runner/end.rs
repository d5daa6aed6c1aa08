//! Ends runs, judges them and journals their ends.

use super::{ActiveRun, Runner, TurnError, running_search};
use crate::{
    folder::RECORDING,
    host::KNOWN_VALIDATORS,
    journal::{Entry, Step},
    judge::{self, EndFacts, RunPeriod, TickCoverage},
    outcome::{Ending, Outcome, Validity},
    watch::Watch,
};
use anyhow::{Context, Result, ensure};
use faultline_common::clock::nanoseconds;
use faultline_runner::isolation::CgroupState;
use faultline_text::duration;
use itertools::Itertools;
use std::{mem, time::Duration};

const TERMINATION_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MESSAGE_AFTER: Duration = Duration::from_secs(2);

impl Runner<'_> {
    pub(super) fn conclude(&mut self, runs: &mut [&mut ActiveRun]) -> Result<(), TurnError> {
        for run in &*runs {
            self.journal_step(run, Step::End)?;
        }
        let now = self.system.now();
        for run in &mut *runs {
            run.run_period = run.watch.as_ref().map(|watch| RunPeriod {
                from_unix_ns: watch.began.unix_ns,
                length: now.uptime.saturating_sub(watch.began.uptime),
            });
        }
        self.terminate(runs);
        for run in runs {
            let cgroup_state = self
                .shut_down(run)
                .map_err(|error| self.failed_or_disk_full(run.scheduled.run, &error))?;
            self.journal_step(run, Step::Judge)?;
            let ending = self.judge(run, cgroup_state);
            self.journal_end(run, ending)?;
        }
        Ok(())
    }

    /// Ends the unfinished runs of a turn. Returns the first error of ending them, or `turn_error`.
    /// A `turn_error` of the disk or journal takes precedence, an unfit host does over a failed run.
    pub(super) fn abandon(&mut self, runs: &mut [ActiveRun], turn_error: TurnError) -> TurnError {
        let mut unfinished = runs
            .iter_mut()
            .filter(|run| !run.end_journaled)
            .collect_vec();
        let mut end_error = None;
        if !matches!(turn_error, TurnError::Journal(_)) {
            for run in &unfinished {
                end_error = end_error.or(self.journal_step(run, Step::End).err());
            }
        }
        self.terminate(&mut unfinished);
        for run in unfinished {
            let cgroup_state = self.shut_down(run);
            if let Err(error) = &cgroup_state {
                run.notes
                    .push(format!("it could not be ended in order: {error:#}"));
            }
            (run.launched, run.recorder) = (None, None);
            let outcome = match &turn_error {
                TurnError::StoppedBy(why) | TurnError::DiskFull(why) => {
                    Outcome::Interrupted { why: why.clone() }
                }
                TurnError::Failed { run: failed, why }
                | TurnError::UnfitHost { run: failed, why } => {
                    if *failed == run.scheduled.run {
                        Outcome::Failed { why: why.clone() }
                    } else {
                        let why = format!("run {failed} of the same turn failed");
                        Outcome::Interrupted { why }
                    }
                }
                TurnError::Journal(_) => continue,
            };
            let ending = Ending {
                cgroup_state: cgroup_state.unwrap_or_default(),
                notes: mem::take(&mut run.notes),
                ..Ending::new(outcome)
            };
            end_error = end_error.or(self.journal_end(run, ending).err());
        }
        match turn_error {
            // A full disk explains a failed write.
            TurnError::DiskFull(_) | TurnError::Journal(_) => turn_error,
            // `journal_end` reports a failed run of several once more, as `Failed`.
            TurnError::UnfitHost { .. } if matches!(end_error, Some(TurnError::Failed { .. })) => {
                turn_error
            }
            _ => end_error.unwrap_or(turn_error),
        }
    }

    /// Sends SIGTERM to the runs. Waits until they have no processes, at most for the grace period
    /// or until a forced stop.
    fn terminate(&mut self, runs: &mut [&mut ActiveRun]) {
        for run in &mut *runs {
            running_search::lift_memory_limit(run);
            if let Some(launched) = &mut run.launched
                && let Err(error) = launched.terminate()
            {
                run.notes
                    .push(format!("SIGTERM could not be sent to it: {error}"));
            }
        }
        let began = self.system.now().uptime;
        let mut printed = false;
        loop {
            let has_processes = |run: &mut &mut ActiveRun| {
                let launched = run.launched.as_mut();
                launched.is_some_and(|launched| matches!(launched.has_no_process(), Ok(false)))
            };
            let waited = self.system.now().uptime.saturating_sub(began);
            let request = self.system.stop_request();
            if request.is_some_and(|request| request.force)
                || waited >= self.plan.stop.grace
                || !runs.iter_mut().any(has_processes)
            {
                return;
            }
            if waited >= MESSAGE_AFTER && !mem::replace(&mut printed, true) {
                let running = runs
                    .iter_mut()
                    .filter_map(|run| has_processes(run).then_some(run.scheduled.run))
                    .join(", ");
                let grace = duration(self.plan.stop.grace);
                self.system.print(&format!(
                    "run {running}: waiting for it to end, for {grace} at most"
                ));
            }
            self.system.wait(TERMINATION_POLL_INTERVAL);
        }
    }

    /// Kills what is left of the run and ends its recorder. Returns the final state of the cgroup.
    fn shut_down(&mut self, run: &mut ActiveRun) -> Result<CgroupState> {
        let has_begun = run.watch.is_some();
        // `close` ends the run and removes the cgroup that the recorder reads. If the run has
        // already ended, the recorder must write the end before.
        let has_ended = run
            .launched
            .as_mut()
            .is_some_and(|launched| matches!(launched.has_no_process(), Ok(true)));
        if has_begun
            && has_ended
            && let Some(recorder) = &mut run.recorder
        {
            recorder.wait_for_end_event();
        }
        // Before the recorder ends: otherwise Prometheus reports its target as down.
        if self.scrape_targets.remove(&run.scheduled.run).is_some() {
            self.write_targets();
        }
        let final_state = run.launched.take().map(|launched| launched.close());
        let cgroup_state = final_state.transpose()?.unwrap_or_default();
        if let Some(mut recorder) = run.recorder.take() {
            if has_begun && !has_ended {
                recorder.wait_for_end_event();
            }
            if let Err(error) = recorder.finish() {
                run.notes.push(format!(
                    "warning: the recorder did not end in order: {error:#}"
                ));
            }
        }
        Ok(cgroup_state)
    }

    fn judge(&mut self, run: &mut ActiveRun, final_state: CgroupState) -> Ending {
        let (stop_reason, state_at_stop) = run.stop_decision.take().unzip();
        let facts = EndFacts {
            stop_reason,
            state_at_stop: state_at_stop.unwrap_or_default(),
            final_state,
            has_survivors: run.has_survivors,
        };
        let (mut outcome, notes) = judge::outcome(self.plan.workload.kind, &self.plan.stop, &facts);
        run.notes.extend(notes);
        let mut validity = Validity::Valid;
        match self.check_recording(run, &outcome) {
            Ok((program_cache_validity, coverage)) => {
                outcome = coverage.checked_outcome(outcome);
                let doubt = coverage.coverage_doubt();
                validity = program_cache_validity.with_doubt(doubt.filter(|_| outcome.is_result()));
            }
            Err(error) => {
                let why = format!("its recording proves nothing: {error:#}");
                outcome = Outcome::Failed { why };
            }
        }
        let delay = run.watch.as_ref().and_then(Watch::excessive_delay);
        let too_long = delay.map(|delay| {
            format!(
                "it lasted {} longer than planned: this program or the host was suspended, or another run of the turn took long to end",
                duration(delay)
            )
        });
        Ending {
            validity: validity
                .with_doubt(run.why_not_cold.take().filter(|_| outcome.is_result()))
                .with_doubt(too_long.filter(|_| outcome == Outcome::Completed)),
            outcome,
            cgroup_state: facts.final_state,
            notes: mem::take(&mut run.notes),
            stopped_unix_ns: run.run_period.map(|period| {
                period
                    .from_unix_ns
                    .saturating_add(nanoseconds(period.length))
            }),
        }
    }

    fn check_recording(
        &mut self,
        run: &ActiveRun,
        outcome: &Outcome,
    ) -> Result<(Validity, TickCoverage)> {
        let recording = run.folder.join(RECORDING);
        // The daemon records no transaction of a validator whose name it does not know.
        if let (Outcome::NeverExecuted, Some(last)) =
            (outcome, self.system.processes(&recording)?.last())
        {
            ensure!(
                !last.manifest["program"].is_null(),
                "faultlined does not know {} as a validator: rename or link the file to {KNOWN_VALIDATORS}",
                last.manifest["comm"]
            );
        }
        let program_cache_totals = self.system.program_cache_totals(&recording)?;
        let program_cache_validity = run
            .arm
            .program_cache_entries
            .map(|entries| judge::program_cache_validity(entries, &program_cache_totals));
        let run_period = run.run_period.context("it was never begun")?;
        let ticks = self.system.ticks(&recording)?;
        let coverage = TickCoverage::of(&ticks, run_period, self.plan.recorder.interval);
        Ok((program_cache_validity.unwrap_or_default(), coverage))
    }

    /// Also fails if the run has failed and the turn has other runs.
    fn journal_end(&mut self, run: &mut ActiveRun, ending: Ending) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        let failure = ending.outcome.failure().map(str::to_owned);
        self.system
            .print(&format!("run {number}: {}", ending.in_words()));
        self.journal(Entry::RunEnded {
            run: number,
            attempt,
            ending: Box::new(ending),
        })?;
        run.end_journaled = true;
        self.begin_cool_down(self.system.now().unix_ns);
        match failure {
            // A turn of several runs is repeated as a whole, so its other runs can stop.
            Some(why)
                if self
                    .journal_state
                    .turn_of(number)
                    .is_none_or(|turn| turn.runs.len() != 1) =>
            {
                Err(TurnError::Failed { run: number, why })
            }
            _ => Ok(()),
        }
    }
}
