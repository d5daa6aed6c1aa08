//! Calls Slurm's programs. Each host block (turns that one host executes with its own journal) or
//! each round of a campaign is a task of a job array. When the array has ended, a follow-up job
//! writes the report or collects the results.

use crate::{blocks::env_var, folder::ExperimentFolder, plan::Plan, plan_command::estimate};
use anyhow::{Context, Result, bail, ensure};
use faultline_common::output::say;
use faultline_runner::record::wait_or_kill;
use faultline_text::{bytes, duration, shell_quoted};
use itertools::Itertools;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fs::File,
    io::{ErrorKind, Read, Seek},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// With this exit code in `RequeueExit`, Slurm queues the job again.
pub(crate) const EXIT_TEMPFAIL: u8 = 75;

/// For the runner and the recorder.
const RESERVED_BYTES: u64 = 1 << 30;
/// Added to the estimated time of a job.
const TIME_MARGIN: Duration = Duration::from_secs(120);

/// Above `MessageTimeout`, 10 s by default, after which Slurm's programs fail themselves.
const TIMEOUT: Duration = Duration::from_secs(20);
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize)]
pub struct Job {
    /// As in `12_3`: task 3 of array 12.
    pub id: String,
    /// Index in the array; `None` for the follow-up job.
    #[serde(rename = "block")]
    pub task_index: Option<u32>,
    pub state: String,
    /// Empty while the job waits.
    pub host: String,
    pub reason: String,
}

pub(crate) fn script_path(folder: &ExperimentFolder) -> PathBuf {
    folder.path().join("slurm.sh")
}

pub(crate) fn experiment_script(plan: &Plan, vote_confirmed: bool) -> Result<String> {
    let folder = ExperimentFolder::new(&plan.folder);
    let job_scripts = JobScripts {
        job_name: folder.unique_name(&plan.name),
        output_folder: folder.host_blocks(),
    };
    let comment = format!(
        "# 1. faultline experiment prepare {}\n\
         # 2. sbatch --parsable THIS-FILE\n\
         # 3. sbatch --dependency=afterany:JOB --wrap='faultline experiment report FOLDER'\n\
         #SBATCH --array=1-{}\n",
        shell_quoted(&plan.file),
        plan.replicates
    );
    let turns = match plan.concurrent {
        Some(_) => 1,
        None => plan.arms.len(),
    };
    let voting_option = if vote_confirmed { " --i-vote" } else { "" };
    let command = format!(
        "experiment block {} \"$SLURM_ARRAY_TASK_ID\"{voting_option}",
        shell_quoted(folder.path())
    );
    job_scripts.array_script(plan, turns, &comment, &command)
}

pub struct JobScripts {
    pub job_name: String,
    pub output_folder: PathBuf,
}

impl JobScripts {
    /// Each task executes `turns` turns: the runs of a turn execute at the same time. `comment`
    /// follows the first line.
    pub fn array_script(
        &self,
        plan: &Plan,
        turns: usize,
        comment: &str,
        command: &str,
    ) -> Result<String> {
        let slurm = &plan.slurm;
        let mut options = vec![
            format!("--job-name={}", self.job_name),
            "--nodes=1".to_owned(),
            "--exclusive".to_owned(),
            format!("--mem={}M", reserved_bytes(plan)?.div_ceil(1 << 20)),
            format!("--time={}", time_limit_minutes(plan, turns)),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            self.output_option("%3a.out")?,
        ];
        for (option, nodes) in [
            ("constraint", &slurm.constraint),
            ("exclude", &slurm.exclude),
        ] {
            options.extend(nodes.iter().map(|nodes| format!("--{option}=\"{nodes}\"")));
        }
        options.extend_from_slice(&slurm.options);
        script_text(comment, &options, command)
    }

    pub fn follow_up_script(
        &self,
        plan: &Plan,
        output_file: &str,
        command: &str,
    ) -> Result<String> {
        let mut options = plan.slurm.options.clone();
        options.push(format!("--job-name={}", self.job_name));
        options.push(self.output_option(output_file)?);
        script_text("", &options, command)
    }

    fn output_option(&self, output_file: &str) -> Result<String> {
        let path = self.output_folder.display().to_string();
        ensure!(
            !path.contains(['"', '\\', '\n']),
            "{path:?} has a quote, a backslash or a line end, which sbatch misreads: choose another folder"
        );
        Ok(format!(
            "--output=\"{}/{output_file}\"",
            path.replace('%', "%%")
        ))
    }
}

fn script_text(comment: &str, options: &[String], command: &str) -> Result<String> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    // Slurm reads quotes in these lines as a shell does.
    let lines = options.iter().map(|option| format!("#SBATCH {option}\n"));
    let (options, program): (String, _) = (lines.collect(), shell_quoted(&program));
    Ok(format!(
        "#!/bin/sh\n{comment}{options}exec {program} {command}\n"
    ))
}

/// 0 is all memory of a node. Slurm does not limit the runs, because they are not in Slurm's
/// cgroups.
fn reserved_bytes(plan: &Plan) -> Result<u64> {
    let limits = plan
        .arms
        .iter()
        .map(|arm| arm.memory_max.or(arm.memory_high));
    let limits = limits.collect::<Option<Vec<u64>>>();
    let needed = limits
        .filter(|_| plan.memory_search.is_none())
        .map(|limits| {
            let limit = match plan.concurrent {
                Some(concurrent) => limits
                    .iter()
                    .chain(limits.get(concurrent.repeated_arm))
                    .copied()
                    .fold(0, u64::saturating_add),
                None => limits.into_iter().max().unwrap_or_default(),
            };
            limit.saturating_add(RESERVED_BYTES)
        });
    match (plan.slurm.memory, needed) {
        (Some(given), Some(needed)) if given < needed => bail!(
            "slurm.memory is {}; set at least {}: the limits of the runs, and {} for the runner and the recorder",
            bytes(given),
            bytes(needed),
            bytes(RESERVED_BYTES)
        ),
        (Some(given), _) => Ok(given),
        (None, needed) => Ok(needed.unwrap_or(0)),
    }
}

/// 0 is no limit, for plans whose runs first copy a saved state: a copy may take any time.
fn time_limit_minutes(plan: &Plan, turns: usize) -> u64 {
    if plan.restored_from().is_some() {
        return 0;
    }
    Duration::from_secs(estimate(plan, turns).longest_seconds)
        .saturating_add(plan.host.cool_down)
        .saturating_add(TIME_MARGIN)
        .as_secs()
        .div_ceil(60)
}

/// Fails without Slurm, and if Slurm would kill a run within its grace period.
pub fn check(plan: &Plan) -> Result<()> {
    call("sbatch", &["--version"])?;
    let config = call("scontrol", &["show", "config"])?;
    let config_value = |key| {
        let mut pairs = config.lines().filter_map(|line| line.split_once('='));
        let (_, value) = pairs.find(|(name, _)| name.trim() == key)?;
        Some(value.trim())
    };
    let kill_wait = config_value("KillWait").and_then(|text| text.split(' ').next()?.parse().ok());
    if let Some(kill_wait) = kill_wait.map(Duration::from_secs)
        && plan.stop.grace >= kill_wait
    {
        bail!(
            "stop.grace is {}, and Slurm kills a job {} after SIGTERM: shorten stop.grace, or raise KillWait in slurm.conf",
            duration(plan.stop.grace),
            duration(kill_wait)
        );
    }
    if !config_value("RequeueExit").is_some_and(includes_tempfail) {
        say(
            "warning: RequeueExit of slurm.conf lacks 75: a task whose host is in use or not fit fails, and has to be submitted again",
        );
    }
    Ok(())
}

/// `exit_codes` are numbers and ranges, as in `1-9,75`.
fn includes_tempfail(exit_codes: &str) -> bool {
    exit_codes.split(',').any(|range| {
        let codes = range.split('-').filter_map(|code| code.parse().ok());
        let codes = codes.collect_vec();
        codes.first() <= Some(&EXIT_TEMPFAIL) && codes.last() >= Some(&EXIT_TEMPFAIL)
    })
}

/// Returns the array's id.
pub fn submit(script: &Path, tasks: &BTreeSet<u32>, follow_up: &Path) -> Result<String> {
    let array = format!("--array={}", tasks.iter().join(","));
    let job = call("sbatch", &["--parsable", &array, &script.to_string_lossy()])?;
    let job = job.trim().split(';').next().unwrap_or_default().to_owned();
    let dependency = format!("--dependency=afterany:{job}");
    let follow_up = follow_up.to_string_lossy();
    call("sbatch", &["--parsable", &dependency, &follow_up]).with_context(|| {
        format!(
            "job {job} is queued, but not the job that follows it: run `sbatch {dependency} {follow_up}`"
        )
    })?;
    Ok(job)
}

/// Waiting and running jobs. Omits the job of this program, unless it is a task of an array.
pub fn list_jobs(job_name: &str) -> Result<Vec<Job>> {
    let name = format!("--name={job_name}");
    let answer = call(
        "squeue",
        &["--noheader", "--array", &name, "--format=%i|%K|%T|%N|%r"],
    )?;
    let jobs = answer.lines().filter_map(|line| {
        let (id, task_index, state, host, reason) = line.trim().split('|').collect_tuple()?;
        Some(Job {
            id: id.to_owned(),
            task_index: task_index.parse().ok(),
            state: state.to_owned(),
            host: host.to_owned(),
            reason: reason.to_owned(),
        })
    });
    let own_id = env_var("SLURM_JOB_ID");
    Ok(jobs
        .filter(|job| own_id.as_ref() != Some(&job.id))
        .collect())
}

pub(crate) fn cancel(job_name: &str, options: &[&str]) -> Result<()> {
    let name = format!("--name={job_name}");
    call("scancel", &[options, &[&name]].concat()).map(drop)
}

fn call(program: &str, arguments: &[&str]) -> Result<String> {
    let timeout = match program {
        "sbatch" => SUBMIT_TIMEOUT,
        _ => TIMEOUT,
    };
    call_within(timeout, program, arguments)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program ends within the timeout, and is not part of a run"
)]
fn call_within(timeout: Duration, program: &str, arguments: &[&str]) -> Result<String> {
    // The output goes to files: a pipe stays open until the program's children end.
    let (stdout, stderr) = (open_memory_file()?, open_memory_file()?);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "{program} is not in PATH: submit where Slurm is, or take the script that `slurm --print` prints"
        ),
        child => child.context(program.to_owned())?,
    };
    let Some(status) = wait_or_kill(&mut child, timeout).context(program.to_owned())? else {
        let queued = match program {
            "sbatch" => "; `squeue --me` shows whether the jobs are queued all the same",
            _ => "",
        };
        bail!(
            "{program} did not answer within {} and was ended: repeat this when `scontrol ping` says that the controller is up{queued}",
            duration(timeout)
        );
    };
    ensure!(
        status.success(),
        "{program} failed: {}",
        read_from_start(stderr)?.trim()
    );
    read_from_start(stdout)
}

fn open_memory_file() -> Result<File> {
    let file = memfd_create("output", MemfdFlags::CLOEXEC);
    Ok(File::from(
        file.context("a file in memory could not be created")?,
    ))
}

fn read_from_start(mut file: File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
