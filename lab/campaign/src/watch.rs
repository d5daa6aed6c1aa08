//! Published versions, from Cargo's sparse index or from a command that prints them.

use crate::{
    programs::Stopped,
    settings::{self, Campaign, Watch},
};
use anyhow::{Context as _, Result, anyhow, ensure};
use faultline_client::http;
use faultline_common::{files::AtPath, signals::Signals};
use faultline_runner::record::run_to_end;
use semver::Version;
use serde::Deserialize;
use std::{fs::File, path::Path, time::Duration};
use ureq::config::Config;

const INDEX_TIMEOUT: Duration = Duration::from_secs(30);
/// In bytes.
const MAX_ANSWER_BYTES: u64 = 16 << 20;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
const COMMAND_OUTPUT: &str = "watch.out";
const OUTPUT_LOG: &str = "watch.log";

/// Within the range, oldest first.
pub fn published(campaign: &Campaign, watch: &Watch, signals: &mut Signals) -> Result<Vec<String>> {
    let versions = match &watch.command {
        Some(command) => words(&printed(campaign, command, signals)?),
        None => index_versions(&releases(watch)?)?,
    };
    Ok(matching(watch, &versions))
}

/// Removes a leading `v`.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches('v').to_owned())
        .collect()
}

fn matching(watch: &Watch, versions: &[String]) -> Vec<String> {
    let mut versions: Vec<Version> = versions
        .iter()
        .filter_map(|version| Version::parse(version).ok())
        .collect();
    versions.retain(|version| watch.range.matches(version));
    versions.sort();
    versions.dedup();
    // Skip versions that cannot be folder names.
    versions
        .iter()
        .filter_map(|version| settings::version(version.to_string()).ok())
        .collect()
}

fn printed(campaign: &Campaign, command: &[String], signals: &mut Signals) -> Result<String> {
    let [path, log] = [COMMAND_OUTPUT, OUTPUT_LOG].map(|name| campaign.folder.join(name));
    let create_file = |path: &Path| File::create(path).at(path);
    let outputs = (&create_file(&path)?, &create_file(&log)?);
    let timeout = Some(COMMAND_TIMEOUT);
    let status = run_to_end(command, &campaign.folder, outputs, timeout, signals)?
        .ok_or_else(Stopped::by_signal)?;
    ensure!(
        status.success(),
        "[watch] command has failed ({status}): read {}",
        log.display()
    );
    std::fs::read_to_string(&path).at(&path)
}

fn releases(watch: &Watch) -> Result<String> {
    let name = watch.package.to_lowercase();
    let (one, two) = (
        name.get(..2).unwrap_or_default(),
        name.get(2..4).unwrap_or_default(),
    );
    let url = format!("{}/{one}/{two}/{name}", watch.index);
    let config = Config::builder()
        .timeout_global(Some(INDEX_TIMEOUT))
        .user_agent(concat!("faultline/", env!("CARGO_PKG_VERSION")));
    let config = match url.starts_with("https:") {
        true => config.tls_config(http::tls_config(None)?).build(),
        false => config.build(),
    };
    let mut answer = http::agent(config)
        .get(&url)
        .call()
        .map_err(|error| anyhow!("{url}: {}", http::reason(&error)))?;
    answer
        .body_mut()
        .with_config()
        .limit(MAX_ANSWER_BYTES)
        .read_to_string()
        .with_context(|| url)
}

#[derive(Deserialize)]
struct Entry {
    vers: String,
    #[serde(default)]
    yanked: bool,
}

/// Versions that were not yanked.
fn index_versions(text: &str) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let entry: Entry = serde_json::from_str(line)
            .context("the index has a line that is no version of a package")?;
        if !entry.yanked {
            versions.push(entry.vers);
        }
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semver::VersionReq;
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
    };

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
        let releases = std::thread::scope(|scope| {
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
            let found = published(&campaign, &watch, &mut Signals::listen().unwrap()).unwrap();
            assert_eq!(found, ["2.1.14", "2.2.0"]);
            served.join().unwrap()
        });
        assert_eq!(releases, "GET /ag/av/agave-validator HTTP/1.1");
    }

    #[test]
    fn watch_names_an_unreachable_address_and_refuses_invalid_index_lines() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", server.local_addr().unwrap());
        drop(server);
        let published_lines = published(
            &Campaign::default(),
            &watch(&address, None),
            &mut Signals::listen().unwrap(),
        );
        assert!(
            published_lines
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
        let printed = words(&format!(
            "v2.1.14 2.2.0\nlatest 2.2.0 2.2.1-{}\n",
            "x".repeat(40)
        ));
        assert_eq!(matching(&watch("", None), &printed), ["2.1.14", "2.2.0"]);
    }
}
