//! The memory headroom of a tick, in numbers and in words.

use crate::{StatusItem, Tone, readings::Readings, thresholds::OOM_AHEAD_SHARE};
use faultline_metrics::{Tick, metrics::memory as m};
use faultline_text::{bytes_f64, percent};
use serde::{Deserialize, Serialize};

/// Unreclaimable share of the limit above which a level is [`Tone::Warn`].
const WARN_SHARE: f64 = 0.85;

const HEADROOM_UNKNOWN: &str =
    "the headroom is not known: a level that limits memory cannot be read";

/// What limits the validator's memory, and how much is left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Each level, the validator's own first.
    pub levels: Vec<LevelStatus>,
    /// What else matters: swap, `memory.high`, strict overcommit, systemd-oomd. One sentence each.
    pub notes: Vec<String>,
}

/// A memory level: one limit on the validator's memory, with its usage, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelStatus {
    /// Value of the label `level`: `machine`, `numa`, `above` for a limit above the visible
    /// cgroups, or a number: 0 is the validator's cgroup, 1 its parent. On v1, `_swap` after the
    /// number stands for the limit of memory and swap together.
    pub level: String,
    /// Such as `cgroup /validator.slice`.
    pub title: String,
    pub limit: f64,
    pub unreclaimable: f64,
    pub headroom: f64,
    /// Unreclaimable memory of others, as far as it is known.
    pub others: Option<f64>,
    /// Droppable memory that must be written first.
    pub dirty: Option<f64>,
    pub binds: bool,
}

impl LevelStatus {
    /// Share of the limit that cannot be dropped, at most 1.
    pub fn share(&self) -> f64 {
        if self.limit > 0.0 {
            (self.unreclaimable / self.limit).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    pub fn tone(&self) -> Tone {
        match self.share() {
            share if share > OOM_AHEAD_SHARE => Tone::Bad,
            share if share > WARN_SHARE => Tone::Warn,
            _ => Tone::Plain,
        }
    }

    fn headroom_item(&self) -> StatusItem {
        let (headroom, limit) = (bytes_f64(self.headroom), bytes_f64(self.limit));
        let text = format!("{headroom} of {limit} are left in {}", self.title);
        StatusItem::new(text, self.tone())
    }

    fn details(&self) -> impl Iterator<Item = StatusItem> {
        let unreclaimable = format!(
            "{} ({}) cannot be dropped without swap",
            bytes_f64(self.unreclaimable),
            percent(self.share())
        );
        let others = self.others.filter(|others| *others > 0.0);
        let others = others.map(|others| format!("{} of it belong to others", bytes_f64(others)));
        let dirty = self.dirty.filter(|dirty| *dirty > 0.0);
        let dirty =
            dirty.map(|dirty| format!("{} of page cache must be written first", bytes_f64(dirty)));
        let details = [Some(unreclaimable), others, dirty];
        details.into_iter().flatten().map(StatusItem::plain)
    }
}

impl MemoryStatus {
    /// `None` where no level is known.
    pub fn of(tick: &Tick) -> Option<Self> {
        let readings = Readings { tick };
        let levels: Vec<LevelStatus> = readings
            .by_label(&m::HEADROOM)
            .filter_map(|(level, headroom)| level_status(readings, level, headroom))
            .collect();
        let notes = notes(readings, &levels);
        (!levels.is_empty()).then_some(Self { levels, notes })
    }

    /// The headroom of each level, the binding level first, then the notes.
    pub fn items(&self) -> Vec<StatusItem> {
        let first = match self.binding() {
            Some(level) => level.headroom_item(),
            None => StatusItem::new(HEADROOM_UNKNOWN, Tone::Warn),
        };
        let details = self.binding().into_iter().flat_map(LevelStatus::details);
        let other_levels = self.levels.iter().filter(|level| !level.binds);
        let notes = self.notes.iter().map(StatusItem::plain);
        [first]
            .into_iter()
            .chain(details)
            .chain(other_levels.map(LevelStatus::headroom_item))
            .chain(notes)
            .collect()
    }

    /// The level with the least headroom; `None` while a level cannot be read.
    pub fn binding(&self) -> Option<&LevelStatus> {
        self.levels.iter().find(|level| level.binds)
    }
}

fn level_status(readings: Readings<'_>, level: &str, headroom: f64) -> Option<LevelStatus> {
    let number = |metric| readings.labeled_number(metric, &[level]);
    Some(LevelStatus {
        level: level.to_owned(),
        title: title(readings, level),
        limit: number(&m::LEVEL_LIMIT)?,
        unreclaimable: number(&m::LEVEL_UNRECLAIMABLE)?,
        headroom,
        others: number(&m::LEVEL_OTHERS),
        dirty: number(&m::LEVEL_DIRTY),
        binds: readings.labeled_flag(&m::BINDING, &[level]) == Some(true),
    })
}

fn notes(readings: Readings<'_>, levels: &[LevelStatus]) -> Vec<String> {
    let high = readings.by_label(&m::HIGH_HEADROOM).map(|(level, left)| {
        let title = title(readings, level);
        if left > 0.0 {
            let left = bytes_f64(left);
            format!(
                "memory.high of {title}: {left} are left before the kernel stalls the validator"
            )
        } else {
            format!("memory.high of {title} is reached: the kernel stalls the validator")
        }
    });
    let swap = readings
        .number(&m::SWAP_HEADROOM)
        .filter(|left| *left > 0.0)
        .map(bytes_f64);
    let commit = readings.number(&m::COMMIT_HEADROOM).map(bytes_f64);
    let has_oomd = readings.flag(&m::OOMD) == Some(true);
    let is_limited_above = levels
        .iter()
        .any(|level| level.title.starts_with("a limit above"));
    let further_notes = [
        swap.map(|left| format!("Swap: {left} are left; they are not part of the headroom")),
        commit.map(|left| {
            format!(
                "vm.overcommit_memory is 2: allocations fail after {left} more, without a kill"
            )
        }),
        has_oomd.then(|| {
            "systemd-oomd runs: it may kill before the kernel does, by memory pressure or swap use"
                .to_owned()
        }),
        is_limited_above.then(|| {
            "The limit above the visible cgroups is an upper bound: its other members are not visible"
                .to_owned()
        }),
    ];
    high.chain(further_notes.into_iter().flatten()).collect()
}

fn title(readings: Readings<'_>, level: &str) -> String {
    let path = readings
        .series(&m::LEVEL_INFO)
        .find_map(|reading| match &reading.label_values[..] {
            [name, path] if name.as_str() == level => Some(path.as_str()),
            _ => None,
        })
        .unwrap_or_default();
    match level {
        "machine" => "this machine".to_owned(),
        "numa" => format!("NUMA {path}"),
        "above" => format!("a limit above {path}"),
        "0" => format!("its cgroup {path}").trim_end().to_owned(),
        level => match level.strip_suffix("_swap") {
            Some(_) => format!("memory and swap of {path}"),
            None if path.is_empty() => format!("cgroup level {level}"),
            None => format!("cgroup {path}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::{Batch, Reading, Source, Stamp, Value};
    use std::sync::Arc;

    const GIB: u64 = 1 << 30;

    fn tick(readings: Vec<Reading>) -> Tick {
        let mut batch = Batch::empty(Source::Cgroup, Stamp::default());
        batch.readings = readings;
        Tick {
            number: 1,
            at: Stamp::default(),
            batches: vec![Arc::new(batch)],
        }
    }

    fn level(level: &'static str, path: &'static str, limit: u64, taken: u64) -> Vec<Reading> {
        let gib = |metric, gib: u64| Reading::integer(metric, [level.into()], gib * GIB);
        vec![
            gib(&m::HEADROOM, limit - taken),
            gib(&m::LEVEL_LIMIT, limit),
            gib(&m::LEVEL_UNRECLAIMABLE, taken),
            Reading::new(
                &m::LEVEL_INFO,
                [level.into(), path.into()],
                Value::Integer(1),
            ),
        ]
    }

    #[test]
    fn the_binding_memory_level_is_reported_with_its_other_users() {
        let mut readings = level("0", "/sol.slice/sol.service", 500, 301);
        readings.extend(level("1", "/sol.slice", 512, 507));
        readings.push(Reading::flag(&m::BINDING, ["0".into()], false));
        readings.push(Reading::flag(&m::BINDING, ["1".into()], true));
        readings.push(Reading::integer(&m::LEVEL_OTHERS, ["1".into()], 206 * GIB));
        let status = MemoryStatus::of(&tick(readings)).unwrap();
        let binding = status.binding().unwrap();
        assert_eq!(binding.title, "cgroup /sol.slice");
        assert_eq!(binding.headroom, 5.0 * GIB as f64);
        assert_eq!(binding.tone(), Tone::Bad);
        let items = status.items();
        let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "5.0 GiB of 512.0 GiB are left in cgroup /sol.slice",
                "507.0 GiB (99 %) cannot be dropped without swap",
                "206.0 GiB of it belong to others",
                "199.0 GiB of 500.0 GiB are left in its cgroup /sol.slice/sol.service",
            ]
        );
        assert_eq!(status.levels[0].title, "its cgroup /sol.slice/sol.service");
        assert_eq!(status.notes, [""; 0]);
    }

    #[test]
    fn limits_without_oom_risk_are_notes() {
        let mut readings = level("machine", "", 512, 400);
        readings.extend(level("above", "/", 64, 60));
        readings.push(Reading::integer(&m::HIGH_HEADROOM, ["1".into()], 0));
        readings.push(Reading::integer(&m::SWAP_HEADROOM, [], 2 * GIB));
        readings.push(Reading::integer(&m::COMMIT_HEADROOM, [], GIB));
        readings.push(Reading::flag(&m::OOMD, [], true));
        let status = MemoryStatus::of(&tick(readings)).unwrap();
        assert_eq!(status.binding(), None);
        let notes = status.notes.join("\n");
        for words in [
            "memory.high of cgroup level 1 is reached",
            "Swap: 2.0 GiB are left",
            "vm.overcommit_memory is 2",
            "systemd-oomd runs",
            "an upper bound",
        ] {
            assert!(notes.contains(words), "{words}:\n{notes}");
        }
        assert_eq!(MemoryStatus::of(&tick(vec![])), None);
    }
}
