use super::evidence::Evidence;

/// A cluster's load changes over hours.
const NEWEST: usize = 3;

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

    /// Replayed slots per second.
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

    /// Usual number at the end, rounded up.
    pub(super) fn behind(&self) -> Option<u64> {
        self.median(|evidence| evidence.behind_last)
            .map(|behind| behind.ceil() as u64)
    }

    /// Of two middle values, the upper one.
    fn median(&self, of: impl Fn(&Evidence) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.0.iter().rev().take(NEWEST).filter_map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}
