//! Counters that continue when the process moves to another cgroup.

use faultline_metrics::{Kind, Reading, Value};

/// Excludes what the new cgroup had counted before the move. An exported counter falls only if a
/// cgroup is recreated.
#[derive(Default)]
pub struct Counters {
    reported: Vec<Reading>,
    offsets: Vec<Offset>,
}

struct Offset {
    /// The last value reported for the earlier cgroup.
    before: Reading,
    /// The new cgroup's value at the move, and at the last tick.
    first: Value,
    last: Value,
}

impl Counters {
    pub fn rebase(&mut self, readings: &[Reading]) {
        let offset = |before: Reading| {
            let first = readings.iter().find(|one| is_same_series(one, &before))?;
            Some(Offset {
                before,
                first: first.value.clone(),
                last: first.value.clone(),
            })
        };
        self.offsets = self.reported.drain(..).filter_map(offset).collect();
    }

    /// Continues the earlier cgroup's values.
    pub fn continue_counts(&mut self, readings: &mut [Reading]) {
        self.reported.clear();
        for reading in readings.iter_mut().filter(|reading| is_counter(reading)) {
            let same_series = |offset: &&mut Offset| is_same_series(reading, &offset.before);
            if let Some(offset) = self.offsets.iter_mut().find(same_series) {
                let before = std::mem::replace(&mut offset.last, reading.value.clone());
                if before.number() <= reading.value.number() {
                    reading.value = sum(&offset.before.value, &offset.first, &reading.value);
                } else {
                    // A cgroup that was recreated under its path counts from zero.
                    self.offsets
                        .retain(|offset| !is_same_series(reading, &offset.before));
                }
            }
            self.reported.push(reading.clone());
        }
    }
}

fn is_counter(reading: &Reading) -> bool {
    reading.metric.kind == Kind::Counter
}

fn is_same_series(reading: &Reading, other: &Reading) -> bool {
    reading.metric.name == other.metric.name && *reading.labels == *other.labels
}

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
