//! Arms that differ in a limit: what is enough lies between two limits that were tried, and nobody knows where.

use serde::Serialize;
use std::collections::BTreeMap;

/// One run under a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicate {
    /// The limit, in bytes.
    pub limit: u64,
    /// Whether the validator kept up with the tip; `None` if that is not known (no metrics, too short, at a gap).
    pub kept_up: Option<bool>,
}

/// What happened under one limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// In bytes.
    pub limit: u64,
    /// Replicates that kept up.
    pub kept_up: usize,
    /// Replicates that did not.
    pub failed: usize,
    /// Replicates of which it is not known.
    pub unknown: usize,
}

/// A smaller limit that was enough in every replicate, and a larger one that was not in some: not the limit alone decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// The limit that kept up in every replicate, in bytes.
    pub kept_up: u64,
    /// The larger limit that failed in at least one, in bytes.
    pub failed: u64,
}

/// The answer of arms that differ in a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Bracket {
    /// Every limit that was tried, ascending.
    pub limits: Vec<Limit>,
    /// The smallest limit that kept up in every replicate (one of which it is not known is not one that did); `None` if no
    /// limit did.
    pub enough: Option<u64>,
    /// The largest limit that failed in any replicate; `None` if none failed.
    pub failed: Option<u64>,
    /// What does not fit together. If there is any, [`Bracket::enough`] is below [`Bracket::failed`], and the two are no
    /// bracket.
    pub contradictions: Vec<Contradiction>,
}

/// Finds the bracket. It names limits that were tried, never a point between them.
pub fn bracket(replicates: &[Replicate]) -> Bracket {
    let mut limits: BTreeMap<u64, Limit> = BTreeMap::new();
    for replicate in replicates {
        let row = limits.entry(replicate.limit).or_insert(Limit {
            limit: replicate.limit,
            ..Limit::default()
        });
        match replicate.kept_up {
            Some(true) => row.kept_up += 1,
            Some(false) => row.failed += 1,
            None => row.unknown += 1,
        }
    }
    let limits: Vec<Limit> = limits.into_values().collect();
    let enough = limits.iter().filter(|row| row.in_every_replicate());
    let failed = limits.iter().filter(|row| row.failed > 0);
    let pairs = enough.clone().flat_map(|sufficient| {
        failed
            .clone()
            .map(move |failed| (sufficient.limit, failed.limit))
    });
    let contradictions = pairs.filter(|(sufficient, failed)| sufficient < failed);
    Bracket {
        enough: enough.clone().map(|row| row.limit).min(),
        failed: failed.clone().map(|row| row.limit).max(),
        contradictions: contradictions
            .map(|(kept_up, failed)| Contradiction { kept_up, failed })
            .collect(),
        limits,
    }
}

impl Limit {
    /// Whether there are replicates, and of all of them it is known that they kept up.
    pub fn in_every_replicate(&self) -> bool {
        self.kept_up > 0 && self.failed == 0 && self.unknown == 0
    }
}
