//! A block has all runs of one replicate. One host executes them in the plan's order.
//!
//! Each attempt at a block (block attempt) is an experiment with its own folder,
//! `blocks/003/HOST-ATTEMPT`, and journal. In this journal, each turn (runs that execute at the same
//! time) has attempts, too.

use crate::{
    folder::{ExperimentFolder, path_safe},
    journal::{self, JournalState},
    lock::{self, Holder},
    outcome::{Ending, Outcome},
    plan::Plan,
    schedule::{Turn, schedule},
};
use anyhow::{Result, ensure};
use faultline_common::{files::AtPath, output::say};
use faultline_kernel::HostRoot;
use itertools::Itertools;
use std::{collections::BTreeSet, fs, io::ErrorKind, path::Path};

/// Turns that one host executes with a journal of its own: a block of a plan, or an experiment in a
/// round of a campaign.
#[derive(Default)]
pub struct HostBlock {
    /// From 1 on. `None` in a campaign, where a host block has all replicates.
    pub replicate: Option<u32>,
    pub how_to_resume: String,
    /// End of the last run on this host, in any block.
    pub last_end_unix_ns: Option<i64>,
}

impl HostBlock {
    pub fn turns(&self, plan: &Plan) -> Vec<Turn> {
        let mut turns = schedule(plan);
        if let Some(replicate) = self.replicate {
            turns.retain(|turn| turn.runs.iter().all(|run| run.replicate == replicate));
        }
        turns
    }

    /// Labels of the block's recordings.
    pub fn labels(&self) -> Vec<(String, String)> {
        let block = self.replicate.map(|replicate| replicate.to_string());
        let array = env_var("SLURM_ARRAY_JOB_ID").zip(env_var("SLURM_ARRAY_TASK_ID"));
        let job = array
            .map(|(job, task)| format!("{job}_{task}"))
            .or_else(|| env_var("SLURM_JOB_ID"));
        [("host", Some(host_name())), ("block", block), ("job", job)]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }
}

pub fn how_to_resume(folder: &ExperimentFolder, replicate: u32) -> String {
    format!("`faultline experiment block {folder:#} {replicate}` continues")
}

/// The experiment and the replicate, if `folder` is that of a block attempt.
pub fn host_block_of(folder: &ExperimentFolder) -> Option<(ExperimentFolder, u32)> {
    let path = folder.path().parent()?;
    let experiment = ExperimentFolder::new(path.parent()?.parent()?);
    let replicate = path.file_name()?.to_str()?.parse().ok()?;
    (experiment.host_block(replicate) == path && experiment.journal().exists())
        .then_some((experiment, replicate))
}

/// Also true if the journal has no host, because an older version wrote it.
pub fn ran_on_this_host(journal_state: &JournalState) -> bool {
    journal_state.host.is_empty() || journal_state.host == host_name()
}

/// The node's name under Slurm, else the kernel's.
pub fn host_name() -> String {
    if let Some(name) = env_var("SLURMD_NODENAME") {
        return name;
    }
    let parse = |text: &[u8]| Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned());
    HostRoot::default()
        .read_proc("sys/kernel/hostname", parse)
        .unwrap_or_else(|_| "unknown".to_owned())
}

pub fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

pub struct BlockAttempt {
    pub folder: ExperimentFolder,
    /// The folder's name, such as `n1-0`. Empty if the block's folder cannot be read.
    pub name: String,
    pub number: u32,
    /// The default if the journal cannot be used.
    pub journal_state: JournalState,
    /// Why the journal cannot be used, with its block and path.
    pub problem: Option<String>,
}

impl BlockAttempt {
    pub fn is_done(&self) -> bool {
        self.journal_state.planned.is_some() && self.journal_state.next_attempt().is_none()
    }

    pub fn is_on(&self, host: &str) -> bool {
        self.name == block_attempt_name(host, self.number)
    }

    pub fn warn_if_unreadable(&self) {
        if let Some(problem) = &self.problem {
            warn_unreadable(problem);
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(lock::holder(&self.folder.lock()), Ok(Holder::Process(_)))
    }
}

pub fn block_attempt_name(host: &str, number: u32) -> String {
    format!("{}-{number}", path_safe(host))
}

/// Sorted by number, then by the time of the first line: hosts without a common file system may use
/// the same number. With `only_host`, journals of other hosts are not read. Fails if a newer version
/// wrote a journal: without it, runs would be repeated.
pub fn read_block_attempts(
    folder: &ExperimentFolder,
    plan_digest: &str,
    replicate: u32,
    only_host: Option<&str>,
) -> Result<Vec<BlockAttempt>> {
    let path = folder.host_block(replicate);
    let mut names = match block_attempt_names(&path) {
        Err(error) => {
            return Ok(vec![BlockAttempt {
                folder: ExperimentFolder::new(&path),
                name: String::new(),
                number: 0,
                journal_state: JournalState::default(),
                problem: Some(format!("block {replicate}: {error:#}")),
            }]);
        }
        names => names?,
    };
    if let Some(host) = only_host {
        names.retain(|(number, name)| *name == block_attempt_name(host, *number));
    }
    let mut block_attempts = Vec::new();
    for (number, name) in names {
        let folder = ExperimentFolder::new(&path.join(&name));
        let mut problem = None;
        let journal_state = match read_journal(&folder.journal(), plan_digest) {
            Err(error) if !error.downcast_ref().is_some_and(serde_json::Error::is_data) => {
                problem = Some(format!("block {replicate}: {error:#}"));
                JournalState::default()
            }
            read => read?,
        };
        block_attempts.push(BlockAttempt {
            folder,
            name,
            number,
            journal_state,
            problem,
        });
    }
    block_attempts.sort_by_key(|attempt| (attempt.number, attempt.journal_state.began_unix_ns));
    Ok(block_attempts)
}

/// Sorted by number. `path` is the folder of a block.
pub fn block_attempt_names(path: &Path) -> Result<Vec<(u32, String)>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at(path)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.at(path)?.file_name().to_string_lossy().into_owned();
        let number = name.rsplit_once('-').map(|(_, number)| number.parse());
        names.extend(number.and_then(Result::ok).map(|number| (number, name)));
    }
    names.sort();
    Ok(names)
}

/// The default if the attempt never began. A killed runner may leave a part of the first line.
fn read_journal(path: &Path, plan_digest: &str) -> Result<JournalState> {
    if !path.try_exists().at(path)? {
        return Ok(JournalState::default());
    }
    let journal_state = JournalState::of(&journal::read(path)?);
    let path_text = path.display();
    match &journal_state.planned {
        Some(planned) => ensure!(
            planned.plan_digest == plan_digest,
            "{path_text}: this is the journal of another plan"
        ),
        None => ensure!(
            !fs::read(path).at(path)?.contains(&b'\n'),
            "{path_text}: this is no journal"
        ),
    }
    Ok(journal_state)
}

/// One block attempt of each block counts: the first with all results, else the first that runs,
/// else the one whose runner started last. Its number need not be the highest: a host continues its
/// own earlier attempt.
pub fn merge_host_blocks(folder: &ExperimentFolder, merged: &mut JournalState) -> Result<()> {
    if !folder.has_host_blocks() {
        return Ok(());
    }
    let digest = merged.planned.clone().unwrap_or_default().plan_digest;
    for replicate in host_block_replicates(&merged.turns) {
        let mut block_attempts = read_block_attempts(folder, &digest, replicate, None)?;
        merged.unreadable_journals.extend(
            block_attempts
                .iter()
                .filter_map(|attempt| attempt.problem.clone()),
        );
        block_attempts.retain(|attempt| attempt.journal_state.planned.is_some());
        let index_of =
            |condition: fn(&BlockAttempt) -> bool| block_attempts.iter().position(condition);
        let counted_index = index_of(BlockAttempt::is_done)
            .or_else(|| index_of(BlockAttempt::is_running))
            .or_else(|| {
                block_attempts
                    .iter()
                    .map(|attempt| attempt.journal_state.runner_began_unix_ns)
                    .position_max()
            });
        let Some(counted) = counted_index.map(|index| block_attempts.remove(index)) else {
            continue;
        };
        for unused in block_attempts {
            let why = format!(
                "attempt {} has the results of this block that count; {} is not used",
                counted.name, unused.name
            );
            merge_block_attempt(merged, unused, Some(why));
        }
        // Last, because the last attempt at each turn counts.
        merge_block_attempt(merged, counted, None);
    }
    merged.finished = merged.next_attempt().is_none();
    if merged.attempts.is_empty() {
        merged.stopped = Some("no block has begun".to_owned());
    }
    Ok(())
}

pub fn warn_unreadable(problem: &str) {
    say(&format!(
        "warning: {problem}: this does not count; put the journal back, or move its folder away"
    ));
}

pub fn host_block_replicates<'t>(turns: impl IntoIterator<Item = &'t Turn>) -> BTreeSet<u32> {
    turns
        .into_iter()
        .flat_map(|turn| &turn.runs)
        .map(|run| run.replicate)
        .collect()
}

fn merge_block_attempt(
    merged: &mut JournalState,
    block_attempt: BlockAttempt,
    void_reason: Option<String>,
) {
    let is_running = block_attempt.is_running();
    let state = block_attempt.journal_state;
    merged.running_host_blocks += usize::from(is_running);
    merged.runner_starts += state.runner_starts;
    merged.last_end_unix_ns = merged.last_end_unix_ns.max(state.last_end_unix_ns);
    if void_reason.is_none() {
        merged.stopped = state.stopped.or(merged.stopped.take());
    }
    if let (Some(planned), Some(block_planned)) = (&mut merged.planned, state.planned) {
        planned.launcher = block_planned.launcher;
    }
    for (turn, turn_attempts) in state.attempts {
        let merged_attempts = merged.attempts.entry(turn).or_default();
        for mut attempt in turn_attempts {
            for run in attempt.runs.values_mut() {
                if !is_running {
                    let last_step = run.steps.last();
                    let ended = last_step.map_or(attempt.unix_ns, |(_, unix_ns)| *unix_ns);
                    let runner_killed = || (Ending::new(Outcome::runner_killed()), ended);
                    run.ended.get_or_insert_with(runner_killed);
                }
                run.void_reason = void_reason.clone().or(run.void_reason.take());
            }
            attempt.origin = Some((block_attempt.folder.path().to_owned(), attempt.number));
            attempt.number = u32::try_from(merged_attempts.len() + 1).unwrap_or(u32::MAX);
            merged_attempts.push(attempt);
        }
    }
}

#[cfg(test)]
mod tests;
