//! Conditions under which reports show a caveat, and texts that say why an interval is unreliable.

use crate::{block_bootstrap::Reliability, summary::quantile};

/// Two arms that were not interleaved: the last run of the first began before the first run of the
/// second. Each of `runs` is its begin and its arm. Arms with a single run do not count.
pub fn find_separate_arms<'a>(runs: &[(f64, &'a str)]) -> Option<(&'a str, &'a str)> {
    // Name, first and last begin, number of runs.
    let mut arms: Vec<(&str, f64, f64, usize)> = Vec::new();
    for (begin, arm) in runs {
        match arms.iter_mut().find(|(name, ..)| name == arm) {
            Some((_, first, last, n)) => {
                (*first, *last, *n) = (first.min(*begin), last.max(*begin), *n + 1)
            }
            None => arms.push((arm, *begin, *begin, 1)),
        }
    }
    arms.retain(|(.., n)| *n > 1);
    arms.sort_by(|a, b| a.1.total_cmp(&b.1));
    arms.iter().find_map(|(name, _, last, _)| {
        let later = arms.iter().find(|(_, first, ..)| last < first)?;
        Some((*name, later.0))
    })
}

pub const MIN_VALUES_FOR_OUTLIER: usize = 4;

/// A value within this share of the median is not an outlier, however close together the other
/// values are.
const MIN_OUTLIER_DISTANCE: f64 = 0.1;

/// Indices of outliers: their distance from the median, times 0.6745 and divided by the median
/// absolute deviation, exceeds 3.5 (Iglewicz and Hoaglin 1993, the modified z-score).
pub fn outliers(values: &[f64]) -> Vec<usize> {
    indices_where(values, |value| is_outlier(value, values))
}

/// [`outliers`] of an arm. An arm with too few values is compared with `all` arms. If at least half
/// of its values would then be outliers, it has none.
pub fn outliers_of_arm(arm: &[f64], all: &[f64]) -> Vec<usize> {
    if arm.len() >= MIN_VALUES_FOR_OUTLIER {
        return outliers(arm);
    }
    let median = median(arm.iter().copied());
    let outliers = indices_where(arm, |value| {
        is_outlier(value, all) && is_distant(value, median)
    });
    if 2 * outliers.len() < arm.len() {
        outliers
    } else {
        Vec::new()
    }
}

fn is_outlier(value: f64, sample: &[f64]) -> bool {
    let sample_median = median(sample.iter().copied());
    let median_deviation = median(sample.iter().map(|value| (value - sample_median).abs()));
    sample.len() >= MIN_VALUES_FOR_OUTLIER
        && 0.6745 * (value - sample_median).abs() > 3.5 * median_deviation
        && is_distant(value, sample_median)
}

/// Always false for a median of 0, because every share of 0 is 0.
fn is_distant(value: f64, median: f64) -> bool {
    median != 0.0 && (value - median).abs() > MIN_OUTLIER_DISTANCE * median.abs()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&Vec::from_iter(values.map(Some)), 0.5).unwrap_or(0.0)
}

fn indices_where(values: &[f64], matches: impl Fn(f64) -> bool) -> Vec<usize> {
    values
        .iter()
        .enumerate()
        .filter(|(_, value)| matches(**value))
        .map(|(index, _)| index)
        .collect()
}

/// Whether this version of Agave (`2.1.14`, `4.0.0-beta.1`) counts hits of the program cache like
/// all versions before 4.4. `None` if the text is no version.
pub fn counts_hits_as_before_4_4(version: &str) -> Option<bool> {
    let mut parts = version.trim_start_matches('v').split(['.', '-', ' ']);
    let major: u32 = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    Some((major, minor) < (4, 4))
}

pub fn reliability_text(reliability: Reliability) -> String {
    match reliability {
        Reliability::Reliable => "the interval is reliable".to_owned(),
        Reliability::TooShort { n_eff } => format!(
            "the run is worth only {n_eff:.0} independent values, so the interval contains the true value less often than it claims"
        ),
        Reliability::TooRare => {
            "it happened in too few stretches of the run for an interval that can be trusted".to_owned()
        }
        Reliability::Drifts => {
            "the series drifts, or is correlated for longer than the run can show, so the interval is too narrow"
                .to_owned()
        }
        Reliability::Constant => "every value is the same, so there is nothing to make an interval from".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_far_from_the_others_is_an_outlier_and_two_levels_are_not() {
        assert_eq!(outliers(&[230.0, 239.0, 78.0, 235.0, 231.0, 236.0]), [2]);
        assert_eq!(outliers(&[100.0, 101.0, 99.0, 200.0, 201.0, 199.0]), [0; 0]);
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.4]), [0; 0], "within a tenth");
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 6.0]), [3]);
        assert_eq!(outliers(&[230.0, 239.0, 78.0]), [0; 0], "too few");
        assert_eq!(outliers(&[0.0, 0.0, 0.0, 1.0]), [0; 0], "median 0");
        assert_eq!(outliers(&[]), [0; 0]);
    }

    #[test]
    fn an_arm_of_three_is_compared_with_all_runs_if_its_others_agree_with_them() {
        let all = [230.0, 232.0, 231.0, 230.0, 229.0, 233.0, 78.0, 79.0, 78.0];
        assert_eq!(outliers_of_arm(&all[6..], &all), [0; 0], "another load");
        let all = [230.0, 239.0, 78.0, 235.0, 231.0, 236.0];
        assert_eq!(outliers_of_arm(&all[..3], &all), [2]);
        assert_eq!(outliers_of_arm(&all[..1], &all), [0; 0]);
        assert_eq!(outliers_of_arm(&all[2..3], &all), [0; 0], "all of its arm");
        let all = [230.0, 230.0, 230.0, 230.0, 208.0, 208.0, 205.0];
        assert_eq!(outliers_of_arm(&all[4..], &all), [0; 0], "near its own arm");
        let steady = [50.0, 50.0, 50.0, 50.0, 20.0];
        assert_eq!(outliers_of_arm(&steady, &all), [4], "within the arm");
    }
}
