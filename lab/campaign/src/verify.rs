//! Compares recordings with the digests in `results.db`.

use crate::{
    args::VerifyArgs,
    page::rewrite_pages,
    programs::sha256,
    settings::Campaign,
    store::{RunRow, Store},
    tasks::open_campaign,
};
use anyhow::Result;
use faultline_common::{
    files::AtPath,
    output::{print, say},
};
use faultline_experiments::{command::void, folder::JOURNAL, report::Experiment};
use std::path::Path;

/// A run, and what is wrong with its recording.
type DamagedRun = (RunRow, String);

/// `campaign verify`.
pub fn run(args: &VerifyArgs) -> Result<u8> {
    let (campaign, mut store) = open_campaign(&args.dir)?;
    let (compared, damaged) = compare(&campaign, &store)?;
    let mut text = String::new();
    for (run, error) in &damaged {
        text += &format!("{}: {error}\n", run.recording);
    }
    text += &format!(
        "{} of {compared} recordings are unchanged\n",
        compared - damaged.len()
    );
    print(&text)?;
    if damaged.is_empty() {
        return Ok(0);
    }
    let folder = campaign.folder.display();
    if args.repeat {
        let _lock = campaign.lock()?;
        void_damaged(&campaign, &mut store, &damaged)?;
        rewrite_pages(&campaign, &mut store)?;
        say(&format!(
            "these runs and their pairs have no result any more: `faultline campaign run {folder}` repeats those of the current plan and baseline"
        ));
    } else {
        say(&format!(
            "restore these files, or let `faultline campaign verify --repeat {folder}` drop their results"
        ));
    }
    Ok(1)
}

/// Returns the number of compared recordings and the damaged ones. Skips void runs and those
/// without a digest.
fn compare(campaign: &Campaign, store: &Store) -> Result<(usize, Vec<DamagedRun>)> {
    let mut compared = 0;
    let mut damaged = Vec::new();
    for run in store.runs()?.into_iter().filter(|run| !run.is_void()) {
        let Some(expected) = run.recording_digest.clone() else {
            continue;
        };
        compared += 1;
        let error = match sha256(&campaign.folder.join(&run.recording)) {
            Ok(digest) if digest == expected => continue,
            Ok(digest) => format!("it changed: SHA-256 {digest}, was {expected}"),
            Err(error) => error.root_cause().to_string(),
        };
        damaged.push((run, error));
    }
    Ok((compared, damaged))
}

fn void_damaged(campaign: &Campaign, store: &mut Store, damaged: &[DamagedRun]) -> Result<()> {
    let runs = store.runs()?;
    for (damaged, error) in damaged {
        for run in runs.iter().filter(|run| run.is_in_same_pair(damaged)) {
            void_in_journal(&campaign.folder.join(&run.recording), error)?;
        }
        store.void(&damaged.recording)?;
    }
    Ok(())
}

/// Does nothing without a journal: the experiment then starts anew.
fn void_in_journal(recording: &Path, reason: &str) -> Result<()> {
    let Some(folder) = recording
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(JOURNAL).is_file())
    else {
        return Ok(());
    };
    let experiment = Experiment::read(folder).at(folder)?;
    let completed = experiment.journal_state.completed_runs();
    // The experiment resolved symbolic links in the path of its folder.
    let name = recording.strip_prefix(folder)?;
    let run = completed
        .iter()
        .find(|run| experiment.recording(run).ends_with(name));
    match run {
        Some(run) => void(folder, &[run], reason),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collected::{RoundOutcome, collect_round},
        round::tests::{search_round, write},
        settings::RESULTS,
        store::Conditions,
    };
    use faultline_experiments::outcome::Outcome;

    #[test]
    fn a_damaged_run_is_repeated_if_the_campaigns_path_has_a_symbolic_link() {
        let root = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| root.path().join(name));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let (campaign, round) = search_round(&link);
        let experiments = round.experiments(&campaign).unwrap();
        for experiment in &experiments {
            write(experiment, Outcome::OutOfMemory);
        }
        let conditions = Conditions::default();
        let outcome = collect_round(&campaign, &round, &conditions, &experiments).unwrap();
        let RoundOutcome::Rows(runs) = outcome else {
            panic!("a round of results has rows");
        };
        assert!(
            runs.iter()
                .all(|run| run.recording.starts_with("experiments/")),
            "{runs:?}"
        );
        let mut store = Store::open(&real.join(RESULTS)).unwrap();
        store.add_runs(&runs).unwrap();
        let damaged = (runs[0].clone(), "it changed".to_owned());
        void_damaged(&campaign, &mut store, &[damaged]).unwrap();
        let completed = experiments.iter().filter(|experiment| {
            let results = Experiment::read(&experiment.plan.folder).unwrap();
            !results.journal_state.completed_runs().is_empty()
        });
        assert_eq!(completed.count(), 4, "the pair has no result");
    }
}
