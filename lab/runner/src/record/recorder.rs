//! The daemon as a recorder: its program, arguments, ready file and log. Callers start the daemon.

mod log;

pub use log::Log;

use crate::isolation::End;
use anyhow::{Context, Result, ensure};
use faultline_common::files::AtPath;
use faultline_recording::{Error, Progress, Recording, with_suffix};
use serde::Deserialize;
use serde_json::Value;
use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    time::Duration,
};

pub const DAEMON_NAME: &str = "faultlined";
pub const USAGE_EXIT_CODE: i32 = 64;
pub const DEFAULT_SAMPLING_INTERVAL: Duration = Duration::from_secs(1);
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Polls until the daemon must listen and follow its process: at least half a minute.
pub const POLLS_TO_START: u32 = 600;
/// Polls until the daemon must have ended: each of its four stages may take seven seconds.
pub const POLLS_TO_END: u32 = 800;
const MIN_WRITE_TIME: Duration = Duration::from_secs(5);

pub const METRICS_CONFIG: &str = "SOLANA_METRICS_CONFIG";
/// Variables that send requests to a proxy, which cannot reach this host's loopback.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
const NO_PROXY_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];

#[derive(PartialEq)]
pub enum RecordingTarget {
    /// The validator among this process and its descendants, or the process itself.
    Pid(u32),
    Ledger(PathBuf),
    /// The daemon's simulated validator.
    Demo,
}

pub struct RecordingTask<'a> {
    pub target: RecordingTarget,
    pub out: &'a Path,
    /// `None`: from the validator's version or the configuration file.
    pub cache_entries: Option<u32>,
    pub labels: &'a [(String, String)],
    pub interval: Option<Duration>,
    pub config: Option<&'a Path>,
    /// Use free ports, whatever the configuration file contains.
    pub free_ports: bool,
}

impl RecordingTask<'_> {
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["run".into()];
        if self.target == RecordingTarget::Demo {
            arguments.push("--demo".into());
        }
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        if let Some(config) = self.config {
            option("--config", config.into());
        }
        if self.free_ports {
            option("--listen", "127.0.0.1:0".into());
            option("--ingest", "127.0.0.1:0".into());
        }
        match &self.target {
            RecordingTarget::Pid(pid) => option("--process-tree", pid.to_string().into()),
            RecordingTarget::Ledger(folder) => option("--ledger", folder.into()),
            RecordingTarget::Demo => {}
        }
        if let Some(entries) = self.cache_entries {
            option("--program-cache-entries", entries.to_string().into());
        }
        option("--record", self.out.into());
        option("--ready-file", ready_path(self.out).into());
        if let Some(interval) = self.interval {
            option("--interval", format!("{}ms", interval.as_millis()).into());
        }
        for (key, value) in self.labels {
            option("--label", format!("{key}={value}").into());
        }
        arguments
    }
}

/// Host and port; several are joined by commas.
#[derive(PartialEq)]
pub struct Addresses {
    pub metrics: String,
    pub ingest: Option<String>,
}

/// The file `given`, else in this program's folder, else in `PATH`. Errors name `option`.
pub fn find_program(given: Option<&Path>, option: &str) -> Result<PathBuf> {
    if let Some(given) = given {
        ensure!(
            given.is_file(),
            "{option} {}: there is no such file",
            given.display()
        );
        // A bare name would be searched in `PATH`.
        return std::path::absolute(given).at(given);
    }
    let program = env::current_exe()
        .ok()
        .and_then(|own_file| Some(own_file.parent()?.join(DAEMON_NAME)))
        .filter(|file| file.is_file())
        .or_else(|| in_path(DAEMON_NAME));
    program.with_context(|| {
        format!(
            "{DAEMON_NAME} is neither in the folder of this program nor in PATH: set it with {option} FILE"
        )
    })
}

pub fn in_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

/// `SOLANA_METRICS_CONFIG` for pushes to `ingest`.
pub fn metrics_config(ingest: &str) -> String {
    format!("host=http://{ingest},db=faultline,u=any,p=any")
}

/// Variables with which a validator pushes to the daemon; `value_of` reads the validator's
/// environment. Empty if that has `SOLANA_METRICS_CONFIG`, or the daemon accepts no pushes.
pub fn metrics_variables(
    addresses: &Addresses,
    value_of: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let Some(ingest) = addresses
        .ingest
        .as_deref()
        .filter(|_| value_of(METRICS_CONFIG).is_none())
    else {
        return Vec::new();
    };
    let mut variables = vec![(METRICS_CONFIG.to_owned(), metrics_config(ingest))];
    if PROXY_VARIABLES.iter().any(|name| value_of(name).is_some()) {
        variables.extend(NO_PROXY_VARIABLES.map(|name| {
            // Most programs read only one of them, so an empty one gets the hosts of the other.
            let hosts = [name]
                .into_iter()
                .chain(NO_PROXY_VARIABLES)
                .filter_map(&value_of)
                .find(|hosts| !hosts.is_empty());
            let loopback = "127.0.0.1";
            let all = hosts.map_or(loopback.to_owned(), |hosts| format!("{hosts},{loopback}"));
            (name.to_owned(), all)
        }));
    }
    variables
}

/// How the daemon ended, with its last problem: `, by signal 9: REASON`.
pub fn describe_end(end: End, problem: &str) -> String {
    if problem.is_empty() {
        format!(", {end}")
    } else {
        format!(", {end}: {problem}")
    }
}

/// Fails while the file is no recording yet.
pub fn progress(out: &Path) -> Result<Progress, Error> {
    Recording::open(out)?.progress()
}

/// Polls in five intervals (at least 5 s). By then, the daemon must have written a sample.
pub fn polls_to_write(interval: Duration) -> u32 {
    u32::try_from((interval * 5).max(MIN_WRITE_TIME).as_millis() / POLL_INTERVAL.as_millis())
        .unwrap_or(u32::MAX)
}

const READY_FORMAT: u32 = 1;
const MAX_READY_BYTES: u64 = 1 << 16;

fn ready_path(out: &Path) -> PathBuf {
    with_suffix(out, ".ready")
}

/// The file that the daemon writes when it is ready. A killed daemon leaves the file, so a drop of
/// this removes the file. The daemon must have ended before the drop.
pub struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes an old ready file of the recording `out`. Fails if the daemon could not make one.
    pub fn new(out: &Path) -> Result<Self> {
        let path = ready_path(out);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} cannot be removed", path.display()))
            }
            _ => {
                File::create_new(&path)
                    .and_then(|_| fs::remove_file(&path))
                    .with_context(|| format!("{}: its folder cannot be written", out.display()))?;
                Ok(Self(path))
            }
        }
    }

    pub fn read(&self) -> Result<Option<Ready>> {
        let mut text = Vec::new();
        let read =
            File::open(&self.0).and_then(|file| file.take(MAX_READY_BYTES).read_to_end(&mut text));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read
                .map_err(anyhow::Error::from)
                .and_then(|_| parse_ready(&text))
                .map(Some),
        }
        .with_context(|| format!("{} cannot be read", self.0.display()))
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[derive(Debug, Deserialize)]
pub struct Ready {
    metrics: Vec<String>,
    ingest: Option<Vec<String>>,
    target: Option<ReadyTarget>,
}

#[derive(Debug, Deserialize)]
struct ReadyTarget {
    pid: u32,
}

impl Ready {
    pub fn addresses(&self) -> Addresses {
        Addresses {
            metrics: self.metrics.join(","),
            ingest: self.ingest.as_ref().map(|addresses| addresses.join(",")),
        }
    }

    pub fn followed_pid(&self) -> Option<u32> {
        self.target.as_ref().map(|target| target.pid)
    }
}

fn parse_ready(text: &[u8]) -> Result<Ready> {
    let json: Value = serde_json::from_slice(text)?;
    let format = &json["format"];
    ensure!(
        *format == READY_FORMAT,
        "its format is {format}; this program reads {READY_FORMAT}: install both programs of one version"
    );
    Ok(Ready::deserialize(json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_interval_is_the_daemons_default() {
        let default = include_str!("../../../../daemon/core/src/config/default.toml");
        let sampling = default
            .split("[sampling]")
            .nth(1)
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("interval = "));
        assert_eq!(
            faultline_text::parse_time(sampling.unwrap().trim_matches('"')),
            Ok(DEFAULT_SAMPLING_INTERVAL)
        );
    }

    #[test]
    fn existing_no_proxy_exceptions_are_extended() {
        let addresses = Addresses {
            metrics: String::new(),
            ingest: Some("127.0.0.1:5".to_owned()),
        };
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect();
            metrics_variables(&addresses, |name| {
                Some(set.iter().find(|(known, _)| known == name)?.1.clone())
            })
        };
        assert_eq!(of(&[]).len(), 1);
        assert_eq!(
            of(&[("http_proxy", "p")])[1],
            ("no_proxy".to_owned(), "127.0.0.1".to_owned())
        );
        assert_eq!(
            of(&[("http_proxy", "p"), ("no_proxy", "a,b")])[1].1,
            "a,b,127.0.0.1"
        );
        for (name, value) in &of(&[("http_proxy", "p"), ("NO_PROXY", "a"), ("no_proxy", "")])[1..] {
            assert_eq!(value, "a,127.0.0.1", "{name}");
        }
        assert_eq!(of(&[(METRICS_CONFIG, "host=elsewhere")]), []);
    }

    #[test]
    fn the_daemons_arguments_contain_target_and_output_file() {
        let labels = [("arm".to_owned(), "a b".to_owned())];
        let out = Path::new("/o/run.fltl");
        let interval = Some(Duration::from_millis(100));
        let target = RecordingTarget::Ledger("/mnt/ledger".into());
        let cache_entries = Some(1024);
        let task = RecordingTask {
            target,
            out,
            cache_entries,
            labels: &labels,
            interval,
            config: None,
            free_ports: true,
        };
        let arguments: Vec<String> = task
            .arguments()
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let expected = "run --listen 127.0.0.1:0 --ingest 127.0.0.1:0 --ledger /mnt/ledger \
                        --program-cache-entries 1024 --record /o/run.fltl --ready-file /o/run.fltl.ready \
                        --interval 100ms --label arm=a b";
        assert_eq!(arguments.join(" "), expected);
    }

    #[test]
    fn addresses_and_pid_are_read_once_the_ready_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run.fltl");
        let path = ready_path(&out);
        std::fs::write(&path, "of an earlier daemon").unwrap();
        let file = ReadyFile::new(&out).unwrap();
        assert!(file.read().unwrap().is_none());
        let text = r#"{"format":1,"pid":9,"metrics":["127.0.0.1:4"],"ingest":["127.0.0.1:5"],"target":null,"more":0}"#;
        std::fs::write(&path, text).unwrap();
        let ready = file.read().unwrap().unwrap();
        let found = Addresses {
            metrics: "127.0.0.1:4".to_owned(),
            ingest: Some("127.0.0.1:5".to_owned()),
        };
        assert!(
            ready.addresses() == found && ready.followed_pid().is_none(),
            "{ready:?}"
        );
        let text = r#"{"format":1,"pid":9,"metrics":["[::1]:4"],"ingest":null,"target":{"pid":4,"start_ticks":7}}"#;
        std::fs::write(&path, text).unwrap();
        let ready = file.read().unwrap().unwrap();
        assert!(
            ready.addresses().ingest.is_none() && ready.followed_pid() == Some(4),
            "{ready:?}"
        );
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn an_invalid_or_newer_ready_file_is_an_error() {
        let of = |text: &str| format!("{:#}", parse_ready(text.as_bytes()).unwrap_err());
        assert!(
            of(r#"{"format":2,"addresses":{}}"#).contains("its format is 2; this program reads 1")
        );
        let whole = r#"{"format":1,"pid":9,"metrics":["127.0.0.1:4"],"ingest":null,"target":null}"#;
        assert!(parse_ready(whole.as_bytes()).is_ok());
        for length in 0..whole.len() {
            of(&whole[..length]);
        }
    }

    #[test]
    fn an_unwritable_folder_is_reported_before_the_daemon_starts() {
        // No user may make files in it.
        let out = Path::new("/proc/self/run.fltl");
        let error = ReadyFile::new(out).err().unwrap();
        assert_eq!(
            error.to_string(),
            "/proc/self/run.fltl: its folder cannot be written"
        );
    }

    #[test]
    fn an_output_path_that_is_a_folder_fails_before_the_daemon_starts() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run.fltl");
        std::fs::create_dir(ready_path(&out)).unwrap();
        let error = ReadyFile::new(&out).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("run.fltl.ready cannot be removed"),
            "{error:#}"
        );
    }
}
