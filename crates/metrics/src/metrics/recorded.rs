//! Metrics that are recorded and not exported. A report derives the validator's phases from them.

use crate::{Kind, Metric, Unit};

pub static PHASE_EVIDENCE: Metric = Metric {
    name: "agave_phase_evidence",
    kind: Kind::Gauge,
    unit: Unit::Count,
    label_names: &["of"],
    help: "The inputs of the phase: the validator's slot and the tip, each only at ticks with a new report of it, and whether the process was stopped or frozen.",
    origin: "JSON-RPC, pushes, state of /proc/PID/stat, frozen of cgroup.events",
    datapoints: &[],
};
