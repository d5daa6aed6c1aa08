//! What happens when: functions of the time since the stand-in's start, and nothing else.
//!
//! It starts up for 8 s, is then 450 slots behind, plays the recording four times as fast until it is at the tip, 30 s
//! later, and as fast as it was recorded from then on.

use super::recording::{FIRST_SLOT, Recording, SLOT_TIME};
use super::{CONSENSUS, IDENTITY};
use faultline_mock_validator::NodeState;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Transactions since genesis, at the start.
const TRANSACTIONS: u64 = 50_000_000;

/// How long each state of the start lasts.
const STATE: Duration = Duration::from_secs(2);
/// When services run: JSON-RPC opens, slots move.
pub(super) const RUNNING: Duration = Duration::from_secs(8);
/// How long it catches up after that.
const CATCH_UP: Duration = Duration::from_secs(30);
/// How much faster than recorded it replays meanwhile.
const HASTE: u32 = 4;

/// What the stand-in that began at `started`, since 1970, answers from.
pub(super) fn node_state(
    recording: &Recording,
    rpc_address: SocketAddr,
    started: Duration,
    uptime: Duration,
) -> NodeState {
    let (slot, transactions) = recording.newest(replayed(uptime));
    NodeState {
        consensus: CONSENSUS,
        slot_time: SLOT_TIME,
        identity: IDENTITY.to_owned(),
        rpc_address: Some(rpc_address.to_string()),
        started,
        running: uptime >= RUNNING,
        progress: progress(uptime),
        slot,
        tip: recording.newest(tip(uptime)).0,
        transactions: TRANSACTIONS + transactions,
        voters: 6,
    }
}

/// The result of `startProgress`.
fn progress(uptime: Duration) -> Value {
    match uptime.as_secs() / STATE.as_secs() {
        0 => json!("SearchingForRpcService"),
        1 => {
            json!({"DownloadingSnapshot": {"slot": FIRST_SLOT - 100, "rpc_addr": "192.0.2.1:8899"}})
        }
        2 => json!("LoadingLedger"),
        3 => json!({"ProcessingLedger": {"slot": FIRST_SLOT - 1, "max_slot": FIRST_SLOT - 1}}),
        _ => json!("Running"),
    }
}

/// How far the stand-in has replayed, as a position in the endlessly repeated recording.
pub(super) fn replayed(uptime: Duration) -> Duration {
    let running = uptime.saturating_sub(RUNNING);
    running + running.min(CATCH_UP) * (HASTE - 1)
}

/// How far the cluster is.
pub(super) fn tip(uptime: Duration) -> Duration {
    uptime.saturating_sub(RUNNING) + CATCH_UP * (HASTE - 1)
}

/// When [`replayed`] reaches a position.
pub(super) fn when_replayed(position: Duration) -> Duration {
    let hasty = (position / HASTE).min(CATCH_UP);
    RUNNING + hasty + position.saturating_sub(hasty * HASTE)
}

/// When [`tip`] reaches a position.
pub(super) fn when_tip(position: Duration) -> Duration {
    RUNNING + position.saturating_sub(CATCH_UP * (HASTE - 1))
}

/// When the push after one at `uptime` is due: every 10 s as a validator's, but every 2 s until it is at the tip, for
/// whoever sits before the screen.
pub(super) fn next_push(uptime: Duration) -> Duration {
    let period = if uptime < RUNNING + CATCH_UP {
        Duration::from_secs(2)
    } else {
        Duration::from_secs(10)
    };
    uptime + period
}

#[cfg(test)]
mod tests;
