//! Compares recordings with the digests in `results.db`.

use crate::{
    args::VerifyArgs,
    page::rewrite_pages,
    programs::sha256,
    settings::Campaign,
    store::{RunRow, Store},
    tasks::open,
};
use anyhow::Result;
use faultline_common::{
    files::AtPath,
    output::{print, say},
};
use faultline_experiments::{command::void, folder::JOURNAL, report::Experiment};
use std::path::Path;

struct Damaged {
    run: RunRow,
    why: String,
}

/// `campaign verify`.
pub fn run(args: &VerifyArgs) -> Result<u8> {
    let (campaign, mut store) = open(&args.dir)?;
    let (compared, damaged) = compare(&campaign, &store)?;
    let mut text = String::new();
    for one in &damaged {
        text += &format!("{}: {}\n", one.run.recording, one.why);
    }
    text += &format!(
        "{} of {compared} recordings are as they were measured\n",
        compared - damaged.len()
    );
    print(&text)?;
    if damaged.is_empty() {
        return Ok(0);
    }
    let folder = campaign.folder.display();
    if args.repeat {
        let _lock = campaign.lock()?;
        repeat(&campaign, &mut store, &damaged)?;
        rewrite_pages(&campaign, &mut store)?;
        say(&format!(
            "these runs and their pairs have no result any more: `faultline campaign run {folder}` repeats them"
        ));
    } else {
        say(&format!(
            "restore these files, or let `faultline campaign verify --repeat {folder}` drop their results"
        ));
    }
    Ok(1)
}

/// Returns the number of compared recordings and the damaged ones. Void runs are skipped.
fn compare(campaign: &Campaign, store: &Store) -> Result<(usize, Vec<Damaged>)> {
    let mut compared = 0;
    let mut damaged = Vec::new();
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

/// Voids these runs and their pairs, so that the next `campaign run` repeats them.
fn repeat(campaign: &Campaign, store: &mut Store, damaged: &[Damaged]) -> Result<()> {
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

/// An experiment without a journal starts anew.
fn void_in_journal(recording: &Path, why: &str) -> Result<()> {
    let Some(folder) = recording
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(JOURNAL).is_file())
    else {
        return Ok(());
    };
    let experiment = Experiment::read(folder).at(folder)?;
    let counted = experiment.counted();
    let run = counted
        .iter()
        .find(|one| experiment.recording(one) == recording);
    match run {
        Some(one) => void(folder, &[one], why),
        None => Ok(()),
    }
}
