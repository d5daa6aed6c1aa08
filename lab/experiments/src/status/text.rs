use super::{Job, RunStatus, State, Status};
use faultline_common::clock::nanoseconds;
use faultline_text::{counted, moment, table, time};
use itertools::Itertools;
use std::time::Duration;

pub fn page(status: &Status, now: Duration) -> String {
    let left = status.seconds_left.map(Duration::from_secs).map(|left| {
        let end = moment(nanoseconds(now + left));
        format!(", about {} left (until {end})", time(left))
    });
    let jobs: String = status.jobs.iter().map(job).collect();
    let page = format!(
        "{}   {}\nstate      {}\n{jobs}progress   {} of {}, {:.0} %{}\n\n",
        status.name,
        status.folder.display(),
        state(&status.state),
        status.done,
        counted(status.of as f64, "run"),
        status.percent,
        left.unwrap_or_default()
    );
    let lanes = !status
        .runs
        .iter()
        .map(|run| &run.scheduled.lane)
        .all_equal();
    let hosts = status.runs.iter().any(|run| run.host.is_some());
    let mut heads = vec!["turn", "run", "arm", "replicate"];
    heads.extend(lanes.then_some("lane"));
    heads.extend(hosts.then_some("host"));
    heads.extend(["attempts", "what"]);
    let mut next = Some("next");
    let rows = status
        .runs
        .iter()
        .map(|run| row(run, (lanes, hosts), &mut next));
    page + &table(&heads, rows.collect())
}

fn state(state: &State) -> String {
    match state {
        State::Running { pid: Some(pid) } => format!("running (process {pid})"),
        State::Running { pid: None } => "running".to_owned(),
        State::Suspended { pid } => {
            format!(
                "process {pid} is stopped (SIGSTOP, or Ctrl-Z in its terminal); `kill -CONT {pid}` lets it continue"
            )
        }
        State::Stopped { why } => format!("stopped: {why}"),
        State::CutOff => {
            "interrupted: its runner was killed, or the host went down; `resume` continues"
                .to_owned()
        }
        State::Finished => "finished".to_owned(),
    }
}

fn job(job: &Job) -> String {
    let block = job
        .block
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
        "job        {} ({block}) {}, {location}{hint}\n",
        job.id, job.state
    )
}

fn row(
    run: &RunStatus,
    (lanes, hosts): (bool, bool),
    next: &mut Option<&'static str>,
) -> Vec<String> {
    let scheduled = &run.scheduled;
    let mut row = vec![
        run.turn.to_string(),
        scheduled.run.to_string(),
        scheduled.arm_name("second"),
        scheduled.replicate.to_string(),
    ];
    row.extend(lanes.then(|| scheduled.lane.clone()));
    row.extend(hosts.then(|| run.host.clone().unwrap_or_default()));
    row.push(if run.attempts == 0 {
        String::new()
    } else {
        run.attempts.to_string()
    });
    row.push(what(run, next));
    row
}

fn what(run: &RunStatus, next: &mut Option<&'static str>) -> String {
    let search = run.search.as_ref();
    let searched = search.map(|search| format!("; {}", search.in_words()));
    let searched = searched.unwrap_or_default();
    match (&run.outcome, run.step) {
        (Some(outcome), _) => {
            let ended = run.validity.clone().unwrap_or_default().qualified(outcome);
            let again = if outcome.is_result() {
                ""
            } else {
                "; to be repeated"
            };
            format!("{ended}{again}{searched}")
        }
        (None, Some(step)) => {
            *next = None;
            let phase = run.progress_text.as_ref().map(|phase| format!(", {phase}"));
            format!(
                "now: {}{}{searched}",
                step.in_words(),
                phase.unwrap_or_default()
            )
        }
        (None, None) if run.attempts > 0 => "cut off; to be repeated".to_owned(),
        (None, None) => next.take().unwrap_or_default().to_owned(),
    }
}
