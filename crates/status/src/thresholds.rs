//! Thresholds of the alerts in `grafana/prometheus/rules`. A test compares them.

pub const OOM_AHEAD_SHARE: f64 = 0.95;

/// Growing memory raises the alert only above this share of the limit.
pub const OOM_AHEAD_GROWING_SHARE: f64 = 0.8;
pub const OOM_AHEAD_PRESENT_PACE_SECONDS: f64 = 900.0;
pub const OOM_AHEAD_HALF_HOUR_PACE_SECONDS: f64 = 7200.0;
pub const SWAP_BYTES: f64 = 67_108_864.0;
pub const MEMORY_STALLED_SHARE: f64 = 0.1;
pub const MAJOR_FAULTS_PER_SECOND: f64 = 1000.0;

pub const RELOADS_PER_SLOT: f64 = 5.0;

pub const VOTE_DISTANCE: f64 = 30.0;

/// From this distance on, votes are late.
pub const LATE_CERTIFIED_VOTE_DISTANCE: f64 = 6.0;
pub const LATE_VOTES_SHARE: f64 = 0.5;
pub const BALANCE_SOL: f64 = 0.1;
pub const SKIPPED_SHARE: f64 = 0.1;
pub const SKIPPED_SLOTS: f64 = 3.5;
pub const SKIPPED_TIMES_CLUSTER: f64 = 2.0;
