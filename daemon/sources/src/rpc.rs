//! JSON-RPC: slots, health, identity, version and transaction count.
//!
//! Each poll posts one batch, not on the tick's thread. JSON-RPC opens at the end of a validator's
//! start: until then, a refused connection is no error. The probe measures the response time of a
//! configured request.

mod cache;
mod client;
mod poller;
mod probe;

pub use client::{Client, Failure, Readiness};
pub(crate) use poller::endpoint_url;
pub use poller::{Poller, connect_address, url_origin};
pub use probe::Probe;

use crate::{
    Registry,
    admin::{AdminFacts, TargetLookup, target_lookup},
    tick::{BuildContext, SampleContext, Sampler, SourceOutput},
};
use faultline_agave::{
    PublicKey,
    rpc::{EpochInfo, Health, NodeVersion},
};
use faultline_core::{config, publish::Latest};
use faultline_kernel::ProcessId;
use faultline_metrics::{
    AddReadings, Problem, Reading, Source, Stamp,
    metrics::validator::{BANK_TRANSACTIONS, HEALTHY, TRANSACTIONS},
};
use hyper::Uri;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// Concurrent blocking calls of the thread `rpc`: lookups of host names in URLs.
pub(super) const MAX_DNS_LOOKUPS: usize = 4;

/// Each poll publishes a new value. Slots, health and transactions expire two poll intervals plus 1
/// s after their response. Identity and version are also requested after every fifth answered poll.
/// They expire 15 poll intervals after their response, but not before 10 s.
#[derive(Debug)]
pub struct RpcFacts {
    pub process: ProcessId,
    pub polled_at: Stamp,
    /// Of the processed bank: its slot is the processed slot.
    pub epoch_info: Option<EpochInfo>,
    /// The newest optimistically confirmed slot.
    pub confirmed: Option<u64>,
    pub finalized: Option<u64>,
    pub health: Option<Health>,
    /// The highest slot with stored shreds. `None` without `--full-rpc-api`, and on a node that has
    /// received no shred.
    pub max_shred_slot: Option<u64>,
    /// `max_shred_slot` minus the processed slot of the same batch. 0 if the processed slot is
    /// higher, as on a leader.
    pub slots_behind: Option<u64>,
    /// The last response with a processed slot, however old.
    pub processed_slot_received_at: Option<Stamp>,
    /// The last response with `slots_behind`, however old.
    pub slots_behind_received_at: Option<Stamp>,
    pub identity: Option<PublicKey>,
    pub version: Option<NodeVersion>,
    pub problems: Vec<Problem>,
    /// The last poll returned `epoch_info`.
    pub up: bool,
}

/// What the poller and the probe publish. Clones share it.
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

    pub(crate) fn facts_of(&self, process: Option<ProcessId>) -> Option<Arc<RpcFacts>> {
        self.facts().filter(|facts| Some(facts.process) == process)
    }

    /// From the first count to the end of the daemon, exports `agave_transactions_total`. Exports
    /// `agave_bank_transactions` and `agave_healthy` only if the facts are of `process`.
    pub fn add_readings(&self, process: Option<ProcessId>, out: &mut Vec<Reading>) {
        if let Some(counters) = &*self.probe.lock() {
            counters.add_readings(out);
        }
        out.integer(&TRANSACTIONS, [], self.transactions.lock().total);
        let Some(facts) = self.facts_of(process) else {
            return;
        };
        let count = facts.epoch_info.and_then(|info| info.transaction_count);
        out.integer(&BANK_TRANSACTIONS, [], count);
        let health = facts.health.as_ref().and_then(Health::is_healthy);
        out.flag(&HEALTHY, [], health);
    }
}

/// Processes with a stored count. The oldest is dropped: if it is followed again, its next count is
/// a first count.
const MAX_PROCESSES: usize = 16;

/// Sums the growth of the validator's own transaction count over its processes.
/// The count belongs to a bank. It falls at a fork switch, and starts at another value after a
/// restart from a snapshot. So only the excess over the highest count of the process is added, and
/// the first count of a process adds nothing. Transactions between the end of a process and the
/// first response of the next one are missing.
#[derive(Debug, Clone, Default)]
struct TransactionCounter {
    /// Transactions since the first count. `None` before that count, 0 with it. Never falls.
    total: Option<u64>,
    highest_counts: VecDeque<(ProcessId, u64)>,
}

impl TransactionCounter {
    fn record(&mut self, process: ProcessId, count: u64) {
        let mut growth = 0;
        if let Some((_, highest)) = self
            .highest_counts
            .iter_mut()
            .find(|(known, _)| *known == process)
        {
            growth = count.saturating_sub(*highest);
            *highest += growth;
        } else {
            self.highest_counts.push_back((process, count));
            if self.highest_counts.len() > MAX_PROCESSES {
                self.highest_counts.pop_front();
            }
        }
        self.total = Some(self.total.unwrap_or(0).saturating_add(growth));
    }
}

/// JSON-RPC of the followed process, for the probe and for the poller of votes.
pub struct Endpoint {
    url: Option<String>,
    current_target: TargetLookup,
    admin: Latest<AdminFacts>,
    handle: Handle,
}

impl Endpoint {
    pub fn new(
        config: &config::Rpc,
        current_target: TargetLookup,
        admin: Latest<AdminFacts>,
        handle: Handle,
    ) -> Self {
        Self {
            url: config.url.clone(),
            current_target,
            admin,
            handle,
        }
    }

    /// `None` until JSON-RPC has responded to its poller: a request during the start of a validator
    /// would fail.
    pub fn current(&self) -> Option<(ProcessId, Uri)> {
        let target = (self.current_target)()?;
        self.rpc_facts(target.process)?.processed_slot_received_at?;
        let url = endpoint_url(self.url.as_deref(), &target, self.admin.get().as_deref()).ok()?;
        Some((target.process, url))
    }

    pub fn identity(&self, process: ProcessId) -> Option<PublicKey> {
        let rpc = self.handle.facts();
        identity_of(process, rpc.as_deref(), self.admin.get().as_deref())
    }

    pub fn vote_account(&self, process: ProcessId) -> Option<PublicKey> {
        let target = (self.current_target)().filter(|target| target.process == process);
        target?.validator.as_ref()?.vote_account
    }

    pub fn rpc_facts(&self, process: ProcessId) -> Option<Arc<RpcFacts>> {
        self.handle.facts_of(Some(process))
    }
}

/// The admin socket has priority over JSON-RPC, whose URL may lead to another node. Ignores facts
/// of other processes.
pub fn identity_of(
    process: ProcessId,
    rpc: Option<&RpcFacts>,
    admin: Option<&AdminFacts>,
) -> Option<PublicKey> {
    let by_rpc = || rpc.filter(|facts| facts.process == process)?.identity;
    admin
        .filter(|facts| facts.process == process)
        .and_then(|facts| facts.identity)
        .or_else(by_rpc)
}

struct RpcSampler(Handle);

impl Sampler for RpcSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.process();
        self.0.add_readings(process, &mut output.readings);
        if let Some(facts) = self.0.facts_of(process) {
            output.report_poll(facts.polled_at, facts.up, &facts.problems);
        }
        output
    }
}

pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    admin: &Latest<AdminFacts>,
) -> Handle {
    let BuildContext { config, clock, .. } = *context;
    if !config.rpc.enabled {
        return Handle::default();
    }
    let lookup = target_lookup(context.target_handle);
    let poller = Poller::new(&config.rpc, clock, lookup, admin.clone());
    let handle = poller.handle.clone();
    registry.add_validator_poller(|stop| poller.run(stop));
    if config.probe.enabled {
        let lookup = target_lookup(context.target_handle);
        let endpoint = Endpoint::new(&config.rpc, lookup, admin.clone(), handle.clone());
        let probe = Probe::new(&config.probe, clock, endpoint);
        registry.add_validator_poller(|stop| probe.run(stop));
    }
    registry.add_sampler(Source::Rpc, RpcSampler(handle.clone()));
    handle
}

#[cfg(test)]
mod tests;
