const BUCKETS_PER_DOUBLING: i32 = 1 << NativeBuckets::SCHEMA;

/// 2^(step/8) for each step within a doubling.
const BOUND_FACTORS: [f64; BUCKETS_PER_DOUBLING as usize] = [
    1.0,
    1.0905077326652577,
    1.189207115002721,
    1.2968395546510096,
    std::f64::consts::SQRT_2,
    1.5422108254079407,
    1.681792830507429,
    1.8340080864093424,
];

/// The bucket above the zero threshold.
const FIRST_INDEX: i32 = -14 * BUCKETS_PER_DOUBLING + 1;

/// The bucket that ends at 2^6 s.
const LAST_INDEX: i32 = 6 * BUCKETS_PER_DOUBLING;

/// Exponential buckets of seconds, for a native histogram of Prometheus: 160 from 61 µs to 64 s.
///
/// Bucket `i` counts values above 2^((i-1)/8) up to 2^(i/8). The zero bucket counts values up to the
/// zero threshold. The last bucket also counts values above 64 s: a native histogram has no bucket
/// without an upper bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeBuckets {
    zero: u64,
    /// One count per index from [`FIRST_INDEX`] to [`LAST_INDEX`]; not cumulative.
    counts: Vec<u64>,
}

impl NativeBuckets {
    /// Prometheus' schema: each bound is 2^(2^-schema) times the one before, here 2^(1/8): +9 %.
    pub const SCHEMA: i32 = 3;
    /// Upper bound of the zero bucket in seconds: 2^-14 s, or 61 µs.
    pub const ZERO_THRESHOLD: f64 = 1.0 / 16384.0;

    pub(crate) fn new() -> Self {
        Self {
            zero: 0,
            counts: vec![0; (LAST_INDEX - FIRST_INDEX + 1) as usize],
        }
    }

    pub(crate) fn observe(&mut self, seconds: f64) {
        if seconds <= Self::ZERO_THRESHOLD {
            self.zero += 1;
            return;
        }
        let position = (bucket_index(seconds).min(LAST_INDEX) - FIRST_INDEX) as usize;
        if let Some(count) = self.counts.get_mut(position) {
            *count += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.zero += other.zero;
        for (count, other_count) in self.counts.iter_mut().zip(&other.counts) {
            *count += other_count;
        }
    }

    pub fn zero_count(&self) -> u64 {
        self.zero
    }

    /// (index, count) of every bucket that is not empty, ascending.
    pub fn filled(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        (FIRST_INDEX..)
            .zip(self.counts.iter().copied())
            .filter(|(_, count)| *count > 0)
    }
}

/// The bucket of a finite value above the zero threshold. Compares exponent and
/// fraction, because near a bound a logarithm may give the next bucket.
fn bucket_index(seconds: f64) -> i32 {
    const FRACTION_MASK: u64 = (1 << 52) - 1;
    let bits = seconds.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let fraction = f64::from_bits((bits & FRACTION_MASK) | 1.0_f64.to_bits());
    exponent * BUCKETS_PER_DOUBLING
        + BOUND_FACTORS.partition_point(|bound| *bound < fraction) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(values: &[f64]) -> (u64, Vec<(i32, u64)>) {
        let mut buckets = NativeBuckets::new();
        values.iter().for_each(|value| buckets.observe(*value));
        (buckets.zero_count(), buckets.filled().collect())
    }

    #[test]
    fn a_bucket_ends_at_the_power_of_two_that_its_index_names() {
        for (step, bound) in BOUND_FACTORS.iter().enumerate() {
            // The bound and its power are rounded, so their last digits may differ.
            assert!(
                (bound.powi(8) / f64::from(1 << step) - 1.0).abs() < 1e-15 * 8.0,
                "2^({step}/8)"
            );
        }
        for power in -13..=6 {
            let bound = f64::from(power).exp2();
            assert_eq!(bucket_index(bound), power * 8);
            assert_eq!(bucket_index(bound.next_up()), power * 8 + 1);
            assert_eq!(bucket_index(bound.next_down()), power * 8);
        }
    }

    #[test]
    fn the_native_bucket_index_is_the_rounded_up_logarithm() {
        let mut value = NativeBuckets::ZERO_THRESHOLD * 1.0001;
        while value < 64.0 {
            assert_eq!(
                bucket_index(value),
                (value.log2() * 8.0).ceil() as i32,
                "{value}"
            );
            value *= 1.0123;
        }
    }

    #[test]
    fn the_outermost_buckets_contain_values_beyond_the_bounds() {
        assert_eq!(
            filled(&[0.0, 1e-300, NativeBuckets::ZERO_THRESHOLD]),
            (3, vec![])
        );
        assert_eq!(
            filled(&[NativeBuckets::ZERO_THRESHOLD.next_up()]),
            (0, vec![(FIRST_INDEX, 1)])
        );
        assert_eq!(filled(&[64.0, 65.0, f64::MAX]), (0, vec![(LAST_INDEX, 3)]));
        assert_eq!(NativeBuckets::new().counts.len(), 160);
    }

    #[test]
    fn merging_native_histograms_adds_each_bucket() {
        let mut one = NativeBuckets::new();
        let mut other = NativeBuckets::new();
        [0.0, 0.3, 1.0].iter().for_each(|value| one.observe(*value));
        [0.0, 1.0, 7.0]
            .iter()
            .for_each(|value| other.observe(*value));
        one.merge(&other);
        assert_eq!(
            (one.zero_count(), one.filled().collect()),
            filled(&[0.0, 0.3, 1.0, 0.0, 1.0, 7.0])
        );
    }
}
