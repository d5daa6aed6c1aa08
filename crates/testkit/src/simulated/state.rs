//! What the threads of a simulated validator share.

use super::{Truth, chain, points::PushLines};
use faultline_mock_validator::NodeState;
use serde_json::json;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

#[derive(Debug)]
pub struct State {
    pub identity: String,
    pub rpc_port: Option<u16>,
    pub started_unix: Duration,
    pub started_at: Instant,
    pub truth: Truth,
    pub lines: Mutex<PushLines>,
    pub running: AtomicBool,
    /// Since when its services run.
    pub running_since: OnceLock<Instant>,
    /// The file was read once, or there is none.
    pub is_file_read: AtomicBool,
    /// The file that is read repeatedly.
    pub accounts_file: PathBuf,
    pub slot: AtomicU64,
    pub transactions: AtomicU64,
}

impl State {
    /// State for answers at this moment.
    pub fn node_state(&self) -> NodeState {
        let (running, tip) = (self.running.load(Ordering::Relaxed), self.tip());
        let slots = self.truth.slots_per_second.max(1);
        NodeState {
            protocol: self.truth.consensus(),
            slot_time: Duration::from_millis(1000 / slots),
            identity: self.identity.clone(),
            rpc_address: self
                .rpc_port
                .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()),
            started: self.started_unix,
            is_running: running,
            progress: if running {
                json!("Running")
            } else {
                json!({"ProcessingLedger": {"slot": tip, "max_slot": tip}})
            },
            slot: self.slot.load(Ordering::Relaxed),
            tip,
            transactions: self.transactions.load(Ordering::Relaxed),
            voters: self.truth.voters,
        }
    }

    /// How long its services have been running; 0 before.
    pub fn running_for(&self) -> Duration {
        self.running_since
            .get()
            .map_or(Duration::ZERO, Instant::elapsed)
    }

    pub fn tip(&self) -> u64 {
        chain::tip(&self.truth, unix())
    }

    pub fn lines(&self) -> MutexGuard<'_, PushLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Now, since 1970.
pub fn unix() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
