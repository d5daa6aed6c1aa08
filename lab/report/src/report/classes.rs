use super::{
    model::{Chart, Counts, Histogram},
    subject::{Subject, Subjects},
};
use faultline_stats::histogram as classes;

const MAX_CLASSES: usize = 60;

/// The last class ends at the quantile `max_quantile` of all values.
pub fn histogram(
    subjects: &Subjects,
    x_label: &str,
    y_label: &str,
    max_quantile: f64,
    values: impl Fn(&Subject) -> Vec<Option<f64>>,
) -> Option<Chart> {
    let sets: Vec<(&Subject, Vec<Option<f64>>)> = subjects
        .all
        .iter()
        .map(|subject| (subject, values(subject)))
        .filter(|(_, set)| set.iter().any(Option::is_some))
        .collect();
    let pooled: Vec<Option<f64>> = sets
        .iter()
        .flat_map(|(_, set)| set.iter().copied())
        .collect();
    let edges = edges(&pooled, max_quantile);
    let series: Vec<Counts> = sets
        .iter()
        .map(|(subject, set)| counts(subject, set, &edges))
        .collect();
    let log = needs_log_scale(&series);
    let chart = Histogram {
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        edges,
        series,
        log,
    };
    (!chart.series.is_empty() && chart.edges.len() > 1).then_some(Chart::Histogram(chart))
}

/// Small integers get one class each.
fn edges(values: &[Option<f64>], max_quantile: f64) -> Vec<f64> {
    let upper_bound = faultline_stats::summary::quantile(values, max_quantile).unwrap_or(0.0);
    let are_counts = values
        .iter()
        .flatten()
        .all(|value| value.fract() == 0.0 && *value >= 0.0);
    if are_counts && upper_bound < MAX_CLASSES as f64 {
        return (0..=upper_bound.ceil() as i64 + 1)
            .map(|edge| edge as f64 - 0.5)
            .collect();
    }
    classes::freedman_diaconis(values, max_quantile, MAX_CLASSES)
}

fn counts(subject: &Subject, values: &[Option<f64>], edges: &[f64]) -> Counts {
    let counted = classes::count(values, edges);
    Counts {
        name: subject.name.clone(),
        run: subject.id.clone(),
        counts: counted.counts.iter().map(|count| *count as f64).collect(),
        above: counted.above as f64,
    }
}

/// Whether more than half of the counts are below 1/200 of the largest.
fn needs_log_scale(series: &[Counts]) -> bool {
    let counts = || {
        series
            .iter()
            .flat_map(|one| one.counts.iter().copied())
            .filter(|count| *count > 0.0)
    };
    let largest = counts().fold(0.0, f64::max);
    let small = counts().filter(|count| *count * 200.0 < largest).count();
    small * 2 > counts().count()
}
