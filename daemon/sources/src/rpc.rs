//! JSON-RPC: slots, health, identity, version and transaction count.
//!
//! Each poll is one POST of one batch, not on the tick's thread. The tick exports the result with
//! its age. JSON-RPC opens at the end of a validator's start: a refused connection before is no
//! error.

mod cache;
mod client;
mod endpoint;
mod poller;
mod probe;
mod transactions;

pub use client::{Client, Failure, Readiness};
pub use endpoint::Endpoint;
pub use poller::{Poller, connect_address, server};
pub use probe::Probe;
pub use transactions::TransactionCounter;

use super::{
    Registry,
    admin::{AdminFacts, target_lookup},
};
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_agave::{
    PublicKey,
    rpc::{EpochInfo, Health, NodeVersion},
};
use faultline_core::hub::Latest;
use faultline_kernel::ProcessId;
use faultline_metrics::{
    Problem, Reading, ReadingList, Source, Stamp,
    metrics::validator::{BANK_TRANSACTIONS, HEALTHY, TRANSACTIONS},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

pub(super) const MAX_BLOCKING_CALLS: usize = 4;

/// Each poll publishes a new value. Slots, health and transactions expire after two polls
/// without renewal. Identity and version expire after three of their polls and 10 s.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcFacts {
    pub process: ProcessId,
    pub at: Stamp,
    pub took: Duration,
    /// Of the processed bank: its slot is the processed slot.
    pub epoch_info: Option<EpochInfo>,
    /// The newest optimistically confirmed slot.
    pub confirmed: Option<u64>,
    /// The newest rooted slot.
    pub finalized: Option<u64>,
    pub health: Option<Health>,
    /// The highest slot with stored shreds. `None` without `--full-rpc-api`, and on a node that has
    /// received no shred.
    pub max_shred: Option<u64>,
    /// `max_shred` minus the processed slot of the same batch. 0 if the processed slot is higher,
    /// as on a leader.
    pub slots_behind: Option<u64>,
    /// The last response with a processed slot in this process's lifetime, however old.
    pub slot_at: Option<Stamp>,
    /// The last response with `slots_behind`, however old.
    pub distance_at: Option<Stamp>,
    pub identity: Option<PublicKey>,
    pub version: Option<NodeVersion>,
    pub problems: Vec<Problem>,
    /// The last poll returned the processed bank.
    pub up: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Handle {
    facts: Latest<RpcFacts>,
    transactions: Arc<Mutex<TransactionCounter>>,
    probe: Arc<Mutex<Option<probe::ProbeCounters>>>,
}

impl Handle {
    pub fn facts(&self) -> Option<Arc<RpcFacts>> {
        self.facts.get()
    }

    /// Exports `agave_transactions_total` from the first response to the daemon's end.
    /// `agave_bank_transactions` and `agave_healthy` are of `process`, the current one. Also
    /// exports the probe's metrics.
    pub fn readings(&self, process: Option<ProcessId>, out: &mut Vec<Reading>) {
        self.with_probe_counters(|counters| {
            counters.iter().for_each(|counters| counters.readings(out))
        });
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

    fn with_probe_counters(&self, change: impl FnOnce(&mut Option<probe::ProbeCounters>)) {
        change(&mut self.probe.lock());
    }

    fn count(&self, process: ProcessId, transactions: u64) {
        self.transactions.lock().record(process, transactions);
    }
}

/// The identity of `process`. The admin socket has priority over JSON-RPC, whose URL may lead to
/// another node. Ignores facts of other processes.
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

struct Rpc {
    handle: Handle,
    /// Arrival of the response that was reported last.
    last_reported: Option<Stamp>,
}

impl Poll for Rpc {
    fn source(&self) -> Source {
        Source::Rpc
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.target.map(|target| target.process);
        self.handle.readings(process, &mut output.readings);
        if let Some(facts) = self
            .handle
            .facts()
            .filter(|facts| Some(facts.process) == process)
        {
            output.received(&mut self.last_reported, facts.at, facts.up, &facts.problems);
        }
        output
    }
}

pub(super) fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    admin: &Latest<AdminFacts>,
) -> Handle {
    let BuildContext { config, clock, .. } = *context;
    if !config.rpc.enabled {
        return Handle::default();
    }
    let lookup = target_lookup(context.following);
    let poller = Poller::new(&config.rpc, clock, lookup, admin.clone());
    let handle = poller.handle();
    registry.validator_poller(|stop| poller.run(stop));
    if config.probe.enabled {
        let lookup = target_lookup(context.following);
        let endpoint = Endpoint::new(&config.rpc, lookup, admin.clone(), handle.clone());
        let probe = Probe::new(&config.probe, clock, endpoint);
        registry.validator_poller(|stop| probe.run(stop));
    }
    registry.sampler(Rpc {
        handle: handle.clone(),
        last_reported: None,
    });
    handle
}

#[cfg(test)]
mod tests;
