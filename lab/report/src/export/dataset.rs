//! Many recordings as one data set: `TABLE/host=HOST/run=RUN/day=DAY/TABLE.parquet`.

use super::Destination;
use crate::{args::Format, run::json_text};
use anyhow::{Result, bail};
use faultline_common::files::AtPath;
use faultline_recording::Recording;
use itertools::Itertools;
use std::path::{Path, PathBuf};

pub const DAY_NS: i64 = 86_400_000_000_000;

const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file system allows 255, of which 5 are `host=`.
const MAX_NAME: usize = 250;

pub struct DatasetRun {
    root: PathBuf,
    /// `host=HOST/run=RUN`.
    pub run_path: PathBuf,
    /// Columns of every file, too: as text, since readers take a folder's `01` for the number 1.
    pub columns: [(&'static str, String); 2],
    /// First ticks of days, with the day of 1970. The first is that on which the recording began.
    days: Vec<(i64, i64)>,
}

/// One recording at a time. Replaces what an earlier export wrote of the same runs.
pub fn export_into(root: &Path, files: &[PathBuf], tables: &[&'static str]) -> Result<String> {
    let mut message = String::new();
    let mut runs: Vec<(PathBuf, &Path)> = Vec::new();
    for file in files {
        let recording = Recording::open(file)?;
        let dataset = DatasetRun::new(root, &recording)?;
        if let Some((_, other)) = runs.iter().find(|(run, _)| *run == dataset.run_path) {
            bail!(
                "{} and {} are both {}: give each run once",
                other.display(),
                file.display(),
                dataset.run_path.display()
            );
        }
        let destination = Destination {
            folder: &dataset.run_path,
            format: Format::Parquet,
            dataset: Some(&dataset),
        };
        message += &super::export(&recording, tables, &destination)?;
        runs.push((dataset.run_path, file));
    }
    Ok(message)
}

impl DatasetRun {
    /// A run is named by its labels and its first nanosecond, which a copy or a merge keeps.
    fn new(root: &Path, recording: &Recording) -> Result<Self> {
        let (sessions, ticks) = (recording.sessions()?, recording.ticks()?);
        let label = |wanted| {
            let mut labels = recording.labels().iter();
            let label = labels.find(|(key, value)| key == wanted && !value.is_empty());
            label.map(|(_, value)| value.clone())
        };
        let session = sessions.first();
        let name = || json_text(&session?.manifest["host"]["name"]);
        let host = label("host").or_else(name).unwrap_or("unknown".to_owned());
        let started = session.map_or(0, |session| session.started.as_nanos() as i64);
        let began = ticks.first().map_or(started, |tick| tick.unix_ns);
        let mut named = ["experiment", "arm", "run"].into_iter().filter_map(label);
        let name = match named.join("-") {
            name if name.is_empty() => "run".to_owned(),
            name => name,
        };
        let mut days = vec![(i64::MIN, began.div_euclid(DAY_NS))];
        days.extend(
            ticks
                .iter()
                .map(|tick| (tick.id, tick.unix_ns.div_euclid(DAY_NS))),
        );
        days.dedup_by_key(|(_, day)| *day);
        let columns = [("host", host), ("run", format!("{name}-{began}"))];
        let folders: Vec<String> = columns
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", folder_name(value)?)))
            .collect::<Result<_>>()
            .at(recording.path())?;
        Ok(DatasetRun {
            root: root.to_owned(),
            run_path: folders.iter().collect(),
            columns,
            days,
        })
    }

    pub fn path(&self, table: &str, day: i64) -> PathBuf {
        let day = faultline_text::day(day.saturating_mul(DAY_NS));
        let folder = self.root.join(table).join(&self.run_path);
        folder
            .join(format!("day={day}"))
            .join(format!("{table}.parquet"))
    }

    /// Of a tick; without one, the first.
    pub fn day_of(&self, tick: Option<i64>) -> i64 {
        let tick = tick.unwrap_or(i64::MIN);
        let after = self.days.partition_point(|(first, _)| *first <= tick);
        self.days
            .get(after.saturating_sub(1))
            .map_or(0, |(_, day)| *day)
    }
}

/// Readers decode it.
fn folder_name(value: &str) -> Result<String> {
    let encoded = |byte: u8| match byte {
        b'.' | b'_' | b'-' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let name: String = value.bytes().map(encoded).collect();
    if value == HIVE_NULL {
        bail!("a host or run called {value} would be read as NULL; label it otherwise");
    }
    if name.len() > MAX_NAME {
        bail!(
            "the labels make a folder name of {} bytes; at most {MAX_NAME} are possible: {value}",
            name.len()
        );
    }
    Ok(name)
}
