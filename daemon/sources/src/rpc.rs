//! JSON-RPC: slots, health, identity, version and transaction count.
//!
//! Each poll posts one batch, not on the tick's thread. The tick exports the result and its age.
//! JSON-RPC opens at the end of a validator's start: until then, a refused connection is no error.

mod cache;
mod client;
mod poller;
mod probe;

pub use client::{Client, Failure, Readiness};
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
    Problem, Reading, ReadingList, Source, Stamp,
    metrics::validator::{BANK_TRANSACTIONS, HEALTHY, TRANSACTIONS},
};
use hyper::Uri;
use parking_lot::Mutex;
use poller::endpoint_url;
use std::{collections::VecDeque, sync::Arc};

pub(super) const MAX_DNS_LOOKUPS: usize = 4;

/// Each poll publishes a new value. Slots, health and transactions expire after two polls and 1 s
/// without renewal; identity and version after three of their own, rarer polls, at least 10 s.
#[derive(Debug)]
pub struct RpcFacts {
    pub process: ProcessId,
    pub polled_at: Stamp,
    /// Of the processed bank: its slot is the processed slot.
    pub epoch_info: Option<EpochInfo>,
    /// The newest optimistically confirmed slot.
    pub confirmed: Option<u64>,
    /// The newest rooted slot.
    pub finalized: Option<u64>,
    pub health: Option<Health>,
    /// The highest slot with stored shreds. `None` without `--full-rpc-api`, and on a node that has
    /// received no shred.
    pub max_shred_slot: Option<u64>,
    /// `max_shred_slot` minus the processed slot of the same batch. 0 if the processed slot is
    /// higher, as on a leader.
    pub slots_behind: Option<u64>,
    /// The last response with a processed slot in this process's lifetime, however old.
    pub processed_slot_received_at: Option<Stamp>,
    /// The last response with `slots_behind`, however old.
    pub slots_behind_received_at: Option<Stamp>,
    pub identity: Option<PublicKey>,
    pub version: Option<NodeVersion>,
    pub problems: Vec<Problem>,
    /// The last poll returned the processed bank.
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

    /// Exports the probe's metrics, `agave_transactions_total` from the first count to the daemon's
    /// end, and `agave_bank_transactions` and `agave_healthy` of `process`.
    pub fn readings(&self, process: Option<ProcessId>, out: &mut Vec<Reading>) {
        if let Some(counters) = &*self.probe.lock() {
            counters.readings(out);
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

/// Maximum number of processes whose count is kept. An older process starts with a new first count.
const MAX_PROCESSES: usize = 16;

/// Sums the growth of the validator's own transaction count over its processes.
///
/// The count belongs to a bank. It falls at a fork switch, and starts elsewhere after a restart
/// from a snapshot. So only the excess over the process's highest count is added, and a process's
/// first count adds nothing. Transactions between a process's end and the next one's first response
/// are missing.
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

/// JSON-RPC endpoint and known facts of the followed process, for the other pollers.
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
    ) -> Endpoint {
        Endpoint {
            url: config.url.clone(),
            current_target,
            admin,
            handle,
        }
    }

    /// `None` before JSON-RPC first responded to the poller: a validator's start is no failure.
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

struct RpcSampler {
    handle: Handle,
    last_reported_poll: Option<Stamp>,
}

impl Sampler for RpcSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.process();
        self.handle.readings(process, &mut output.readings);
        if let Some(facts) = self.handle.facts_of(process) {
            output.report_poll(
                &mut self.last_reported_poll,
                facts.polled_at,
                facts.up,
                &facts.problems,
            );
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
    registry.add_sampler(
        Source::Rpc,
        RpcSampler {
            handle: handle.clone(),
            last_reported_poll: None,
        },
    );
    handle
}

#[cfg(test)]
mod tests;
