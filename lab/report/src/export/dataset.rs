//! Many recordings as one data set: `TABLE/host=HOST/run=RUN/day=DAY/TABLE.parquet`.

use super::Destination;
use crate::run::json_text;
use anyhow::bail;
use faultline_recording::Recording;
use std::path::{Path, PathBuf};

pub(super) const DAY_NS: i64 = 86_400_000_000_000;

pub(super) struct DatasetRun {
    root: PathBuf,
    /// `host=HOST/run=RUN`.
    pub(super) run_path: PathBuf,
    /// First ticks of days, with the day of 1970. The first is that on which the recording began.
    days: Vec<(i64, i64)>,
}

/// One recording at a time. Replaces what an earlier export wrote of the same runs.
pub(super) fn export_into(
    root: &Path,
    files: &[PathBuf],
    tables: &[&'static str],
) -> anyhow::Result<String> {
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
        message += &super::export(&recording, tables, &Destination::Dataset(&dataset))?;
        runs.push((dataset.run_path, file));
    }
    Ok(message)
}

impl DatasetRun {
    /// A run is named by its labels and its first nanosecond, which a copy or a merge keeps.
    fn new(root: &Path, recording: &Recording) -> anyhow::Result<Self> {
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
        let named: Vec<String> = ["experiment", "arm", "run"]
            .into_iter()
            .filter_map(label)
            .collect();
        let name = if named.is_empty() {
            "run".to_owned()
        } else {
            named.join("-")
        };
        let mut days = vec![(i64::MIN, began.div_euclid(DAY_NS))];
        days.extend(
            ticks
                .iter()
                .map(|tick| (tick.id, tick.unix_ns.div_euclid(DAY_NS))),
        );
        days.dedup_by_key(|(_, day)| *day);
        Ok(DatasetRun {
            root: root.to_owned(),
            run_path: Path::new(&format!("host={}", path_safe(&host)))
                .join(format!("run={}-{began}", path_safe(&name))),
            days,
        })
    }

    pub(super) fn path(&self, table: &str, day: i64) -> PathBuf {
        let day = faultline_text::day(day.saturating_mul(DAY_NS));
        let folder = self.root.join(table).join(&self.run_path);
        folder
            .join(format!("day={day}"))
            .join(format!("{table}.parquet"))
    }

    /// Of a tick; without one, the first.
    pub(super) fn day_of(&self, tick: Option<i64>) -> i64 {
        let tick = tick.unwrap_or(i64::MIN);
        let after = self.days.partition_point(|(first, _)| *first <= tick);
        self.days
            .get(after.saturating_sub(1))
            .map_or(0, |(_, day)| *day)
    }
}

fn path_safe(name: &str) -> String {
    let safe = |c: char| match c {
        '.' | '_' | '-' => c,
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    name.chars().map(safe).take(100).collect()
}
