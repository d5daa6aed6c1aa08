use faultline_agave::consensus::Evidence;
use faultline_agave::rpc::FeatureGate;
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationEvidence {
    pub(super) certificate: Option<u64>,
    pub(super) gate: Option<FeatureGate>,
    pub(super) has_marker: bool,
    /// The highest credits of an account in an epoch, and the slots of an epoch.
    pub(super) most_credits: Option<(u64, u64)>,
    pub(super) genesis_hash: Option<Arc<str>>,
}

impl MigrationEvidence {
    pub(crate) fn evidence(&self) -> Evidence<'_> {
        Evidence {
            certificate: self.certificate,
            gate: self.gate,
            has_marker: self.has_marker,
            most_credits: self.most_credits,
            genesis_hash: self.genesis_hash.as_deref(),
            ..Evidence::default()
        }
    }
}
