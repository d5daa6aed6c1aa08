//! Finds published versions, by Cargo's sparse index or by a command that prints them, and finds or
//! builds their programs.

use crate::{
    settings::{self, BuildCommand, Campaign, Program, Watch},
    store::ListedVersion,
};
use anyhow::{Context as _, Result, anyhow, ensure};
use faultline_client::http;
use faultline_common::{
    files::{AtPath, open_regular},
    output::say,
    signals::Signals,
};
use faultline_experiments::folder::to_hexadecimal;
use faultline_runner::record::run_to_end;
use itertools::Itertools;
use semver::Version;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};
use ureq::config::Config;

const PROGRAMS_FOLDER: &str = "programs";
const BUILD_LOG: &str = "get.log";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        Self("a signal arrived".to_owned())
    }
}

/// Finds or builds a version. Fails if the program differs from the measured one.
pub fn obtain(
    campaign: &Campaign,
    program: &Program,
    listed: Option<&ListedVersion>,
    signals: &mut Signals,
) -> Result<ResolvedProgram> {
    let has_digest = listed.is_some_and(|listed| listed.digest.is_some());
    let file = match &program.path {
        Some(path) => path.clone(),
        None => build(campaign, &program.version, has_digest, signals)?,
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
    let file = match (&program.path, &campaign.build) {
        (Some(path), _) => path.clone(),
        (None, Some(build)) => built_path(campaign, build, &program.version),
        (None, None) => return Ok(()),
    };
    if listed.has_runs && file.is_file() {
        ResolvedProgram::of(file)?.check_digest(listed)?;
    }
    Ok(())
}

impl ResolvedProgram {
    fn of(file: PathBuf) -> Result<Self> {
        let digest = sha256(&file)?;
        Ok(Self { file, digest })
    }

    /// Fails if results exist for another digest. Before the first result a wrong program can be
    /// replaced.
    fn check_digest(&self, listed: &ListedVersion) -> Result<()> {
        if let Some(listed_digest) = &listed.digest {
            ensure!(
                !listed.has_runs || *listed_digest == self.digest,
                "{}: another program was measured as {} (SHA-256 {listed_digest}, this file has {}): restore it, or add this file as another \
                 version",
                self.file.display(),
                listed.program.version,
                self.digest
            );
        }
        Ok(())
    }
}

fn built_path(campaign: &Campaign, build: &BuildCommand, version: &str) -> PathBuf {
    let folder = campaign.folder.join(PROGRAMS_FOLDER).join(version);
    folder.join(expand(&build.program, version, &folder))
}

fn expand(word: &str, version: &str, folder: &Path) -> String {
    word.replace("{version}", version)
        .replace("{folder}", &folder.display().to_string())
}

/// Builds the version unless it has a digest and a file; returns its path.
fn build(
    campaign: &Campaign,
    version: &str,
    has_digest: bool,
    signals: &mut Signals,
) -> Result<PathBuf> {
    let build = campaign.build.as_ref().with_context(|| {
        format!(
            "{version}: neither a path nor [get] in campaign.toml says where this version comes from"
        )
    })?;
    let folder = campaign.folder.join(PROGRAMS_FOLDER).join(version);
    let file = built_path(campaign, build, version);
    if has_digest && file.is_file() {
        return Ok(file);
    }
    fs::create_dir_all(&folder).at(&folder)?;
    let words = build
        .command
        .iter()
        .map(|word| expand(word, version, &folder))
        .collect_vec();
    let log = folder.join(BUILD_LOG);
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
    let file = open_regular(path).at(path)?;
    let mut digest = Sha256::new();
    io::copy(&mut BufReader::with_capacity(1 << 20, file), &mut digest).at(path)?;
    Ok(to_hexadecimal(&digest.finalize()))
}

const INDEX_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_ANSWER_BYTES: u64 = 16 << 20;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
const WATCH_OUTPUT: &str = "watch.out";
const WATCH_LOG: &str = "watch.log";

/// Published versions in the range, the lowest first.
pub fn published_versions(
    campaign: &Campaign,
    watch: &Watch,
    signals: &mut Signals,
) -> Result<Vec<String>> {
    let versions = match &watch.command {
        Some(command) => parse_versions(&command_output(campaign, command, signals)?),
        None => index_versions(&fetch_index(watch)?)?,
    };
    Ok(versions_in_range(watch, &versions))
}

fn parse_versions(text: &str) -> Vec<String> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches('v').to_owned())
        .collect()
}

fn versions_in_range(watch: &Watch, versions: &[String]) -> Vec<String> {
    versions
        .iter()
        .filter_map(|version| Version::parse(version).ok())
        .filter(|version| watch.range.matches(version))
        .sorted()
        .dedup()
        // Skip versions that cannot be folder names.
        .filter_map(|version| settings::checked_version(version.to_string()).ok())
        .collect()
}

fn command_output(
    campaign: &Campaign,
    command: &[String],
    signals: &mut Signals,
) -> Result<String> {
    let [path, log] = [WATCH_OUTPUT, WATCH_LOG].map(|name| campaign.folder.join(name));
    let outputs = (
        &File::create(&path).at(&path)?,
        &File::create(&log).at(&log)?,
    );
    let timeout = Some(COMMAND_TIMEOUT);
    let status = run_to_end(command, &campaign.folder, outputs, timeout, signals)?
        .ok_or_else(Stopped::by_signal)?;
    ensure!(
        status.success(),
        "[watch] command has failed ({status}): read {}",
        log.display()
    );
    fs::read_to_string(&path).at(&path)
}

fn fetch_index(watch: &Watch) -> Result<String> {
    let name = watch.package.to_lowercase();
    let first_two = name.get(..2).unwrap_or_default();
    let next_two = name.get(2..4).unwrap_or_default();
    let url = format!("{}/{first_two}/{next_two}/{name}", watch.index);
    let mut config = Config::builder()
        .timeout_global(Some(INDEX_TIMEOUT))
        .user_agent(concat!("faultline/", env!("CARGO_PKG_VERSION")));
    if url.starts_with("https:") {
        config = config.tls_config(http::tls_config(None)?);
    }
    http::agent(config.build())
        .get(&url)
        .call()
        .map_err(|error| anyhow!("{url}: {}", http::reason(&error)))?
        .body_mut()
        .with_config()
        .limit(MAX_ANSWER_BYTES)
        .read_to_string()
        .with_context(|| url)
}

#[derive(Deserialize)]
struct IndexEntry {
    vers: String,
    #[serde(default)]
    yanked: bool,
}

fn index_versions(text: &str) -> Result<Vec<String>> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(serde_json::from_str)
        .filter_ok(|entry: &IndexEntry| !entry.yanked)
        .map_ok(|entry| entry.vers)
        .collect::<Result<_, _>>()
        .context("the index has a line that is no version of a package")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        settings::RESULTS,
        store::{FROM_COMMAND, RunRow, Store},
    };
    use semver::VersionReq;
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
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
            let listed = store.listed_versions().unwrap().remove(0);
            let found = obtain(&campaign, &program, Some(&listed), &mut signals);
            assert_eq!(
                check_unchanged(&campaign, &program, &listed).is_ok(),
                found.is_ok()
            );
            found.inspect(|found| store.set_digest("2.1.14", &found.digest).unwrap())
        };
        let wrong = obtained(&store, "wrong").unwrap();
        let right = obtained(&store, "right").unwrap();
        assert_ne!(wrong, right);
        let row = RunRow {
            version: "2.1.14".into(),
            program_digest: right.digest.clone(),
            ..RunRow::default()
        };
        store.add_runs(&[row]).unwrap();
        let error = obtained(&store, "another").unwrap_err().to_string();
        assert!(
            error.contains("another program was measured as 2.1.14"),
            "{error}"
        );
        assert_eq!(obtained(&store, "right").unwrap(), right);
    }

    const INDEX: &str = "{\"name\":\"agave-validator\",\"vers\":\"2.1.9\",\"yanked\":false}\n\
                         {\"name\":\"agave-validator\",\"vers\":\"2.1.14\",\"yanked\":false}\n\
                         {\"name\":\"agave-validator\",\"vers\":\"2.1.15\",\"yanked\":true}\n\
                         {\"name\":\"agave-validator\",\"vers\":\"3.0.0-beta.1\",\"yanked\":false}\n\
                         {\"name\":\"agave-validator\",\"vers\":\"2.2.0\",\"yanked\":false}\n";

    fn watch(index: &str, command: Option<Vec<String>>) -> Watch {
        let range = VersionReq::parse(">=2.1.10").unwrap();
        Watch {
            range,
            command,
            package: "agave-validator".to_owned(),
            index: index.to_owned(),
        }
    }

    #[test]
    fn the_release_index_is_queried_excluding_yanked_and_out_of_range_versions() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", server.local_addr().unwrap());
        let request_line = std::thread::scope(|scope| {
            let served = scope.spawn(|| {
                let (mut stream, _) = server.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{INDEX}",
                    INDEX.len()
                )
                .unwrap();
                first
            });
            let (watch, campaign) = (watch(&address, None), Campaign::default());
            let found =
                published_versions(&campaign, &watch, &mut Signals::listen().unwrap()).unwrap();
            assert_eq!(found, ["2.1.14", "2.2.0"]);
            served.join().unwrap()
        });
        assert_eq!(request_line, "GET /ag/av/agave-validator HTTP/1.1");
    }

    #[test]
    fn watch_names_an_unreachable_address_and_refuses_invalid_index_lines() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", server.local_addr().unwrap());
        drop(server);
        let versions = published_versions(
            &Campaign::default(),
            &watch(&address, None),
            &mut Signals::listen().unwrap(),
        );
        assert!(
            versions
                .unwrap_err()
                .to_string()
                .contains("/ag/av/agave-validator")
        );
        assert!(
            index_versions("<html>")
                .unwrap_err()
                .to_string()
                .contains("no version")
        );
        let printed = parse_versions(&format!(
            "v2.1.14 2.2.0\nlatest 2.2.0 2.2.1-{}\n",
            "x".repeat(40)
        ));
        assert_eq!(
            versions_in_range(&watch("", None), &printed),
            ["2.1.14", "2.2.0"]
        );
    }
}
