//! Counters that continue when the process moves to another cgroup.

use faultline_catalog::{Kind, Reading, Value};

/// Counts from before a move are ignored. The exported counter never falls at a move.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// As they were last reported.
    reported: Vec<Reading>,
    offsets: Vec<Offset>,
}

/// One counter of a cgroup that the process has moved to.
#[derive(Debug)]
struct Offset {
    /// As the counter of the earlier cgroup was reported last.
    before: Reading,
    /// What the new cgroup had counted when the process was found in it, and at the last tick.
    first: Value,
    last: Value,
}

impl Counters {
    /// Takes the first readings of another cgroup.
    pub(super) fn moved(&mut self, readings: &[Reading]) {
        let offset = |before: Reading| {
            let first = readings.iter().find(|reading| is_same(reading, &before))?;
            let (first, last) = (first.value.clone(), first.value.clone());
            Some(Offset {
                before,
                first,
                last,
            })
        };
        self.offsets = self.reported.drain(..).filter_map(offset).collect();
    }

    /// Makes them continue from those of the earlier cgroup.
    pub(super) fn resume(&mut self, readings: &mut [Reading]) {
        self.reported.clear();
        for reading in readings.iter_mut().filter(|reading| is_counter(reading)) {
            let same_series = |offset: &&mut Offset| is_same(reading, &offset.before);
            if let Some(offset) = self.offsets.iter_mut().find(same_series) {
                let before = std::mem::replace(&mut offset.last, reading.value.clone());
                if before.number() <= reading.value.number() {
                    reading.value = sum(&offset.before.value, &offset.first, &reading.value);
                } else {
                    // A cgroup that was made anew under its path counts from zero.
                    self.offsets
                        .retain(|offset| !is_same(reading, &offset.before));
                }
            }
            self.reported.push(reading.clone());
        }
    }
}

fn is_counter(reading: &Reading) -> bool {
    reading.metric.kind == Kind::Counter
}

fn is_same(one: &Reading, other: &Reading) -> bool {
    one.metric.name == other.metric.name && *one.labels == *other.labels
}

/// `before` and the growth from `first` to `now`.
fn sum(before: &Value, first: &Value, now: &Value) -> Value {
    match (before, first, now) {
        (Value::Whole(before), Value::Whole(first), Value::Whole(now)) => {
            Value::Whole(before.saturating_add(now.saturating_sub(*first)))
        }
        _ => {
            let [before, first, now] =
                [before, first, now].map(|value| value.number().unwrap_or(0.0));
            Value::Real(before + (now - first))
        }
    }
}
