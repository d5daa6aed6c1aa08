use super::{Runner, Running, TurnError, search};
use crate::{
    folder::RECORDING,
    journal::{Entry, Step},
    judge::{self, CacheTotals, EndFacts, RunPeriod, TickCoverage},
    outcome::{Ending, Outcome, Validity},
    watch::Watch,
};
use anyhow::{Context, Result};
use faultline_common::clock::nanoseconds;
use faultline_runner::{isolation::Evidence, record::recorder::DEFAULT_INTERVAL};
use faultline_text::time;
use itertools::Itertools;
use std::{mem, time::Duration};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
const REPORT_AFTER: Duration = Duration::from_secs(2);

impl Runner<'_> {
    /// Ends these runs and journals their results.
    pub(super) fn conclude(
        &mut self,
        runs: &mut [Running],
        indices: &[usize],
    ) -> Result<(), TurnError> {
        let mut concluded: Vec<&mut Running> = (0..)
            .zip(runs)
            .filter_map(|(index, run)| indices.contains(&index).then_some(run))
            .collect();
        for run in &concluded {
            self.step(run, Step::End)?;
        }
        let now = self.system.now();
        for run in &mut concluded {
            run.run_period = run.watch.as_ref().map(|watch| RunPeriod {
                from_unix_ns: watch.began.unix_ns,
                length: now.uptime.saturating_sub(watch.began.uptime),
            });
        }
        self.terminate(&mut concluded);
        for run in concluded {
            let after = self
                .close(run)
                .map_err(|error| self.turn_error(run.scheduled.run, &error))?;
            self.step(run, Step::Judge)?;
            let ending = self.judge(run, after);
            self.write_end(run, ending)?;
        }
        Ok(())
    }

    /// Ends all runs of a turn after an error. Returns that error, or a worse one.
    pub(super) fn abandon(&mut self, runs: &mut [Running], turn_error: TurnError) -> TurnError {
        let mut left: Vec<&mut Running> =
            runs.iter_mut().filter(|run| !run.end_journaled).collect();
        let mut worse = None;
        if !matches!(turn_error, TurnError::Journal(_)) {
            for run in &left {
                worse = worse.or(self.step(run, Step::End).err());
            }
        }
        self.terminate(&mut left);
        for run in left {
            let after = self.close(run);
            if let Err(error) = &after {
                run.notes
                    .push(format!("it could not be ended in order: {error:#}"));
            }
            (run.launched, run.recorder) = (None, None);
            let number = run.scheduled.run;
            let outcome = match &turn_error {
                TurnError::StoppedBy(why) | TurnError::DiskFull(why) => {
                    Outcome::Interrupted { why: why.clone() }
                }
                TurnError::Failed { run, why } | TurnError::Unfit { run, why }
                    if *run == number =>
                {
                    Outcome::Failed { why: why.clone() }
                }
                TurnError::Failed { run, .. } | TurnError::Unfit { run, .. } => {
                    Outcome::Interrupted {
                        why: format!("run {run} of the same turn failed"),
                    }
                }
                TurnError::Journal(_) => continue,
            };
            let ending = Ending {
                evidence: after.unwrap_or_default(),
                notes: mem::take(&mut run.notes),
                ..Ending::new(outcome)
            };
            worse = worse.or(self.write_end(run, ending).err());
        }
        // A full disk explains a failed write.
        match (turn_error, worse) {
            (
                TurnError::StoppedBy(_) | TurnError::Failed { .. } | TurnError::Unfit { .. },
                Some(worse),
            ) => worse,
            (turn_error, _) => turn_error,
        }
    }

    /// Asks runs to end, and waits for the grace period or a forced stop.
    fn terminate(&mut self, runs: &mut [&mut Running]) {
        for run in &mut *runs {
            search::lift_memory_limit(run);
            if let Some(launched) = &mut run.launched
                && let Err(error) = launched.terminate()
            {
                run.notes
                    .push(format!("it could not be asked to end: {error}"));
            }
        }
        let since = self.system.now().uptime;
        let mut printed = false;
        loop {
            let ended = |run: &mut &mut Running| {
                run.launched
                    .as_mut()
                    .is_none_or(|launched| !matches!(launched.is_empty(), Ok(false)))
            };
            let all = runs.iter_mut().all(ended);
            let stop_request = self.system.stop_request();
            let is_forced = stop_request.is_some_and(|request| request.force);
            let waited = self.system.now().uptime.saturating_sub(since);
            if all || is_forced || waited >= self.plan.stop.grace {
                return;
            }
            if waited >= REPORT_AFTER && !mem::replace(&mut printed, true) {
                let open = runs
                    .iter_mut()
                    .filter_map(|run| (!ended(run)).then_some(run.scheduled.run))
                    .join(", ");
                let grace = time(self.plan.stop.grace);
                self.system.print(&format!(
                    "run {open}: waiting for it to end, for {grace} at most"
                ));
            }
            self.system.wait(POLL_INTERVAL);
        }
    }

    /// Returns the cgroup's final evidence.
    fn close(&mut self, run: &mut Running) -> Result<Evidence> {
        let begun = run.watch.is_some();
        // The recorder reads the cgroup's files until it ends.
        let ended = run
            .launched
            .as_mut()
            .is_some_and(|launched| matches!(launched.is_empty(), Ok(true)));
        if let (true, true, Some(recorder)) = (begun, ended, &mut run.recorder) {
            recorder.wait_for_end_event();
        }
        // Removed first, so that Prometheus reports no target as down.
        if self.scrape_targets.remove(&run.scheduled.run).is_some() {
            self.announce();
        }
        let evidence = match run.launched.take() {
            Some(launched) => launched.close()?,
            None => Evidence::default(),
        };
        if let Some(mut recorder) = run.recorder.take() {
            if begun && !ended {
                recorder.wait_for_end_event();
            }
            if let Err(error) = recorder.finish() {
                run.notes.push(format!(
                    "warning: the recorder did not end in order: {error:#}"
                ));
            }
        }
        Ok(evidence)
    }

    fn judge(&mut self, run: &mut Running, after: Evidence) -> Ending {
        let (why, before) = run.why.take().unzip();
        let facts = EndFacts {
            stop_reason: why,
            evidence_at_stop: before.unwrap_or_default(),
            final_evidence: after,
            has_survivors: run.has_survivors,
        };
        let (outcome, remarks) = judge::outcome(self.plan.workload.kind, &self.plan.stop, &facts);
        run.notes.extend(remarks);
        let (outcome, validity) = match self.recorded(run) {
            Ok((seen, recorded)) => {
                let cache = run
                    .arm
                    .cache_entries
                    .map(|entries| judge::cache_validity(entries, &seen))
                    .unwrap_or_default();
                let outcome = recorded.checked_outcome(outcome);
                let doubt = recorded.coverage_doubt().filter(|_| outcome.is_result());
                (outcome, cache.with_doubt(doubt))
            }
            Err(error) => (
                Outcome::Failed {
                    why: format!("its recording cannot be read: {error:#}"),
                },
                Validity::Valid,
            ),
        };
        let validity = validity.with_doubt(run.not_cold.take().filter(|_| outcome.is_result()));
        let delay = run
            .watch
            .as_ref()
            .and_then(Watch::excessive_delay)
            .filter(|_| outcome == Outcome::Completed);
        let validity = validity.with_doubt(delay.map(|delay| {
            format!(
                "it lasted {} longer than planned: this program or the host was suspended",
                time(delay)
            )
        }));
        let stopped_unix_ns = run.run_period.map(|period| {
            period
                .from_unix_ns
                .saturating_add(nanoseconds(period.length))
        });
        Ending {
            outcome,
            validity,
            evidence: facts.final_evidence,
            notes: mem::take(&mut run.notes),
            stopped_unix_ns,
        }
    }

    fn recorded(&mut self, run: &Running) -> Result<(CacheTotals, TickCoverage)> {
        let recording = run.folder.join(RECORDING);
        let seen = self.system.cache(&recording)?;
        let interval = self.plan.recorder.interval.unwrap_or(DEFAULT_INTERVAL);
        let run_period = run.run_period.context("it was never begun")?;
        Ok((
            seen,
            TickCoverage::of(&self.system.ticks(&recording)?, run_period, interval),
        ))
    }

    fn write_end(&mut self, run: &mut Running, ending: Ending) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        let failed = match &ending.outcome {
            Outcome::Failed { why } => Some(why.clone()),
            _ => None,
        };
        self.system
            .print(&format!("run {number}: {}", ending.in_words()));
        self.journal(Entry::RunEnded {
            run: number,
            attempt,
            ending: Box::new(ending),
        })?;
        run.end_journaled = true;
        self.last_run_ended = Some(self.system.now().uptime);
        match failed {
            // The turn is repeated, so its other runs can stop.
            Some(why) if !matches!(self.journal_state.turn_of(number), Some(turn) if turn.runs.len() == 1) => {
                Err(TurnError::Failed { run: number, why })
            }
            _ => Ok(()),
        }
    }
}
