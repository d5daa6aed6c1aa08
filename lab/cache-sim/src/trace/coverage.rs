use super::Trace;
use crate::Error;

/// Minimum for predictions, in percent.
pub const MIN_COVERAGE_PERCENT: f64 = 98.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    pub covered: u64,
    pub recorded: u64,
    pub missing: Vec<u64>,
}

impl Coverage {
    /// `recorded` has (slot, transactions), in any order.
    pub fn of(trace: &Trace, recorded: &[(u64, u64)]) -> Self {
        let mut coverage = Coverage {
            covered: 0,
            recorded: 0,
            missing: Vec::new(),
        };
        for (slot, transactions) in recorded {
            coverage.recorded = coverage.recorded.saturating_add(*transactions);
            if trace.slots().binary_search_by_key(slot, |s| s.slot).is_ok() {
                coverage.covered = coverage.covered.saturating_add(*transactions);
            } else {
                coverage.missing.push(*slot);
            }
        }
        coverage.missing.sort_unstable();
        coverage
    }

    /// `None` if no transactions were recorded.
    pub fn percent(&self) -> Option<f64> {
        (self.recorded > 0).then(|| 100.0 * self.covered as f64 / self.recorded as f64)
    }

    /// Fails below [`MIN_COVERAGE_PERCENT`], or if no transactions were recorded.
    pub fn require(&self) -> Result<(), Error> {
        let percent = self.percent().unwrap_or(0.0);
        if percent >= MIN_COVERAGE_PERCENT {
            return Ok(());
        }
        let first = self.missing.first().copied().unwrap_or(0);
        Err(Error::Coverage {
            percent,
            least: MIN_COVERAGE_PERCENT,
            missing: self.missing.len(),
            first,
        })
    }
}
