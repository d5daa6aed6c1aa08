//! A campaign on several hosts, under Slurm. `campaign slurm` collects results and submits one job
//! array. Each of its tasks runs a round by `campaign round`, and never opens `results.db`. The
//! follow-up is a job after the tasks, which runs `campaign slurm --follow-up`.

use crate::{
    args::{RoundArgs, SlurmArgs},
    page,
    programs::Stopped,
    round::{self, CampaignExperiment, EXPERIMENTS, Round},
    settings::Campaign,
    store::Store,
    work::{self, VersionOutcome},
};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use faultline_common::{
    args::UsageError,
    files::AtPath,
    output::{print, say},
};
use faultline_experiments::{
    command::{host_block_exit_code, write_synced},
    folder::ExperimentFolder,
    lock::{self, Holder, Lock},
    plan::Plan,
    schedule::schedule,
    slurm::{self, JobScripts},
};
use faultline_text::{counted, shell_quoted};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

const FOLDER: &str = "slurm";
const ROUNDS: &str = "rounds.json";
const ARRAY: &str = "array.sh";
const FOLLOW_UP: &str = "follow-up.sh";

/// `rounds.json`. It only grows, so that a task's number stays the same.
#[derive(Default, Serialize, Deserialize)]
struct SubmittedRounds {
    /// Inode of `results.db`. Another host may have a different file at this path.
    results_inode: u64,
    /// By task number, from 1.
    rounds: Vec<Round>,
}

impl SubmittedRounds {
    fn read(campaign: &Campaign) -> Result<Self> {
        let path = slurm_file(campaign, ROUNDS);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            text => serde_json::from_str(&text.at(&path)?)
                .with_context(|| format!("{}: restore or remove it", path.display())),
        }
    }

    fn task_number(&self, round: &Round) -> Option<u32> {
        let index = self
            .rounds
            .iter()
            .position(|submitted| submitted == round)?;
        u32::try_from(index + 1).ok()
    }

    fn add(&mut self, round: Round) -> Result<u32> {
        if self.task_number(&round).is_none() {
            self.rounds.push(round.clone());
        }
        self.task_number(&round).context("too many rounds")
    }

    fn submit(
        &mut self,
        campaign: &Campaign,
        store: &mut Store,
        pending: &[Round],
        plan: &Plan,
        [script, follow_up_command]: [&str; 2],
    ) -> Result<()> {
        let job_scripts = job_scripts(campaign);
        fs::create_dir_all(&job_scripts.output_folder).at(&job_scripts.output_folder)?;
        self.results_inode = fs::metadata(&campaign.results).at(&campaign.results)?.ino();
        let tasks: BTreeSet<u32> = pending
            .iter()
            .map(|round| self.add(round.clone()))
            .collect::<Result<_>>()?;
        let text = serde_json::to_vec_pretty(self)?;
        write_synced(&slurm_file(campaign, ROUNDS), &text)?;
        let follow_up_script =
            job_scripts.follow_up_script(plan, "follow-up.out", follow_up_command)?;
        let [array, follow_up] = [ARRAY, FOLLOW_UP].map(|name| slurm_file(campaign, name));
        write_script(&array, script)?;
        write_script(&follow_up, &follow_up_script)?;
        let job = slurm::submit(&array, &tasks, &follow_up)?;
        say(&format!(
            "job {job} has {}; a job that collects the results follows it",
            counted(tasks.len() as f64, "round")
        ));
        for round in pending {
            store.set_error(&round.version, None)?;
        }
        page::rewrite_pages(campaign, store)
    }

    /// Fails if the follow-up runs on a host without the database, or after a change of the plan.
    fn check_follow_up(&self, campaign: &Campaign) -> Result<()> {
        ensure!(
            fs::metadata(&campaign.results)
                .is_ok_and(|metadata| metadata.ino() == self.results_inode),
            "{}: this host does not have the file that `campaign slurm` opened: run `faultline campaign slurm {}` on the host that has it",
            campaign.results.display(),
            shell_quoted(&campaign.folder)
        );
        ensure!(
            self.rounds
                .iter()
                .any(|round| round.plan_digest == campaign.plan_digest),
            "{}: it has changed since the rounds were submitted: `faultline campaign slurm {}` submits all of them again",
            campaign.plan.display(),
            shell_quoted(&campaign.folder)
        );
        Ok(())
    }
}

fn slurm_file(campaign: &Campaign, name: &str) -> PathBuf {
    campaign.folder.join(FOLDER).join(name)
}

fn job_scripts(campaign: &Campaign) -> JobScripts {
    JobScripts {
        job_name: ExperimentFolder::new(&campaign.folder).unique_name("campaign"),
        output_folder: campaign.folder.join(FOLDER),
    }
}

/// Upgrades the database only if no other process runs this campaign: an older `faultline` would
/// write its own format.
pub fn open_campaign(folder: &Path) -> Result<(Campaign, Store)> {
    let campaign = Campaign::read(folder)?;
    require_results(&campaign, campaign.folder.join(EXPERIMENTS).exists())?;
    let path = &campaign.results;
    let _lock;
    if Store::needs_upgrade(path)? {
        _lock = campaign.lock().with_context(|| {
            format!(
                "{}: it has the format of an older version: run this command as a user who may write it and the campaign's folder, while nothing else runs the campaign",
                path.display()
            )
        })?;
    }
    let store = Store::open(path)?;
    Ok((campaign, store))
}

pub fn open_to_advance(campaign: &Campaign) -> Result<(Lock, Store)> {
    let lock = campaign.lock()?;
    require_results(campaign, false)?;
    refuse_running(campaign)?;
    Store::refuse_nfs(&campaign.results)?;
    Ok((lock, Store::open(&campaign.results)?))
}

/// Fails if there must be results and the database is lost or on another host. Otherwise this host
/// would create an empty one.
fn require_results(campaign: &Campaign, has_runs: bool) -> Result<()> {
    let is_required = has_runs || !SubmittedRounds::read(campaign)?.rounds.is_empty();
    let path = &campaign.results;
    let has_results = path.try_exists().at(path)? && path.metadata().at(path)?.len() > 0;
    ensure!(
        !is_required || has_results,
        "{}: missing or empty, although rounds were submitted or run: restore it, or use its host; without Slurm, `faultline campaign run` reads results again",
        path.display()
    );
    Ok(())
}

fn refuse_running(campaign: &Campaign) -> Result<()> {
    for round in &SubmittedRounds::read(campaign)?.rounds {
        ensure!(
            lock::holder(&round.lock_file(campaign))? == Holder::Free,
            "round {} of {} is being run by a task: wait for its end, or end it by `scancel --name={}`",
            round.number,
            round.version,
            job_scripts(campaign).job_name
        );
    }
    Ok(())
}

pub fn run_task(args: &RoundArgs) -> Result<u8> {
    let campaign = Campaign::read(&args.dir)?;
    let submitted = SubmittedRounds::read(&campaign)?;
    let index = (args.task_number as usize).checked_sub(1);
    let Some(round) = index.and_then(|index| submitted.rounds.get(index)) else {
        bail!(UsageError(format!(
            "{}: it has {}, and no {}",
            slurm_file(&campaign, ROUNDS).display(),
            counted(submitted.rounds.len() as f64, "round"),
            args.task_number
        )));
    };
    let name = format!("round {} of {}", round.number, round.version);
    host_block_exit_code(&name, round.run(&campaign, args))
}

fn array_script(
    campaign: &Campaign,
    experiments: &[CampaignExperiment],
    plan: &Plan,
    voting_option: &str,
) -> Result<String> {
    let runs = experiments
        .iter()
        .map(|experiment| schedule(&experiment.plan).len());
    let folder = shell_quoted(&campaign.folder);
    let comment = format!(
        "# `faultline campaign slurm` submits {FOLDER}/{ARRAY} of the campaign's folder as it is\n\
         # with --array=TASKS: numbers of rounds in {FOLDER}/{ROUNDS}\n"
    );
    let command = format!("campaign round {folder} \"$SLURM_ARRAY_TASK_ID\"{voting_option}");
    job_scripts(campaign).array_script(plan, runs.sum(), &comment, &command)
}

/// Writes the script unless the file exists. Warns if an existing file differs.
fn write_script(path: &Path, text: &str) -> Result<()> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => write_synced(path, text.as_bytes()),
        existing => {
            if existing.at(path)? != text {
                say(&format!(
                    "{} differs from the script for the plan and the options, and is used as it is; remove the file to write it again",
                    path.display()
                ));
            }
            Ok(())
        }
    }
}

pub fn slurm(args: &SlurmArgs) -> Result<()> {
    let campaign = Campaign::read(&args.dir)?;
    let voting_option = if args.vote_confirmed { " --i-vote" } else { "" };
    let experiments = round::example_experiments(&campaign)?;
    let plan = &experiments.first().context("a round has no runs")?.plan;
    let script = array_script(&campaign, &experiments, plan, voting_option)?;
    if args.print {
        return print(&script);
    }
    let mut submitted = SubmittedRounds::read(&campaign)?;
    if args.follow_up {
        submitted.check_follow_up(&campaign)?;
    }
    let (_lock, mut store) = open_to_advance(&campaign)?;
    let name = job_scripts(&campaign).job_name;
    let open_jobs = slurm::list_jobs(&name)?;
    ensure!(
        open_jobs.is_empty(),
        "this campaign still has {} queued or running: wait until none is left, or run `scancel --name={name}`",
        counted(open_jobs.len() as f64, "job")
    );
    slurm::check(plan)?;
    let versions = submitted.rounds.iter().map(|round| round.version.clone());
    let only: Option<Vec<String>> = args.follow_up.then(|| versions.collect());
    let mut pending = Vec::new();
    let failed =
        work::advance(
            &campaign,
            &mut store,
            only.as_deref(),
            &mut |round, _| match submitted.task_number(round).filter(|_| args.follow_up) {
                Some(task) => Err(missing_result(&campaign, round, task)),
                None => {
                    pending.push(round.clone());
                    Err(VersionOutcome::Pending)
                }
            },
        )
        .map_err(|error| match error.downcast::<Stopped>() {
            Ok(stopped) => anyhow!("nothing was submitted: {stopped}"),
            Err(error) => error,
        })?;
    let is_done = pending.is_empty() && failed.is_empty();
    if !pending.is_empty() {
        let follow_up_command = format!(
            "campaign slurm {} --follow-up{voting_option}",
            shell_quoted(&campaign.folder)
        );
        let scripts = [&*script, &follow_up_command];
        submitted.submit(&campaign, &mut store, &pending, plan, scripts)?;
    }
    ensure!(failed.is_empty(), work::without_result(&failed));
    if is_done {
        let versions = if args.follow_up {
            "every submitted version"
        } else {
            "every version"
        };
        work::say_done(&campaign, versions);
    }
    Ok(())
}

fn missing_result(campaign: &Campaign, round: &Round, task: u32) -> VersionOutcome {
    VersionOutcome::Failed(format!(
        "round {} has no result: read {}; `faultline campaign slurm {}` submits it again",
        round.number,
        slurm_file(campaign, &format!("{task:03}.out")).display(),
        shell_quoted(&campaign.folder)
    ))
}
