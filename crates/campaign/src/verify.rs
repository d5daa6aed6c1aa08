//! Compares the recordings of a campaign with the digests in `results.db`.

use crate::collected::void_run;
use crate::programs::sha256;
use crate::settings::Campaign;
use crate::store::{RunRow, Store};
use anyhow::Context as _;
use faultline_experiments::command::void;
use faultline_experiments::journal;
use faultline_experiments::report::Experiment;
use std::path::Path;

/// A recording that is not what was measured.
pub(crate) struct Damaged {
    pub(crate) run: RunRow,
    /// Why, in words.
    pub(crate) why: String,
}

/// How many recordings were compared, and those that are missing or differ. Void runs are left out.
pub(crate) fn verify(campaign: &Campaign, store: &Store) -> anyhow::Result<(usize, Vec<Damaged>)> {
    let (mut compared, mut damaged) = (0, Vec::new());
    for run in store.runs()?.into_iter().filter(|run| !run.is_void()) {
        let Some(expected) = run.recording_digest.clone() else {
            continue;
        };
        compared += 1;
        let why = match sha256(&campaign.folder.join(&run.recording)) {
            Ok(digest) if digest == expected => continue,
            Ok(digest) => format!("it changed: SHA-256 {digest}, was {expected}"),
            Err(error) => error.root_cause().to_string(),
        };
        damaged.push(Damaged { run, why });
    }
    Ok((compared, damaged))
}

/// Makes these runs and their pairs void, so that the next `campaign run` repeats them.
///
/// # Errors
/// A journal or the database cannot be written, or an experiment runs.
pub(crate) fn repeat(
    campaign: &Campaign,
    store: &mut Store,
    damaged: &[Damaged],
) -> anyhow::Result<()> {
    let runs = store.runs()?;
    for one in damaged {
        let pair = runs.iter().filter(|run| run.is_pair_of(&one.run));
        for run in pair {
            void_in_journal(&campaign.folder.join(&run.recording), &one.why)?;
        }
        store.void(&one.run.recording)?;
    }
    Ok(())
}

/// Makes the run of this recording void in the journal of its experiment. An experiment that is gone begins anew.
fn void_in_journal(recording: &Path, why: &str) -> anyhow::Result<()> {
    let mut folders = recording.ancestors().skip(1);
    let Some(folder) = folders.find(|folder| folder.join(journal::FILE).is_file()) else {
        return Ok(());
    };
    let experiment = Experiment::read(folder).with_context(|| folder.display().to_string())?;
    let counted = experiment.counted();
    let run = counted
        .iter()
        .find(|one| experiment.recording(one) == recording);
    match run {
        Some(one) => void(folder, &[void_run(one)], why),
        None => Ok(()),
    }
}
