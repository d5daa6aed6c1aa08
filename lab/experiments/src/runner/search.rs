//! Feeds readings to a search, applies its limits and journals its lines.

use super::searching::{Searching, relimit};
use super::turn::Running;
use super::{Runner, TurnError};
use crate::folder::RECORDING;
use crate::journal::Entry;
use crate::search::{Action, Line, Verdict};
use crate::watch::StopReason;
use anyhow::Context;
use faultline_text::bytes;

const NO_MARK: &str = "warning: the recorder took no mark of a dwell";

impl Runner<'_> {
    pub(super) fn begin_search(&mut self, run: &mut Running) -> anyhow::Result<()> {
        let Some(rules) = self.plan.search.clone() else {
            return Ok(());
        };
        let pid = run.launched.as_ref().context("it was never started")?.pid();
        let observer = self.system.observe(pid, &run.folder.join(RECORDING));
        let hard = !self.system.launcher().can().memory_high;
        run.search = Some(Searching::begin(&self.plan, rules, hard, observer)?);
        let number = run.scheduled.run;
        if self.standing.searches_cut_off(number) > 0 {
            let why = "the search before was cut off, and this one began anew".to_owned();
            self.system.print(&format!("run {number}: {why}"));
            run.notes.push(why);
        }
        Ok(())
    }

    /// Nothing without a search, or after its end.
    pub(super) fn search(&mut self, run: &mut Running) -> Result<(), TurnError> {
        let Some(mut searching) = run.search.take() else {
            return Ok(());
        };
        let acts = if searching.is_over() {
            Ok(())
        } else {
            self.poll_search(run, &mut searching)
        };
        run.search = Some(searching);
        acts
    }

    fn poll_search(
        &mut self,
        run: &mut Running,
        searching: &mut Searching,
    ) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        let now = self.system.now().uptime;
        let launched = run.launched.as_deref_mut().context("it was never started");
        let seen = launched.and_then(|launched| searching.read(now, launched));
        let (reading, evidence) = seen.map_err(|error| self.halt(number, &error))?;
        for act in searching.machine.poll(&reading) {
            match act {
                Action::Limit(limit) => {
                    if let Some(launched) = run.launched.as_deref_mut() {
                        searching.relimit(launched, limit);
                    }
                }
                Action::Line(line) => self.search_line(run, line)?,
                Action::Over(answer) => {
                    searching.answer = Some((*answer).clone());
                    run.why = Some((StopReason::TimeUp, evidence.clone()));
                    self.write(Entry::SearchAnswer {
                        run: number,
                        attempt,
                        answer,
                    })
                    .map_err(TurnError::Journal)?;
                }
            }
        }
        Ok(())
    }

    /// Only if that dwell was under a limit.
    pub(super) fn journal_validator_end(&mut self, run: &mut Running) -> Result<(), TurnError> {
        let searching = run
            .search
            .as_mut()
            .filter(|search| !search.is_over() && run.why.is_none());
        match searching.and_then(|searching| searching.machine.validator_ended()) {
            Some(line) => self.search_line(run, line),
            None => Ok(()),
        }
    }

    fn search_line(&mut self, run: &mut Running, line: Line) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        self.system
            .print(&format!("run {number}: {}", in_words(&line)));
        let mark = mark(&line);
        self.write(Entry::Search {
            run: number,
            attempt,
            line,
        })
        .map_err(TurnError::Journal)?;
        if let (Some((name, kind)), Some(recorder)) = (mark, &mut run.recorder) {
            let refused = recorder
                .mark(&name, kind)
                .err()
                .filter(|_| !run.notes.iter().any(|note| note.starts_with(NO_MARK)));
            run.notes
                .extend(refused.map(|error| format!("{NO_MARK}: {error:#}")));
        }
        Ok(())
    }
}

/// Under pressure a process hardly reacts to signals. A failure is reported.
pub(super) fn lift(run: &mut Running) {
    let may_reach_limit = run.search.as_ref().is_some_and(Searching::may_reach_limit);
    let Some(launched) = run.launched.as_mut().filter(|_| may_reach_limit) else {
        return;
    };
    if let Err(error) = relimit(&mut **launched, None) {
        run.notes.push(format!(
            "warning: its limit of memory could not be lifted: {error:#}"
        ));
    }
}

/// Name and kind. A void dwell has none.
fn mark(line: &Line) -> Option<(String, &'static str)> {
    let Line::Dwell(dwell) = line else {
        return None;
    };
    if dwell.evidence.seconds <= 0.0 {
        return None;
    }
    let kind = match (dwell.verdict, dwell.headroom) {
        (Verdict::KeptUp, None) => "reference",
        (Verdict::KeptUp, Some(_)) => "kept_up",
        (Verdict::Failed, _) => "failed",
        (Verdict::Void, _) => "void",
    };
    let size = match dwell.headroom {
        Some(headroom) => format!("headroom {}", bytes(headroom)),
        None => "no limit".to_owned(),
    };
    Some((format!("{size}: {}", dwell.verdict.in_words()), kind))
}

fn in_words(line: &Line) -> String {
    match line {
        Line::Limit { headroom, why } => match headroom {
            Some(headroom) => format!("headroom {}, {why}", bytes(*headroom)),
            None => format!("limit lifted: {why}"),
        },
        Line::Dwell(dwell) => {
            let size = dwell.headroom.map_or("no limit".to_owned(), bytes);
            let mut words = format!("{size}: {}", dwell.verdict.in_words());
            if !dwell.evidence.why.is_empty() {
                words += &format!(": {}", dwell.evidence.why.join("; "));
            }
            words
        }
    }
}
