//! A block has all runs of one replicate, on one host and in the plan's order. Each attempt at it is
//! an experiment with a folder of its own: `blocks/003/HOST-NUMBER`.

use crate::{
    folder::{Folder, path_safe},
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

/// What a runner does for a block, or for a round of a campaign.
pub struct BlockContext {
    /// From 1 on: the replicate. `None` has all replicates.
    pub(crate) number: Option<u32>,
    pub(crate) how_to_resume: String,
    /// End of the host's last run in any block.
    pub(crate) last_end_unix_ns: Option<i64>,
}

impl BlockContext {
    /// All runs of a plan, on this host.
    pub fn all_replicates(how_to_resume: String) -> Self {
        BlockContext {
            number: None,
            how_to_resume,
            last_end_unix_ns: None,
        }
    }

    pub(crate) fn turns(&self, plan: &Plan) -> Vec<Turn> {
        let mut turns = schedule(plan);
        if let Some(number) = self.number {
            turns.retain(|turn| turn.runs.iter().all(|run| run.replicate == number));
        }
        turns
    }

    pub(crate) fn labels(&self) -> Vec<(String, String)> {
        let block = self.number.map(|number| number.to_string());
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

pub(crate) fn how_to_resume(folder: &Folder, block: u32) -> String {
    format!("`faultline experiment block {folder} {block}` continues")
}

/// The experiment and the block of an attempt's folder.
pub(crate) fn of_attempt(folder: &Folder) -> Option<(Folder, u32)> {
    let path = folder.path().parent()?;
    let experiment = Folder::new(path.parent()?.parent()?);
    let block = path.file_name()?.to_str()?.parse().ok()?;
    (experiment.block(block) == path && experiment.journal().exists())
        .then_some((experiment, block))
}

/// Whether the last runner was on this host. True if older journals do not say.
pub(crate) fn ran_here(journal_state: &JournalState) -> bool {
    journal_state.host.is_empty() || journal_state.host == host_name()
}

/// The node's name under Slurm.
pub fn host_name() -> String {
    let read = |text: &[u8]| Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned());
    env_var("SLURMD_NODENAME")
        .or_else(|| {
            HostRoot::default()
                .read_proc("sys/kernel/hostname", read)
                .ok()
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

pub(crate) fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

pub(crate) struct BlockAttempt {
    pub folder: Folder,
    /// Last part of the folder: `n1-0`.
    pub name: String,
    pub number: u32,
    /// Empty if the journal cannot be used.
    pub journal_state: JournalState,
    /// Why the journal cannot be used, with the block and its path.
    pub problem: Option<String>,
}

impl BlockAttempt {
    pub fn is_done(&self) -> bool {
        self.journal_state.planned.is_some() && self.journal_state.next().is_none()
    }

    pub fn is_on(&self, host: &str) -> bool {
        self.name == attempt_name(host, self.number)
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

/// `n1-0`.
pub fn attempt_name(host: &str, number: u32) -> String {
    format!("{}-{number}", path_safe(host))
}

/// By number. Those of one number, from hosts without a common file system, by their begin. With
/// `only_host`, journals of other hosts are not read.
pub(crate) fn attempts(
    folder: &Folder,
    plan_digest: &str,
    block: u32,
    only_host: Option<&str>,
) -> Result<Vec<BlockAttempt>> {
    let path = folder.block(block);
    let mut names = attempt_names(&path)?;
    if let Some(host) = only_host {
        names.retain(|(number, name)| *name == attempt_name(host, *number));
    }
    let mut all = Vec::new();
    for (number, name) in names {
        let folder = Folder::new(&path.join(&name));
        let (journal_state, problem) = match read_journal(&folder.journal(), plan_digest) {
            Ok(journal_state) => (journal_state, None),
            Err(error) => {
                let problem = format!("block {block}: {error:#}");
                (JournalState::default(), Some(problem))
            }
        };
        all.push(BlockAttempt {
            folder,
            name,
            number,
            journal_state,
            problem,
        });
    }
    all.sort_by_key(|one| (one.number, one.journal_state.began_unix_ns));
    Ok(all)
}

/// Numbers and names of the attempts in this folder, by number.
pub fn attempt_names(path: &Path) -> Result<Vec<(u32, String)>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at(path)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.at(path)?.file_name().to_string_lossy().into_owned();
        let number = name.rsplit_once('-').map(|(_, number)| number.parse());
        if let Some(Ok(number)) = number {
            names.push((number, name));
        }
    }
    names.sort();
    Ok(names)
}

/// Empty if the attempt never began: a kill may leave a part of the first line.
fn read_journal(path: &Path, plan_digest: &str) -> Result<JournalState> {
    if !path.try_exists().at(path)? {
        return Ok(JournalState::default());
    }
    let journal_state = JournalState::of(&journal::read(path)?);
    let path_text = path.display();
    match &journal_state.planned {
        Some(planned) => ensure!(
            planned.plan == plan_digest,
            "{path_text}: this is the journal of another plan"
        ),
        None => ensure!(
            !fs::read(path).at(path)?.contains(&b'\n'),
            "{path_text}: this is no journal"
        ),
    }
    Ok(journal_state)
}

/// Adds the attempts of all blocks. The first one with all results counts, else the one that runs,
/// else the one that ran last: a block may return to a host.
pub(crate) fn merge_blocks(folder: &Folder, merged: &mut JournalState) {
    if !folder.has_blocks() {
        return;
    }
    let planned = merged.planned.as_ref();
    let digest = planned.map_or_else(String::new, |planned| planned.plan.clone());
    for block in numbers(&merged.turns) {
        let mut all = attempts(folder, &digest, block, None).unwrap_or_else(|error| {
            merged.unreadable.push(format!("block {block}: {error:#}"));
            Vec::new()
        });
        let problems = all.iter().filter_map(|one| one.problem.clone());
        merged.unreadable.extend(problems);
        all.retain(|one| one.journal_state.planned.is_some());
        let counted = all
            .iter()
            .position(BlockAttempt::is_done)
            .or_else(|| all.iter().position(BlockAttempt::is_running))
            .or_else(|| {
                let began = |one: &BlockAttempt| one.journal_state.runner_began_unix_ns;
                all.iter().map(began).position_max()
            });
        let Some(counted) = counted.map(|counted| all.remove(counted)) else {
            continue;
        };
        for one in all {
            let why = format!(
                "attempt {} has the results of this block that count; {} is not used",
                counted.name, one.name
            );
            merge_attempt(merged, one, Some(why));
        }
        // The newest attempt of a turn counts.
        merge_attempt(merged, counted, None);
    }
    merged.finished = merged.next().is_none();
    if merged.attempts.is_empty() {
        merged.stopped = Some("no block has begun".to_owned());
    }
}

pub(crate) fn warn_unreadable(problem: &str) {
    say(&format!(
        "warning: {problem}: this does not count; put the journal back, or move its folder away"
    ));
}

pub(crate) fn numbers<'t>(turns: impl IntoIterator<Item = &'t Turn>) -> BTreeSet<u32> {
    turns
        .into_iter()
        .flat_map(|turn| &turn.runs)
        .map(|run| run.replicate)
        .collect()
}

fn merge_attempt(merged: &mut JournalState, block: BlockAttempt, void_reason: Option<String>) {
    let is_running = block.is_running();
    let state = block.journal_state;
    merged.running_blocks += usize::from(is_running);
    merged.runner_starts += state.runner_starts;
    merged.last_end_unix_ns = merged.last_end_unix_ns.max(state.last_end_unix_ns);
    if void_reason.is_none() {
        merged.stopped = state.stopped.or(merged.stopped.take());
    }
    if let (Some(top), Some(own)) = (&mut merged.planned, state.planned) {
        top.launcher = own.launcher;
    }
    for (turn, attempts) in state.attempts {
        let earlier = merged.attempts.entry(turn).or_default();
        for mut one in attempts {
            for run in one.runs.values_mut() {
                if !is_running {
                    let last = run.steps.last().map_or(one.unix_ns, |(_, at)| *at);
                    let cut_off = || (Ending::new(Outcome::cut_off()), last);
                    run.ended.get_or_insert_with(cut_off);
                }
                run.void_reason = void_reason.clone().or(run.void_reason.take());
            }
            one.origin = Some((block.folder.path().to_owned(), one.number));
            one.number = u32::try_from(earlier.len() + 1).unwrap_or(u32::MAX);
            earlier.push(one);
        }
    }
}

#[cfg(test)]
mod tests;
