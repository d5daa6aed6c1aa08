//! A block has all runs of one replicate. One host executes it, with or without Slurm.

use super::{begin_experiment, continue_experiment, lock_new_folder, write_synced};
use crate::{
    args::{BlockArgs, SlurmArgs},
    blocks::{self, BlockAttempt, HostBlock},
    folder::{ExperimentFolder, LOCK, digest},
    journal::{Entry, Journal, JournalLine, JournalState, Planned},
    lock::Lock,
    plan::Plan,
    plan_command,
    runner::ExperimentEnd,
    saved::{find_folder, read_with_host_blocks, read_without_host_blocks, refuse_changed},
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
use faultline_text::{counted, duration, shell_quoted};
use itertools::Itertools;
use std::{fs, time::Duration};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The recorder and Slurm need time to end, too.
const STOP_MARGIN: Duration = Duration::from_secs(60);

pub fn prepare(plan: &Plan) -> Result<ExperimentFolder> {
    let folder = ExperimentFolder::new(&plan.folder);
    let _lock = lock_new_folder(&folder)?;
    fs::create_dir_all(folder.host_blocks()).at(&folder.host_blocks())?;
    write_synced(&folder.plan(), plan.text.as_bytes())?;
    // Each host chooses its launcher, systemd or direct, and the block attempts there record it.
    let unknown_launcher = String::new();
    Journal::create(&folder.journal())?.append(&JournalLine {
        unix_ns: clock::unix_ns(),
        entry: Entry::Planned(Planned::new(plan, unknown_launcher, schedule(plan))),
    })?;
    let blocks = counted(plan.replicates as f64, "block");
    say(&format!(
        "{folder} has {blocks}: `faultline experiment block {folder:#} N` runs one"
    ));
    Ok(folder)
}

/// `what` names a block of a plan or a round of a campaign. The code is 75 if it or the host is in
/// use, or the host is not fit.
pub fn host_block_exit_code(what: &str, end: Result<ExperimentEnd>) -> Result<u8> {
    let not_now = |why| {
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
    let replicate = args.block;
    let folder = find_folder(&args.experiment)?;
    // `read_with_host_blocks` would take the locks of all blocks for a moment, and disturb blocks
    // that start now.
    let (mut plan, _) = read_without_host_blocks(&folder)?;
    ensure!(
        folder.has_host_blocks(),
        "{folder} has no blocks: `faultline experiment prepare` did not begin this experiment"
    );
    let last = plan.replicates;
    ensure!(
        (1..=last).contains(&replicate),
        UsageError(format!(
            "{folder} has blocks 1 to {last}, and no {replicate}"
        ))
    );
    let path = folder.host_block(replicate);
    fs::create_dir_all(&path).at(&path)?;
    let _lock = Lock::take_with_message(&path.join(LOCK), |process| {
        format!("it is being run already{process}")
    })?;
    let digest = digest(&plan.text);
    let block_attempts = blocks::read_block_attempts(&folder, &digest, replicate, None)?;
    if block_attempts.iter().any(BlockAttempt::is_done) {
        return Ok(ExperimentEnd::Finished);
    }
    let host = blocks::host_name();
    for attempt in block_attempts
        .iter()
        .filter(|attempt| !attempt.is_on(&host))
    {
        attempt.warn_if_unreadable();
    }
    let attempt_here = block_attempts
        .iter()
        .filter(|attempt| attempt.problem.is_none())
        .rfind(|attempt| attempt.is_on(&host));
    plan.folder = attempt_here.map_or_else(
        || {
            path.join(blocks::block_attempt_name(
                &host,
                next_attempt_number(&block_attempts),
            ))
        },
        |attempt| attempt.folder.path().to_owned(),
    );
    let host_block = HostBlock {
        last_end_unix_ns: last_end_unix_ns(&folder, &plan, &host)?,
        how_to_resume: blocks::how_to_resume(&folder, replicate),
        replicate: Some(replicate),
    };
    match attempt_here.filter(|attempt| attempt.journal_state.planned.is_some()) {
        Some(attempt) => continue_experiment(
            plan,
            &attempt.journal_state,
            args.vote_confirmed,
            Some(host_block),
        ),
        None => begin_experiment(plan, args.launcher, args.vote_confirmed, Some(host_block)),
    }
}

/// The number after the last attempt, but at least Slurm's count of restarts. So hosts that do not
/// share a file system use different numbers.
fn next_attempt_number(block_attempts: &[BlockAttempt]) -> u32 {
    let restarts = blocks::env_var("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok());
    block_attempts
        .last()
        .map_or(0, |last| last.number.saturating_add(1))
        .max(restarts.unwrap_or(0))
}

fn last_end_unix_ns(folder: &ExperimentFolder, plan: &Plan, host: &str) -> Result<Option<i64>> {
    let digest = digest(&plan.text);
    let mut last_end = None;
    for replicate in 1..=plan.replicates {
        for attempt in blocks::read_block_attempts(folder, &digest, replicate, Some(host))? {
            attempt.warn_if_unreadable();
            last_end = last_end.max(attempt.journal_state.last_end_unix_ns);
        }
    }
    Ok(last_end)
}

pub fn submit(args: &SlurmArgs) -> Result<u8> {
    let plan = plan_command::read(&args.plan)?;
    if args.print {
        return print(&slurm::experiment_script(&plan, args.vote_confirmed)?).map(|()| 0);
    }
    let folder = ExperimentFolder::new(&plan.folder);
    let path = slurm::script_path(&folder);
    ensure!(
        !path.exists(),
        "{} exists: `faultline experiment resume {folder:#}` submits this script; to write it again, remove it first",
        path.display()
    );
    slurm::check(&plan)?;
    // The folder must exist first: the name of the jobs has a digest of its canonical path.
    fs::create_dir_all(folder.path()).at(folder.path())?;
    let script = slurm::experiment_script(&plan, args.vote_confirmed)?;
    if folder.has_host_blocks() && folder.journal().exists() {
        refuse_changed(&read_without_host_blocks(&folder)?.0, &plan)?;
    } else {
        prepare(&plan)?;
    }
    write_synced(&path, script.as_bytes())?;
    submit_unfinished(&folder)
}

pub fn submit_unfinished(folder: &ExperimentFolder) -> Result<u8> {
    let (plan, journal_state) = read_with_host_blocks(folder)?;
    let unfinished = blocks::host_block_replicates(
        journal_state
            .turns
            .iter()
            .filter(|turn| !journal_state.is_done(turn)),
    );
    if unfinished.is_empty() {
        say("this experiment is finished");
        return Ok(0);
    }
    let script = slurm::script_path(folder);
    ensure!(
        script.exists(),
        "{folder} was not submitted to Slurm: run `faultline experiment block {folder:#} N` for the blocks {}",
        unfinished.iter().join(", ")
    );
    let job_scripts = JobScripts {
        job_name: folder.unique_name(&plan.name),
        output_folder: folder.host_blocks(),
    };
    let queued = slurm::list_jobs(&job_scripts.job_name)?;
    ensure!(
        queued.is_empty(),
        "the experiment still has {} queued or running: run `faultline experiment stop {folder:#}` first",
        counted(queued.len() as f64, "job")
    );
    let command = format!("experiment report {}", shell_quoted(folder.path()));
    let report = job_scripts.follow_up_script(&plan, "report.out", &command)?;
    let report_file = folder.path().join("slurm-report.sh");
    write_synced(&report_file, report.as_bytes())?;
    let job = slurm::submit(&script, &unfinished, &report_file)?;
    say(&format!(
        "job {job} has {}; a job for the report follows it",
        counted(unfinished.len() as f64, "block")
    ));
    Ok(0)
}

pub fn stop(folder: &ExperimentFolder, plan: &Plan, journal_state: &JournalState) -> Result<u8> {
    let (mut failed, mut next) = (Vec::new(), String::new());
    if slurm::script_path(folder).exists() {
        failed = cancel(&folder.unique_name(&plan.name), plan);
        next = format!("; `faultline experiment resume {folder:#}` continues");
    }
    // A runner may outlive its job, and a block can run without Slurm.
    let mut running = 0;
    let digest = digest(&plan.text);
    for replicate in blocks::host_block_replicates(&journal_state.turns) {
        // The caller's `read_with_host_blocks` has already printed the errors.
        let block_attempts =
            blocks::read_block_attempts(folder, &digest, replicate, None).unwrap_or_default();
        for attempt in block_attempts.iter().filter(|attempt| attempt.is_running()) {
            running += 1;
            say(&format!(
                "block {replicate} runs: run `faultline experiment stop {:#}` on its host",
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

/// Executes every step, even if an earlier one failed.
fn cancel(job_name: &str, plan: &Plan) -> Vec<String> {
    let timeout = plan.stop.grace.saturating_add(STOP_MARGIN);
    let cancel_pending = slurm::cancel(job_name, &["--state=PENDING"]);
    // No SIGKILL follows this signal.
    let signal_running = slurm::cancel(job_name, &["--state=RUNNING", "--signal=TERM", "--batch"]);
    // Some jobs may have the signal although the step failed.
    let wait = wait_until_ended(timeout, || slurm::list_jobs(job_name));
    let steps = [
        cancel_pending,
        signal_running,
        wait,
        slurm::cancel(job_name, &[]),
    ];
    steps
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .unique()
        .collect()
}

/// Fails if the last query failed.
///
/// An earlier failed query does not end the wait: the caller would send a second SIGTERM, which
/// kills runs that are still ending.
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
