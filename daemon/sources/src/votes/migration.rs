use faultline_agave::consensus::Evidence;
use faultline_agave::rpc::FeatureGate;
use std::sync::Arc;

/// Evidence of the migration to Alpenglow from JSON-RPC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationEvidence {
    /// Slot of the genesis certificate.
    pub(super) certificate: Option<u64>,
    pub(super) gate: Option<FeatureGate>,
    pub(super) has_marker: bool,
    /// The highest credits that an account earned in an epoch, and the number of slots of an epoch.
    pub(super) max_credits: Option<(u64, u64)>,
    pub(super) genesis_hash: Option<Arc<str>>,
}

impl MigrationEvidence {
    pub(crate) fn evidence(&self) -> Evidence<'_> {
        Evidence {
            certificate: self.certificate,
            gate: self.gate,
            has_marker: self.has_marker,
            max_credits: self.max_credits,
            genesis_hash: self.genesis_hash.as_deref(),
            ..Evidence::default()
        }
    }
}
