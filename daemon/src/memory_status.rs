//! A tick's memory headroom as text, for the landing page and `once`.

use faultline_catalog::metrics::memory as m;
use faultline_catalog::{Metric, Tick};
use faultline_text::bytes;

/// Nearly full above this share. AgaveOomAhead uses the same threshold.
const NEARLY_FULL: f64 = 0.95;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemoryStatus {
    /// The validator's own level first. Never empty.
    pub(crate) levels: Vec<LevelStatus>,
    /// Other facts, one sentence each: swap, `memory.high`, strict overcommit, systemd-oomd.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelStatus {
    /// For example `cgroup /validator.slice`.
    pub(crate) title: String,
    pub(crate) limit: f64,
    pub(crate) unreclaimable: f64,
    pub(crate) headroom: f64,
    /// Unreclaimable memory of other processes, if known.
    pub(crate) others: Option<f64>,
    /// Reclaimable memory that must be written first.
    pub(crate) dirty: Option<f64>,
    pub(crate) binds: bool,
}

impl LevelStatus {
    /// Unreclaimable share of the limit, at most 1.
    pub(crate) fn share(&self) -> f64 {
        if self.limit > 0.0 {
            (self.unreclaimable / self.limit).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    fn is_nearly_full(&self) -> bool {
        self.share() > NEARLY_FULL
    }

    /// Other users of this level; `None` if there are none or it is unknown.
    pub(crate) fn others_text(&self) -> Option<String> {
        let others = self.others.filter(|others| *others > 0.0)?;
        Some(format!("{} of it belong to others", bytes(others as u64)))
    }
}

impl MemoryStatus {
    pub(crate) fn of(tick: &Tick) -> Option<Self> {
        let levels: Vec<LevelStatus> = readings(tick, &m::HEADROOM)
            .filter_map(|(level, headroom)| level_status(tick, level, headroom))
            .collect();
        let notes = notes(tick, &levels);
        (!levels.is_empty()).then_some(MemoryStatus { levels, notes })
    }

    pub(crate) const UNKNOWN: &str = "a level that limits it cannot be read";

    pub(crate) fn nearly_full(&self) -> Option<&LevelStatus> {
        self.binding()
            .into_iter()
            .chain(&self.levels)
            .find(|level| level.is_nearly_full())
    }

    /// The level with the least headroom; `None` while one cannot be read.
    pub(crate) fn binding(&self) -> Option<&LevelStatus> {
        self.levels.iter().find(|level| level.binds)
    }
}

fn level_status(tick: &Tick, level: &str, headroom: f64) -> Option<LevelStatus> {
    let number = |metric: &Metric| tick.number_of(metric, &[level]);
    Some(LevelStatus {
        title: title(level, path(tick, level)),
        limit: number(&m::LEVEL_LIMIT)?,
        unreclaimable: number(&m::LEVEL_UNRECLAIMABLE)?,
        headroom,
        others: number(&m::LEVEL_OTHERS),
        dirty: number(&m::LEVEL_DIRTY),
        binds: number(&m::BINDING) == Some(1.0),
    })
}

fn notes(tick: &Tick, levels: &[LevelStatus]) -> Vec<String> {
    let mut notes = Vec::new();
    for (level, headroom) in readings(tick, &m::HIGH_HEADROOM) {
        let title = title(level, path(tick, level));
        notes.push(match headroom {
            left if left > 0.0 => format!(
                "memory.high of {title}: {} are left before the kernel stalls the validator.",
                bytes(left as u64)
            ),
            _ => format!("memory.high of {title} is reached: the kernel stalls the validator."),
        });
    }
    let number = |metric: &Metric| tick.number_of(metric, &[]);
    if let Some(swap) = number(&m::SWAP_HEADROOM).filter(|swap| *swap > 0.0) {
        let swap = bytes(swap as u64);
        notes.push(format!(
            "Swap: {swap} are left; they are not part of the headroom."
        ));
    }
    if let Some(left) = number(&m::COMMIT_HEADROOM) {
        notes.push(format!(
            "vm.overcommit_memory is 2: allocations fail after {} more, without a kill.",
            bytes(left as u64)
        ));
    }
    if number(&m::OOMD) == Some(1.0) {
        let what = "systemd-oomd runs: it may kill before the kernel does, by memory pressure or swap use.";
        notes.push(what.to_owned());
    }
    if levels
        .iter()
        .any(|level| level.title.starts_with("a limit above"))
    {
        notes.push(
            "The limit above the visible cgroups is an upper bound: its other members are not visible."
                .to_owned(),
        );
    }
    notes
}

fn readings<'a>(
    tick: &'a Tick,
    metric: &'static Metric,
) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
    tick.readings()
        .filter(move |reading| std::ptr::eq(reading.metric, metric))
        .filter_map(|reading| Some((reading.labels.first()?.as_str(), reading.value.number()?)))
}

fn path<'a>(tick: &'a Tick, level: &str) -> &'a str {
    tick.readings()
        .filter(|reading| std::ptr::eq(reading.metric, &raw const m::LEVEL_INFO))
        .find_map(|reading| match &reading.labels[..] {
            [name, path] if name.as_str() == level => Some(path.as_str()),
            _ => None,
        })
        .unwrap_or_default()
}

fn title(level: &str, path: &str) -> String {
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
    use faultline_catalog::{Batch, Reading, Source, Stamp, Value};
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
        let gib = |metric, gib: u64| Reading::whole(metric, [level.into()], gib * GIB);
        vec![
            gib(&m::HEADROOM, limit - taken),
            gib(&m::LEVEL_LIMIT, limit),
            gib(&m::LEVEL_UNRECLAIMABLE, taken),
            Reading::new(&m::LEVEL_INFO, [level.into(), path.into()], Value::Whole(1)),
        ]
    }

    #[test]
    fn the_binding_level_is_named_with_who_else_is_in_it() {
        let mut readings = level("0", "/sol.slice/sol.service", 500, 301);
        readings.extend(level("1", "/sol.slice", 512, 507));
        readings.push(Reading::flag(&m::BINDING, ["0".into()], false));
        readings.push(Reading::flag(&m::BINDING, ["1".into()], true));
        readings.push(Reading::whole(&m::LEVEL_OTHERS, ["1".into()], 206 * GIB));
        let status = MemoryStatus::of(&tick(readings)).unwrap();
        let binding = status.binding().unwrap();
        assert_eq!(binding.title, "cgroup /sol.slice");
        assert_eq!(binding.headroom, 5.0 * GIB as f64);
        assert!(binding.is_nearly_full());
        assert_eq!(
            binding.others_text().as_deref(),
            Some("206.0 GiB of it belong to others")
        );
        assert_eq!(status.levels[0].title, "its cgroup /sol.slice/sol.service");
        assert_eq!(status.notes, [""; 0]);
    }

    #[test]
    fn what_is_not_headroom_is_a_note() {
        let mut readings = level("machine", "", 512, 400);
        readings.extend(level("above", "/", 64, 60));
        readings.push(Reading::whole(&m::HIGH_HEADROOM, ["1".into()], 0));
        readings.push(Reading::whole(&m::SWAP_HEADROOM, [], 2 * GIB));
        readings.push(Reading::whole(&m::COMMIT_HEADROOM, [], GIB));
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
