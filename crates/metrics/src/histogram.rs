use crate::NativeBuckets;

/// Upper bounds of time histograms in seconds: 0.1 ms to 10 s, 1-2.5-5 per decade.
pub static TIME_BOUNDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Upper bounds in seconds for delays of votes and finalizations. A slot lasts 0.2 to 0.4 s.
pub static SLOT_DELAY_BOUNDS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6];

/// [`TIME_BOUNDS`] up to 1 s, for the lateness of a tick.
pub static LATENESS_BOUNDS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
];

/// Counts durations in fixed and in exponential buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count per bound, then one for everything above; not cumulative.
    counts: Vec<u64>,
    native: NativeBuckets,
    sum: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            native: NativeBuckets::new(),
            sum: 0.0,
        }
    }

    pub fn observe(&mut self, seconds: f64) {
        if !seconds.is_finite() || seconds < 0.0 {
            return;
        }
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
            self.native.observe(seconds);
            self.sum += seconds;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        if self.bounds != other.bounds {
            return;
        }
        for (count, other_count) in self.counts.iter_mut().zip(&other.counts) {
            *count += other_count;
        }
        self.native.merge(&other.native);
        self.sum += other.sum;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn native(&self) -> &NativeBuckets {
        &self.native
    }

    /// (upper bound, count of this bucket), ascending; the last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bounds
            .iter()
            .copied()
            .chain([f64::INFINITY])
            .zip(self.counts.iter().copied())
    }

    /// (upper bound, cumulative count), ascending; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.buckets().scan(0, |total, (bound, count)| {
            *total += count;
            Some((bound, *total))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_equal_to_a_bucket_bound_belongs_to_that_bucket() {
        let mut histogram = Histogram::new(&TIME_BOUNDS);
        histogram.observe(0.001);
        histogram.observe(0.0011);
        histogram.observe(99.0);
        let at = |bound: f64| {
            histogram
                .cumulative()
                .find(|(b, _)| *b == bound)
                .map(|(_, n)| n)
        };
        assert_eq!(at(0.0005), Some(0));
        assert_eq!(at(0.001), Some(1));
        assert_eq!(at(0.0025), Some(2));
        assert_eq!(at(10.0), Some(2));
        assert_eq!(at(f64::INFINITY), Some(3));
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn a_non_finite_or_negative_duration_is_ignored() {
        let mut histogram = Histogram::new(&TIME_BOUNDS);
        for odd in [f64::NAN, f64::INFINITY, -0.1] {
            histogram.observe(odd);
        }
        assert_eq!((histogram.count(), histogram.sum()), (0, 0.0));
    }

    #[test]
    fn classic_and_native_buckets_agree_even_after_a_merge() {
        let (mut one, mut other) = (Histogram::new(&TIME_BOUNDS), Histogram::new(&TIME_BOUNDS));
        [0.0, 0.0002, 3.0, -1.0]
            .iter()
            .for_each(|value| one.observe(*value));
        [0.0002, 99.0, f64::NAN]
            .iter()
            .for_each(|value| other.observe(*value));
        one.merge(&other);
        let native = one.native().zero_count() + one.native().filled().map(|(_, n)| n).sum::<u64>();
        assert_eq!((native, one.count()), (5, 5));
        let unlike = Histogram::new(&LATENESS_BOUNDS);
        let before = one.clone();
        one.merge(&unlike);
        assert_eq!(one, before);
    }

    #[test]
    fn time_buckets_span_100_us_to_10_s_with_documented_steps() {
        let expected: Vec<f64> = (-4..=0)
            .flat_map(|decade| [1.0, 2.5, 5.0].map(|m| m * 10f64.powi(decade)))
            .chain([10.0])
            .collect();
        assert_eq!(TIME_BOUNDS.len(), expected.len());
        assert!(
            TIME_BOUNDS
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
    }
}
