use crate::{
    changes::{
        FailedVersion, ReleaseChange, incomparable_releases, release_changes, signed_percent,
    },
    compare::{MetricTest, ReleaseGroup, compare_versions},
    settings::Campaign,
    store::RunRow,
    verdict::Verdict,
};
use chrono::{DateTime, SecondsFormat};
use faultline_experiments::folder::digest;
use faultline_report::report::{RunMetric, releases};
use faultline_text::escaped;
use serde_json::{Value, json};

const FORMAT: u32 = 1;

const WORSE_COLOR: &str = "#b3480a";

pub fn json(
    campaign: &Campaign,
    groups: &[ReleaseGroup],
    failed: &[FailedVersion],
) -> anyhow::Result<String> {
    let metrics: Value = releases::metrics()
        .map(|metric| json!({ "id": metric.id, "title": metric.title, "unit": metric.unit, "definition": metric.definition }))
        .collect();
    let changes: Value = release_changes(groups).iter().map(change).collect();
    let failed: Value = failed
        .iter()
        .map(|failed_version| json!({ "release": failed_version.version, "why": failed_version.error }))
        .collect();
    let document = json!({
        "format": FORMAT,
        "name": campaign.name,
        "margin": campaign.margin,
        "metrics": metrics,
        "groups": groups.iter().map(group).collect::<Value>(),
        "changes": changes,
        "without_a_result": failed,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn change(change: &ReleaseChange) -> Value {
    json!({
        "id": change.id,
        "release": change.version,
        "metric": change.metric,
        "verdict": change.verdict.label(),
        "words": change.sentence,
        "at": time(change.unix_ns),
        "report": change.report,
    })
}

fn group(group: &ReleaseGroup) -> Value {
    let releases: Value = group
        .releases
        .iter()
        .map(|release| {
            let runs: Value = release.runs.iter().map(run).collect();
            let metrics: Value = release
                .tests
                .iter()
                .map(|test| (test.metric.id, metric_test(test)))
                .collect();
            json!({
                "version": release.version,
                "name": release.name,
                "program_sha256": release.runs.first().map(|run| &run.program_digest),
                "not_comparable": release.comparability.difference_text(),
                "not_known": release.comparability.unknown_consensus,
                "metrics": metrics,
                "runs": runs,
            })
        })
        .collect();
    json!({
        "machine": group.machine,
        "plan_sha256": group.conditions.plan_digest,
        "baseline": group.conditions.baseline,
        "baseline_sha256": group.conditions.baseline_digest,
        "releases": releases,
    })
}

fn metric_test(test: &MetricTest) -> Value {
    json!({
        "baseline": test.means[0],
        "release": test.means[1],
        "ratio": test.ratio_test.ratio.value,
        "low": test.ratio_test.ratio.low,
        "high": test.ratio_test.ratio.high,
        "pairs": test.ratio_test.pairs,
        "p": test.ratio_test.p,
        "holm_p": test.adjusted_p,
        "verdict": test.verdict.label(),
        "to_be_repeated": test.verdict == Verdict::Unconfirmed,
        "tested": test.ratio_test.p.is_some(),
    })
}

fn run(run: &RunRow) -> Value {
    json!({
        "arm": run.arm(),
        "round": run.round,
        "replicate": run.replicate,
        "began": time(run.began_unix_ns),
        "outcome": run.outcome,
        "validity": run.validity,
        "kernel": run.kernel,
        "consensus": run.consensus(),
        "slot_seconds": run.slot_seconds(),
        "recording": run.recording,
        "sha256": run.recording_digest,
        "values": run.values.iter().cloned().collect::<Value>(),
    })
}

fn time(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns).to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub fn atom(campaign: &Campaign, groups: &[ReleaseGroup], failed: &[FailedVersion]) -> String {
    let times = groups
        .iter()
        .flat_map(|group| &group.releases)
        .flat_map(|release| &release.runs)
        .map(|run| run.began_unix_ns)
        .chain(failed.iter().map(|failed| failed.added_unix_ns));
    let updated = time(times.max().unwrap_or(0));
    let name = escaped(&campaign.name);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n<id>urn:faultline:campaign:{}</id>\n\
         <title>{name}</title>\n<updated>{updated}</updated>\n<author><name>faultline</name></author>\n<link href=\"index.html\"/>\n",
        escaped(&faultline_pages::cells::slug(&campaign.name)),
    );
    for change in release_changes(groups)
        .iter()
        .chain(&incomparable_releases(groups))
    {
        out += &entry(
            [
                &change.id,
                &change.title,
                change.verdict.label(),
                &change.report,
                &change.sentence,
            ],
            change.unix_ns,
        );
    }
    for failed in failed {
        let id = digest(&["failed", &campaign.plan_digest, &failed.version].join("\n"));
        let title = format!("{}: no result", failed.version);
        out += &entry(
            [&id, &title, "no result", "index.html#failed", &failed.error],
            failed.added_unix_ns,
        );
    }
    out + "</feed>\n"
}

fn entry(texts: [&str; 5], updated_unix_ns: i64) -> String {
    let [id, title, category, link, summary] = texts.map(escaped);
    let updated = time(updated_unix_ns);
    format!(
        "<entry>\n<id>urn:faultline:change:{id}</id>\n<title>{title}</title>\n<updated>{updated}</updated>\n\
         <category term=\"{category}\"/>\n<link href=\"{link}\"/>\n<summary>{summary}</summary>\n</entry>\n"
    )
}

/// An SVG with the result of the newest release that has ratios of the metric, or the name of a
/// newer version without a result.
pub fn badge(metric: &RunMetric, group: Option<&ReleaseGroup>, failed: &[FailedVersion]) -> String {
    let newest = group
        .into_iter()
        .flat_map(|group| group.releases.iter().rev())
        .find_map(|release| Some((&release.version, release.test(metric)?)));
    let is_newer = |failed: &&FailedVersion| {
        newest.is_none_or(|(version, _)| compare_versions(&failed.version, version).is_gt())
    };
    let newest_failed = failed
        .iter()
        .filter(is_newer)
        .max_by(|a, b| compare_versions(&a.version, &b.version));
    let (message, color) = match (newest_failed, newest) {
        (Some(failed), _) => (format!("{}: no result", failed.version), WORSE_COLOR),
        (None, None) => ("not measured".to_owned(), "#68717d"),
        (None, Some((version, test))) => {
            let verdict = test.verdict;
            let color = match verdict {
                _ if verdict.is_worse() => WORSE_COLOR,
                _ if verdict.is_difference() => "#00734f",
                _ => "#5a6470",
            };
            let percent = signed_percent(test.ratio_test.ratio.value);
            let result = match verdict {
                Verdict::NotComparable => verdict.label().to_owned(),
                _ => format!("{percent} {}", verdict.label())
                    .trim_end()
                    .to_owned(),
            };
            (format!("{version}: {result}"), color)
        }
    };
    // 6.6 px for a character at a font size of 11 px, and 10 px of padding.
    let text_width = |text: &str| 10.0 + 6.6 * text.chars().count() as f64;
    let id_width = text_width(metric.id);
    let message_width = text_width(&message);
    let width = id_width + message_width;
    let message_middle = id_width + message_width / 2.0;
    let id = escaped(metric.id);
    let message = escaped(&message);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"20\" role=\"img\" aria-label=\"{id}: {message}\">\n\
         <title>{id}: {message}</title>\n<rect width=\"{width:.0}\" height=\"20\" rx=\"3\" fill=\"#39414a\"/>\n\
         <rect x=\"{id_width:.1}\" width=\"{message_width:.1}\" height=\"20\" rx=\"3\" fill=\"{color}\"/>\n\
         <g fill=\"#ffffff\" text-anchor=\"middle\" font-family=\"Verdana, DejaVu Sans, sans-serif\" font-size=\"11\">\n\
         <text x=\"{:.1}\" y=\"14\">{id}</text>\n<text x=\"{message_middle:.1}\" y=\"14\">{message}</text>\n</g>\n</svg>\n",
        id_width / 2.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        comparability::tests::{cluster, with_clusters},
        compare::{
            release_groups,
            tests::{metric, runs},
        },
    };

    fn campaign() -> Campaign {
        Campaign {
            name: "a <b> & c".to_owned(),
            margin: 0.05,
            ..Campaign::default()
        }
    }

    #[test]
    fn feeds_and_badges_contain_only_the_marked_change() {
        let groups = release_groups(
            &[runs("1.1.0", 1.0, 1), runs("1.2.0", 1.08, 2)].concat(),
            0.05,
        );
        let feed = atom(&campaign(), &groups, &[]);
        assert_eq!(feed.matches("<entry>").count(), 1);
        assert!(
            feed.contains("<title>1.2.0: Replay time per slot, p95 worse</title>"),
            "{feed}"
        );
        assert!(feed.contains("a &lt;b&gt; &amp; c"), "{feed}");
        let document: Value =
            serde_json::from_str(&json(&campaign(), &groups, &[]).unwrap()).unwrap();
        assert_eq!(document["changes"].as_array().unwrap().len(), 1);
        assert_eq!(document["changes"][0]["verdict"], "worse");
        let release = &document["groups"][0]["releases"][1];
        assert_eq!(
            (
                &release["version"],
                &release["metrics"]["replay-p95"]["pairs"]
            ),
            (&json!("1.2.0"), &json!(6))
        );
        assert!(release["metrics"].get("rss-at-tip").is_none());
        let of = |id: &str| badge(metric(id), groups.first(), &[]);
        assert!(
            of("replay-p95").contains("1.2.0: +8"),
            "{}",
            of("replay-p95")
        );
        assert!(of("replay-p95").contains("% worse") && !of("replay-p50").contains("worse"));
        assert!(of("catch-up").contains("not measured"));
    }

    #[test]
    fn a_release_of_another_consensus_has_one_feed_entry_and_no_change() {
        let clusters = [
            &cluster(&["tower"], Some(0.4)),
            &cluster(&["alpenglow"], Some(0.2)),
        ];
        let groups = release_groups(&with_clusters("1.2.0", clusters), 0.05);
        let feed = atom(&campaign(), &groups, &[]);
        let title = "<title>1.2.0: not comparable by slot</title>";
        assert!(
            feed.contains(title) && feed.matches("<entry>").count() == 1,
            "{feed}"
        );
        let reason = "Alpenglow at 0.20 s, the baseline Tower at 0.40 s";
        assert!(feed.contains(reason), "{feed}");
        let document: Value =
            serde_json::from_str(&json(&campaign(), &groups, &[]).unwrap()).unwrap();
        assert_eq!(document["changes"], json!([]));
        let release = &document["groups"][0]["releases"][0];
        assert_eq!(release["not_comparable"], reason);
        let test = &release["metrics"]["replay-p95"];
        assert_eq!(test["verdict"], "not comparable");
        assert_eq!((&test["tested"], &test["p"]), (&json!(false), &Value::Null));
        let run = &release["runs"][0];
        assert_eq!(
            (&run["consensus"], &run["slot_seconds"]),
            (&json!("tower"), &json!(0.4))
        );
        let badge = badge(metric("replay-p95"), groups.first(), &[]);
        assert!(badge.contains("1.2.0: not comparable<"), "{badge}");
    }

    #[test]
    fn a_version_without_results_has_a_feed_entry_and_marks_older_badges() {
        let groups = release_groups(&runs("1.1.0", 1.0, 1), 0.05);
        let failed = ["1.0.9", "1.2.0"].map(|version| FailedVersion {
            version: version.to_owned(),
            error: "it <exits>".to_owned(),
            added_unix_ns: 1_800_000_000_000_000_000,
        });
        let feed = atom(&campaign(), &groups, &failed);
        assert_eq!(feed.matches("<entry>").count(), 2);
        assert!(feed.contains("<title>1.2.0: no result</title>"), "{feed}");
        assert!(feed.contains("it &lt;exits&gt;"), "{feed}");
        let metric = releases::metrics().next().unwrap();
        assert!(badge(metric, groups.first(), &failed).contains("1.2.0: no result"));
        let older = badge(metric, None, &[]);
        assert!(older.contains("not measured"), "{older}");
        let document: Value =
            serde_json::from_str(&json(&campaign(), &groups, &failed).unwrap()).unwrap();
        assert_eq!(document["without_a_result"][1]["release"], "1.2.0");
    }
}
