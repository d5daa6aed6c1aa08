//! Brackets the sufficient memory limit of arms between two limits that were tried.

use std::collections::BTreeMap;

#[derive(Clone, Copy)]
pub struct Replicate {
    /// Memory limit in bytes.
    pub limit: u64,
    /// Whether the validator kept up with the tip or did all of its replay. `None` if unknown: no
    /// metrics, too short, or a gap in the recording.
    pub passed: Option<bool>,
}

/// Numbers of replicates under one limit, which is in bytes.
#[derive(Clone, Copy, Default)]
pub struct LimitResults {
    pub limit: u64,
    pub passed: usize,
    pub failed: usize,
    pub unknown: usize,
}

/// No replicate failed under a smaller limit, but one failed under a larger limit. So the limit
/// alone did not decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contradiction {
    /// In bytes; every replicate passed.
    pub passing_limit: u64,
    /// In bytes; at least one replicate failed.
    pub failing_limit: u64,
}

pub struct Bracket {
    pub limits: Vec<LimitResults>,
    /// The smallest limit under which every replicate passed, without any unknown result.
    pub smallest_sufficient: Option<u64>,
    /// The largest limit under which any replicate failed; `None` if none failed.
    pub largest_failed: Option<u64>,
    /// If there are any, [`Bracket::smallest_sufficient`] is below [`Bracket::largest_failed`],
    /// and the two are no bracket.
    pub contradictions: Vec<Contradiction>,
}

/// Both ends are limits that were tried.
pub fn bracket(replicates: &[Replicate]) -> Bracket {
    let mut limits: BTreeMap<u64, LimitResults> = BTreeMap::new();
    for replicate in replicates {
        let row = limits.entry(replicate.limit).or_insert(LimitResults {
            limit: replicate.limit,
            ..LimitResults::default()
        });
        match replicate.passed {
            Some(true) => row.passed += 1,
            Some(false) => row.failed += 1,
            None => row.unknown += 1,
        }
    }
    let limits: Vec<LimitResults> = limits.into_values().collect();
    let sufficient = limits
        .iter()
        .filter(|row| row.passed > 0 && row.failed == 0 && row.unknown == 0);
    let failed = limits.iter().filter(|row| row.failed > 0);
    let contradictions = sufficient
        .clone()
        .flat_map(|passed| {
            failed.clone().map(move |failed| Contradiction {
                passing_limit: passed.limit,
                failing_limit: failed.limit,
            })
        })
        .filter(|pair| pair.passing_limit < pair.failing_limit)
        .collect();
    Bracket {
        smallest_sufficient: sufficient.clone().map(|row| row.limit).min(),
        largest_failed: failed.clone().map(|row| row.limit).max(),
        contradictions,
        limits,
    }
}
