//! Brackets the smallest memory limit that is sufficient: it is between two limits that were tried.
//! Limits are in bytes.

use std::collections::BTreeMap;

pub struct Replicate {
    pub limit: u64,
    /// Whether the validator kept up with the tip, or finished its replay. `None` if unknown: the
    /// recording has no metrics, is too short, or has a gap.
    pub passed: Option<bool>,
}

#[derive(Default)]
pub struct LimitResults {
    pub limit: u64,
    pub passed: usize,
    pub failed: usize,
    pub unknown: usize,
}

/// Every replicate passed under a smaller limit, but one failed under a larger limit.
#[derive(Debug, PartialEq)]
pub struct Contradiction {
    pub passing_limit: u64,
    pub failing_limit: u64,
}

pub struct Bracket {
    pub limits: Vec<LimitResults>,
    /// The smallest limit under which every replicate passed, without any unknown result.
    pub smallest_sufficient: Option<u64>,
    /// The largest limit under which any replicate failed; `None` if none failed.
    pub largest_failed: Option<u64>,
    /// If there are any, [`Bracket::smallest_sufficient`] is below [`Bracket::largest_failed`], so
    /// the two are no bracket.
    pub contradictions: Vec<Contradiction>,
}

pub fn bracket(replicates: &[Replicate]) -> Bracket {
    let mut limits = BTreeMap::new();
    for replicate in replicates {
        let results = limits.entry(replicate.limit).or_insert(LimitResults {
            limit: replicate.limit,
            ..LimitResults::default()
        });
        match replicate.passed {
            Some(true) => results.passed += 1,
            Some(false) => results.failed += 1,
            None => results.unknown += 1,
        }
    }
    let limits = Vec::from_iter(limits.into_values());
    let sufficient = limits
        .iter()
        .filter(|results| results.passed > 0 && results.failed == 0 && results.unknown == 0);
    let insufficient = limits.iter().filter(|results| results.failed > 0);
    let contradictions = sufficient
        .clone()
        .flat_map(|passing| {
            insufficient.clone().map(move |failing| Contradiction {
                passing_limit: passing.limit,
                failing_limit: failing.limit,
            })
        })
        .filter(|pair| pair.passing_limit < pair.failing_limit)
        .collect();
    Bracket {
        smallest_sufficient: sufficient.map(|results| results.limit).min(),
        largest_failed: insufficient.clone().map(|results| results.limit).max(),
        contradictions,
        limits,
    }
}
