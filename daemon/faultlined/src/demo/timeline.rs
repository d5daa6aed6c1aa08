//! The demo's timeline, as pure functions of its uptime. It starts for 8 s and is then 450 slots
//! behind. It replays at four times the recorded speed until it reaches the tip 30 s later, then at
//! the recorded speed.

use super::{
    CONSENSUS, IDENTITY,
    recording::{FIRST_SLOT, RECORDING_LENGTH, Recording, SLOT_TIME},
};
use faultline_mock_validator::NodeState;
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};

const FIRST_TRANSACTION_COUNT: u64 = 50_000_000;

const START_STEP_TIME: Duration = Duration::from_secs(2);
/// JSON-RPC opens and slots advance from here.
pub const RUNNING: Duration = Duration::from_secs(8);
const CATCH_UP: Duration = Duration::from_secs(30);
const CATCH_UP_SPEED: u32 = 4;

/// `started` is Unix time.
pub fn node_state(
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
        transactions: FIRST_TRANSACTION_COUNT + transactions,
        voters: 6,
    }
}

fn progress(uptime: Duration) -> Value {
    match uptime.as_secs() / START_STEP_TIME.as_secs() {
        0 => json!("SearchingForRpcService"),
        1 => {
            json!({"DownloadingSnapshot": {"slot": FIRST_SLOT - 100, "rpc_addr": "192.0.2.1:8899"}})
        }
        2 => json!("LoadingLedger"),
        3 => json!({"ProcessingLedger": {"slot": FIRST_SLOT - 1, "max_slot": FIRST_SLOT - 1}}),
        _ => json!("Running"),
    }
}

/// The uptime to start with at the tip, anywhere in the recording, so that runs differ as the load
/// does.
pub fn tip_start(unix: Duration) -> Duration {
    let position = unix.as_nanos() % RECORDING_LENGTH.as_nanos();
    RUNNING + CATCH_UP + Duration::from_nanos(u64::try_from(position).unwrap_or(0))
}

/// Replay position in the repeated recording.
pub fn replayed(uptime: Duration) -> Duration {
    let running = uptime.saturating_sub(RUNNING);
    running + running.min(CATCH_UP) * (CATCH_UP_SPEED - 1)
}

pub fn tip(uptime: Duration) -> Duration {
    uptime.saturating_sub(RUNNING) + CATCH_UP * (CATCH_UP_SPEED - 1)
}

pub fn uptime_at_replay(position: Duration) -> Duration {
    let catch_up = (position / CATCH_UP_SPEED).min(CATCH_UP);
    RUNNING + catch_up + position.saturating_sub(catch_up * CATCH_UP_SPEED)
}

pub fn uptime_at_tip(position: Duration) -> Duration {
    RUNNING + position.saturating_sub(CATCH_UP * (CATCH_UP_SPEED - 1))
}

/// The uptime of the next push. Pushes are 10 s apart, as a validator's. Before the tip they are
/// 2 s apart, so that a viewer need not wait.
pub fn next_push(uptime: Duration) -> Duration {
    let period = if uptime < RUNNING + CATCH_UP {
        Duration::from_secs(2)
    } else {
        Duration::from_secs(10)
    };
    uptime + period
}

#[cfg(test)]
mod tests;
