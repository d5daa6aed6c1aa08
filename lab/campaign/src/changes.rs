//! One sentence per release change, for the page and the feeds.

use crate::compare::{Group, MetricTest, Release, Shift};
use crate::mark::Mark;
use faultline_experiments::folder::digest;
use faultline_report::report::{Scalar, releases};
use faultline_text::{number as grouped, p_value};

#[derive(Debug, Clone)]
pub(crate) struct ReleaseChange {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) metric: &'static Scalar,
    pub(crate) mark: Mark,
    pub(crate) words: String,
    /// Start of the newest run that shows it, in nanoseconds since 1970.
    pub(crate) unix_ns: i64,
    /// Path of the report, relative to the page.
    pub(crate) report: String,
}

/// A release with another consensus or slot time than its baseline.
#[derive(Debug, Clone)]
pub(crate) struct IncomparableRelease {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) words: String,
    /// Start of its newest run, in nanoseconds since 1970.
    pub(crate) unix_ns: i64,
    pub(crate) report: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedVersion {
    pub(crate) version: String,
    pub(crate) why: String,
    pub(crate) added_unix_ns: i64,
}

pub(crate) fn release_changes(groups: &[Group]) -> Vec<ReleaseChange> {
    let mut all = Vec::new();
    for group in groups {
        for release in group.releases.iter().rev() {
            all.extend(differences(group, release));
            all.extend(shifts(group, release));
        }
    }
    all
}

pub(crate) fn incomparable_releases(groups: &[Group]) -> Vec<IncomparableRelease> {
    let mut all = Vec::new();
    for group in groups {
        all.extend(group.releases.iter().rev().filter_map(|release| {
            Some(IncomparableRelease {
                id: id("incomparable", "", group, release),
                version: release.version.clone(),
                words: not_comparable(release)?,
                unix_ns: newest(std::slice::from_ref(release)),
                report: release.report(),
            })
        }));
    }
    all
}

pub(crate) fn not_comparable(release: &Release) -> Option<String> {
    let reason = release.comparability.difference()?;
    Some(format!(
        "{} is not comparable by slot: {reason}.",
        release.version
    ))
}

/// Differences of the release from the baseline.
fn differences(group: &Group, release: &Release) -> impl Iterator<Item = ReleaseChange> {
    let unix_ns = newest(std::slice::from_ref(release));
    let judged = releases::metrics().zip(&release.judged);
    judged.filter_map(move |(metric, judged)| {
        let judged = judged.as_ref()?;
        if !judged.mark.is_difference() {
            return None;
        }
        let words = sentence(&release.version, metric, judged, &group.conditions.baseline);
        let change = (metric, judged.mark, words);
        Some(publish("release", group, release, change, unix_ns))
    })
}

/// Changes of the release against the releases before it.
fn shifts(group: &Group, release: &Release) -> impl Iterator<Item = ReleaseChange> {
    let unix_ns = newest(&group.releases);
    let of_release = |shift: &&Shift| shift.version == release.version;
    group
        .shifts
        .iter()
        .filter(of_release)
        .filter_map(move |shift| {
            let metric = releases::metrics().nth(shift.metric)?;
            let words = format!(
                "{} is {} from {} on: {} against the releases before.",
                metric.title,
                shift.mark.word(),
                release.version,
                signed_percent(shift.ratio)
            );
            let change = (metric, shift.mark, words);
            Some(publish("change", group, release, change, unix_ns))
        })
}

fn publish(
    kind: &str,
    group: &Group,
    release: &Release,
    (metric, mark, words): (&'static Scalar, Mark, String),
    unix_ns: i64,
) -> ReleaseChange {
    ReleaseChange {
        id: id(kind, metric.id, group, release),
        version: release.version.clone(),
        metric,
        mark,
        words,
        unix_ns,
        report: release.report(),
    }
}

fn id(kind: &str, metric: &str, group: &Group, release: &Release) -> String {
    let conditions = &group.conditions;
    let parts = [
        kind,
        metric,
        &release.version,
        &conditions.plan_digest,
        &conditions.baseline_digest,
        &group.machine,
    ];
    digest(&parts.join("\n"))
}

fn newest(releases: &[Release]) -> i64 {
    let runs = releases.iter().flat_map(|release| &release.runs);
    runs.map(|run| run.began_unix_ns).max().unwrap_or(0)
}

fn sentence(version: &str, metric: &Scalar, judged: &MetricTest, baseline: &str) -> String {
    let ratio = judged.test.ratio;
    let (title, pairs) = (metric.title, judged.test.pairs);
    let Some(p) = judged.holm else {
        let direction = if judged.mark.is_worse() {
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
        judged.mark.word(),
        signed_percent(ratio.value),
        signed_percent(ratio.low),
        signed_percent(ratio.high),
        p_value(p),
    )
}

/// `+8.1 %`.
pub(crate) fn signed_percent(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let sign = if percent > 0.0 { "+" } else { "" };
    format!("{sign}{} %", grouped(percent, 1))
}
