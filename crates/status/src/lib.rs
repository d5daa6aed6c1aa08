//! The status of a validator and of its daemon, in numbers and words, from one tick.
//!
//! The daemon computes it on request. The landing page, `/status` and `faultline top` only draw it.

mod answer;
mod cache;
mod capacity;
mod evidence;
mod figures;
mod memory;
mod pools;
mod readings;
mod target;
mod thresholds;
mod votes;

pub use answer::{
    Answer, AnswerInputs, CachePrediction, Consensus, LimitForecast, RecentLeaderSlots, Subject,
    Verdict, answers, ram::size,
};
pub use cache::{LATE_PUSH_SECONDS, ProgramCacheStatus, is_modified_capacity};
pub use capacity::MIN_FREE_SHARE;
pub use evidence::{CacheEvidence, Evidence, PredictedSize, RamEvidence, StatusConfig};
pub use figures::{Figure, LastMinute};
pub use memory::{LevelStatus, MemoryStatus};
pub use pools::{PerSlot, SlotTimes, ThreadPool, TimeHistogram};
pub use target::{Fact, Target};

use std::collections::BTreeMap;

use faultline_metrics::{ProblemKind, Source, Stamp, Tick, metrics};
use readings::Readings;
use serde::{Deserialize, Serialize};

/// Changes when a field changes its meaning or is removed. Readers ignore unknown fields.
pub const JSON_VERSION: u32 = 1;

/// What follows from one tick. An unknown value is absent or `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`JSON_VERSION`] of the program that wrote it.
    pub version: u32,
    /// The daemon's version.
    pub faultlined: String,
    /// When it was computed, in seconds since 1970.
    pub time: f64,
    pub tick: u64,
    /// When the tick was taken, in seconds since 1970.
    pub tick_time: f64,
    /// Why the tick is too old; `None` while sampling goes on.
    pub stale: Option<String>,
    /// Whether the validator is simulated.
    pub is_demo: bool,
    /// Whether the RAM and the program cache are enough, and what the node earns. Empty from an
    /// older daemon.
    #[serde(deserialize_with = "answer::deserialize_known")]
    pub answers: Vec<Answer>,
    pub target: Target,
    /// Votes, leader slots and rewards; empty if nothing is known of them.
    pub votes: Vec<StatusItem>,
    /// File systems, disks, UDP and open files; empty if nothing is known of them.
    pub capacity: Vec<StatusItem>,
    pub memory: Option<MemoryStatus>,
    pub cache: ProgramCacheStatus,
    /// Totals of counters, and values of gauges.
    #[serde(deserialize_with = "figures::deserialize_known")]
    pub figures: BTreeMap<Figure, f64>,
    /// Empty unless [`Status::of`]'s caller fills it in.
    pub last_minute: LastMinute,
    /// Since the daemon's start.
    pub slots: SlotTimes,
    /// Cache reloads, cache time and replay time, over the last five minutes.
    pub per_slot: PerSlot,
    #[serde(rename = "pools")]
    pub thread_pools: Vec<ThreadPool>,
    pub sources: Vec<SourceStatus>,
}

impl Status {
    /// The status as of `now`. `trends` are the inputs that need a window of time.
    pub fn of(
        tick: &Tick,
        now: Stamp,
        stale: Option<String>,
        trends: AnswerInputs,
        status_config: &StatusConfig,
    ) -> Self {
        let readings = Readings { tick };
        let memory = MemoryStatus::of(tick);
        let inputs = answer::inputs::add_tick(readings, memory.as_ref(), now, trends);
        let running_version = readings.label(&metrics::process::TARGET_INFO, "version");
        let inputs = status_config.add_evidence(inputs, running_version);
        let daemon_version = readings.label(&metrics::daemon::BUILD_INFO, "version");
        Self {
            version: JSON_VERSION,
            faultlined: daemon_version.unwrap_or_default().to_owned(),
            time: now.unix_seconds(),
            tick: tick.number,
            tick_time: tick.at.unix_seconds(),
            stale,
            is_demo: readings.flag(&metrics::daemon::DEMO) == Some(true),
            answers: answers(&inputs).into(),
            target: Target::of(readings, now),
            votes: votes::votes(readings),
            capacity: capacity::capacity(readings),
            memory,
            cache: ProgramCacheStatus::of(readings, now),
            figures: figures::values(tick),
            last_minute: LastMinute::default(),
            slots: SlotTimes::of(readings),
            per_slot: PerSlot::of(&inputs),
            thread_pools: pools::thread_pools(readings),
            sources: sources(readings, now),
        }
    }

    pub fn figure(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).copied()
    }

    /// `None` for a disabled source.
    pub fn source(&self, source: Source) -> Option<&SourceStatus> {
        self.sources
            .iter()
            .find(|status| status.name == source.name())
    }
}

/// How serious an item is; sets its color.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Good,
    Warn,
    Bad,
    /// Neutral; also stands for an unknown tone of a newer release.
    #[default]
    #[serde(other)]
    Plain,
}

/// One of several parts of a line. Its text may contain untrusted names: a web page has to escape
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusItem {
    pub text: String,
    pub tone: Tone,
}

impl StatusItem {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    pub name: String,
    pub is_up: bool,
    /// In seconds since 1970. For datapoints, the time of the last push.
    #[serde(rename = "values_from")]
    pub newest_values_at: Option<f64>,
    /// Seconds since it was sampled.
    pub age: f64,
    /// Seconds that the sample took.
    pub took: f64,
    /// Problems since the daemon started, by kind.
    pub problems: BTreeMap<String, f64>,
    pub current_problems: usize,
    /// Kind and description of the newest problem of this sample.
    pub newest_problem: Option<(String, String)>,
}

/// The source `daemon` has two batches. The second one describes all sources, so only the first one
/// of each source counts.
fn sources(readings: Readings<'_>, now: Stamp) -> Vec<SourceStatus> {
    let mut sources: Vec<SourceStatus> = Vec::new();
    for batch in &readings.tick.batches {
        let name = batch.source.name();
        if sources.iter().any(|known| known.name == name) {
            continue;
        }
        let problems = ProblemKind::ALL.iter().filter_map(|kind| {
            let count =
                readings.labeled_number(&metrics::daemon::SOURCE_PROBLEMS, &[name, kind.name()])?;
            (count > 0.0).then(|| (kind.name().to_owned(), count))
        });
        // The last success of datapoints is a sample up to a minute after a push, and outlives the
        // process. So their time is that of the last push.
        let newest_values_at = match batch.source {
            Source::Datapoints => readings.number(&metrics::daemon::LAST_PUSH),
            _ => readings.labeled_number(&metrics::daemon::SOURCE_LAST_SUCCESS, &[name]),
        };
        let newest = batch.problems.last();
        sources.push(SourceStatus {
            name: name.to_owned(),
            is_up: batch.up,
            newest_values_at,
            age: now.since(batch.at).as_secs_f64(),
            took: batch.duration.as_secs_f64(),
            problems: problems.collect(),
            current_problems: batch.problems.len(),
            newest_problem: newest
                .map(|problem| (problem.kind.name().to_owned(), problem.what.clone())),
        });
    }
    sources
}

#[cfg(test)]
mod tests;
