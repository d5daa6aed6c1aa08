/// Moving average over `size` samples around each value, as long as the series. A missing value
/// stays `None` and does not count for its neighbours. A window of 0 samples gives only `None`.
pub fn moving_average(values: &[Option<f64>], size: usize) -> Vec<Option<f64>> {
    let running = Running::of(values);
    let after = size.saturating_sub(1) / 2;
    let one = |i: usize| {
        finite_at(values, i).filter(|_| size > 0)?;
        running.mean(
            i.saturating_sub(size - 1 - after),
            i.saturating_add(after + 1).min(values.len()),
        )
    };
    (0..values.len()).map(one).collect()
}

fn finite_at(values: &[Option<f64>], i: usize) -> Option<f64> {
    values.get(i).copied().flatten().filter(|v| v.is_finite())
}

/// Cumulative sums and counts of the distances from the first value: small sums lose fewer digits.
struct Running {
    origin: f64,
    sums: Vec<f64>,
    counts: Vec<usize>,
}

impl Running {
    fn of(values: &[Option<f64>]) -> Running {
        let origin = (0..values.len())
            .find_map(|i| finite_at(values, i))
            .unwrap_or(0.0);
        let (mut sums, mut counts) = (vec![0.0], vec![0]);
        let (mut sum, mut n) = (0.0, 0);
        for i in 0..values.len() {
            if let Some(value) = finite_at(values, i) {
                sum += value - origin;
                n += 1;
            }
            sums.push(sum);
            counts.push(n);
        }
        Running {
            origin,
            sums,
            counts,
        }
    }

    fn mean(&self, from: usize, to: usize) -> Option<f64> {
        let n = self.counts.get(to)?.checked_sub(*self.counts.get(from)?)?;
        let sum = self.sums.get(to)? - self.sums.get(from)?;
        (n > 0).then(|| self.origin + sum / n as f64)
    }
}
