//! Reproducible pseudorandom numbers.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// 1 plus `spread` times a bell-shaped deviation between -2 and 2; at least 0.
    pub fn about_one(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..4).map(|_| self.unit() - 0.5).sum();
        (1.0 + sum * spread).max(0.0)
    }

    /// A random number from 0 to about 3 × `mean`. The mean of many numbers is about `mean`.
    pub fn count(&mut self, mean: f64) -> u64 {
        let exact = mean * self.about_one(1.0);
        exact as u64 + u64::from(self.unit() < exact.fract())
    }
}
