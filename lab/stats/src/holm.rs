use itertools::Itertools;

/// Holm's (1979) adjusted p-values. If those up to `alpha` count as findings, the probability of
/// any false finding is at most `alpha`, even for dependent tests. `None` stands for an impossible
/// test.
pub fn adjust(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let known = p
        .iter()
        .enumerate()
        .filter_map(|(i, p)| Some((i, (*p)?)))
        .sorted_unstable_by(|a, b| a.1.total_cmp(&b.1));
    let count = known.len();
    let mut adjusted = vec![None; p.len()];
    let mut largest = 0.0_f64;
    for (rank, (i, p)) in known.enumerate() {
        largest = largest.max((p * (count - rank) as f64).min(1.0));
        adjusted[i] = Some(largest);
    }
    adjusted
}
