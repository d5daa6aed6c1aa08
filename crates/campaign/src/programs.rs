//! Programs under test: found or built once, each with its digest.

use crate::settings::{Campaign, Program};
use anyhow::{Context as _, bail, ensure};
use faultline_command::output::say;
use faultline_command::signals::Signals;
use faultline_record::ran;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Of the campaign's folder: what was built, a folder for each version.
const PROGRAMS: &str = "programs";
/// Name of what a command printed.
const LOG: &str = "get.log";

/// A program that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Obtained {
    /// Its file.
    pub(crate) file: PathBuf,
    /// SHA-256 of it.
    pub(crate) digest: String,
}

/// Finds or builds a version, which has this digest if it is known. `None` if a signal asked to stop.
///
/// # Errors
/// It cannot be built or read, or is another program than before.
pub(crate) fn obtain(
    campaign: &Campaign,
    program: &Program,
    known: Option<&str>,
    signals: &mut Signals,
) -> anyhow::Result<Option<Obtained>> {
    let file = match &program.path {
        Some(path) => path.clone(),
        None => match built(campaign, &program.version, known.is_some(), signals)? {
            Some(file) => file,
            None => return Ok(None),
        },
    };
    let digest = sha256(&file)?;
    if let Some(known) = known.filter(|known| *known != digest) {
        bail!(
            "{}: another program than the one that was measured as {} (SHA-256 {digest}, was {known}): put it back, or add it as \
             another version",
            file.display(),
            program.version
        );
    }
    Ok(Some(Obtained { file, digest }))
}

/// Where a version is that is built, after it was built unless that was `done`.
fn built(campaign: &Campaign, version: &str, done: bool, signals: &mut Signals) -> anyhow::Result<Option<PathBuf>> {
    let get = campaign.get.as_ref().with_context(|| {
        format!("{version}: neither a path nor [get] in campaign.toml says where this version comes from")
    })?;
    let folder = campaign.folder.join(PROGRAMS).join(version);
    let with = |word: &String| word.replace("{version}", version).replace("{folder}", &folder.display().to_string());
    let file = folder.join(with(&get.program));
    if done && file.is_file() {
        return Ok(Some(file));
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let words: Vec<String> = get.command.iter().map(with).collect();
    let log = folder.join(LOG);
    say(&format!("{version}: {} (its output is in {})", words.join(" "), log.display()));
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    let Some(status) = ran(&words, &campaign.folder, &output, signals)? else { return Ok(None) };
    ensure!(status.success(), "{version}: {} has failed ({status}): read {}", words[0], log.display());
    ensure!(file.is_file(), "{version}: {} has made no {}: read {}", words[0], file.display(), log.display());
    Ok(Some(file))
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// It cannot be read.
pub(crate) fn sha256(path: &Path) -> anyhow::Result<String> {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => digest.update(&buffer[..read]),
            }
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    };
    read().with_context(|| path.display().to_string())
}
