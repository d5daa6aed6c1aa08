use super::{Findings, HostFacts};
use crate::plan::{Begin, Cluster, Kind, Plan};
use faultline_runner::record::recorder::DEFAULT_INTERVAL;
use faultline_text::counted;
use itertools::Itertools;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// One tick per second: 84 MiB in twelve hours (docs/PERFORMANCE.md), plus a margin.
const RECORDING_BYTES_PER_HOUR: u64 = 8 << 20;
/// A full and an incremental snapshot of mainnet-beta.
const DOWNLOADED_SNAPSHOT_BYTES: u64 = 100 << 30;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpaceNeed {
    pub folder: PathBuf,
    pub bytes: u64,
    /// The purpose, and how certain the number is.
    pub what: String,
    /// A lack is only a warning: the number is an estimate, or a run frees space first.
    pub rough: bool,
    pub free: Option<u64>,
}

pub fn needs(plan: &Plan, facts: &HostFacts) -> Vec<SpaceNeed> {
    let need = |folder: &Path, bytes: u64, what: String, rough: bool| SpaceNeed {
        folder: folder.to_owned(),
        bytes,
        what,
        rough,
        free: facts.folder(folder).free,
    };
    let runs = plan.runs() as u64;
    let interval = plan.recorder.interval.unwrap_or(DEFAULT_INTERVAL);
    let bytes_per_hour = RECORDING_BYTES_PER_HOUR as f64 / interval.as_secs_f64().max(0.1);
    let each = (bytes_per_hour * plan.stop.duration.as_secs_f64() / 3600.0) as u64;
    let runs_text = counted(runs as f64, "run");
    let mut needs = vec![need(
        &plan.folder,
        each.max(1 << 20).saturating_mul(runs),
        format!("recordings of {runs_text}; logs come on top"),
        false,
    )];
    let (bytes, what) = match (&plan.begin, &facts.snapshot_source) {
        (Begin::Restore { .. }, Some(Ok(bytes))) => (*bytes, "the kept snapshot, before each run"),
        (Begin::Download, _)
            if plan.workload.kind == Kind::Validator
                && plan.workload.cluster == Some(Cluster::MainnetBeta) =>
        {
            (
                DOWNLOADED_SNAPSHOT_BYTES,
                "a snapshot of mainnet-beta, roughly; accounts and ledger come on top",
            )
        }
        _ => return needs,
    };
    for lane in &plan.lanes {
        let folder = lane.snapshots.as_ref().unwrap_or(&lane.ledger);
        needs.push(need(folder, bytes, what.to_owned(), true));
    }
    needs
}

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let mut by_device: BTreeMap<u64, Vec<SpaceNeed>> = BTreeMap::new();
    for need in needs(plan, facts) {
        if let Some(device) = facts.folder(&need.folder).device {
            by_device.entry(device).or_default().push(need);
        }
    }
    for needs in by_device.values() {
        let sum = |with_rough: bool| {
            needs
                .iter()
                .filter(|need| with_rough || !need.rough)
                .map(|need| need.bytes)
                .fold(0, u64::saturating_add)
        };
        let (certain, all) = (sum(false), sum(true));
        let Some(free) = needs.iter().find_map(|need| need.free) else {
            continue;
        };
        let folders = needs.iter().map(|need| need.folder.display()).join(", ");
        let [certain_text, all_text, free_text] = [certain, all, free].map(faultline_text::bytes);
        if certain > free {
            findings.refuse(
                format!("{folders}: {certain_text} are needed, and {free_text} are free"),
                "free space, or use other disks",
            );
        } else if all > free {
            findings.warn(
                format!("{folders}: roughly {all_text} are needed, and {free_text} are free"),
                "free space, or use other disks; what a run clears beforehand counts as free",
            );
        }
    }
}
