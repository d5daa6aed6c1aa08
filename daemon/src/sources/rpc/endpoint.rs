//! Where the JSON-RPC of the followed process answers, for tasks that ask besides the poller.

use super::poller::address;
use super::{Handle, RpcFacts};
use crate::config;
use crate::hub::Latest;
use crate::sources::admin::{AdminFacts, WhomToAsk};
use faultline_agave::PublicKey;
use faultline_kernel::ProcessId;
use hyper::Uri;
use std::sync::Arc;

/// The JSON-RPC of the process that is followed, whichever that is at the moment.
pub struct Endpoint {
    url: Option<String>,
    asked: WhomToAsk,
    admin: Latest<AdminFacts>,
    pub(super) handle: Handle,
}

impl Endpoint {
    /// Where the poller with that handle asks.
    pub fn new(
        config: &config::Rpc,
        asked: WhomToAsk,
        admin: Latest<AdminFacts>,
        handle: Handle,
    ) -> Endpoint {
        Endpoint {
            url: config.url.clone(),
            asked,
            admin,
            handle,
        }
    }

    /// The process that is followed and where it answers; `None` before its JSON-RPC has answered the poller for the first
    /// time, so that a validator's start is no failure.
    pub(crate) fn current(&self) -> Option<(ProcessId, Uri)> {
        let asked = (self.asked)()?;
        let facts = self
            .handle
            .facts()
            .filter(|facts| facts.process == asked.process)?;
        facts.slot_at?;
        let url = address(self.url.as_deref(), &asked, self.admin.get().as_deref()).ok()?;
        Some((asked.process, url))
    }

    /// The identity of the process, if one of the other sources knows it.
    pub(crate) fn identity(&self, process: ProcessId) -> Option<PublicKey> {
        super::identity_of(
            process,
            self.handle.facts().as_deref(),
            self.admin.get().as_deref(),
        )
    }

    /// The vote account that the process was started with.
    pub(crate) fn vote_account(&self, process: ProcessId) -> Option<PublicKey> {
        let asked = (self.asked)().filter(|asked| asked.process == process);
        asked?.vote_account
    }

    /// What JSON-RPC of the process has answered.
    pub(crate) fn facts(&self, process: ProcessId) -> Option<Arc<RpcFacts>> {
        self.handle.facts().filter(|facts| facts.process == process)
    }

    /// What the process told of its software.
    pub(crate) fn version(&self, process: ProcessId) -> Option<faultline_agave::rpc::NodeVersion> {
        self.facts(process)?.version.clone()
    }
}
