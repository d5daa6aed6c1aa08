mod search;
mod text;

pub use search::{Dwells, SearchStatus};

pub use super::slurm::Job;
use super::{
    blocks,
    folder::{Folder, RECORDING},
    journal::{JournalState, Step},
    lock::{self, Holder},
    outcome::{Outcome, Validity},
    plan::Plan,
    saved::{find_folder, read_started},
    schedule::{Scheduled, Turn},
    slurm,
    watch::{Now, Watch},
};
use crate::args::StatusArgs;
use faultline_common::{
    clock::{self, from_nanoseconds, nanoseconds},
    output::{json, say},
};
use faultline_runner::record::recorder::{DEFAULT_INTERVAL, progress};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum State {
    Running {
        /// `None` if it is not written yet.
        pid: Option<u32>,
    },
    /// A signal suspended its runner.
    Suspended {
        pid: u32,
    },
    Stopped {
        why: String,
    },
    /// Its runner was killed, or the host went down.
    CutOff,
    /// All turns are done.
    Finished,
}

#[derive(Debug, Serialize)]
pub struct Status {
    pub name: String,
    pub folder: PathBuf,
    pub state: State,
    pub done: usize,
    pub of: usize,
    /// Share of the turns, including the current one's progress.
    pub percent: f64,
    /// `None` without a runner.
    pub seconds_left: Option<u64>,
    /// Under Slurm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
    /// Attempts at blocks whose journals cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    pub runs: Vec<RunStatus>,
}

#[derive(Debug, Serialize)]
pub struct RunStatus {
    #[serde(flatten)]
    pub scheduled: Scheduled,
    pub turn: u32,
    pub attempts: u32,
    /// `None` without blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub step: Option<Step>,
    #[serde(rename = "course")]
    pub progress_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchStatus>,
    pub outcome: Option<Outcome>,
    /// `None` until it has ended.
    pub validity: Option<Validity>,
    pub began_unix_ns: Option<i64>,
    pub ended_unix_ns: Option<i64>,
}

pub fn status(args: &StatusArgs) -> anyhow::Result<String> {
    let folder = find_folder(&args.experiment)?;
    let (plan, journal_state) = read_started(&folder)?;
    let jobs = jobs(&plan, &folder);
    let holder = if jobs.is_empty() && journal_state.running_blocks == 0 {
        lock::holder(&folder.lock())?
    } else {
        Holder::Process(None)
    };
    let now = clock::since_1970();
    let mut status = Status::of(&plan, &journal_state, &folder, holder, now);
    status.jobs = jobs;
    if let State::Running { pid: Some(pid) } = status.state
        && blocks::ran_on_this_host(&journal_state)
        && lock::is_suspended(pid)
    {
        (status.state, status.seconds_left) = (State::Suspended { pid }, None);
    }
    if args.json {
        Ok(json(&status)?)
    } else {
        Ok(text::page(&status, now))
    }
}

fn jobs(plan: &Plan, folder: &Folder) -> Vec<Job> {
    if !slurm::script_path(folder).exists() {
        return Vec::new();
    }
    slurm::jobs(&folder.scope(&plan.name)).unwrap_or_else(|error| {
        say(&format!("warning: the jobs are not known: {error:#}"));
        Vec::new()
    })
}

impl Status {
    pub fn of(
        plan: &Plan,
        journal_state: &JournalState,
        folder: &Folder,
        holder: Holder,
        now: Duration,
    ) -> Self {
        let state = match (holder, &journal_state.stopped) {
            (Holder::Process(pid), _) => State::Running { pid },
            _ if journal_state.finished => State::Finished,
            (Holder::Free, Some(why)) => State::Stopped { why: why.clone() },
            (Holder::Free, None) => State::CutOff,
        };
        let alive = matches!(state, State::Running { .. });
        let blocks = journal_state.running_blocks.max(1) as u64;
        let runs: Vec<RunStatus> = journal_state
            .scheduled()
            .map(|scheduled| run(plan, journal_state, folder, scheduled, alive.then_some(now)))
            .collect();
        let turns = journal_state.turns.len();
        let open_turns = open_turns(journal_state).count();
        let turn_length = turn_length(plan, journal_state);
        let age = current_age(journal_state, now)
            .filter(|_| alive)
            .unwrap_or_default();
        let current = age.as_secs_f64() / turn_length.as_secs_f64().max(f64::MIN_POSITIVE);
        let done = (turns - open_turns) as f64 + current.min(0.99);
        let remaining = turn_length
            .saturating_mul(u32::try_from(open_turns).unwrap_or(u32::MAX))
            .saturating_sub(age);
        Status {
            name: plan.name.clone(),
            folder: folder.path().to_owned(),
            state,
            done: journal_state.counted().len(),
            of: runs.len(),
            percent: 100.0 * done / (turns as f64).max(1.0),
            // Blocks run at the same time.
            seconds_left: alive.then_some(remaining.as_secs() / blocks),
            jobs: Vec::new(),
            unreadable: journal_state.unreadable.clone(),
            runs,
        }
    }
}

fn run(
    plan: &Plan,
    journal_state: &JournalState,
    folder: &Folder,
    (turn, scheduled): (&Turn, &Scheduled),
    alive: Option<Duration>,
) -> RunStatus {
    let newest = journal_state.newest(turn);
    let run_attempt = newest.and_then(|newest| newest.runs.get(&scheduled.run));
    let ended = run_attempt
        .filter(|run_attempt| run_attempt.void_reason.is_none())
        .and_then(|run_attempt| run_attempt.ended.as_ref());
    let steps = run_attempt.map_or(&[][..], |run_attempt| &run_attempt.steps);
    let now = alive
        .filter(|_| ended.is_none() && run_attempt.is_none_or(|one| one.void_reason.is_none()));
    let watched = steps.iter().find(|(step, _)| *step == Step::Watch);
    let progress_text = now
        .zip(newest)
        .zip(watched)
        .map(|((now, newest), (_, began))| {
            let recording = journal_state
                .run_folder(folder, scheduled, newest.number)
                .join(RECORDING);
            progress_text(plan, &recording, (*began, now))
        });
    RunStatus {
        scheduled: scheduled.clone(),
        turn: turn.number,
        attempts: newest.map_or(0, |newest| newest.number),
        host: newest.and_then(|newest| newest.origin.as_ref().map(|_| newest.host.clone())),
        step: now.and(steps.last()).map(|(step, _)| *step),
        progress_text,
        search: plan
            .search
            .as_ref()
            .zip(run_attempt)
            .map(|(rules, run_attempt)| {
                SearchStatus::of(
                    rules,
                    &run_attempt.searched,
                    journal_state.searches_cut_off(scheduled.run),
                    now,
                )
            }),
        outcome: ended.map(|(ending, _)| ending.outcome.clone()),
        validity: ended.map(|(ending, _)| ending.validity.clone()),
        began_unix_ns: steps.first().map(|(_, at)| *at),
        ended_unix_ns: ended.map(|(_, at)| *at),
    }
}

fn progress_text(plan: &Plan, recording: &Path, (began_unix_ns, now): (i64, Duration)) -> String {
    // Jumps of the wall clock do not matter.
    let at = |unix_ns: i64| Now {
        uptime: from_nanoseconds(unix_ns),
        unix_ns,
    };
    let mut watch = Watch::begin(
        plan,
        plan.recorder.interval.unwrap_or(DEFAULT_INTERVAL),
        at(began_unix_ns),
    );
    let seen = progress(recording).ok();
    watch.sample(at(nanoseconds(now)), seen.as_ref());
    watch.progress_text()
}

fn open_turns(journal_state: &JournalState) -> impl Iterator<Item = &Turn> {
    journal_state
        .turns
        .iter()
        .filter(|turn| !journal_state.is_done(turn))
}

fn current_age(journal_state: &JournalState, now: Duration) -> Option<Duration> {
    let turn = open_turns(journal_state).next()?;
    let newest = journal_state.newest(turn)?;
    let over =
        newest.runs.len() == turn.runs.len() && newest.runs.values().all(|run| run.ended.is_some());
    (!over).then(|| now.saturating_sub(from_nanoseconds(newest.unix_ns)))
}

/// The average length of a finished turn; without any, the plan's cool-down and duration.
fn turn_length(plan: &Plan, journal_state: &JournalState) -> Duration {
    let done = journal_state
        .turns
        .iter()
        .filter(|turn| journal_state.is_done(turn));
    let length = |turn: &Turn| {
        let newest = journal_state.newest(turn)?;
        let ends = newest.runs.values();
        let end = ends.filter_map(|run| Some(run.ended.as_ref()?.1)).max()?;
        Some(from_nanoseconds(end).saturating_sub(from_nanoseconds(newest.unix_ns)))
    };
    let lengths: Vec<Duration> = done.filter_map(length).collect();
    match u32::try_from(lengths.len()) {
        Ok(many) if many > 0 => lengths.iter().sum::<Duration>() / many,
        _ => plan.host.cool_down.saturating_add(plan.stop.duration),
    }
}
