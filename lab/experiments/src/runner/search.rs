//! Feeds readings to a memory search, sets limits and journals its lines.

use super::{Runner, Running, TurnError, system::Observer};
use crate::{
    check::phase,
    folder::RECORDING,
    journal::Entry,
    outcome::Outcome,
    plan::{Plan, Search},
    search::{Action, Line, Reading, SearchMachine, Verdict},
};
use anyhow::{Context, Result};
use faultline_runner::isolation::{Evidence, Launched};
use faultline_text::{bytes, time};
use std::time::Duration;

pub const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The daemon's default: a validator at most so many slots behind is at the tip.
const DEFAULT_AT_TIP_SLOTS: u64 = 32;
/// A restarting systemd does not answer for a while.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum page size: the kernel rounds limits down to pages.
const MAX_PAGE_BYTES: u64 = 64 << 10;
const NO_MARK: &str = "warning: the recorder took no mark of a dwell";

/// Since when operations have failed; `None` if the last one succeeded.
#[derive(Debug, Default)]
pub struct FailureTimer(Option<Duration>);

impl FailureTimer {
    /// `None` for a recent failure. Fails if errors last too long.
    pub fn tolerate<T>(&mut self, now: Duration, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(result) => {
                self.0 = None;
                Ok(Some(result))
            }
            Err(error) => {
                let lasted = now.saturating_sub(*self.0.get_or_insert(now));
                if lasted < FAILURE_TIMEOUT {
                    Ok(None)
                } else {
                    Err(error.context(format!("this has failed for {}", time(lasted))))
                }
            }
        }
    }
}

pub struct RunningSearch {
    machine: SearchMachine,
    observer: Box<dyn Observer>,
    is_over: bool,
    /// OOM events so far.
    out_of_memory: u64,
    /// A limit still to be set.
    pending_limit: Option<Option<u64>>,
    error: FailureTimer,
}

impl RunningSearch {
    /// `is_hard_limit`: whether writes in a full cgroup fail.
    fn begin(
        plan: &Plan,
        rules: Search,
        is_hard_limit: bool,
        observer: Box<dyn Observer>,
    ) -> Result<Self> {
        let machine = SearchMachine::new(rules, at_tip_slots(plan), is_hard_limit)
            .context("[search] cannot be searched by these rules")?;
        Ok(RunningSearch {
            machine,
            observer,
            is_over: false,
            out_of_memory: 0,
            pending_limit: None,
            error: FailureTimer::default(),
        })
    }

    /// While the limit is not as requested, the reading is empty, so no dwell is judged by it.
    fn read(&mut self, now: Duration, launched: &mut dyn Launched) -> Result<(Reading, Evidence)> {
        let applied = self
            .pending_limit
            .map_or(Ok(()), |bytes| set_memory_limit(launched, bytes));
        // If the launcher does not answer, files and recording are still readable.
        let mut reading = if applied.is_ok() {
            self.pending_limit = None;
            self.observer.read(now)
        } else {
            Reading {
                at: now,
                ..Reading::default()
            }
        };
        let evidence = applied.and_then(|()| launched.evidence());
        let evidence = self.error.tolerate(now, evidence)?;
        reading.out_of_memory = evidence
            .as_ref()
            .is_some_and(|evidence| self.is_out_of_memory(evidence));
        Ok((reading, evidence.unwrap_or_default()))
    }

    /// The next poll retries a failure.
    fn set_memory_limit(&mut self, launched: &mut dyn Launched, bytes: Option<u64>) {
        self.pending_limit = set_memory_limit(launched, bytes).err().map(|_| bytes);
    }

    /// Whether it waits while full, or had an OOM event since the last poll.
    fn is_out_of_memory(&mut self, evidence: &Evidence) -> bool {
        let count = |name: &str| evidence.memory_events.get(name).copied().unwrap_or(0);
        let now = count("oom").saturating_add(count("oom_kill"));
        let before = std::mem::replace(&mut self.out_of_memory, now);
        count("under_oom") > 0 || now > before
    }

    /// Whether a limit may be in effect: during the search, and if the last one could not be
    /// lifted.
    fn may_reach_limit(&self) -> bool {
        !self.is_over || self.pending_limit.is_some()
    }
}

fn at_tip_slots(plan: &Plan) -> u64 {
    let slots = phase(plan).and_then(|phase| phase.get("at_tip_slots")?.as_integer());
    slots
        .and_then(|slots| u64::try_from(slots).ok())
        .unwrap_or(DEFAULT_AT_TIP_SLOTS)
}

/// Changes the limit and verifies it. A higher limit is no error: cgroup v1 refuses to go below
/// unreclaimable memory, and the search asks again.
fn set_memory_limit(launched: &mut dyn Launched, requested: Option<u64>) -> Result<()> {
    let applied = launched.set_memory_limit(requested)?;
    let is_effective = match (requested, applied) {
        (None, applied) => applied.is_none(),
        (Some(requested), Some(applied)) => applied.saturating_add(MAX_PAGE_BYTES) > requested,
        (Some(_), None) => true,
    };
    let shown = |limit: Option<u64>| limit.map_or("none".to_owned(), bytes);
    anyhow::ensure!(
        is_effective,
        "its limit of memory is {} and not {}",
        shown(applied),
        shown(requested)
    );
    Ok(())
}

impl Runner<'_> {
    pub(super) fn begin_search(&mut self, run: &mut Running) -> Result<()> {
        let Some(rules) = self.plan.search.clone() else {
            return Ok(());
        };
        let pid = run.launched.as_ref().context("it was never started")?.pid();
        let observer = self.system.observe(pid, &run.folder.join(RECORDING));
        let is_hard_limit = !self.system.launcher().abilities().memory_high;
        run.search = Some(RunningSearch::begin(
            &self.plan,
            rules,
            is_hard_limit,
            observer,
        )?);
        let number = run.scheduled.run;
        if self.journal_state.searches_cut_off(number) > 0 {
            let why = "the search before was cut off, and this one began anew".to_owned();
            self.system.print(&format!("run {number}: {why}"));
            run.notes.push(why);
        }
        Ok(())
    }

    /// Polls the search. Does nothing without a search, or after its end.
    pub(super) fn search(&mut self, run: &mut Running) -> Result<(), TurnError> {
        let Some(mut running_search) = run.search.take() else {
            return Ok(());
        };
        let polled = if running_search.is_over {
            Ok(())
        } else {
            self.poll_search(run, &mut running_search)
        };
        run.search = Some(running_search);
        polled
    }

    fn poll_search(
        &mut self,
        run: &mut Running,
        running_search: &mut RunningSearch,
    ) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        let now = self.system.now().uptime;
        let launched = run.launched.as_deref_mut().context("it was never started");
        let seen = launched.and_then(|launched| running_search.read(now, launched));
        let (reading, evidence) = seen.map_err(|error| self.turn_error(number, &error))?;
        for action in running_search.machine.poll(&reading) {
            match action {
                Action::Limit(limit) => {
                    if let Some(launched) = run.launched.as_deref_mut() {
                        running_search.set_memory_limit(launched, limit);
                    }
                }
                Action::Line(line) => self.journal_line(run, line)?,
                Action::Over(answer) => {
                    running_search.is_over = true;
                    run.why = Some((Outcome::Completed, evidence.clone()));
                    self.journal(Entry::SearchAnswer {
                        run: number,
                        attempt,
                        answer,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Journals the dwell in which the validator ended, if it was under a limit.
    pub(super) fn journal_validator_end(&mut self, run: &mut Running) -> Result<(), TurnError> {
        let running_search = run
            .search
            .as_mut()
            .filter(|search| !search.is_over && run.why.is_none());
        match running_search.and_then(|running_search| running_search.machine.validator_ended()) {
            Some(line) => self.journal_line(run, line),
            None => Ok(()),
        }
    }

    fn journal_line(&mut self, run: &mut Running, line: Line) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        self.system
            .print(&format!("run {number}: {}", in_words(&line)));
        let mark = mark(&line);
        self.journal(Entry::Search {
            run: number,
            attempt,
            line,
        })?;
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

/// Lifts the limit before the end: under pressure, a process hardly reacts to signals. A failure is
/// noted.
pub fn lift_memory_limit(run: &mut Running) {
    let may_reach_limit = run
        .search
        .as_ref()
        .is_some_and(RunningSearch::may_reach_limit);
    let Some(launched) = run.launched.as_mut().filter(|_| may_reach_limit) else {
        return;
    };
    if let Err(error) = set_memory_limit(&mut **launched, None) {
        run.notes.push(format!(
            "warning: its limit of memory could not be lifted: {error:#}"
        ));
    }
}

/// Name and kind of a dwell's mark. An untried dwell has none.
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Blind;

    impl Observer for Blind {
        fn read(&mut self, at: Duration) -> Reading {
            Reading {
                at,
                ..Reading::default()
            }
        }
    }

    #[test]
    fn a_past_oom_event_of_a_group_is_reported_only_once() {
        let second = Duration::from_secs(1);
        let rules = Search {
            from: 1 << 30,
            settle: second,
            dwell: second,
            width: 0.1,
            most: second,
            horizon: second,
        };
        let mut running_search =
            RunningSearch::begin(&plan(""), rules, false, Box::new(Blind)).unwrap();
        let mut evidence = Evidence::default();
        let mut seen = |name: &str, count: u64| {
            evidence.memory_events.insert(name.to_owned(), count);
            running_search.is_out_of_memory(&evidence)
        };
        assert!(!seen("oom", 0));
        assert!(seen("oom", 1));
        assert!(!seen("oom", 1), "told once");
        assert!(seen("under_oom", 1));
        assert!(seen("under_oom", 1), "it still waits");
        assert!(!seen("under_oom", 0));
    }

    /// One whose recorder has this configuration.
    fn plan(config: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.toml");
        std::fs::write(folder.path().join("faultlined.toml"), config).unwrap();
        let text = "name = \"s\"\nfolder = \"f\"\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n\
                    [begin]\nhow = \"download\"\n[recorder]\nconfig = \"faultlined.toml\"\n\
                    [search]\nwhat = \"memory\"\nfrom = \"1G\"\n";
        let plan = crate::plan::parse(text, &file).unwrap();
        let message = at_tip_slots(&plan);
        assert_eq!(
            message,
            config
                .rsplit_once("= ")
                .map_or(32, |(_, slots)| slots.parse().unwrap())
        );
        plan
    }

    #[test]
    fn the_at_tip_distance_comes_from_the_recorders_configuration() {
        plan("[phase]\nat_tip_slots = 7");
        plan("[log]\n");
        plan("no TOML");
    }

    #[test]
    fn brief_read_failures_are_tolerated_and_lasting_ones_are_errors() {
        let second = Duration::from_secs(1);
        let fails = || Err::<(), _>(anyhow::anyhow!("no answer"));
        let mut error = FailureTimer::default();
        assert!(error.tolerate(second, fails()).unwrap().is_none());
        assert!(error.tolerate(30 * second, fails()).unwrap().is_none());
        assert!(error.tolerate(30 * second, Ok(())).unwrap().is_some());
        assert!(
            error.tolerate(40 * second, fails()).unwrap().is_none(),
            "it counts anew"
        );
        let error = error.tolerate(70 * second, fails()).unwrap_err();
        assert_eq!(format!("{error:#}"), "this has failed for 30 s: no answer");
    }
}
