//! Compares recordings with the digests in `results.db`.

use crate::{
    args::VerifyArgs,
    page::rewrite_pages,
    programs::sha256,
    settings::Campaign,
    store::{RunRow, Store, find_version},
    tasks::open_campaign,
    work,
};
use anyhow::Result;
use faultline_common::{
    files::AtPath,
    output::{print, say},
};
use faultline_experiments::{command::void, folder::JOURNAL, report::Experiment};
use faultline_text::shell_quoted;
use std::path::Path;

struct DamagedRun {
    run: RunRow,
    /// What is wrong with its recording.
    error: String,
    /// Whether `campaign run` may measure it again.
    is_repeated: bool,
}

pub fn run(args: &VerifyArgs) -> Result<u8> {
    let (campaign, mut store) = open_campaign(&args.dir)?;
    let (compared, damaged) = compare(&campaign, &store)?;
    let mut text = String::new();
    for damaged in &damaged {
        text += &format!("{}: {}", damaged.run.recording, damaged.error);
        if !damaged.is_repeated {
            text += "; --repeat may drop its result permanently: its plan or baseline is not the current one, or its version is off the list";
        }
        text += "\n";
    }
    text += &match compared {
        0 => {
            "nothing to compare: no result in results.db has a recording with a digest\n".to_owned()
        }
        _ => format!(
            "{} of {compared} recordings are unchanged\n",
            compared - damaged.len()
        ),
    };
    print(&text)?;
    if damaged.is_empty() {
        return Ok(0);
    }
    let folder = shell_quoted(&campaign.folder);
    if args.repeat {
        let _lock = campaign.lock()?;
        void_damaged(&campaign, &mut store, &damaged)?;
        rewrite_pages(&campaign, &mut store)?;
        say(&format!(
            "these runs and their pairs have no result any more: `faultline campaign run {folder}` repeats those of the current plan, baseline and list of versions"
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
    let listed = work::sync_listed_versions(campaign, store)?;
    let current = work::current_conditions(campaign, &listed);
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
        let is_listed = find_version(&listed, &run.version).is_some_and(|version| !version.removed);
        damaged.push(DamagedRun {
            is_repeated: is_listed && current.as_ref() == Some(&run.conditions),
            run,
            error,
        });
    }
    Ok((compared, damaged))
}

fn void_damaged(campaign: &Campaign, store: &mut Store, damaged: &[DamagedRun]) -> Result<()> {
    let runs = store.runs()?;
    for damaged in damaged {
        for run in runs.iter().filter(|run| run.is_in_same_pair(&damaged.run)) {
            void_in_journal(&campaign.folder.join(&run.recording), &damaged.error)?;
        }
        store.void(&damaged.run.recording)?;
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
    match completed
        .iter()
        .find(|run| experiment.recording(run).ends_with(name))
    {
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
        settings::{Program, RESULTS},
        store::{Conditions, FROM_COMMAND},
    };
    use faultline_experiments::outcome::Outcome;

    #[test]
    fn a_damaged_run_is_repeated_if_the_campaigns_path_has_a_symbolic_link() {
        let root = tempfile::tempdir().unwrap();
        let [real, link, disk] = ["real", "link", "disk"].map(|name| root.path().join(name));
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(&disk).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        std::os::unix::fs::symlink(&disk, real.join("experiments")).unwrap();
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
        let damaged = DamagedRun {
            run: runs[0].clone(),
            error: "it changed".to_owned(),
            is_repeated: true,
        };
        void_damaged(&campaign, &mut store, &[damaged]).unwrap();
        let completed = experiments.iter().filter(|experiment| {
            let results = Experiment::read(&experiment.plan.folder).unwrap();
            !results.journal_state.completed_runs().is_empty()
        });
        assert_eq!(completed.count(), 4, "the pair has no result");
    }

    #[test]
    fn only_regular_files_of_the_campaign_are_read() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("campaign");
        std::fs::create_dir(&folder).unwrap();
        let foreign = root.path().join("foreign");
        std::fs::write(&foreign, "secret").unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.join("device")).unwrap();
        let (campaign, _) = search_round(&folder);
        let compare = |recording: &str| {
            let results = folder.join(RESULTS);
            let mut store = Store::open(&results).unwrap();
            let row = RunRow {
                recording: recording.to_owned(),
                recording_digest: Some("digest".to_owned()),
                ..RunRow::default()
            };
            store.add_runs(&[row]).unwrap();
            let compared = compare(&campaign, &store);
            std::fs::remove_file(results).unwrap();
            compared.map(|(_, mut damaged)| damaged.remove(0).error)
        };
        let error = compare("device").unwrap();
        assert!(error.starts_with("is not a regular file"), "{error}");
        for recording in ["../foreign", &foreign.display().to_string()] {
            let error = compare(recording).unwrap_err().to_string();
            assert!(error.starts_with("results.db: not read"), "{error}");
        }
    }

    #[test]
    fn damaged_results_that_no_run_repeats_are_named() {
        let root = tempfile::tempdir().unwrap();
        let (campaign, _) = search_round(root.path());
        let mut store = Store::open(&root.path().join(RESULTS)).unwrap();
        for version in [campaign.baseline.version.as_str(), "2.2.0", "2.3.0"] {
            let program = Program {
                version: version.to_owned(),
                ..Program::default()
            };
            store.add(&program, FROM_COMMAND, 1).unwrap();
            store.set_digest(version, "digest").unwrap();
        }
        store.remove("2.3.0").unwrap();
        let row = |version: &str, plan_digest: &str| RunRow {
            version: version.to_owned(),
            conditions: Conditions {
                plan_digest: plan_digest.to_owned(),
                baseline: campaign.baseline.version.clone(),
                baseline_digest: "digest".to_owned(),
            },
            recording: "none.fltl".to_owned(),
            recording_digest: Some("digest".to_owned()),
            ..RunRow::default()
        };
        let current = &campaign.plan_digest;
        let rows = [
            row("2.2.0", current),
            row("2.2.0", "earlier"),
            row("2.3.0", current),
        ];
        store.add_runs(&rows).unwrap();
        let (compared, damaged) = compare(&campaign, &store).unwrap();
        let repeated: Vec<bool> = damaged.iter().map(|damaged| damaged.is_repeated).collect();
        assert_eq!((compared, repeated), (3, vec![true, false, false]));
    }
}
