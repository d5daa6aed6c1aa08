use super::lowercase_first;
use crate::report::{
    groups::distinct,
    pace,
    scalars::{Scalar, scalar},
    subject::{Subject, Subjects},
};
use faultline_stats::caveat::{self, outliers_of_arm};
use faultline_text::number;

pub const REMEDY: &str =
    "Find out what disturbed the run and repeat it, or exclude the run and state that you did.";

/// Each run's mean transactions per second over the part that is compared.
pub fn tps_of_runs(subjects: &Subjects) -> Vec<f64> {
    let part = subjects.compared_part();
    let tps = subjects
        .all
        .iter()
        .filter_map(|subject| part.of(subject)?.tps.all_known);
    tps.map(|tps| tps.mean_of_all).collect()
}

/// Run id and reason of each outlier within its arm, by load and by the primary metric.
pub fn outliers(subjects: &Subjects, primary: &Scalar) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(load) = scalar("tps").filter(|_| !subjects.is_any_process()) {
        let arms = distinct(subjects.all.iter().map(|subject| subject.arm.as_str()));
        let arms: Vec<_> = arms
            .into_iter()
            .map(|arm| known(subjects, load, arm))
            .collect();
        let all: Vec<f64> = arms.iter().flatten().map(|(_, value)| *value).collect();
        let find = |arm: &[f64]| outliers_of_arm(arm, &all);
        let of_arm = |arm: &Vec<_>| outliers_in(subjects, load, arm, find);
        found.extend(arms.iter().flat_map(of_arm));
    }
    for arm in subjects.arms.iter().filter(|_| primary.id != "tps") {
        let known = known(subjects, primary, arm);
        found.extend(outliers_in(subjects, primary, &known, caveat::outliers));
    }
    found
}

fn known<'s>(subjects: &'s Subjects, scalar: &Scalar, arm: &'s str) -> Vec<(&'s Subject, f64)> {
    let value = |subject| pace::compared_value(subjects, scalar, subject);
    let runs = subjects.averaged_runs(arm);
    runs.filter_map(|subject| Some((subject, value(subject)?)))
        .collect()
}

fn outliers_in(
    subjects: &Subjects,
    scalar: &Scalar,
    known: &[(&Subject, f64)],
    find: impl Fn(&[f64]) -> Vec<usize>,
) -> Vec<(String, String)> {
    let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let outliers = find(&values);
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
        let others = format!(
            "{title} {value} {unit} where the others of its arm have {low} to {high} {unit}"
        );
        Some((subject.id.clone(), format!("{others}, so it is an outlier")))
    };
    outliers.into_iter().filter_map(what).collect()
}
