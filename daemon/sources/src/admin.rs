//! The validator's admin socket: start progress, identity, JSON-RPC address and admission.
//!
//! The socket `<ledger>/admin.rpc` opens long before JSON-RPC. Only its owner and root may connect.
//! The poller uses the read-only methods of [`faultline_agave::admin`]. A response does not count
//! if another process serves the socket.

mod poller;
mod socket;

pub use poller::Poller;

use crate::{
    Registry,
    discovery::{Target, TargetHandle},
    tick::{BuildContext, SampleContext, Sampler, SourceOutput},
};
use faultline_agave::{
    PublicKey,
    admin::{AdmissionFailure, AdmissionStatus, StartProgress},
};
use faultline_core::{config::Config, publish::Latest};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp, metrics::votes as m};
use std::{net::SocketAddr, sync::Arc};

/// Called at every poll on the runtime, so it must not block.
pub type TargetLookup = Box<dyn Fn() -> Option<Arc<Target>> + Send + Sync>;

/// Finds only validators.
pub fn target_lookup(target_handle: &TargetHandle) -> TargetLookup {
    let target_handle = target_handle.clone();
    Box::new(move || {
        target_handle
            .current()
            .filter(|target| target.validator.is_some())
    })
}

/// Each poll publishes a new value.
pub struct AdminFacts {
    /// Facts of another process than the followed one are out of date.
    pub process: ProcessId,
    pub polled_at: Stamp,
    /// `None` before the first response, and if it is older than both three polls and ten seconds.
    pub progress: Option<StartProgress>,
    /// Requested after the start. `None` like `progress`, and always with solana-test-validator.
    pub identity: Option<PublicKey>,
    /// The configured address, such as 0.0.0.0, requested once per process. `None` before that
    /// response, and for a validator without JSON-RPC.
    pub rpc_address: Option<SocketAddr>,
    /// Requested every minute after the start. `None` like `progress`, and with a version that does
    /// not report it.
    pub admission: Option<AdmissionStatus>,
    pub problems: Vec<Problem>,
    /// The last poll got the start progress. Later requests of that poll may have failed.
    pub up: bool,
}

impl AdminFacts {
    /// Exports `agave_admitted`: whether the vote account may vote and lead. Absent for a node
    /// without a voting key, and while the node reports that the feature of the validator admission
    /// ticket (VAT) is not active.
    fn add_readings(&self, output: &mut SourceOutput) {
        let Some(status) = &self.admission else {
            return;
        };
        if !status.voting_enabled || status.vat_active == Some(false) {
            return;
        }
        // The check at the start of the next epoch decides about the epoch after that one.
        let would_pass_next_check = status.next_epoch_vat_failure_reason.is_none();
        output.flag(&m::ADMITTED, ["this_epoch"], status.in_current_epoch_vat);
        output.flag(&m::ADMITTED, ["epoch_after_next"], would_pass_next_check);
    }

    /// Lamports that the vote account lacks for the next check of the ticket. `None` if not
    /// reported.
    pub fn admission_shortfall(&self) -> Option<u64> {
        match self.admission.as_ref()?.next_epoch_vat_failure_reason {
            None => Some(0),
            Some(AdmissionFailure::InsufficientLamports { balance, needed }) => {
                Some(needed.saturating_sub(balance))
            }
            Some(_) => None,
        }
    }
}

struct AdminSampler(Latest<AdminFacts>);

impl Sampler for AdminSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.process();
        if let Some(facts) = { self.0.get() }.filter(|facts| Some(facts.process) == process) {
            facts.add_readings(&mut output);
            output.report_poll(facts.polled_at, facts.up, &facts.problems);
        }
        output
    }
}

pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    facts: &Latest<AdminFacts>,
    latest_config: Latest<Config>,
) {
    let config = &context.config.admin;
    if !config.enabled {
        return;
    }
    let lookup = target_lookup(context.target_handle);
    let mut poller = Poller::new(config, context.clock, lookup, facts.clone());
    poller.latest_config = latest_config;
    registry.add_validator_poller(|stop| poller.run(stop));
    registry.add_sampler(Source::AdminRpc, AdminSampler(facts.clone()));
}

#[cfg(test)]
mod tests;
