//! The JSON-RPC endpoint of the followed process, for other tasks than the poller.

use super::{Handle, RpcFacts, poller::address};
use crate::admin::{AdminFacts, PollTargetLookup};
use faultline_agave::PublicKey;
use faultline_core::{config, hub::Latest};
use faultline_kernel::ProcessId;
use hyper::Uri;
use std::sync::Arc;

pub struct Endpoint {
    url: Option<String>,
    target: PollTargetLookup,
    admin: Latest<AdminFacts>,
    pub(super) handle: Handle,
}

impl Endpoint {
    pub fn new(
        config: &config::Rpc,
        target: PollTargetLookup,
        admin: Latest<AdminFacts>,
        handle: Handle,
    ) -> Endpoint {
        Endpoint {
            url: config.url.clone(),
            target,
            admin,
            handle,
        }
    }

    /// `None` before JSON-RPC first responded to the poller, so a validator's start is no failure.
    pub fn current(&self) -> Option<(ProcessId, Uri)> {
        let target = (self.target)()?;
        let facts = self
            .handle
            .facts()
            .filter(|facts| facts.process == target.process)?;
        facts.slot_at?;
        let url = address(self.url.as_deref(), &target, self.admin.get().as_deref()).ok()?;
        Some((target.process, url))
    }

    pub fn identity(&self, process: ProcessId) -> Option<PublicKey> {
        super::identity_of(
            process,
            self.handle.facts().as_deref(),
            self.admin.get().as_deref(),
        )
    }

    pub fn vote_account(&self, process: ProcessId) -> Option<PublicKey> {
        let target = (self.target)().filter(|target| target.process == process);
        target?.vote_account
    }

    pub fn facts(&self, process: ProcessId) -> Option<Arc<RpcFacts>> {
        self.handle.facts().filter(|facts| facts.process == process)
    }

    pub fn version(&self, process: ProcessId) -> Option<faultline_agave::rpc::NodeVersion> {
        self.facts(process)?.version.clone()
    }
}
