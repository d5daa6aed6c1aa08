use super::{begin, continue_run, lock_new, write_synced};
use crate::{
    args::{BlockArgs, SlurmArgs},
    blocks::{self, BlockAttempt, BlockContext},
    folder::{ExperimentFolder, LOCK, digest},
    journal::{Entry, Journal, JournalLine, JournalState, Planned},
    lock::Lock,
    plan::Plan,
    plan_command,
    runner::ExperimentEnd,
    saved::{find_folder, read_planned, read_started, refuse_changed},
    schedule::schedule,
    slurm::{self, EXIT_TEMPFAIL, Job, JobScripts},
};
use anyhow::{Result, bail, ensure};
use faultline_common::{
    args::UsageError,
    clock,
    files::AtPath,
    output::{print, say},
};
use faultline_runner::isolation::folders::InUse;
use faultline_text::{counted, duration};
use itertools::Itertools;
use std::{fs, time::Duration};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time that is added to the grace period, for the recorder and the scheduler.
const STOP_MARGIN: Duration = Duration::from_secs(60);

pub fn prepare(plan: &Plan) -> Result<ExperimentFolder> {
    let folder = ExperimentFolder::new(&plan.folder);
    let _lock = lock_new(&folder)?;
    fs::create_dir_all(folder.blocks()).at(&folder.blocks())?;
    write_synced(&folder.plan(), plan.text.as_bytes())?;
    Journal::create(&folder.journal())?.append(&JournalLine {
        unix_ns: clock::unix_ns(),
        entry: Entry::Planned(Planned::new(plan, String::new(), schedule(plan))),
    })?;
    let blocks = counted(plan.replicates as f64, "block");
    say(&format!(
        "{folder} has {blocks}: `faultline experiment block {folder} N` runs one"
    ));
    Ok(folder)
}

/// The exit code is 75 if the task or the host is in use, or the host is not fit.
pub fn task_exit_code(what: &str, end: Result<ExperimentEnd>) -> Result<u8> {
    let not_now = |why: String| {
        say(&format!("{what}: not now: {why}"));
        Ok(EXIT_TEMPFAIL)
    };
    match end {
        Ok(ExperimentEnd::Finished) => {
            say(&format!("{what} is done"));
            Ok(0)
        }
        Ok(ExperimentEnd::UnfitHost(why)) => not_now(why),
        Ok(ExperimentEnd::Stopped(why) | ExperimentEnd::GaveUp(why)) => {
            bail!("{what} has stopped: {why}")
        }
        Err(error) if error.is::<InUse>() => not_now(format!("{error:#}")),
        Err(error) => Err(error),
    }
}

pub fn run(args: &BlockArgs) -> Result<ExperimentEnd> {
    let number = args.block;
    let folder = find_folder(&args.experiment)?;
    // Merging would look at locks, which other blocks take now.
    let (mut plan, _) = read_planned(&folder)?;
    ensure!(
        folder.has_blocks(),
        "{folder} has no blocks: it was not begun by `faultline experiment prepare`"
    );
    if !(1..=plan.replicates).contains(&number) {
        let last = plan.replicates;
        return Err(UsageError(format!("{folder} has blocks 1 to {last}, and no {number}")).into());
    }
    let path = folder.block(number);
    fs::create_dir_all(&path).at(&path)?;
    let _lock = Lock::take_with_message(&path.join(LOCK), |process| {
        format!("it is being run already{process}")
    })?;
    let digest = digest(&plan.text);
    let attempts = blocks::attempts(&folder, &digest, number, None)?;
    if attempts.iter().any(BlockAttempt::is_done) {
        return Ok(ExperimentEnd::Finished);
    }
    let host = blocks::host_name();
    for attempt in attempts.iter().filter(|attempt| !attempt.is_on(&host)) {
        attempt.warn_if_unreadable();
    }
    let mut readable = attempts.iter().filter(|attempt| attempt.problem.is_none());
    let own = readable.rfind(|attempt| attempt.is_on(&host));
    plan.folder = own.map_or_else(
        || path.join(blocks::attempt_name(&host, next_number(&attempts))),
        |own| own.folder.path().to_owned(),
    );
    let block = BlockContext {
        last_end_unix_ns: last_end_unix_ns(&folder, &plan, &host),
        how_to_resume: blocks::how_to_resume(&folder, number),
        number: Some(number),
    };
    match own.filter(|own| own.journal_state.planned.is_some()) {
        Some(own) => continue_run(plan, &own.journal_state, args.i_vote, Some(block)),
        None => begin(plan, args.launcher, args.i_vote, Some(block)),
    }
}

/// At least Slurm's count of restarts, which hosts know without a common file system.
fn next_number(attempts: &[BlockAttempt]) -> u32 {
    let restarts = blocks::env_var("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok());
    attempts
        .last()
        .map_or(0, |last| last.number.saturating_add(1))
        .max(restarts.unwrap_or(0))
}

fn last_end_unix_ns(folder: &ExperimentFolder, plan: &Plan, host: &str) -> Option<i64> {
    let digest = digest(&plan.text);
    let mut last_end = None;
    for number in 1..=plan.replicates {
        let attempts =
            blocks::attempts(folder, &digest, number, Some(host)).unwrap_or_else(|error| {
                blocks::warn_unreadable(&format!("block {number}: {error:#}"));
                Vec::new()
            });
        for attempt in attempts {
            attempt.warn_if_unreadable();
            last_end = last_end.max(attempt.journal_state.last_end_unix_ns);
        }
    }
    last_end
}

pub fn submit(args: &SlurmArgs) -> Result<u8> {
    let plan = plan_command::read(&args.plan)?;
    if args.print {
        return print(&slurm::experiment_script(&plan, args.i_vote)?).map(|()| 0);
    }
    let folder = ExperimentFolder::new(&plan.folder);
    let path = slurm::script_path(&folder);
    ensure!(
        !path.exists(),
        "{} exists: `faultline experiment resume {folder}` submits it; remove it to have it written again",
        path.display()
    );
    slurm::check(&plan)?;
    // The jobs are named after the canonical path.
    fs::create_dir_all(folder.path()).at(folder.path())?;
    let script = slurm::experiment_script(&plan, args.i_vote)?;
    if folder.has_blocks() && folder.journal().exists() {
        refuse_changed(&read_planned(&folder)?.0, &plan)?;
    } else {
        prepare(&plan)?;
    }
    write_synced(&path, script.as_bytes())?;
    submit_unfinished(&folder)
}

pub fn submit_unfinished(folder: &ExperimentFolder) -> Result<u8> {
    let (plan, journal_state) = read_started(folder)?;
    let turns = journal_state.turns.iter();
    let open = blocks::block_numbers(turns.filter(|turn| !journal_state.is_done(turn)));
    if open.is_empty() {
        say("this experiment is finished");
        return Ok(0);
    }
    let script = slurm::script_path(folder);
    ensure!(
        script.exists(),
        "{folder} was not submitted to Slurm: run `faultline experiment block {folder} N` for the blocks {}",
        open.iter().join(", ")
    );
    let job_scripts = JobScripts {
        job_name: folder.scope(&plan.name),
        output_folder: folder.blocks(),
    };
    let queued = slurm::list_jobs(&job_scripts.job_name)?;
    ensure!(
        queued.is_empty(),
        "the experiment still has {} queued or running: run `faultline experiment stop {folder}` first",
        counted(queued.len() as f64, "job")
    );
    let command = format!("experiment report {}", slurm::shell_quoted(folder.path()));
    let report = job_scripts.follow_up_script(&plan, "report.out", &command)?;
    let report_file = folder.path().join("slurm-report.sh");
    write_synced(&report_file, report.as_bytes())?;
    let job = slurm::submit(&script, &open, &report_file)?;
    say(&format!(
        "job {job} has {}; a job for the report follows it",
        counted(open.len() as f64, "block")
    ));
    Ok(0)
}

pub fn stop(folder: &ExperimentFolder, plan: &Plan, journal_state: &JournalState) -> Result<u8> {
    let (mut failed, mut next) = (Vec::new(), String::new());
    if slurm::script_path(folder).exists() {
        failed = cancel(&folder.scope(&plan.name), plan);
        next = format!("; `faultline experiment resume {folder}` continues");
    }
    // A runner may outlive its job, and blocks may be run by hand.
    let mut running = 0;
    let digest = digest(&plan.text);
    for number in blocks::block_numbers(&journal_state.turns) {
        // The caller's `read_started` has reported an error.
        let attempts = blocks::attempts(folder, &digest, number, None).unwrap_or_default();
        for attempt in attempts.iter().filter(|attempt| attempt.is_running()) {
            running += 1;
            say(&format!(
                "block {number} runs: run `faultline experiment stop {}` on its host",
                attempt.folder
            ));
        }
    }
    if running > 0 {
        failed.push(format!(
            "{} still running outside Slurm: run the commands above on their hosts",
            counted(running as f64, "block")
        ));
    }
    ensure!(failed.is_empty(), "{folder}: {}", failed.join("; "));
    say(&format!("nothing runs{next}"));
    Ok(0)
}

/// Tries every step, even after a failure. Returns the errors.
fn cancel(job_name: &str, plan: &Plan) -> Vec<String> {
    let timeout = plan.stop.grace.saturating_add(STOP_MARGIN);
    let waiting = slurm::cancel(job_name, &["--state=PENDING"]);
    // No SIGKILL follows this signal.
    let running = slurm::cancel(job_name, &["--state=RUNNING", "--signal=TERM", "--batch"]);
    // Some jobs may have the signal although the step failed.
    let ended = wait_until_ended(timeout, || slurm::list_jobs(job_name));
    let steps = [waiting, running, ended, slurm::cancel(job_name, &[])];
    steps
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .unique()
        .collect()
}

/// Fails if Slurm does not answer at the end. Without an answer it waits as long: the next cancel
/// sends a second SIGTERM, which ends runs by force.
fn wait_until_ended(timeout: Duration, mut jobs: impl FnMut() -> Result<Vec<Job>>) -> Result<()> {
    let (begun, mut announced) = (clock::uptime(), false);
    loop {
        let jobs = jobs();
        let waited = clock::uptime().saturating_sub(begun);
        match jobs {
            Ok(jobs) if jobs.is_empty() => return Ok(()),
            jobs if waited >= timeout => return jobs.map(drop),
            _ => std::thread::sleep(POLL_INTERVAL),
        }
        if waited >= 3 * POLL_INTERVAL && !announced {
            announced = true;
            say(&format!(
                "waiting for the jobs to end, for {} at most",
                duration(timeout)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_are_not_known_at_the_end_are_an_error() {
        let unknown = || bail!("squeue failed");
        let error = wait_until_ended(Duration::ZERO, unknown).unwrap_err();
        assert_eq!(error.to_string(), "squeue failed");
        wait_until_ended(Duration::ZERO, || Ok(Vec::new())).unwrap();
    }
}
