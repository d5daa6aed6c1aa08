//! Gives readings to a memory search, sets its limits and journals its events.
//!
//! Headroom is the bytes that a limit leaves above memory that cannot be reclaimed. A dwell is the
//! time for which the search keeps one headroom, and which gets a verdict. A turn is the runs that
//! execute at the same time; with a search, it has one run, which has the host for itself.

use super::{ActiveRun, Observer, Runner, TurnError};
use crate::{
    check::phase_config,
    folder::RECORDING,
    journal::Entry,
    outcome::Outcome,
    plan::{MemorySearchRules, Plan},
    search::{Action, Reading, SearchEvent, SearchMachine, Verdict},
};
use anyhow::{Context, Result};
use faultline_runner::isolation::{CgroupState, Launched};
use faultline_text::{bytes, duration};
use std::time::Duration;

pub const READING_INTERVAL: Duration = Duration::from_millis(250);
/// The daemon's default of `at_tip_slots`. A search uses at most `search::MAX_SLOTS_BEHIND`.
const DEFAULT_AT_TIP_SLOTS: u64 = 32;
/// A restarting systemd does not answer for a while.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum page size: the kernel rounds limits down to pages.
const MAX_PAGE_BYTES: u64 = 64 << 10;
const NO_MARK: &str = "warning: the mark of a dwell could not be recorded";

/// Uptime since when operations have failed; `None` if the last one succeeded.
#[derive(Default)]
pub struct FailureTimer(Option<Duration>);

impl FailureTimer {
    /// Returns `None` instead of an error. Fails once errors have lasted for [`FAILURE_TIMEOUT`].
    pub fn tolerate<T>(&mut self, now: Duration, result: Result<T>) -> Result<Option<T>> {
        let error = match result {
            Ok(value) => {
                self.0 = None;
                return Ok(Some(value));
            }
            Err(error) => error,
        };
        let lasted = now.saturating_sub(*self.0.get_or_insert(now));
        if lasted < FAILURE_TIMEOUT {
            return Ok(None);
        }
        Err(error.context(format!("this has failed for {}", duration(lasted))))
    }
}

pub struct RunningSearch {
    machine: SearchMachine,
    observer: Box<dyn Observer>,
    is_over: bool,
    oom_events: u64,
    /// A limit still to be set; `Some(None)` to lift it.
    pending_limit: Option<Option<u64>>,
    failures: FailureTimer,
}

impl RunningSearch {
    /// Without `is_hard_limit`, the search sets `memory.high`, which throttles the cgroup. With it
    /// (cgroup v1), it sets the hard limit; OOM kills are off, so the validator waits for memory.
    fn begin(
        plan: &Plan,
        rules: MemorySearchRules,
        is_hard_limit: bool,
        observer: Box<dyn Observer>,
    ) -> Result<Self> {
        let machine = SearchMachine::new(rules, at_tip_slots(plan), is_hard_limit)
            .context("the values of [search] do not allow a search")?;
        Ok(Self {
            machine,
            observer,
            is_over: false,
            oom_events: 0,
            pending_limit: None,
            failures: FailureTimer::default(),
        })
    }

    /// Until the pending limit is in effect, the machine gets an empty reading.
    fn poll(
        &mut self,
        now: Duration,
        launched: &mut dyn Launched,
    ) -> Result<(Vec<Action>, CgroupState)> {
        let applied = self
            .pending_limit
            .map_or(Ok(()), |limit| set_memory_limit(launched, limit));
        // The observer needs no launcher: its reading counts even if `cgroup_state` then fails.
        let mut reading = if applied.is_ok() {
            self.pending_limit = None;
            self.observer.read(now)
        } else {
            Reading {
                at: now,
                ..Reading::default()
            }
        };
        let cgroup_state = applied.and_then(|()| launched.cgroup_state());
        let cgroup_state = self.failures.tolerate(now, cgroup_state)?;
        reading.out_of_memory = cgroup_state
            .as_ref()
            .is_some_and(|state| self.is_out_of_memory(state));
        let actions = self.machine.poll(&reading);
        Ok((actions, cgroup_state.unwrap_or_default()))
    }

    /// Whether the cgroup is under OOM, or had an OOM event since the last poll.
    fn is_out_of_memory(&mut self, cgroup_state: &CgroupState) -> bool {
        let count = |name: &str| cgroup_state.memory_events.get(name).copied().unwrap_or(0);
        let total = count("oom").saturating_add(count("oom_kill"));
        let last_total = std::mem::replace(&mut self.oom_events, total);
        count("under_oom") > 0 || total > last_total
    }
}

fn at_tip_slots(plan: &Plan) -> u64 {
    let slots = phase_config(plan).and_then(|config| config.get("at_tip_slots")?.as_integer());
    slots
        .and_then(|slots| u64::try_from(slots).ok())
        .unwrap_or(DEFAULT_AT_TIP_SLOTS)
}

/// Sets the limit. Fails if the limit in effect is then lower than `requested`. It may be higher:
/// cgroup v1 refuses a limit below unreclaimable memory, and the search later requests it again.
fn set_memory_limit(launched: &mut dyn Launched, requested: Option<u64>) -> Result<()> {
    let applied = launched.set_memory_limit(requested)?;
    let is_effective = match (requested, applied) {
        (Some(requested), Some(applied)) => applied.saturating_add(MAX_PAGE_BYTES) > requested,
        (_, applied) => applied.is_none(),
    };
    let [applied, requested] =
        [applied, requested].map(|limit| limit.map_or("none".to_owned(), bytes));
    anyhow::ensure!(
        is_effective,
        "its memory limit is {applied}, not {requested}"
    );
    Ok(())
}

impl Runner<'_> {
    pub(super) fn begin_search(&mut self, run: &mut ActiveRun) -> Result<()> {
        let Some(rules) = self.plan.memory_search.clone() else {
            return Ok(());
        };
        let pid = run.launched.as_ref().context("it was never started")?.pid();
        let observer = self.system.observer(pid, &run.folder.join(RECORDING));
        let is_hard_limit = !self.system.launcher().abilities().memory_high;
        run.search = Some(RunningSearch::begin(
            &self.plan,
            rules,
            is_hard_limit,
            observer,
        )?);
        let number = run.scheduled.run;
        if self.journal_state.searches_unanswered(number) > 0 {
            let why = "the search before was cut off, and this one began anew".to_owned();
            self.system.print(&format!("run {number}: {why}"));
            run.notes.push(why);
        }
        Ok(())
    }

    pub(super) fn poll_search(&mut self, run: &mut ActiveRun) -> Result<(), TurnError> {
        let Some(search) = run.search.as_mut().filter(|search| !search.is_over) else {
            return Ok(());
        };
        let (number, attempt) = (run.scheduled.run, run.attempt);
        let now = self.system.now().uptime;
        let launched = run.launched.as_deref_mut().context("it was never started");
        let (actions, cgroup_state) = launched
            .and_then(|launched| search.poll(now, launched))
            .map_err(|error| self.failed_or_disk_full(number, &error))?;
        for action in actions {
            match action {
                Action::SetLimit(limit) => {
                    if let Some(launched) = run.launched.as_deref_mut()
                        && let Some(search) = &mut run.search
                    {
                        // The next poll retries a failure.
                        let failed = set_memory_limit(launched, limit).is_err();
                        search.pending_limit = failed.then_some(limit);
                    }
                }
                Action::Journal(event) => self.journal_event(run, event)?,
                Action::Over(answer) => {
                    if let Some(search) = &mut run.search {
                        search.is_over = true;
                    }
                    run.stop_decision = Some((Outcome::Completed, cgroup_state.clone()));
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

    /// If the validator ended in a dwell with a limit, journals this dwell.
    pub(super) fn journal_validator_end(&mut self, run: &mut ActiveRun) -> Result<(), TurnError> {
        let event = run
            .search
            .as_mut()
            .filter(|search| !search.is_over && run.stop_decision.is_none())
            .and_then(|search| search.machine.validator_ended());
        event.map_or(Ok(()), |event| self.journal_event(run, event))
    }

    fn journal_event(&mut self, run: &mut ActiveRun, event: SearchEvent) -> Result<(), TurnError> {
        let (number, attempt) = (run.scheduled.run, run.attempt);
        self.system
            .print(&format!("run {number}: {}", in_words(&event)));
        let mark = mark(&event);
        self.journal(Entry::Search {
            run: number,
            attempt,
            event,
        })?;
        if let (Some((name, kind)), Some(recorder)) = (mark, &mut run.recorder)
            && let Err(error) = recorder.mark(&name, kind)
            && !run.notes.iter().any(|note| note.starts_with(NO_MARK))
        {
            run.notes.push(format!("{NO_MARK}: {error:#}"));
        }
        Ok(())
    }
}

/// Lifts the limit before the run is terminated: under memory pressure, a process hardly reacts to
/// signals. Adds a note to the run if this fails.
pub fn lift_memory_limit(run: &mut ActiveRun) {
    // A search lifts its limit at its end. If this failed, `pending_limit` is still set.
    if let Some(search) = &run.search
        && (!search.is_over || search.pending_limit.is_some())
        && let Some(launched) = &mut run.launched
        && let Err(error) = set_memory_limit(&mut **launched, None)
    {
        run.notes.push(format!(
            "warning: its memory limit could not be lifted: {error:#}"
        ));
    }
}

/// Name and kind of the mark of a dwell in the recording. A dwell without any time has no mark.
fn mark(event: &SearchEvent) -> Option<(String, &'static str)> {
    let SearchEvent::Dwell(dwell) = event else {
        return None;
    };
    let kind = match (dwell.verdict, dwell.headroom) {
        _ if dwell.evidence.seconds <= 0.0 => return None,
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

fn in_words(event: &SearchEvent) -> String {
    match event {
        SearchEvent::Limit { headroom, why } => match headroom {
            Some(headroom) => format!("headroom {}, {why}", bytes(*headroom)),
            None => format!("limit lifted: {why}"),
        },
        SearchEvent::Dwell(dwell) => {
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

    struct EmptyObserver;

    impl Observer for EmptyObserver {
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
        let rules = MemorySearchRules {
            first_headroom: 1 << 30,
            settle_time: second,
            dwell: second,
            max_interval_width: 0.1,
            max_duration: second,
            growth_horizon: second,
        };
        let mut running_search =
            RunningSearch::begin(&plan(""), rules, false, Box::new(EmptyObserver)).unwrap();
        let mut cgroup_state = CgroupState::default();
        let mut is_out_of_memory = |name: &str, count: u64| {
            cgroup_state.memory_events.insert(name.to_owned(), count);
            running_search.is_out_of_memory(&cgroup_state)
        };
        assert!(!is_out_of_memory("oom", 0));
        assert!(is_out_of_memory("oom", 1));
        assert!(!is_out_of_memory("oom", 1), "reported once");
        assert!(is_out_of_memory("under_oom", 1));
        assert!(is_out_of_memory("under_oom", 1), "it is still under OOM");
        assert!(!is_out_of_memory("under_oom", 0));
    }

    /// A plan whose recorder has this configuration.
    fn plan(config: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.toml");
        std::fs::write(folder.path().join("faultlined.toml"), config).unwrap();
        let text = "name = \"s\"\nfolder = \"f\"\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n\
                    [begin]\nhow = \"download\"\n[recorder]\nconfig = \"faultlined.toml\"\n\
                    [search]\nwhat = \"memory\"\nfrom = \"1G\"\n";
        let plan = crate::plan::parse(text, &file).unwrap();
        let slots = at_tip_slots(&plan);
        assert_eq!(
            slots,
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
        let failure = || Err::<(), _>(anyhow::anyhow!("no answer"));
        let mut timer = FailureTimer::default();
        assert!(timer.tolerate(second, failure()).unwrap().is_none());
        assert!(timer.tolerate(30 * second, failure()).unwrap().is_none());
        assert!(timer.tolerate(30 * second, Ok(())).unwrap().is_some());
        assert!(
            timer.tolerate(40 * second, failure()).unwrap().is_none(),
            "it counts anew"
        );
        let error = timer.tolerate(70 * second, failure()).unwrap_err();
        assert_eq!(format!("{error:#}"), "this has failed for 30 s: no answer");
    }
}
