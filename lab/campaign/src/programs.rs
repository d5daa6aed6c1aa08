use crate::{
    settings::{BuildCommand, Campaign, Program},
    store::ListedVersion,
};
use anyhow::{Context as _, Result, ensure};
use faultline_common::{files::AtPath, output::say, signals::Signals};
use faultline_experiments::folder::hexadecimal;
use faultline_runner::record::run_to_end;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

const PROGRAMS: &str = "programs";
const LOG: &str = "get.log";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedProgram {
    pub file: PathBuf,
    pub digest: String,
}

/// Why no version can be run now.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

impl Stopped {
    pub fn by_signal() -> Self {
        Stopped("a signal asked to".to_owned())
    }
}

/// Finds or builds a version. Fails if the program differs from the measured one.
pub fn obtain(
    campaign: &Campaign,
    program: &Program,
    listed: Option<&ListedVersion>,
    signals: &mut Signals,
) -> Result<ResolvedProgram> {
    let is_built = listed.is_some_and(|one| one.digest.is_some());
    let file = match &program.path {
        Some(path) => path.clone(),
        None => build(campaign, &program.version, is_built, signals)?,
    };
    let obtained = ResolvedProgram::of(file)?;
    if let Some(listed) = listed {
        obtained.check_digest(listed)?;
    }
    Ok(obtained)
}

/// Fails if the file differs from the program measured as this version. A missing file does not
/// differ.
pub fn check_unchanged(
    campaign: &Campaign,
    program: &Program,
    listed: &ListedVersion,
) -> Result<()> {
    let built_path = || {
        campaign
            .get
            .as_ref()
            .map(|get| built_path(campaign, get, &program.version))
    };
    let file = program
        .path
        .clone()
        .or_else(built_path)
        .filter(|file| listed.measured && file.is_file());
    match file {
        Some(file) => ResolvedProgram::of(file)?.check_digest(listed),
        None => Ok(()),
    }
}

impl ResolvedProgram {
    fn of(file: PathBuf) -> Result<Self> {
        let digest = sha256(&file)?;
        Ok(ResolvedProgram { file, digest })
    }

    /// Fails if results exist for another digest. Before the first result a wrong program can be
    /// replaced.
    fn check_digest(&self, listed: &ListedVersion) -> Result<()> {
        if let Some(known) = &listed.digest {
            ensure!(
                !listed.measured || *known == self.digest,
                "{}: another program than the one that was measured as {} (SHA-256 {}, was {known}): put it back, or add it as \
                 another version",
                self.file.display(),
                listed.program.version,
                self.digest
            );
        }
        Ok(())
    }
}

fn built_path(campaign: &Campaign, get: &BuildCommand, version: &str) -> PathBuf {
    let folder = campaign.folder.join(PROGRAMS).join(version);
    folder.join(expand(&get.program, version, &folder))
}

fn expand(word: &str, version: &str, folder: &Path) -> String {
    word.replace("{version}", version)
        .replace("{folder}", &folder.display().to_string())
}

/// Builds the version unless `is_built`; returns its path.
fn build(
    campaign: &Campaign,
    version: &str,
    is_built: bool,
    signals: &mut Signals,
) -> Result<PathBuf> {
    let get = campaign.get.as_ref().with_context(|| {
        format!("{version}: neither a path nor [get] in campaign.toml says where this version comes from")
    })?;
    let folder = campaign.folder.join(PROGRAMS).join(version);
    let file = built_path(campaign, get, version);
    if is_built && file.is_file() {
        return Ok(file);
    }
    fs::create_dir_all(&folder).at(&folder)?;
    let words: Vec<String> = get
        .command
        .iter()
        .map(|word| expand(word, version, &folder))
        .collect();
    let log = folder.join(LOG);
    say(&format!(
        "{version}: {} (its output is in {})",
        words.join(" "),
        log.display()
    ));
    let output = File::create(&log).at(&log)?;
    let status = run_to_end(&words, &campaign.folder, (&output, &output), None, signals)?
        .ok_or_else(Stopped::by_signal)?;
    ensure!(
        status.success(),
        "{version}: {} has failed ({status}): read {}",
        words[0],
        log.display()
    );
    ensure!(
        file.is_file(),
        "{version}: {} has made no {}: read {}",
        words[0],
        file.display(),
        log.display()
    );
    Ok(file)
}

pub fn sha256(path: &Path) -> Result<String> {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => digest.update(&buffer[..read]),
            }
        }
        Ok(hexadecimal(&digest.finalize()))
    };
    read().at(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        settings::RESULTS,
        store::{FROM_COMMAND, RunRow, Store},
    };

    #[test]
    fn a_version_may_change_its_program_only_before_it_has_results() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
        let mut signals = Signals::listen().unwrap();
        let (campaign, path) = (Campaign::default(), folder.path().join("validator"));
        let program = Program {
            version: "2.1.14".into(),
            name: String::new(),
            path: Some(path.clone()),
        };
        store.add(&program, FROM_COMMAND, 1).unwrap();
        let mut obtained = |store: &Store, text: &str| {
            fs::write(&path, text).unwrap();
            let listed = store.listed().unwrap().remove(0);
            let found = obtain(&campaign, &program, Some(&listed), &mut signals);
            assert_eq!(
                check_unchanged(&campaign, &program, &listed).is_ok(),
                found.is_ok()
            );
            found.inspect(|found| {
                store
                    .set_digest_or_error("2.1.14", Some(&found.digest), None)
                    .unwrap()
            })
        };
        let wrong = obtained(&store, "wrong").unwrap();
        let right = obtained(&store, "right").unwrap();
        assert_ne!(wrong, right);
        let row = RunRow {
            release: "2.1.14".into(),
            program_digest: right.digest.clone(),
            ..RunRow::default()
        };
        store.add_runs(&[row]).unwrap();
        let error = obtained(&store, "another").unwrap_err().to_string();
        assert!(
            error.contains("another program than the one that was measured as 2.1.14"),
            "{error}"
        );
        assert_eq!(obtained(&store, "right").unwrap(), right);
    }
}
