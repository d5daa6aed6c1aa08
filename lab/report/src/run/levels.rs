use faultline_metrics::metrics::memory::{BINDING, LEVEL_INFO};
use faultline_recording::{Error, Recording, SeriesRow, TickRow};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct BindingLevel {
    /// The label `level`, as in `agave_memory_headroom_bytes`.
    pub level: String,
    /// The path of the cgroup, or the nodes; empty for the machine.
    pub path: String,
    /// Share of the ticks with a binding level.
    pub share: f64,
}

/// Most frequent first. Empty in recordings of older versions.
pub fn binding_levels(
    recording: &Recording,
    ticks: &[TickRow],
) -> Result<Vec<BindingLevel>, Error> {
    let mut info = recording.series_of(&LEVEL_INFO)?.into_iter().peekable();
    let mut changes = recording.series_of(&BINDING)?.into_iter().peekable();
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    let mut binds: BTreeMap<String, bool> = BTreeMap::new();
    let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
    for tick in ticks {
        while let Some(row) = info.next_if(|row| row.tick <= tick.id) {
            if row.value.is_some() {
                paths.insert(label(&row, "level"), label(&row, "path"));
            }
        }
        while let Some(change) = changes.next_if(|change| change.tick <= tick.id) {
            binds.insert(label(&change, "level"), change.value == Some(1.0));
        }
        if let Some((level, _)) = binds.iter().find(|(_, binds)| **binds) {
            let path = paths.get(level).cloned().unwrap_or_default();
            *counts.entry((level.clone(), path)).or_default() += 1;
        }
    }
    let all = f64::from(counts.values().sum::<u32>());
    let mut levels: Vec<BindingLevel> = counts
        .into_iter()
        .map(|((level, path), count)| BindingLevel {
            path,
            level,
            share: f64::from(count) / all,
        })
        .collect();
    levels.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(levels)
}

fn label(row: &SeriesRow, name: &str) -> String {
    serde_json::from_str::<Value>(&row.labels)
        .ok()
        .and_then(|labels| labels.get(name)?.as_str().map(str::to_owned))
        .unwrap_or_default()
}
