mod search;

pub use search::{DwellCounts, SearchStatus};

pub use super::slurm::Job;
use super::{
    blocks,
    folder::{ExperimentFolder, RECORDING},
    journal::{JournalState, Step},
    lock::{self, Holder},
    outcome::{Outcome, Validity},
    plan::Plan,
    saved::{find_folder, read_with_host_blocks},
    schedule::{ScheduledRun, Turn},
    slurm,
    watch::{Timestamp, Watch},
};
use crate::args::StatusArgs;
use faultline_common::{
    clock::{self, from_nanoseconds, nanoseconds},
    output::{json, say},
};
use faultline_runner::record::recorder::progress;
use faultline_text::{counted, duration, table, utc};
use itertools::Itertools;
use serde::Serialize;
use std::{mem, path::PathBuf, time::Duration};

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ExperimentState {
    Running {
        /// `None` with Slurm jobs or host blocks, or if the runner has not written it yet.
        pid: Option<u32>,
    },
    Suspended {
        pid: u32,
    },
    Stopped {
        why: String,
    },
    /// The runner was killed, or the host went down.
    CutOff,
    /// All turns are done. The runs of a turn execute at the same time.
    Finished,
}

#[derive(Serialize)]
pub struct Status {
    pub name: String,
    pub folder: PathBuf,
    pub state: ExperimentState,
    #[serde(rename = "done")]
    pub runs_done: usize,
    #[serde(rename = "of")]
    pub run_count: usize,
    /// Share of the turns that are done, plus the elapsed share of the open turn.
    pub percent: f64,
    /// `None` without a runner.
    pub seconds_left: Option<u64>,
    /// Waiting or running jobs of Slurm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
    /// Journals of host blocks, with reasons. A host block is turns that one host executes with its
    /// own journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    pub runs: Vec<RunStatus>,
}

#[derive(Serialize)]
pub struct RunStatus {
    #[serde(flatten)]
    pub scheduled: ScheduledRun,
    pub turn: u32,
    /// Attempts at the turn so far.
    pub attempts: u32,
    /// `None` without host blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub step: Option<Step>,
    #[serde(rename = "course")]
    pub progress_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchStatus>,
    pub outcome: Option<Outcome>,
    /// `None` until the run has ended.
    pub validity: Option<Validity>,
    pub began_unix_ns: Option<i64>,
    pub ended_unix_ns: Option<i64>,
}

pub fn status(args: &StatusArgs) -> anyhow::Result<String> {
    let folder = find_folder(&args.experiment)?;
    let (plan, journal_state) = read_with_host_blocks(&folder)?;
    let jobs = slurm_jobs(&plan, &folder);
    let holder = if jobs.is_empty() && journal_state.running_host_blocks == 0 {
        lock::holder(&folder.lock())?
    } else {
        Holder::Process(None)
    };
    let now = clock::since_1970();
    let mut status = Status::of(&plan, &journal_state, &folder, holder, now);
    status.jobs = jobs;
    if let ExperimentState::Running { pid: Some(pid) } = status.state
        && blocks::ran_on_this_host(&journal_state)
        && lock::is_suspended(pid)
    {
        (status.state, status.seconds_left) = (ExperimentState::Suspended { pid }, None);
    }
    if args.json {
        Ok(json(&status)?)
    } else {
        Ok(page_text(&status, now))
    }
}

fn slurm_jobs(plan: &Plan, folder: &ExperimentFolder) -> Vec<Job> {
    if !slurm::script_path(folder).exists() {
        return Vec::new();
    }
    slurm::list_jobs(&folder.unique_name(&plan.name)).unwrap_or_else(|error| {
        say(&format!("warning: the jobs are not known: {error:#}"));
        Vec::new()
    })
}

impl Status {
    pub fn of(
        plan: &Plan,
        journal_state: &JournalState,
        folder: &ExperimentFolder,
        holder: Holder,
        now: Duration,
    ) -> Self {
        let state = match (holder, &journal_state.stopped) {
            (Holder::Process(pid), _) => ExperimentState::Running { pid },
            _ if journal_state.finished => ExperimentState::Finished,
            (Holder::Free, Some(why)) => ExperimentState::Stopped { why: why.clone() },
            (Holder::Free, None) => ExperimentState::CutOff,
        };
        let is_running = matches!(state, ExperimentState::Running { .. });
        let running_host_blocks = journal_state.running_host_blocks.max(1) as u64;
        let now_if_running = is_running.then_some(now);
        let runs = journal_state
            .scheduled()
            .map(|scheduled| run_status(plan, journal_state, folder, scheduled, now_if_running))
            .collect_vec();
        let turns = &journal_state.turns;
        let (mut done_turns, mut remaining) = (0.0, Duration::ZERO);
        for turn in turns {
            if journal_state.is_done(turn) {
                done_turns += 1.0;
                continue;
            }
            let turn_length = expected_turn_length(plan, journal_state, turn);
            let elapsed = now_if_running
                .and_then(|now| turn_elapsed(journal_state, turn, now))
                .unwrap_or_default()
                .min(turn_length);
            let length = turn_length.as_secs_f64().max(f64::MIN_POSITIVE);
            done_turns += (elapsed.as_secs_f64() / length).min(0.99);
            remaining += turn_length - elapsed;
        }
        Self {
            name: plan.name.clone(),
            folder: folder.path().to_owned(),
            state,
            runs_done: journal_state.completed_runs().len(),
            run_count: runs.len(),
            percent: 100.0 * done_turns / (turns.len() as f64).max(1.0),
            // Host blocks run at the same time.
            seconds_left: is_running.then_some(remaining.as_secs() / running_host_blocks),
            jobs: Vec::new(),
            unreadable: journal_state.unreadable_journals.clone(),
            runs,
        }
    }
}

fn run_status(
    plan: &Plan,
    journal_state: &JournalState,
    folder: &ExperimentFolder,
    (turn, scheduled): (&Turn, &ScheduledRun),
    now_if_running: Option<Duration>,
) -> RunStatus {
    let newest = journal_state.newest_attempt(turn);
    let run_attempt = newest.and_then(|newest| newest.runs.get(&scheduled.run));
    let is_void = run_attempt.is_some_and(|run_attempt| run_attempt.void_reason.is_some());
    let ended = run_attempt
        .and_then(|run_attempt| run_attempt.ended.as_ref())
        .filter(|_| !is_void);
    let steps = run_attempt.map_or(&[][..], |run_attempt| &run_attempt.steps);
    let now_if_running = now_if_running.filter(|_| ended.is_none() && !is_void);
    let mut progress_text = None;
    if let (Some(now), Some(newest)) = (now_if_running, newest)
        && let Some((_, began)) = steps.iter().find(|(step, _)| *step == Step::Watch)
    {
        let recording = journal_state
            .run_folder(folder, scheduled, newest.number)
            .join(RECORDING);
        // The journal has only wall times, so they replace uptimes. If the wall clock jumps, only
        // this text is wrong.
        let at = |unix_ns: i64| Timestamp {
            uptime: from_nanoseconds(unix_ns),
            unix_ns,
        };
        let mut watch = Watch::begin(plan, at(*began));
        watch.sample(at(nanoseconds(now)), progress(&recording).ok().as_ref());
        progress_text = Some(watch.progress_text());
    }
    let search = plan
        .memory_search
        .as_ref()
        .zip(run_attempt)
        .map(|(search, run_attempt)| {
            let cut_off_searches = journal_state.searches_unanswered(scheduled.run);
            SearchStatus::of(
                search,
                &run_attempt.search_log,
                cut_off_searches,
                now_if_running,
            )
        });
    RunStatus {
        scheduled: scheduled.clone(),
        turn: turn.number,
        attempts: newest.map_or(0, |newest| newest.number),
        host: newest.and_then(|newest| newest.origin.as_ref().map(|_| newest.host.clone())),
        step: now_if_running.and(steps.last()).map(|(step, _)| *step),
        progress_text,
        search,
        outcome: ended.map(|(ending, _)| ending.outcome.clone()),
        validity: ended.map(|(ending, _)| ending.validity.clone()),
        began_unix_ns: steps.first().map(|(_, at)| *at),
        ended_unix_ns: ended.map(|(_, at)| *at),
    }
}

/// Since the newest attempt began; `None` if all its runs have ended.
fn turn_elapsed(journal_state: &JournalState, turn: &Turn, now: Duration) -> Option<Duration> {
    let newest = journal_state.newest_attempt(turn)?;
    let is_over =
        newest.runs.len() == turn.runs.len() && newest.runs.values().all(|run| run.ended.is_some());
    (!is_over).then(|| now.saturating_sub(from_nanoseconds(newest.unix_ns)))
}

/// The average of the finished turns with an arm of `turn`; without one, the plan's cool-down and
/// duration.
fn expected_turn_length(plan: &Plan, journal_state: &JournalState, turn: &Turn) -> Duration {
    let is_of_turn = |run: &ScheduledRun| turn.runs.iter().any(|own| own.arm == run.arm);
    let lengths = journal_state
        .turns
        .iter()
        .filter(|other| other.runs.iter().any(is_of_turn) && journal_state.is_done(other))
        .filter_map(|turn| {
            let newest = journal_state.newest_attempt(turn)?;
            let runs = newest.runs.values();
            let end = runs.filter_map(|run| Some(run.ended.as_ref()?.1)).max()?;
            Some(from_nanoseconds(end).saturating_sub(from_nanoseconds(newest.unix_ns)))
        })
        .collect_vec();
    match u32::try_from(lengths.len()) {
        Ok(count) if count > 0 => lengths.iter().sum::<Duration>() / count,
        _ => plan.host.cool_down.saturating_add(plan.stop.duration),
    }
}

fn page_text(status: &Status, now: Duration) -> String {
    let left = status.seconds_left.map(Duration::from_secs).map(|left| {
        let end = utc(nanoseconds(now + left));
        format!(", about {} left (until {end})", duration(left))
    });
    let job_lines: String = status.jobs.iter().map(job_line).collect();
    let page = format!(
        "{}   {}\nstate      {}\n{job_lines}progress   {} of {}, {:.0} %{}\n\n",
        status.name,
        status.folder.display(),
        state_text(&status.state),
        status.runs_done,
        counted(status.run_count as f64, "run"),
        status.percent,
        left.unwrap_or_default()
    );
    // A lane: the folders, ports and CPUs of one run.
    let mut run_lanes = status.runs.iter().map(|run| &run.scheduled.lane);
    let has_lanes = !run_lanes.all_equal();
    let has_hosts = status.runs.iter().any(|run| run.host.is_some());
    let mut columns = vec!["turn", "run", "arm", "replicate"];
    columns.extend(has_lanes.then_some("lane"));
    columns.extend(has_hosts.then_some("host"));
    columns.extend(["attempts", "what"]);
    let mut next_text = "next";
    let mut rows = Vec::new();
    for run in &status.runs {
        let scheduled = &run.scheduled;
        let mut row = vec![
            run.turn.to_string(),
            scheduled.run.to_string(),
            scheduled.arm_name("second"),
            scheduled.replicate.to_string(),
        ];
        row.extend(has_lanes.then(|| scheduled.lane.clone()));
        row.extend(has_hosts.then(|| run.host.clone().unwrap_or_default()));
        row.push(match run.attempts {
            0 => String::new(),
            attempts => attempts.to_string(),
        });
        row.push(run_text(run, &mut next_text));
        rows.push(row);
    }
    page + &table(&columns, rows)
}

fn state_text(state: &ExperimentState) -> String {
    match state {
        ExperimentState::Running { pid: Some(pid) } => format!("running (process {pid})"),
        ExperimentState::Running { pid: None } => "running".to_owned(),
        ExperimentState::Suspended { pid } => {
            format!(
                "process {pid} is stopped (SIGSTOP, or Ctrl-Z in its terminal); `kill -CONT {pid}` lets it continue"
            )
        }
        ExperimentState::Stopped { why } => format!("stopped: {why}"),
        ExperimentState::CutOff => {
            "interrupted: its runner was killed, or the host went down; `resume` continues"
                .to_owned()
        }
        ExperimentState::Finished => "finished".to_owned(),
    }
}

fn job_line(job: &Job) -> String {
    let task = job
        .task_index
        .map_or("report".to_owned(), |block| format!("block {block}"));
    let location = if job.host.is_empty() {
        &job.reason
    } else {
        &job.host
    };
    let hint = if job.reason.contains("held") {
        format!(": `scontrol release {}` lets it continue", job.id)
    } else {
        String::new()
    };
    format!(
        "job        {} ({task}) {}, {location}{hint}\n",
        job.id, job.state
    )
}

/// `next_text` is for the first run that has not begun, and is then emptied.
fn run_text(run: &RunStatus, next_text: &mut &'static str) -> String {
    let search = run.search.as_ref();
    let search = search.map_or_else(String::new, |search| format!("; {}", search.in_words()));
    match (&run.outcome, run.step) {
        (Some(outcome), _) => {
            let ended = run
                .validity
                .clone()
                .unwrap_or_default()
                .describe_outcome(outcome);
            let repeated = if outcome.is_result() {
                ""
            } else {
                "; to be repeated"
            };
            format!("{ended}{repeated}{search}")
        }
        (None, Some(step)) => {
            *next_text = "";
            let mut text = format!("now: {}", step.in_words());
            text.extend(run.progress_text.as_ref().map(|text| format!(", {text}")));
            text + &search
        }
        (None, None) if run.attempts > 0 => "cut off or void; to be repeated".to_owned(),
        (None, None) => mem::take(next_text).to_owned(),
    }
}

#[cfg(test)]
mod tests;
