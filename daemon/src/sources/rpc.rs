//! JSON-RPC of the validator: slots, health, identity, version, and the count of transactions.
//!
//! One POST of one batch per poll, on the runtime and never on the tick's thread; the tick reads what came back, with its
//! age. JSON-RPC opens at the end of a validator's start: until then nobody listens, which is no fault.

mod client;
mod endpoint;
mod memory;
mod poller;
mod probe;
mod transactions;

pub(crate) use client::{Client, Failure, Stage};
pub use endpoint::Endpoint;
pub use poller::Poller;
pub(crate) use poller::{reachable, server};
pub use probe::Probe;
pub use transactions::TransactionCounter;

use super::admin::AdminFacts;
use crate::hub::Latest;
use faultline_agave::PublicKey;
use faultline_agave::rpc::{EpochInfo, Health, NodeVersion};
use faultline_catalog::metrics::validator::{BANK_TRANSACTIONS, HEALTHY, TRANSACTIONS};
use faultline_catalog::{Problem, Reading, ReadingList, Stamp};
use faultline_kernel::ProcessId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// What JSON-RPC has told. Never changes; the poller publishes a new one. Slots, health and the count of transactions that
/// two polls have not renewed are not here any more; identity and version live for three of their polls and 10 s.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcFacts {
    /// Of which process this is true. Facts of another process than the one followed now are out of date.
    pub process: ProcessId,
    /// When the last poll ended.
    pub at: Stamp,
    /// How long it took.
    pub took: Duration,
    /// Of the processed bank: its slot is the processed slot.
    pub epoch_info: Option<EpochInfo>,
    /// The newest optimistically confirmed slot.
    pub confirmed: Option<u64>,
    /// The newest rooted slot.
    pub finalized: Option<u64>,
    /// What the validator thinks of itself.
    pub health: Option<Health>,
    /// The highest slot with stored shreds. `None` without `--full-rpc-api`, and on a node that has received no shred.
    pub max_shred: Option<u64>,
    /// How far the processed slot is behind `max_shred`, both from one batch; 0 if it is ahead, as on a leader.
    pub slots_behind: Option<u64>,
    /// When the processed slot was answered last in this process's life, however long ago.
    pub slot_at: Option<Stamp>,
    /// The same of `slots_behind`.
    pub distance_at: Option<Stamp>,
    /// The identity; asked with every fifth poll.
    pub identity: Option<PublicKey>,
    /// The software's version; asked with every fifth poll.
    pub version: Option<NodeVersion>,
    /// What the last poll could not learn.
    pub problems: Vec<Problem>,
    /// Whether the last poll was told the processed bank.
    pub up: bool,
}

/// What the poller has found, for the tick. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Handle {
    facts: Latest<RpcFacts>,
    transactions: Arc<Mutex<TransactionCounter>>,
    probe: Arc<Mutex<Option<probe::Counted>>>,
}

impl Handle {
    /// The newest facts; `None` while nobody is followed.
    pub fn facts(&self) -> Option<Arc<RpcFacts>> {
        self.facts.get()
    }

    /// `agave_transactions_total`, from the first answer on and for as long as the daemon lives;
    /// `agave_bank_transactions` and `agave_healthy` of `process`, the one followed now; what the probe counted, if there is one.
    pub fn readings(&self, process: Option<ProcessId>, out: &mut Vec<Reading>) {
        self.count_probe(|counted| counted.iter().for_each(|counted| counted.readings(out)));
        let total = self.transactions.lock().total();
        out.counter(&TRANSACTIONS, [], total);
        let Some(facts) = self.facts().filter(|facts| Some(facts.process) == process) else {
            return;
        };
        let count = facts.epoch_info.and_then(|info| info.transaction_count);
        out.whole(&BANK_TRANSACTIONS, [], count);
        let health = facts.health.as_ref().and_then(Health::is_ok);
        out.flag(&HEALTHY, [], health);
    }

    fn publish(&self, facts: Option<RpcFacts>) {
        self.facts.set(facts.map(Arc::new));
    }

    fn count_probe(&self, how: impl FnOnce(&mut Option<probe::Counted>)) {
        how(&mut self.probe.lock());
    }

    fn count(&self, process: ProcessId, transactions: u64) {
        self.transactions.lock().see(process, transactions);
    }
}

/// The identity of `process`. The admin socket is believed before JSON-RPC, whose URL may lead to another node; facts of
/// other processes are not believed at all. `None` if neither tells.
pub fn identity_of(
    process: ProcessId,
    rpc: Option<&RpcFacts>,
    admin: Option<&AdminFacts>,
) -> Option<PublicKey> {
    let admin = admin.filter(|facts| facts.process == process);
    let rpc = rpc.filter(|facts| facts.process == process);
    admin
        .and_then(|facts| facts.identity)
        .or_else(|| rpc.and_then(|facts| facts.identity))
}

#[cfg(test)]
mod tests;
