//! The daemon as a recorder: found, told what to do, listened to. Who starts it, and in which group, is its user's to say.

mod log;
mod ready;

pub use log::Log;
pub use ready::{Ready, ReadyFile};

use anyhow::Context;
use faultline_isolation::End;
use faultline_recording::{Error, Progress, Recording};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The daemon's file name.
pub const PROGRAM: &str = "faultlined";
/// Its exit code when it was told what cannot be done.
pub const USAGE: i32 = 64;
/// From tick to tick unless told otherwise.
pub const USUAL_INTERVAL: Duration = Duration::from_secs(1);
/// From look to look, while something is waited for.
pub const POLL_EVERY: Duration = Duration::from_millis(50);
/// Looks until the daemon must listen, and follow a process that it was told: half a minute at least.
pub const POLLS_TO_START: u32 = 600;
/// Looks until the daemon must have ended: it gives each of its four stages seven seconds.
pub const POLLS_TO_END: u32 = 800;
/// How long the daemon may take to write what it saw, at least.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells a validator where to push.
pub const METRICS_CONFIG: &str = "SOLANA_METRICS_CONFIG";
/// Variables that send requests to a proxy, which cannot reach this host's loopback.
const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
const EXCEPTIONS: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Whom the daemon follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The validator among this process and its descendants, or the process itself.
    Pid(u32),
    /// The validator of this ledger.
    Ledger(PathBuf),
}

/// What the daemon is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task<'a> {
    pub target: Target,
    /// The recording, a new file.
    pub out: &'a Path,
    /// Entries of the validator's program cache; `None` where its version or the configuration file says.
    pub cache_entries: Option<u32>,
    pub labels: &'a [(String, String)],
    /// From tick to tick.
    pub interval: Option<Duration>,
    /// The daemon's configuration file.
    pub config: Option<&'a Path>,
    /// Whether free ports are taken, whatever the configuration file says.
    pub free_ports: bool,
}

impl Task<'_> {
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["run".into()];
        if let Some(config) = self.config {
            all.extend(["--config".into(), config.into()]);
        }
        if self.free_ports {
            all.extend(["--listen", "127.0.0.1:0", "--ingest", "127.0.0.1:0"].map(OsString::from));
        }
        match &self.target {
            Target::Pid(pid) => {
                all.extend(["--process-tree".into(), OsString::from(pid.to_string())])
            }
            Target::Ledger(folder) => all.extend(["--ledger".into(), folder.into()]),
        }
        if let Some(entries) = self.cache_entries {
            all.extend([
                "--program-cache-entries".into(),
                OsString::from(entries.to_string()),
            ]);
        }
        all.extend([OsString::from("--record"), self.out.into()]);
        all.extend([OsString::from("--ready-file"), ready::name(self.out).into()]);
        if let Some(interval) = self.interval {
            all.extend([
                "--interval".into(),
                OsString::from(format!("{}ms", interval.as_millis())),
            ]);
        }
        for (key, value) in self.labels {
            all.extend(["--label".into(), OsString::from(format!("{key}={value}"))]);
        }
        all
    }
}

/// Where the daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    pub metrics: String,
    /// For pushes; `None` if they are not accepted.
    pub ingest: Option<String>,
}

/// The daemon's program: as given, beside this program, or in `PATH`.
///
/// # Errors
/// There is none; `option` is what it can be named with.
pub fn find(given: Option<&Path>, option: &str) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        anyhow::ensure!(
            given.is_file(),
            "{option} {}: there is no such file",
            given.display()
        );
        // Without a folder it would be looked for in PATH.
        return std::path::absolute(given).with_context(|| given.display().to_string());
    }
    let own = std::env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let found = own
        .filter(|file| file.is_file())
        .or_else(|| in_path(PROGRAM));
    found.with_context(|| {
        format!("{PROGRAM} is neither in the folder of this program nor in PATH: set it with {option} FILE")
    })
}

/// The first file of this name in `PATH`.
pub fn in_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

/// What a validator must be told to push to `ingest`.
pub fn metrics_config(ingest: &str) -> String {
    format!("host=http://{ingest},db=faultline,u=any,p=any")
}

/// `SOLANA_METRICS_CONFIG` for a validator whose environment `variable` looks into, with the exception from a proxy if
/// it has one; nothing if it is set there already, or the daemon takes no pushes.
pub fn metrics_variables(
    addresses: &Addresses,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let Some(ingest) = addresses
        .ingest
        .as_deref()
        .filter(|_| variable(METRICS_CONFIG).is_none())
    else {
        return Vec::new();
    };
    let mut all = vec![(METRICS_CONFIG.to_owned(), metrics_config(ingest))];
    if PROXIES.iter().any(|name| variable(name).is_some()) {
        all.extend(EXCEPTIONS.map(|name| (name.to_owned(), excepted(variable(name).as_deref()))));
    }
    all
}

fn excepted(before: Option<&str>) -> String {
    match before {
        Some(hosts) if !hosts.is_empty() => format!("{hosts},127.0.0.1"),
        _ => "127.0.0.1".to_owned(),
    }
}

/// How the daemon ended and its last complaint, if it had one, behind words on when: `, by signal 9: REASON`.
pub fn with_its_words(end: End, complaint: &str) -> String {
    let how = match end {
        End::Code(code) => format!("with exit code {code}"),
        End::Signal(signal) => format!("by signal {signal}"),
    };
    if complaint.is_empty() {
        format!(", {how}")
    } else {
        format!(", {how}: {complaint}")
    }
}

/// How far a recording has come; nothing, too, of what is no recording (yet).
pub fn progress(out: &Path) -> Result<Progress, Error> {
    Recording::open(out)?.progress()
}

/// As many looks as the daemon may take to write what it saw.
pub fn polls_to_write(interval: Duration) -> u32 {
    u32::try_from((interval * 5).max(PATIENCE).as_millis() / POLL_EVERY.as_millis())
        .unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_interval_is_the_daemons_default() {
        let default = include_str!("../../../daemon/src/config/default.toml");
        let sampling = default
            .split("[sampling]")
            .nth(1)
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("interval = "));
        assert_eq!(
            faultline_text::parse_time(sampling.unwrap().trim_matches('"')),
            Ok(USUAL_INTERVAL)
        );
    }

    #[test]
    fn exceptions_from_a_proxy_are_added_to() {
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
        assert_eq!(of(&[(METRICS_CONFIG, "host=elsewhere")]), []);
    }

    #[test]
    fn the_daemon_is_told_whom_to_follow_and_where_to_write() {
        let labels = [("arm".to_owned(), "a b".to_owned())];
        let out = Path::new("/o/run.fltl");
        let interval = Some(Duration::from_millis(100));
        let target = Target::Ledger("/mnt/ledger".into());
        let cache_entries = Some(1024);
        let task = Task {
            target,
            out,
            cache_entries,
            labels: &labels,
            interval,
            config: None,
            free_ports: true,
        };
        let said: Vec<String> = task
            .arguments()
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let expected = "run --listen 127.0.0.1:0 --ingest 127.0.0.1:0 --ledger /mnt/ledger \
                        --program-cache-entries 1024 --record /o/run.fltl --ready-file /o/run.fltl.ready \
                        --interval 100ms --label arm=a b";
        assert_eq!(said.join(" "), expected);
    }
}
