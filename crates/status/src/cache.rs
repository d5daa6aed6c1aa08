//! How full the program cache is.

use crate::readings::Readings;
use faultline_metrics::{
    Metric, Stamp,
    metrics::{daemon, process, validator as m},
};
use faultline_text::{duration_f64, percent, short};
use serde::{Deserialize, Serialize};

/// A validator pushes every ten seconds.
pub const LATE_PUSH_SECONDS: f64 = 30.0;

/// The first evictions begin between the shrink target and a full cache, which is a ninth larger. A
/// larger difference from the configured capacity means a modified build.
const LATE_EVICTION_SHARE: f64 = 1.0 / 9.0;

/// Counts are numbers of entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCacheStatus {
    /// At the last eviction pass.
    pub loaded: Option<f64>,
    pub capacity: Option<f64>,
    /// An eviction pass evicts what is above this level.
    pub shrink_target: Option<f64>,
    /// Why the figures may be old or incomplete.
    pub warning: Option<String>,
    /// One sentence each.
    pub notes: Vec<String>,
}

impl ProgramCacheStatus {
    pub(crate) fn of(readings: Readings<'_>, now: Stamp) -> Self {
        let is_changed = is_capacity_changed(readings);
        let [observed, configured] = observed_and_configured(readings, &m::CACHE_CAPACITY);
        let differing = { observed.zip(configured) }.filter(|_| is_changed == Some(true));
        let difference_note = differing.map(|(observed, configured)| {
            format!(
                "The evictions show a capacity of {} entries; by version or configuration it should be {}.",
                short(observed),
                short(configured)
            )
        });
        let hits_note = readings.number(&m::CACHE_HITS).map(|_| {
            "Hits are as the validator counts them; versions before 4.4.0 count too many."
                .to_owned()
        });
        Self {
            loaded: readings.number(&m::CACHE_LOADED),
            capacity: effective_entries(readings, &m::CACHE_CAPACITY),
            shrink_target: effective_entries(readings, &m::CACHE_SHRINK_TARGET),
            warning: datapoints_warning(readings, now),
            notes: [difference_note, hits_note].into_iter().flatten().collect(),
        }
    }

    /// How full it is; `None` if neither its entries nor its capacity are known.
    pub fn summary(&self) -> Option<String> {
        let share = self.share().map(percent);
        let target = self.shrink_target;
        let target = target.map(|target| format!(", evicts above {}", short(target)));
        let target = target.unwrap_or_default();
        Some(
            match (self.loaded.map(short), self.capacity.map(short), share) {
                (Some(loaded), Some(capacity), Some(share)) => {
                    format!("{loaded} of {capacity} entries, {share}{target}")
                }
                (Some(loaded), ..) => format!("{loaded} entries, capacity not known"),
                (None, capacity, _) => {
                    format!(
                        "capacity {} entries; how many are in use is known after the next eviction",
                        capacity?
                    )
                }
            },
        )
    }

    /// Share of the capacity that is used, at most 1.
    pub fn share(&self) -> Option<f64> {
        let (loaded, capacity) = self.loaded.zip(self.capacity)?;
        Some((loaded / capacity).clamp(0.0, 1.0))
    }
}

/// Whether evictions show another capacity than the configured one; `None` without that one.
pub fn is_capacity_changed(readings: Readings<'_>) -> Option<bool> {
    let [observed, configured] = observed_and_configured(readings, &m::CACHE_CAPACITY);
    let configured = configured?;
    Some(observed.is_some_and(|observed| is_modified_capacity(observed, configured)))
}

/// The observed capacity is rounded by up to one entry. Only a late eviction makes it larger.
pub fn is_modified_capacity(observed: f64, configured: f64) -> bool {
    observed + 1.0 < configured || observed / configured - 1.0 > LATE_EVICTION_SHARE
}

pub fn effective_entries(readings: Readings<'_>, metric: &Metric) -> Option<f64> {
    let [observed, configured] = observed_and_configured(readings, metric);
    match is_capacity_changed(readings) {
        Some(false) => configured.or(observed),
        _ => observed.or(configured),
    }
}

/// Entries as evictions show them, and by configuration or version.
fn observed_and_configured(readings: Readings<'_>, metric: &Metric) -> [Option<f64>; 2] {
    ["observed", "configured"].map(|kind| {
        let entries = readings.labeled_number(metric, &[kind]);
        entries.filter(|entries| *entries > 0.0)
    })
}

/// Why datapoints are missing or old.
pub fn datapoints_warning(readings: Readings<'_>, now: Stamp) -> Option<String> {
    if readings.flag(&daemon::PUSHES_FILTERED) == Some(true) {
        return Some("the validator's RUST_LOG filters out datapoints".to_owned());
    }
    if let Some(age) = readings.age(&daemon::LAST_PUSH, now) {
        return (age > LATE_PUSH_SECONDS).then(|| format!("last push {} ago", duration_f64(age)));
    }
    let is_validator = readings.flag(&process::UP) == Some(true) && readings.has_phases();
    // Datapoints arrive while both run, so the younger one counts. The validator's age includes
    // the time before an exec.
    let daemon_age = now.uptime.as_secs_f64();
    let validator_age = { readings.process_age(now) }.filter(|age| *age < daemon_age);
    let program = validator_age.map_or("daemon", |_| "validator");
    let waiting = duration_f64(validator_age.unwrap_or(daemon_age));
    is_validator.then(|| format!("no datapoints in the {waiting} since the {program} started"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::{Batch, Reading, Source, Tick};
    use std::{sync::Arc, time::Duration};

    #[test]
    fn the_age_of_the_last_push_survives_a_clock_step() {
        let seconds = Duration::from_secs;
        let at = Stamp {
            uptime: seconds(100),
            unix: seconds(1_790_000_000),
        };
        let batch = Batch {
            readings: vec![Reading::integer(&daemon::LAST_PUSH, [], 1_789_999_995)],
            ..Batch::empty(Source::Datapoints, at)
        };
        let tick = Tick {
            number: 1,
            at,
            batches: vec![Arc::new(batch)],
        };
        for unix in [1_780_000_000, 1_790_000_001, 1_800_000_000] {
            let warning = |uptime| {
                let (uptime, unix) = (seconds(uptime), seconds(unix));
                datapoints_warning(Readings { tick: &tick }, Stamp { uptime, unix })
            };
            assert_eq!(warning(101), None, "{unix}");
            let late = warning(160);
            assert_eq!(late.as_deref(), Some("last push 1 min 5 s ago"), "{unix}");
        }
    }
}
