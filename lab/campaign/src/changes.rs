//! One sentence per release change, for the page and the feeds.

use crate::{
    compare::{MetricTest, Release, ReleaseGroup},
    verdict::Verdict,
};
use faultline_experiments::folder::digest;
use faultline_report::report::RunMetric;
use faultline_text::{number, p_value};

/// A difference or shift that a metric shows, confirmed by a second round or not yet; or a release
/// that is not comparable with its baseline by slot. A release is not comparable by slot if its
/// consensus or slot time is known to differ from the baseline's, because a slot then holds other
/// work.
pub struct ReleaseChange {
    pub id: String,
    pub version: String,
    pub title: String,
    /// Empty if the release is not comparable by slot.
    pub metric: &'static str,
    pub verdict: Verdict,
    pub sentence: String,
    /// Start of the newest run that shows the change, in nanoseconds since 1970.
    pub unix_ns: i64,
    /// Path of the report, relative to the page.
    pub report: String,
}

pub struct FailedVersion {
    pub version: String,
    pub error: String,
    /// When the version entered the list of versions.
    pub added_unix_ns: i64,
}

/// Differences from the baseline, and shifts against earlier releases.
pub fn release_changes(groups: &[ReleaseGroup]) -> Vec<ReleaseChange> {
    let mut all = Vec::new();
    for group in groups {
        for release in group.releases.iter().rev() {
            for test in release
                .tests
                .iter()
                .filter(|test| test.verdict.is_difference())
            {
                let sentence = test_sentence(&release.version, test, &group.conditions.baseline);
                all.push(release_change(
                    "release",
                    group,
                    release,
                    (Some(test.metric), test.verdict),
                    sentence,
                ));
            }
            for shift in group
                .shifts
                .iter()
                .filter(|shift| shift.version == release.version)
            {
                let sentence = format!(
                    "{} is {} from {} on: {} against earlier releases.",
                    shift.metric.title,
                    shift.verdict.label(),
                    release.version,
                    signed_percent(shift.ratio)
                );
                all.push(ReleaseChange {
                    unix_ns: newest_run_start(&group.releases),
                    ..release_change(
                        "change",
                        group,
                        release,
                        (Some(shift.metric), shift.verdict),
                        sentence,
                    )
                });
            }
        }
    }
    all
}

pub fn incomparable_releases(groups: &[ReleaseGroup]) -> Vec<ReleaseChange> {
    groups
        .iter()
        .flat_map(|group| {
            group.releases.iter().rev().filter_map(move |release| {
                Some(release_change(
                    "incomparable",
                    group,
                    release,
                    (None, Verdict::NotComparable),
                    not_comparable_sentence(release)?,
                ))
            })
        })
        .collect()
}

/// `None`, too, if consensus or slot time is unknown.
pub fn not_comparable_sentence(release: &Release) -> Option<String> {
    let reason = release.comparability.difference_text()?;
    Some(format!(
        "{} is not comparable by slot: {reason}.",
        release.version
    ))
}

/// `kind` is `release` for a difference from the baseline, `change` for a shift, or `incomparable`.
fn release_change(
    kind: &str,
    group: &ReleaseGroup,
    release: &Release,
    (metric, verdict): (Option<&'static RunMetric>, Verdict),
    sentence: String,
) -> ReleaseChange {
    let conditions = &group.conditions;
    let version = release.version.clone();
    let (metric, title) = match metric {
        Some(metric) => (
            metric.id,
            format!("{version}: {} {}", metric.title, verdict.label()),
        ),
        None => ("", format!("{version}: not comparable by slot")),
    };
    // Feed readers know a change by its id, so the id stays the same while the change is shown.
    let identity = [
        kind,
        metric,
        &version,
        &conditions.plan_digest,
        &conditions.baseline_digest,
        &group.machine,
    ];
    ReleaseChange {
        id: digest(&identity.join("\n")),
        version,
        title,
        metric,
        verdict,
        sentence,
        unix_ns: newest_run_start(std::slice::from_ref(release)),
        report: release.report_path(),
    }
}

fn newest_run_start(releases: &[Release]) -> i64 {
    releases
        .iter()
        .flat_map(|release| &release.runs)
        .map(|run| run.began_unix_ns)
        .max()
        .unwrap_or(0)
}

fn test_sentence(version: &str, test: &MetricTest, baseline: &str) -> String {
    let ratio = test.ratio_test.ratio;
    let title = test.metric.title;
    let pairs = test.ratio_test.pairs;
    let Some(p) = test.adjusted_p else {
        let direction = if test.verdict.is_worse() {
            "worse"
        } else {
            "better"
        };
        return format!(
            "{version}: {title} is {direction} than with {baseline} in each of {pairs} pairs of runs: {}. \
             It cannot be tested: the ratios are all equal, or there are fewer than three.",
            signed_percent(ratio.value),
        );
    };
    format!(
        "{version}: {title} is {} than with {baseline}: {} [{}, {}] over {pairs} pairs of runs, {} (Holm).",
        test.verdict.label(),
        signed_percent(ratio.value),
        signed_percent(ratio.low),
        signed_percent(ratio.high),
        p_value(p),
    )
}

/// `+8.1 %`.
pub fn signed_percent(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let sign = if percent > 0.0 { "+" } else { "" };
    format!("{sign}{} %", number(percent, 1))
}
