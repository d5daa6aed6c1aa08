//! 24 s of recorded datapoints, repeated without end.

use super::IDENTITY;
use anyhow::{Context, Result};
use faultline_agave::line::{Point, Value};
use flate2::read::GzDecoder;
use std::{io::Read, time::Duration};

/// See `assets/README.md`.
static RECORDED_LINES_GZ: &[u8] = include_bytes!("../../assets/demo.lp.gz");
pub const RECORDING_LENGTH: Duration = Duration::from_secs(24);
pub const SLOT_TIME: Duration = Duration::from_millis(200);
pub const DEMO_FIRST_SLOT: u64 = 1_000_000;

/// Programs that the recorded load calls. With 512 entries a real node evicted and reloaded them
/// all the time, with 1,024 never (`docs/sample-report`).
const PROGRAM_COUNT: u64 = 640;
/// Program cache time if all programs fit, relative to the recorded time.
const CACHE_TIME_PERCENT_IF_ALL_FIT: u64 = 15;

/// Fields whose value is a slot, or in some datapoints a count. Only slots are shifted.
const SLOT_FIELDS: [&str; 15] = [
    "slot",
    "parent_slot",
    "bank_slot",
    "computed_slot",
    "overall_best_slot",
    "latest",
    "root",
    "highest-super-majority-root",
    "highest-confirmed-slot",
    "max_clean_root",
    "oldest_dirty_slot",
    "oldest_root",
    "repair-highest-slot",
    "highest-shred-slot-max",
    "highest-shred-slot-min",
];

/// A position is a time since the start of the first repetition.
pub struct RecordedLines {
    validator: Vec<Line>,
    /// Lines about the whole cluster. During catch-up they are ahead of the validator's lines.
    cluster: Vec<Line>,
    /// Position at which each block was frozen, and the total transactions up to it.
    blocks: Vec<(Duration, u64)>,
}

#[derive(Clone, Copy)]
pub enum Track {
    Validator,
    Cluster,
}

struct Line {
    /// In the first repetition.
    position: Duration,
    parts: Vec<LinePart>,
}

enum LinePart {
    Text(String),
    Slot(u64),
}

impl RecordedLines {
    /// The recorded lines, changed as if the program cache had the size `cache`.
    pub fn embedded(cache: Option<CacheSize>) -> Result<Self> {
        let mut text = String::new();
        GzDecoder::new(RECORDED_LINES_GZ)
            .read_to_string(&mut text)
            .context("demo.lp.gz")?;
        Self::read(&text, cache)
    }

    fn read(text: &str, cache: Option<CacheSize>) -> Result<Self> {
        let points = text
            .lines()
            .map(|line| Point::parse(line.as_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let recording_start = points
            .iter()
            .filter_map(Point::timestamp)
            .min()
            .context("no times")?;
        let frozen_points = || points.iter().filter(|point| point.name() == "bank_frozen");
        let recorded_first_slot = frozen_points()
            .filter_map(|point| integer_field(point, "slot"))
            .min()
            .context("no slots")?;
        let mut recording = Self {
            validator: Vec::new(),
            cluster: Vec::new(),
            blocks: Vec::new(),
        };
        let mut transactions = Vec::new();
        for point in &points {
            let position = Duration::from_nanos(
                point
                    .timestamp()
                    .and_then(|time| u64::try_from(time - recording_start).ok())
                    .context("a line without time")?,
            );
            let line = Line {
                position,
                parts: line_parts(point, recorded_first_slot, cache)?,
            };
            match point.name() {
                "shred_insert_is_full" => {
                    recording.cluster.push(line);
                    continue;
                }
                "bank_frozen" => recording.blocks.push((position, 0)),
                "cost_tracker_stats" => transactions.push((
                    position,
                    integer_field(point, "transaction_count").unwrap_or(0),
                )),
                _ => {}
            }
            recording.validator.push(line);
        }
        recording.validator.sort_by_key(|line| line.position);
        recording.cluster.sort_by_key(|line| line.position);
        recording.blocks.sort_unstable();
        for (block_position, sum) in &mut recording.blocks {
            *sum = transactions
                .iter()
                .filter(|(position, _)| position <= block_position)
                .map(|(_, count)| count)
                .sum();
        }
        Ok(recording)
    }

    /// Returns the newest slot replayed at a position, and the total transactions up to it.
    pub fn newest_slot(&self, position: Duration) -> (u64, u64) {
        let (repetition, position_within) = split_position(position);
        let replayed = self
            .blocks
            .partition_point(|(position, _)| *position <= position_within);
        let transactions_of =
            |blocks: usize| self.blocks[..blocks].last().map_or(0, |(_, sum)| *sum);
        let slot = DEMO_FIRST_SLOT + u64::from(repetition) * self.block_count() + replayed as u64;
        (
            slot - 1,
            u64::from(repetition) * transactions_of(self.blocks.len()) + transactions_of(replayed),
        )
    }

    fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The lines of `track` after position `after`, up to and including `until`, in order.
    /// Each line is its position and its text without a time.
    pub fn lines_between(
        &self,
        track: Track,
        after: Duration,
        until: Duration,
    ) -> Vec<(Duration, String)> {
        let lines = match track {
            Track::Validator => &self.validator,
            Track::Cluster => &self.cluster,
        };
        let mut rendered = Vec::new();
        for repetition in split_position(after).0..=split_position(until).0 {
            for line in lines {
                let position = RECORDING_LENGTH * repetition + line.position;
                if position > after && position <= until {
                    rendered.push((
                        position,
                        line.render(u64::from(repetition) * self.block_count()),
                    ));
                }
            }
        }
        rendered
    }
}

/// The number of the repetition, and the position in it.
fn split_position(position: Duration) -> (u32, Duration) {
    let repetition =
        u32::try_from(position.as_secs() / RECORDING_LENGTH.as_secs()).unwrap_or(u32::MAX);
    (
        repetition,
        position.saturating_sub(RECORDING_LENGTH * repetition),
    )
}

impl Line {
    fn render(&self, slot_shift: u64) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                LinePart::Text(part) => text.push_str(part),
                LinePart::Slot(slot) => text.push_str(&(slot + slot_shift).to_string()),
            }
        }
        text
    }
}

/// Capacity in entries. The validator evicts from 90 % on.
#[derive(Clone, Copy)]
pub struct CacheSize(pub u64);

impl CacheSize {
    /// Returns the value of a point's field at this size, or `None` for its recorded value.
    /// `recorded` returns the recorded values of the point.
    pub fn changed_value(
        self,
        point_name: &str,
        key: &str,
        recorded: impl Fn(&str) -> Option<u64>,
    ) -> Option<u64> {
        let eviction_start = self.0.saturating_mul(9).div_ceil(10);
        let all_fit = eviction_start >= PROGRAM_COUNT;
        match (point_name, key) {
            ("loaded-programs-cache-stats", "water_level") => {
                Some(eviction_start.min(PROGRAM_COUNT))
            }
            ("loaded-programs-cache-stats", "misses" | "evictions" | "reloads" | "insertions") => {
                all_fit.then_some(0)
            }
            ("replay-slot-stats", key) if all_fit => {
                let recorded_us = recorded("program_cache_us")?;
                let remaining_us = recorded_us * CACHE_TIME_PERCENT_IF_ALL_FIT / 100;
                match key {
                    "program_cache_us" => Some(remaining_us),
                    "replay_total_elapsed" => {
                        Some(recorded(key)?.saturating_sub(recorded_us - remaining_us))
                    }
                    _ => key
                        .starts_with("execute_details_create_executor_")
                        .then_some(0),
                }
            }
            _ => None,
        }
    }
}

fn integer_field(point: &Point<'_>, key: &str) -> Option<u64> {
    match point.field(key)?.value().ok()? {
        Value::Int(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

/// Returns the point's text with the demo identity and without a time, split at the slots.
fn line_parts(
    point: &Point<'_>,
    recorded_first_slot: u64,
    cache: Option<CacheSize>,
) -> Result<Vec<LinePart>> {
    let mut parts = Vec::new();
    let mut text = format!("{},host_id={IDENTITY}", point.name());
    for tag in point.tags() {
        let tag = tag.map_err(|reason| point.bad_line(reason))?;
        if tag.key != "host_id" {
            text.push_str(&format!(",{}={}", tag.key, tag.value));
        }
    }
    let value_at_size =
        |key: &str| cache?.changed_value(point.name(), key, |other| integer_field(point, other));
    let mut separator = ' ';
    for field in point.fields() {
        let field = field.map_err(|reason| point.bad_line(reason))?;
        text.push_str(&format!("{separator}{}=", field.key));
        separator = ',';
        // Numbers far below the first slot are counts, or 0 for none.
        let slot = SLOT_FIELDS
            .contains(&field.key)
            .then(|| integer_field(point, field.key))
            .flatten();
        match slot.filter(|slot| *slot >= recorded_first_slot / 2) {
            Some(slot) => {
                parts.push(LinePart::Text(std::mem::take(&mut text)));
                parts.push(LinePart::Slot(DEMO_FIRST_SLOT + slot - recorded_first_slot));
                text.push('i');
            }
            None => match value_at_size(field.key) {
                Some(value) => text.push_str(&format!("{value}i")),
                None => text.push_str(field.raw()),
            },
        }
    }
    parts.push(LinePart::Text(text));
    Ok(parts)
}

#[cfg(test)]
mod tests;
