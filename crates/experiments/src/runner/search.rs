//! A search beside its run: readings go in, limits and lines of the journal come out.

use super::searching::Searching;
use super::turn::Running;
use super::{Halt, Runner};
use crate::folder::RECORDING;
use crate::journal::Entry;
use crate::search::{Act, Line, Reading, Verdict};
use crate::watch::Why;
use anyhow::Context;
use faultline_isolation::Launched;

impl Runner<'_> {
    /// Begins the search of a run whose plan has one.
    pub(super) fn begin_search(&mut self, run: &mut Running) -> anyhow::Result<()> {
        let Some(rules) = self.plan.search.clone() else { return Ok(()) };
        let pid = run.launched.as_ref().context("it was never started")?.pid();
        let observer = self.world.observe(pid, &run.folder.join(RECORDING));
        run.search = Some(Searching::begin(rules, observer)?);
        let number = run.scheduled.run;
        if self.standing.searches_cut_off(number) > 0 {
            let why = "the search before was cut off, and this one began anew".to_owned();
            self.world.tell(&format!("run {number}: {why}"));
            run.notes.push(why);
        }
        Ok(())
    }

    /// One look of a search; nothing where there is none, or it is over.
    pub(super) fn search(&mut self, run: &mut Running) -> Result<(), Halt> {
        let Some(mut searching) = run.search.take() else { return Ok(()) };
        let looked = if searching.is_over() { Ok(()) } else { self.look_and_act(run, &mut searching) };
        run.search = Some(searching);
        looked
    }

    fn look_and_act(&mut self, run: &mut Running, searching: &mut Searching) -> Result<(), Halt> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        let now = self.world.now().uptime;
        let evidence = match run.launched.as_mut().context("it was never started").map(|launched| launched.evidence()) {
            Ok(Ok(evidence)) => evidence,
            Ok(Err(error)) => return Err(self.halt(number, &error.into())),
            Err(error) => return Err(self.halt(number, &error)),
        };
        let reading = Reading { out_of_memory: searching.is_out_of_memory(&evidence), ..searching.observer.read(now) };
        for act in searching.machine.look(&reading) {
            match act {
                Act::Limit(bytes) => {
                    let moved = run.launched.as_mut().map_or(Ok(()), |launched| relimit(&mut **launched, bytes));
                    moved.map_err(|error| self.halt(number, &error))?;
                }
                Act::Line(line) => {
                    self.world.tell(&format!("run {number}: {}", in_words(&line)));
                    self.write(Entry::Search { run: number, attempt, line }).map_err(Halt::Journal)?;
                }
                Act::Over(answer) => {
                    searching.answer = Some((*answer).clone());
                    run.why = Some((Why::TimeUp, evidence.clone()));
                    self.write(Entry::SearchAnswer { run: number, attempt, answer }).map_err(Halt::Journal)?;
                }
            }
        }
        Ok(())
    }
}

/// Lifts the limit of a search that is ended early: what is squeezed would hardly hear that it is to end. What cannot be lifted
/// is told.
pub(super) fn lift(run: &mut Running) {
    let goes_on = run.search.as_ref().is_some_and(|search| !search.is_over());
    let Some(launched) = run.launched.as_mut().filter(|_| goes_on) else { return };
    if let Err(error) = relimit(&mut **launched, None) {
        run.notes.push(format!("warning: its limit of memory could not be lifted: {error:#}"));
    }
}

/// Moves the limit and looks whether it holds. One that is higher than asked is no error: version 1 refuses to take what it
/// cannot reclaim, and the search asks again.
fn relimit(launched: &mut dyn Launched, bytes: Option<u64>) -> anyhow::Result<()> {
    let held = launched.relimit(bytes)?;
    let holds = match (bytes, held) {
        (None, held) => held.is_none(),
        (Some(asked), Some(held)) => held.saturating_add(PAGE) > asked,
        (Some(_), None) => true,
    };
    let said = |limit: Option<u64>| limit.map_or("none".to_owned(), faultline_text::bytes);
    anyhow::ensure!(holds, "its limit of memory is {} and not {}", said(held), said(bytes));
    Ok(())
}

/// The kernel cuts limits down to whole pages, which have at most so many bytes.
const PAGE: u64 = 64 << 10;

/// A line for whoever watches.
fn in_words(line: &Line) -> String {
    let size = |headroom: Option<u64>| headroom.map_or("no limit".to_owned(), faultline_text::bytes);
    match line {
        Line::Limit { headroom, why } => match headroom {
            Some(bytes) => format!("headroom {}, {why}", faultline_text::bytes(*bytes)),
            None => format!("limit lifted: {why}"),
        },
        Line::Dwell { headroom, verdict, evidence, .. } => {
            let said = match verdict {
                Verdict::KeptUp => "kept up",
                Verdict::Failed => "failed",
                Verdict::Void => "void",
            };
            let why = if evidence.why.is_empty() { String::new() } else { format!(": {}", evidence.why.join("; ")) };
            format!("{}: {said}{why}", size(*headroom))
        }
    }
}
