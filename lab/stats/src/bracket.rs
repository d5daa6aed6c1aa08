//! Arms that differ in a limit: the threshold is between two limits that were tried.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicate {
    /// In bytes.
    pub limit: u64,
    /// Whether the validator kept up with the tip; `None` if unknown (no metrics, too short, at a
    /// gap).
    pub passed: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    pub limit: u64,
    pub passed: usize,
    pub failed: usize,
    pub unknown: usize,
}

/// A smaller limit was enough in every replicate, and a larger one was not enough in some. So other
/// factors decided, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradiction {
    /// In bytes; it kept up in every replicate.
    pub passed: u64,
    /// In bytes; it failed in at least one replicate.
    pub failed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bracket {
    pub limits: Vec<Limit>,
    /// The smallest limit that kept up in every replicate. An unknown result does not count as kept
    /// up. `None` if there is no such limit.
    pub enough: Option<u64>,
    /// The largest limit that failed in any replicate; `None` if none failed.
    pub failed: Option<u64>,
    /// If there are any, [`Bracket::enough`] is below [`Bracket::failed`], and the two are no
    /// bracket.
    pub contradictions: Vec<Contradiction>,
}

/// Names limits that were tried, never a value between them.
pub fn bracket(replicates: &[Replicate]) -> Bracket {
    let mut limits: BTreeMap<u64, Limit> = BTreeMap::new();
    for replicate in replicates {
        let row = limits.entry(replicate.limit).or_insert(Limit {
            limit: replicate.limit,
            ..Limit::default()
        });
        match replicate.passed {
            Some(true) => row.passed += 1,
            Some(false) => row.failed += 1,
            None => row.unknown += 1,
        }
    }
    let limits: Vec<Limit> = limits.into_values().collect();
    let enough = limits
        .iter()
        .filter(|row| row.passed > 0 && row.failed == 0 && row.unknown == 0);
    let failed = limits.iter().filter(|row| row.failed > 0);
    let contradictions = enough
        .clone()
        .flat_map(|sufficient| {
            failed
                .clone()
                .map(move |failed| (sufficient.limit, failed.limit))
        })
        .filter(|(sufficient, failed)| sufficient < failed);
    Bracket {
        enough: enough.clone().map(|row| row.limit).min(),
        failed: failed.clone().map(|row| row.limit).max(),
        contradictions: contradictions
            .map(|(passed, failed)| Contradiction { passed, failed })
            .collect(),
        limits,
    }
}
