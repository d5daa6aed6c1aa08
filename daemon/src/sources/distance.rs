//! How far the validator is behind the tip, and which witness is believed. ARCHITECTURE has the rule as a table.

use super::rpc::RpcFacts;
use crate::validator::slots::Slots;
use faultline_catalog::Stamp;
use std::time::Duration;

/// Slots of a push are believed for this long: pushes come every 10 s, and later from a busy validator.
pub(super) const PUSH_MAX_AGE: Duration = Duration::from_secs(25);

/// For this long after the last answer of JSON-RPC, pushes do not replace its values.
pub(super) const RPC_PRECEDENCE: Duration = Duration::from_secs(60);

/// As far behind as Agave's own default lets a node be and call itself healthy.
const NEAR_TIP: u64 = 128;

/// What the sources tell of the distance to the tip.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Witnesses {
    /// Both slots in one answer of JSON-RPC.
    measured: Option<u64>,
    /// Whether JSON-RPC measured it lately.
    is_measured: bool,
    /// The distance that pushes tell, and whether they are proven to be the validator's own.
    pushed: Option<(u64, bool)>,
    /// What the validator thinks of itself, and up to which distance it calls itself healthy.
    health: Option<(bool, u64)>,
}

impl Witnesses {
    /// What JSON-RPC and pushes of one process tell at `now`.
    pub(crate) fn new(
        now: Stamp,
        rpc: Option<&RpcFacts>,
        pushed: Option<(Stamp, Slots)>,
        health_distance: u64,
    ) -> Self {
        let measured_at = rpc.and_then(|facts| facts.distance_at);
        let fresh = pushed.filter(|(at, _)| now.since(*at) < PUSH_MAX_AGE);
        let health = rpc.and_then(|facts| facts.health.as_ref()?.is_ok());
        Witnesses {
            measured: rpc.and_then(|facts| facts.slots_behind),
            is_measured: measured_at.is_some_and(|at| now.since(at) < RPC_PRECEDENCE),
            pushed: fresh.and_then(|(_, slots)| Some((slots.behind()?, slots.is_proven))),
            health: health.map(|is_ok| (is_ok, health_distance)),
        }
    }

    /// Without what JSON-RPC measured, if the tip that it measured against is old.
    pub(super) fn with_fresh_tip(self, is_fresh: bool) -> Self {
        Witnesses {
            measured: self.measured.filter(|_| is_fresh),
            ..self
        }
    }

    /// The distance that pushes tell, if it is believed. `getHealth` outranks pushes that anybody may have written; it
    /// compares with what the node last stored of the cluster, so that it is outranked by the validator's own pushes.
    pub(super) fn by_pushes(&self) -> Option<u64> {
        let (behind, is_proven) = self.pushed?;
        let contradicts = |(healthy, limit): (bool, u64)| healthy != (behind <= limit);
        let is_believed = is_proven || !self.health.is_some_and(contradicts);
        is_believed.then_some(behind)
    }

    /// Slots behind the tip; `None` if no witness is believed.
    pub(crate) fn behind(&self) -> Option<u64> {
        let by_pushes = || self.by_pushes().filter(|_| !self.is_measured);
        self.measured.or_else(by_pushes)
    }

    /// Whether its slot is about that of the cluster: by the distance, else by `getHealth`. `None` if neither tells.
    pub(crate) fn is_near_tip(&self) -> Option<bool> {
        let by_health = self.health.map(|(healthy, _)| healthy);
        self.behind().map(|slots| slots <= NEAR_TIP).or(by_health)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_witness_is_believed() {
        let all = |measured, pushed, healthy: Option<bool>| Witnesses {
            measured,
            is_measured: measured.is_some(),
            pushed,
            health: healthy.map(|healthy| (healthy, 128)),
        };
        let ok = Some(true);
        for (witnesses, behind, near) in [
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
                (witnesses.behind(), witnesses.is_near_tip()),
                (behind, near),
                "{witnesses:?}"
            );
        }
    }
}
