//! What is usual without a limit.

use super::evidence::Evidence;

/// References that count: a cluster's load changes over hours.
const NEWEST: usize = 3;

/// The dwells without a limit that kept up.
#[derive(Debug, Default)]
pub(super) struct References(Vec<Evidence>);

impl References {
    pub(super) fn take(&mut self, evidence: &Evidence) {
        self.0.push(evidence.clone());
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn replay(&self) -> Option<f64> {
        self.median(|evidence| evidence.replay_p95_us)
    }

    /// Slots whose replay time was known, a second; `None` if there were none.
    pub(super) fn replayed(&self) -> Option<f64> {
        self.replay()?;
        self.median(|evidence| {
            (evidence.seconds > 0.0).then(|| evidence.replayed as f64 / evidence.seconds)
        })
    }

    pub(super) fn refaults(&self) -> Option<f64> {
        self.median(|evidence| evidence.refaults)
    }

    pub(super) fn waited(&self) -> Option<f64> {
        self.median(|evidence| evidence.waited)
    }

    pub(super) fn cluster(&self) -> Option<f64> {
        self.median(|evidence| evidence.cluster)
    }

    /// Slots behind as usual at the end of one, rounded up.
    pub(super) fn behind(&self) -> Option<u64> {
        self.median(|evidence| evidence.behind_last)
            .map(|behind| behind.ceil() as u64)
    }

    /// Of the newest ones that have it; the upper one of two.
    fn median(&self, of: impl Fn(&Evidence) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.0.iter().rev().take(NEWEST).filter_map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}
