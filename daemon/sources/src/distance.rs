//! The validator's distance to the tip, and the priority of its evidence: JSON-RPC, `getHealth`,
//! and slots that the validator pushes. ARCHITECTURE has the rule as a table.

use super::rpc::RpcFacts;
use faultline_datapoints::validator::slots::Slots;
use faultline_metrics::Stamp;
use std::time::Duration;

/// A validator pushes its slots every 10 s. A push of a busy validator is late.
pub(super) const PUSH_MAX_AGE: Duration = Duration::from_secs(25);

/// For this long after JSON-RPC last returned a slot or distance, no pushed one replaces it.
pub(super) const RPC_PRECEDENCE_TIME: Duration = Duration::from_secs(60);

/// The default of Agave's `--health-check-slot-distance`.
const MAX_NEAR_TIP_SLOTS: u64 = 128;

#[derive(Debug, Clone, Copy)]
pub struct DistanceEvidence {
    /// [`RpcFacts::slots_behind`]: `None` soon after JSON-RPC fails.
    pub(super) by_rpc: Option<u64>,
    /// A JSON-RPC response with a distance arrived within [`RPC_PRECEDENCE_TIME`].
    has_recent_rpc_distance: bool,
    /// The pushed distance, and whether it is proven that the validator itself pushed it.
    pushed: Option<(u64, bool)>,
    /// Whether the node reports itself healthy, and the maximum distance at which it does so.
    health: Option<(bool, u64)>,
}

impl DistanceEvidence {
    pub fn new(
        now: Stamp,
        rpc: Option<&RpcFacts>,
        pushed: Option<(Stamp, Slots)>,
        health_distance: u64,
    ) -> Self {
        let by_rpc_at = rpc.and_then(|facts| facts.slots_behind_received_at);
        let fresh = pushed.filter(|(at, _)| now.since(*at) < PUSH_MAX_AGE);
        let health = rpc.and_then(|facts| facts.health.as_ref()?.is_healthy());
        Self {
            by_rpc: rpc.and_then(|facts| facts.slots_behind),
            has_recent_rpc_distance: by_rpc_at
                .is_some_and(|at| now.since(at) < RPC_PRECEDENCE_TIME),
            pushed: fresh.and_then(|(_, slots)| Some((slots.behind()?, slots.is_proven))),
            health: health.map(|is_healthy| (is_healthy, health_distance)),
        }
    }

    /// The pushed distance. `getHealth` has priority over unproven pushes: any program may send
    /// them. Proven pushes have priority over `getHealth`, which may know an old state of the
    /// cluster.
    pub(super) fn trusted_push(&self) -> Option<u64> {
        let (behind, is_proven) = self.pushed?;
        let contradicts = |(healthy, limit): (bool, u64)| healthy != (behind <= limit);
        let is_trusted = is_proven || !self.health.is_some_and(contradicts);
        is_trusted.then_some(behind)
    }

    /// `None` without trusted evidence.
    pub fn slots_behind(&self) -> Option<u64> {
        let trusted_push = || {
            self.trusted_push()
                .filter(|_| !self.has_recent_rpc_distance)
        };
        self.by_rpc.or_else(trusted_push)
    }

    /// By the distance, else by `getHealth`; `None` if both are unknown.
    pub fn is_near_tip(&self) -> Option<bool> {
        let by_health = self.health.map(|(healthy, _)| healthy);
        self.slots_behind()
            .map(|slots| slots <= MAX_NEAR_TIP_SLOTS)
            .or(by_health)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_reliable_distance_source_wins() {
        let all = |by_rpc, pushed, healthy: Option<bool>| DistanceEvidence {
            by_rpc,
            has_recent_rpc_distance: by_rpc.is_some(),
            pushed,
            health: healthy.map(|healthy| (healthy, 128)),
        };
        let ok = Some(true);
        for (distance_evidence, behind, near) in [
            (all(Some(3), Some((2_500, true)), ok), Some(3), ok),
            (all(Some(300), Some((2, true)), ok), Some(300), Some(false)),
            (all(None, Some((2_500, true)), ok), Some(2_500), Some(false)),
            (all(None, Some((841, true)), ok), Some(841), Some(false)),
            (all(None, Some((2, true)), Some(false)), Some(2), ok),
            (all(None, Some((2_500, false)), ok), None, ok),
            (all(None, Some((100, false)), ok), Some(100), ok),
            (all(None, Some((2, false)), Some(false)), None, Some(false)),
            (
                all(None, Some((2_500, false)), Some(false)),
                Some(2_500),
                Some(false),
            ),
            (
                all(None, Some((2_500, false)), None),
                Some(2_500),
                Some(false),
            ),
            (all(None, None, Some(false)), None, Some(false)),
            (all(None, None, None), None, None),
        ] {
            assert_eq!(
                (
                    distance_evidence.slots_behind(),
                    distance_evidence.is_near_tip()
                ),
                (behind, near),
                "{distance_evidence:?}"
            );
        }
    }
}
