use super::{Entry, JournalLine, Planned, Step};
use crate::{
    folder::ExperimentFolder,
    outcome::Ending,
    schedule::{ScheduledRun, Turn},
    search,
};
use std::{collections::BTreeMap, path::PathBuf};

/// A turn is the runs that execute at the same time: one, or with `concurrent` one per lane.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JournalState {
    /// `None` without a first line.
    pub planned: Option<Planned>,
    /// 0 without a first line.
    pub began_unix_ns: i64,
    pub turns: Vec<Turn>,
    /// The key is the number of a turn.
    pub attempts: BTreeMap<u32, Vec<Attempt>>,
    pub runner_starts: u32,
    /// Host of the last runner; empty in journals of older versions.
    pub host: String,
    /// Start of the last runner; 0 without one.
    pub runner_began_unix_ns: i64,
    /// A host block is turns that one host executes with a separate journal.
    pub running_host_blocks: usize,
    /// Journals of host blocks: path and reason.
    pub unreadable_journals: Vec<String>,
    /// Reason, if the last runner was stopped.
    pub stopped: Option<String>,
    pub finished: bool,
    pub last_end_unix_ns: Option<i64>,
}

/// One execution of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attempt {
    /// From 1 on.
    pub number: u32,
    /// From 1 on; of the runner that began the attempt.
    pub runner_number: u32,
    pub unix_ns: i64,
    pub host: String,
    /// With host blocks: the folder whose journal has this attempt, and the number in that journal.
    pub origin: Option<(PathBuf, u32)>,
    /// By number of the run. Has only runs about which the journal has a line.
    pub runs: BTreeMap<u32, RunAttempt>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunAttempt {
    /// Step, and nanoseconds since 1970.
    pub steps: Vec<(Step, i64)>,
    /// `None` while the run executes, or if its runner was killed.
    pub ended: Option<(Ending, i64)>,
    /// Empty without a search.
    pub search_log: SearchLog,
    /// Why the result does not count.
    pub void_reason: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchLog {
    /// Event, and nanoseconds since 1970.
    pub events: Vec<(search::SearchEvent, i64)>,
    /// `None` while the search executes, or if the run ended before.
    pub answer: Option<search::SearchAnswer>,
}

/// A run whose attempt has a result and is not repeated. The result may be invalid.
#[derive(Clone, Copy)]
pub struct CompletedRun<'e> {
    pub scheduled: &'e ScheduledRun,
    pub turn: u32,
    pub attempt: u32,
    pub ending: &'e Ending,
}

pub struct NextAttempt<'a> {
    pub turn: &'a Turn,
    /// From 1 on.
    pub attempt: u32,
    /// Since the current runner started.
    pub failed: u32,
}

impl JournalState {
    pub fn of(lines: &[JournalLine]) -> Self {
        let mut journal_state = Self::default();
        for line in lines {
            journal_state.add(line.clone());
        }
        journal_state
    }

    /// A line about a run changes this run only after the `TurnBegun` line of the same attempt.
    pub fn add(&mut self, line: JournalLine) {
        let unix_ns = line.unix_ns;
        match line.entry {
            Entry::Planned(planned) => {
                self.turns.clone_from(&planned.turns);
                self.planned = Some(planned);
                self.began_unix_ns = unix_ns;
            }
            Entry::Runner { host, .. } => {
                self.host = host;
                self.runner_began_unix_ns = unix_ns;
                self.runner_starts += 1;
                self.stopped = None;
            }
            Entry::TurnBegun { turn, attempt } => {
                self.attempts.entry(turn).or_default().push(Attempt {
                    number: attempt,
                    runner_number: self.runner_starts,
                    unix_ns,
                    host: self.host.clone(),
                    ..Attempt::default()
                });
            }
            Entry::Step { run, attempt, step } => {
                self.update_run(run, attempt, |run| run.steps.push((step, unix_ns)));
            }
            Entry::Search {
                run,
                attempt,
                event,
            } => {
                self.update_run(run, attempt, |run| {
                    run.search_log.events.push((event, unix_ns))
                });
            }
            Entry::SearchAnswer {
                run,
                attempt,
                answer,
            } => {
                self.update_run(run, attempt, |run| run.search_log.answer = Some(*answer));
            }
            Entry::RunEnded {
                run,
                attempt,
                ending,
            } => {
                self.last_end_unix_ns = Some(unix_ns);
                self.update_run(run, attempt, |run| run.ended = Some((*ending, unix_ns)));
            }
            Entry::Void { run, attempt, why } => {
                if self.update_run(run, attempt, |run| run.void_reason = Some(why)) {
                    self.finished = false;
                }
            }
            Entry::Stopped { why } => self.stopped = Some(why),
            Entry::Finished => self.finished = true,
        }
    }

    fn update_run(&mut self, run: u32, attempt: u32, change: impl FnOnce(&mut RunAttempt)) -> bool {
        let turn = self.turn_of(run).map(|turn| turn.number);
        let begun = turn
            .and_then(|turn| self.attempts.get_mut(&turn))
            .and_then(|attempts| attempts.iter_mut().find(|begun| begun.number == attempt));
        let Some(begun) = begun else { return false };
        change(begun.runs.entry(run).or_default());
        true
    }

    /// Number of earlier attempts whose search began and has no answer.
    pub fn searches_unanswered(&self, run: u32) -> usize {
        self.attempts_of_run(run)
            .rev()
            .skip(1)
            .filter_map(|attempt| Some(&attempt.runs.get(&run)?.search_log))
            .filter(|search| !search.events.is_empty() && search.answer.is_none())
            .count()
    }

    pub fn scheduled(&self) -> impl Iterator<Item = (&Turn, &ScheduledRun)> {
        self.turns
            .iter()
            .flat_map(|turn| turn.runs.iter().map(move |scheduled| (turn, scheduled)))
    }

    pub fn attempts_of(&self, turn: &Turn) -> &[Attempt] {
        self.attempts.get(&turn.number).map_or(&[], Vec::as_slice)
    }

    fn attempts_of_run(&self, run: u32) -> impl DoubleEndedIterator<Item = &Attempt> {
        self.turn_of(run)
            .into_iter()
            .flat_map(|turn| self.attempts_of(turn))
    }

    pub fn turn_of(&self, run: u32) -> Option<&Turn> {
        self.turns
            .iter()
            .find(|turn| turn.runs.iter().any(|scheduled| scheduled.run == run))
    }

    /// With host blocks, inside the folder of the block attempt.
    pub fn run_folder(
        &self,
        folder: &ExperimentFolder,
        run: &ScheduledRun,
        attempt: u32,
    ) -> PathBuf {
        let origin = self
            .attempts_of_run(run.run)
            .find(|begun| begun.number == attempt)
            .and_then(|begun| begun.origin.as_ref());
        match origin {
            Some((origin_folder, number)) => ExperimentFolder::new(origin_folder).run(run, *number),
            None => folder.run(run, attempt),
        }
    }

    pub fn newest_attempt(&self, turn: &Turn) -> Option<&Attempt> {
        self.attempts_of(turn).last()
    }

    /// `None` if the newest attempt has no line about the run.
    pub fn newest_run(&self, run: u32) -> Option<&RunAttempt> {
        self.attempts_of_run(run).next_back()?.runs.get(&run)
    }

    pub fn is_done(&self, turn: &Turn) -> bool {
        self.newest_attempt(turn)
            .is_some_and(|newest| newest.is_complete(turn))
    }

    pub fn next_attempt(&self) -> Option<NextAttempt<'_>> {
        let turn = self.turns.iter().find(|turn| !self.is_done(turn))?;
        let failed = self
            .attempts_of(turn)
            .iter()
            .filter(|attempt| attempt.runner_number == self.runner_starts)
            .count();
        Some(NextAttempt {
            turn,
            attempt: self
                .newest_attempt(turn)
                .map_or(1, |newest| newest.number.saturating_add(1)),
            failed: u32::try_from(failed).unwrap_or(u32::MAX),
        })
    }

    /// Number of each run that has not ended in the newest attempt, and of the attempt. The runner
    /// was killed or still works.
    pub fn unfinished_runs(&self) -> Vec<(u32, u32)> {
        self.scheduled()
            .filter_map(|(turn, scheduled)| {
                let newest = self.newest_attempt(turn)?;
                let run = newest.runs.get(&scheduled.run);
                run.is_none_or(|run| run.ended.is_none())
                    .then_some((scheduled.run, newest.number))
            })
            .collect()
    }

    pub fn completed_runs(&self) -> Vec<CompletedRun<'_>> {
        self.scheduled()
            .filter(|(turn, _)| self.is_done(turn))
            .filter_map(|(turn, scheduled)| {
                let newest = self.newest_attempt(turn)?;
                Some(CompletedRun {
                    scheduled,
                    turn: turn.number,
                    attempt: newest.number,
                    ending: newest.result(scheduled.run)?,
                })
            })
            .collect()
    }
}

impl CompletedRun<'_> {
    /// `512G, run 2`, or `512G (A/A), run 2` for the second of two simultaneous runs of one arm.
    pub(crate) fn name(&self) -> String {
        format!(
            "{}, run {}",
            self.scheduled.arm_name("A/A"),
            self.scheduled.replicate
        )
    }
}

impl Attempt {
    /// `None` if the run has no result, or a `Void` line is about it.
    pub fn result(&self, run: u32) -> Option<&Ending> {
        let run = self.runs.get(&run)?;
        let (ending, _) = run.ended.as_ref()?;
        (run.void_reason.is_none() && ending.outcome.is_result()).then_some(ending)
    }

    pub fn is_complete(&self, turn: &Turn) -> bool {
        turn.runs
            .iter()
            .all(|scheduled| self.result(scheduled.run).is_some())
    }
}

#[cfg(test)]
mod tests;
