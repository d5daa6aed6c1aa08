/// Average of the `size` samples around each sample. A missing value stays `None`, and the averages
/// of its neighbors leave it out. If `size` is 0, all averages are `None`.
pub fn moving_average(values: &[Option<f64>], size: usize) -> Vec<Option<f64>> {
    let finite = |value: &Option<f64>| value.filter(|v| v.is_finite());
    // The sums are of distances from the first value, because small sums lose fewer digits.
    let origin = values.iter().find_map(finite).unwrap_or(0.0);
    let mut sums = vec![0.0];
    let mut counts = vec![0_u32];
    let mut sum = 0.0;
    let mut n = 0;
    for value in values.iter().map(finite) {
        if let Some(value) = value {
            sum += value - origin;
            n += 1;
        }
        sums.push(sum);
        counts.push(n);
    }
    let after = size.saturating_sub(1) / 2;
    values
        .iter()
        .enumerate()
        .map(|(i, value)| {
            finite(value).filter(|_| size > 0)?;
            let from = i.saturating_sub(size - 1 - after);
            let to = i.saturating_add(after + 1).min(values.len());
            let n = counts[to] - counts[from];
            (n > 0).then(|| origin + (sums[to] - sums[from]) / f64::from(n))
        })
        .collect()
}
