//! The demo's timeline, as pure functions of its uptime. The validator takes 8 s to start. It is
//! then 90 s behind the tip, which is 450 slots of 200 ms. It replays at four times the recorded
//! speed for 30 s. Then it is at the tip, and replays at the recorded speed.

use super::{
    CONSENSUS, IDENTITY,
    recording::{DEMO_FIRST_SLOT, RECORDING_LENGTH, RecordedLines, SLOT_TIME, Track},
};
use faultline_metrics::Stamp;
use faultline_mock_validator::NodeState;
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};

const FIRST_TRANSACTION_COUNT: u64 = 50_000_000;

const START_STEP_TIME: Duration = Duration::from_secs(2);
/// JSON-RPC opens and slots advance from here.
pub const SERVICES_START: Duration = Duration::from_secs(8);
const CATCH_UP_TIME: Duration = Duration::from_secs(30);
const CATCH_UP_SPEED: u32 = 4;

/// `started` is Unix time.
pub fn node_state(
    recording: &RecordedLines,
    rpc_address: SocketAddr,
    started: Duration,
    uptime: Duration,
) -> NodeState {
    let (slot, transactions) = recording.newest_slot(replay_position(uptime));
    NodeState {
        protocol: CONSENSUS,
        slot_time: SLOT_TIME,
        identity: IDENTITY.to_owned(),
        rpc_address: Some(rpc_address.to_string()),
        started,
        is_running: uptime >= SERVICES_START,
        progress: progress(uptime),
        slot,
        tip: recording.newest_slot(tip_position(uptime)).0,
        transactions: FIRST_TRANSACTION_COUNT + transactions,
        voters: 6,
    }
}

fn progress(uptime: Duration) -> Value {
    match uptime.as_secs() / START_STEP_TIME.as_secs() {
        0 => json!("SearchingForRpcService"),
        1 => {
            json!({
                "DownloadingSnapshot": {"slot": DEMO_FIRST_SLOT - 100, "rpc_addr": "192.0.2.1:8899"}
            })
        }
        2 => json!("LoadingLedger"),
        3 => {
            json!({
                "ProcessingLedger": {"slot": DEMO_FIRST_SLOT - 1, "max_slot": DEMO_FIRST_SLOT - 1}
            })
        }
        _ => json!("Running"),
    }
}

/// The uptime with which a demo begins if it begins at the tip. It depends on the time, so that
/// runs begin at different positions of the recording.
pub fn initial_uptime_at_tip(unix: Duration) -> Duration {
    SERVICES_START
        + CATCH_UP_TIME
        + Duration::from_nanos(
            u64::try_from(unix.as_nanos() % RECORDING_LENGTH.as_nanos()).unwrap_or(0),
        )
}

pub fn replay_position(uptime: Duration) -> Duration {
    let running = uptime.saturating_sub(SERVICES_START);
    running + running.min(CATCH_UP_TIME) * (CATCH_UP_SPEED - 1)
}

pub fn tip_position(uptime: Duration) -> Duration {
    uptime.saturating_sub(SERVICES_START) + CATCH_UP_TIME * (CATCH_UP_SPEED - 1)
}

pub fn uptime_at_replay_position(position: Duration) -> Duration {
    let catch_up = (position / CATCH_UP_SPEED).min(CATCH_UP_TIME);
    SERVICES_START + catch_up + position.saturating_sub(catch_up * CATCH_UP_SPEED)
}

pub fn uptime_at_tip_position(position: Duration) -> Duration {
    SERVICES_START + position.saturating_sub(CATCH_UP_TIME * (CATCH_UP_SPEED - 1))
}

/// The uptime of the next push. Pushes are 10 s apart, as a validator's. Before the tip they are
/// 2 s apart, so that a viewer need not wait.
pub fn next_push_uptime(uptime: Duration) -> Duration {
    let period = if uptime < SERVICES_START + CATCH_UP_TIME {
        Duration::from_secs(2)
    } else {
        Duration::from_secs(10)
    };
    uptime + period
}

pub struct RecordedPushes {
    recording: Arc<RecordedLines>,
    /// Uptime of the last push.
    pushed_at: Duration,
}

impl RecordedPushes {
    pub fn new(recording: Arc<RecordedLines>, pushed_at: Duration) -> Self {
        Self {
            recording,
            pushed_at,
        }
    }

    /// The lines since the last push, in time order. The last line is `metrics`, which ends
    /// each push of a validator.
    pub fn next_body(&mut self, now: Stamp) -> String {
        let last_push = std::mem::replace(&mut self.pushed_at, now.uptime);
        let mut lines = Vec::new();
        if last_push < SERVICES_START && now.uptime >= SERVICES_START {
            lines.push((SERVICES_START, validator_new_line()));
        }
        type TimeMapping = fn(Duration) -> Duration;
        let tracks: [(Track, TimeMapping, TimeMapping); 2] = [
            (Track::Validator, replay_position, uptime_at_replay_position),
            (Track::Cluster, tip_position, uptime_at_tip_position),
        ];
        for (track, position_at, uptime_at) in tracks {
            lines.extend(
                self.recording
                    .lines_between(track, position_at(last_push), position_at(now.uptime))
                    .into_iter()
                    .map(|(position, line)| (uptime_at(position), line)),
            );
        }
        lines.sort_by_key(|(uptime, _)| *uptime);
        let count = lines.len() + 1;
        let age = (now.uptime - last_push).as_secs();
        lines.push((
            now.uptime,
            format!(
                "metrics,host_id={IDENTITY} points_written={count}i,num_points={count}i,points_lost=0i,\
                 points_buffered=0i,secs_since_last_write={age}i"
            ),
        ));
        let mut body = String::new();
        for (uptime, line) in lines {
            let time = now
                .unix
                .saturating_sub(now.uptime.saturating_sub(uptime))
                .as_nanos();
            body.push_str(&format!("{line} {time}\n"));
        }
        body
    }
}

fn validator_new_line() -> String {
    let elapsed = SERVICES_START.as_millis();
    let version = CONSENSUS.agave_version();
    format!(
        "validator-new,host_id={IDENTITY} id=\"{IDENTITY}\",version=\"{version} (faultline demo)\",cluster_type=3i,\
         elapsed_ms={elapsed}i,waited_for_supermajority=false,shred_version=1i"
    )
}

#[cfg(test)]
mod tests;
