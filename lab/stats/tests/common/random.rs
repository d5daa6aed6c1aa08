//! Random numbers of the distributions that simulations need.

pub struct Random {
    bits: fastrand::Rng,
    /// The other one of a pair of normals.
    spare: Option<f64>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self {
            bits: fastrand::Rng::with_seed(seed),
            spare: None,
        }
    }

    pub fn uniform(&mut self) -> f64 {
        self.bits.f64()
    }

    /// Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = x * x + y * y;
            if s > 0.0 && s < 1.0 {
                let stretch = (-2.0 * s.ln() / s).sqrt();
                self.spare = Some(y * stretch);
                return x * stretch;
            }
        }
    }

    /// Marsaglia and Tsang (2000), with their trick for shapes below 1.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let lift = (1.0 - self.uniform()).powf(1.0 / shape);
            return self.gamma(shape + 1.0) * lift;
        }
        let d = shape - 1.0 / 3.0;
        loop {
            let x = self.normal();
            let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && (1.0 - self.uniform()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    /// By counting exponential gaps: rates here are small.
    pub fn poisson(&mut self, rate: f64) -> f64 {
        let (mut n, mut time) = (0.0, 0.0);
        loop {
            time -= (1.0 - self.uniform()).ln();
            if time > rate {
                return n;
            }
            n += 1.0;
        }
    }
}
