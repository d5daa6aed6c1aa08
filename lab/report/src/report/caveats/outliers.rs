use super::lowercase_first;
use crate::report::pace;
use crate::report::scalars::{Scalar, scalar};
use crate::report::subject::{Subject, Subjects};
use faultline_stats::caveat;
use faultline_text::number;

pub(super) const REMEDY: &str =
    "Find out what disturbed the run and repeat it, or exclude the run and state that you did.";

/// Each run's mean transactions per second over the part that is compared.
pub(super) fn tps_of_runs(subjects: &Subjects<'_>) -> Vec<f64> {
    let part = subjects.compared_part();
    let tps = { subjects.all.iter() }.filter_map(|subject| part.of(subject)?.tps.all_known);
    tps.map(|tps| tps.mean_of_all).collect()
}

/// Run id and reason of each outlier. It compares the load among all runs, and the primary metric within an arm.
pub(super) fn outliers(subjects: &Subjects<'_>, primary: &Scalar) -> Vec<(String, String)> {
    let all: Vec<&Subject<'_>> = { subjects.all.iter() }
        .filter(|subject| subjects.is_averaged(subject))
        .collect();
    let load = scalar("tps").filter(|_| !subjects.is_any_process());
    let mut found: Vec<_> = load
        .into_iter()
        .flat_map(|load| outliers_among(subjects, load, &all))
        .collect();
    for arm in subjects.arms.iter().filter(|_| primary.id != "tps") {
        let runs: Vec<&Subject<'_>> = subjects.averaged_runs(arm).collect();
        found.extend(outliers_among(subjects, primary, &runs));
    }
    found
}

fn outliers_among(
    subjects: &Subjects<'_>,
    scalar: &Scalar,
    runs: &[&Subject<'_>],
) -> Vec<(String, String)> {
    let value = |subject: &&Subject<'_>| pace::compared_value(subjects, scalar, subject);
    let known: Vec<(&Subject<'_>, f64)> = { runs.iter() }
        .filter_map(|subject| Some((*subject, value(subject)?)))
        .collect();
    let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let outliers = caveat::outliers(&values);
    let usual = (0..)
        .zip(&values)
        .filter(|(index, _)| !outliers.contains(index));
    let usual = usual.map(|(_, value)| *value);
    let [low, high] = [f64::min, f64::max].map(|end| usual.clone().reduce(end).unwrap_or(0.0));
    let text = |value| number(value, usize::from(scalar.decimals));
    let what = |index: usize| {
        let (subject, value) = known.get(index)?;
        let title = lowercase_first(scalar.title);
        let (value, low, high) = (text(*value), text(low), text(high));
        let unit = pace::unit(scalar, subjects.per_second);
        let others = format!("{title} {value} {unit} where the others have {low} to {high} {unit}");
        Some((subject.id.clone(), format!("{others}, so it is an outlier")))
    };
    outliers.into_iter().filter_map(what).collect()
}
