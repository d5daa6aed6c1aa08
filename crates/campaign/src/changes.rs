//! One sentence per release change, for the page and the feeds.

use crate::compare::{Group, MetricTest, Release};
use crate::mark::Mark;
use faultline_analysis::report::{Scalar, releases};
use faultline_experiments::folder::digest;
use faultline_text::{number as grouped, p_value};

#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) metric: &'static Scalar,
    pub(crate) mark: Mark,
    pub(crate) words: String,
    /// Start of the newest run that shows it, in nanoseconds since 1970.
    pub(crate) unix_ns: i64,
    /// Relative to the page.
    pub(crate) report: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) version: String,
    pub(crate) why: String,
    pub(crate) added_unix_ns: i64,
}

#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
pub(crate) fn published(groups: &[Group]) -> Vec<Published> {
    let mut all = Vec::new();
    for group in groups {
        let (plan, baseline) = (
            &group.conditions.plan_digest,
            &group.conditions.baseline_digest,
        );
        let newest = |releases: &[Release]| {
            releases
                .iter()
                .flat_map(|release| &release.runs)
                .map(|run| run.began_unix_ns)
                .max()
                .unwrap_or(0)
        };
        for release in group.releases.iter().rev() {
            let report = release
                .runs
                .last()
                .map(|run| run.report.clone())
                .unwrap_or_default();
            let one = |metric: &'static Scalar, mark, kind, words, unix_ns| Published {
                id: digest(
                    &[
                        kind,
                        metric.id,
                        &release.version,
                        plan,
                        baseline,
                        &group.machine,
                    ]
                    .join("\n"),
                ),
                version: release.version.clone(),
                metric,
                mark,
                words,
                unix_ns,
                report: report.clone(),
            };
            for (metric, judged) in releases::metrics().zip(&release.judged) {
                let Some(judged) = judged
                    .as_ref()
                    .filter(|judged| !judged.mark.word().is_empty())
                else {
                    continue;
                };
                let words = sentence(&release.version, metric, judged, &group.conditions.baseline);
                all.push(one(
                    metric,
                    judged.mark,
                    "release",
                    words,
                    newest(std::slice::from_ref(release)),
                ));
            }
            for shift in group
                .shifts
                .iter()
                .filter(|shift| shift.version == release.version)
            {
                let Some(metric) = releases::metrics().nth(shift.metric) else {
                    continue;
                };
                let (word, percent) = (shift.mark.word(), signed(shift.ratio));
                let words = format!(
                    "{} is {word} from {} on: {percent} against the releases before.",
                    metric.title, release.version
                );
                all.push(one(
                    metric,
                    shift.mark,
                    "change",
                    words,
                    newest(&group.releases),
                ));
            }
        }
    }
    all
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
            signed(ratio.value),
        );
    };
    format!(
        "{version}: {title} is {} than with {baseline}: {} [{}, {}] over {pairs} pairs of runs, {} (Holm).",
        judged.mark.word(),
        signed(ratio.value),
        signed(ratio.low),
        signed(ratio.high),
        p_value(p),
    )
}

/// `+8.1 %`.
pub(crate) fn signed(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let sign = if percent > 0.0 { "+" } else { "" };
    format!("{sign}{} %", grouped(percent, 1))
}
