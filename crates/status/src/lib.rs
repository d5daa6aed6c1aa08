//! The status of a validator and of its daemon: what follows from one tick, in numbers and in words.
//!
//! The daemon computes it on request. The landing page, `/status` and `faultline top` only draw it.

mod answer;
mod cache;
mod capacity;
mod evidence;
mod figures;
mod memory;
mod part;
mod pools;
mod readings;
mod sources;
mod target;
mod thresholds;
mod votes;

pub use answer::{
    Answer, AnswerInputs, CachePrediction, Consensus, LeaderSlots, LimitForecast, Subject, Verdict,
    answers,
};
pub use cache::ProgramCacheStatus;
pub use capacity::MIN_FREE_SHARE;
pub use evidence::{
    AnswerConfig, CacheEvidence, Evidence, MAX_EVIDENCE_BYTES, PredictedSize, RamEvidence,
};
pub use figures::{Figure, LastMinute};
pub use memory::{LevelStatus, MemoryStatus};
pub use part::{StatusItem, Tone};
pub use pools::{PerSlot, Pool, SlotTimes, TimeHistogram};
pub use sources::SourceStatus;
pub use target::{Fact, Target};

use faultline_metrics::{Source, Stamp, Tick, metrics};
use readings::Readings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the JSON. It changes when a field changes its meaning or is removed. Readers
/// ignore unknown fields.
pub const VERSION: u32 = 1;

/// What follows from one tick. An unknown value is absent or `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`VERSION`] of the program that wrote it.
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
    /// RAM, program cache and rewards. Empty from an older daemon.
    #[serde(deserialize_with = "answer::known")]
    pub answers: Vec<Answer>,
    pub target: Target,
    /// Votes, leader slots and rewards; empty if nothing is known of them.
    pub votes: Vec<StatusItem>,
    /// File systems, disks, UDP and open files; empty if nothing is known of them.
    pub capacity: Vec<StatusItem>,
    pub memory: Option<MemoryStatus>,
    pub cache: ProgramCacheStatus,
    /// Totals of counters, and levels.
    #[serde(deserialize_with = "figures::known")]
    pub figures: BTreeMap<Figure, f64>,
    /// Empty unless [`Status::of`]'s caller fills it in.
    pub last_minute: LastMinute,
    pub slots: SlotTimes,
    /// Rates of the last five minutes.
    pub per_slot: PerSlot,
    /// Thread pools by name.
    pub pools: Vec<Pool>,
    pub sources: Vec<SourceStatus>,
}

impl Status {
    /// The status that follows from `tick` alone, as of `now`. `stale` says why the tick is too old.
    pub fn of(tick: &Tick, now: Stamp, stale: Option<String>) -> Self {
        let (trends, answer_config) = Default::default();
        Self::with(tick, now, stale, trends, &answer_config)
    }

    /// `trends` are the inputs that need a window of time.
    pub fn with(
        tick: &Tick,
        now: Stamp,
        stale: Option<String>,
        trends: AnswerInputs,
        answer_config: &AnswerConfig,
    ) -> Self {
        let readings = Readings(tick);
        let memory = MemoryStatus::of(tick);
        let inputs = answer::inputs::add(readings, memory.as_ref(), now, trends);
        let running = readings.label(&metrics::process::TARGET_INFO, "version");
        let inputs = answer_config.add(running, inputs);
        let version = readings.label(&metrics::daemon::BUILD_INFO, "version");
        Status {
            version: VERSION,
            faultlined: version.unwrap_or_default().to_owned(),
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
            figures: figures::figures(tick),
            last_minute: LastMinute::default(),
            slots: SlotTimes::of(readings),
            per_slot: PerSlot::of(&inputs),
            pools: pools::pools(readings),
            sources: sources::sources(readings, now),
        }
    }

    pub fn figure(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).copied()
    }

    /// `None` for a disabled source.
    pub fn source(&self, source: Source) -> Option<&SourceStatus> {
        self.sources.iter().find(|one| one.name == source.name())
    }
}

#[cfg(test)]
mod tests;
