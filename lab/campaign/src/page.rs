//! The pages: a folder that can be published as it is. All but the reports of rounds can be rebuilt
//! from `results.db` at any time.

mod head;

use crate::{
    changes::{FailedVersion, incomparable_releases, release_changes},
    compare::{self, MetricTest, NoRatioReason, Release, ReleaseGroup},
    feed,
    settings::Campaign,
    store::{Conditions, Store, find_version},
    verdict,
};
use anyhow::Result;
use faultline_common::files::write_report_file;
use faultline_pages::{
    cells::{
        estimate, figure, missing, number_cell, number_or, percent, section, table, text_cell,
        text_or, without_missing_columns,
    },
    model::{
        BarSeries, Bars, Block, Cell, Chart, Report, Section, ValueWithInterval, Verdict,
        VerdictKind,
    },
    render,
};
use faultline_report::report::releases;
use faultline_stats::change::MIN_RELEASES;
use itertools::{Itertools, chain};

pub const FOLDER: &str = "page";

pub fn report_path(name: &str, conditions: &Conditions) -> String {
    format!(
        "reports/{:.8}-{:.8}/{name}.html",
        conditions.plan_digest, conditions.baseline_digest
    )
}

pub fn rewrite_pages(campaign: &Campaign, store: &mut Store) -> Result<()> {
    let groups = shown_groups(campaign, store)?;
    store.replace_verdicts(&compare::verdict_rows(&groups))?;
    let out = campaign.folder.join(FOLDER);
    let write = |name: &str, text: &str| write_report_file(&out, &out.join(name), text, true);
    let failed = failed(store)?;
    write(
        "index.html",
        &render::html::page(&report(campaign, &groups, &failed))?,
    )?;
    write("results.json", &feed::json(campaign, &groups, &failed)?)?;
    write("changes.xml", &feed::atom(campaign, &groups, &failed))?;
    for metric in releases::metrics() {
        write(
            &format!("badges/{}.svg", metric.id),
            &feed::badge(metric, groups.first(), &failed),
        )?;
    }
    Ok(())
}

pub fn shown_groups(campaign: &Campaign, store: &Store) -> Result<Vec<ReleaseGroup>> {
    let listed = store.listed_versions()?;
    let mut runs = store.runs()?;
    runs.retain(|run| find_version(&listed, &run.version).is_none_or(|listed| !listed.removed));
    let mut groups = compare::release_groups(&runs, campaign.margin);
    for release in groups.iter_mut().flat_map(|group| &mut group.releases) {
        release.name = find_version(&listed, &release.version)
            .map(|listed| listed.program.name.clone())
            .unwrap_or_default();
    }
    Ok(groups)
}

fn failed(store: &Store) -> Result<Vec<FailedVersion>> {
    let failed = store
        .listed_versions()?
        .into_iter()
        .filter(|listed| !listed.removed)
        .filter_map(|listed| {
            Some(FailedVersion {
                version: listed.program.version,
                error: listed.error?,
                added_unix_ns: listed.added_unix_ns,
            })
        });
    Ok(failed.collect())
}

fn report(campaign: &Campaign, groups: &[ReleaseGroup], failed: &[FailedVersion]) -> Report {
    let changes = release_changes(groups);
    let releases: usize = groups.iter().map(|group| group.releases.len()).sum();
    let margin = percent(campaign.margin);
    let headline = match (releases, changes.len()) {
        (0, _) => "No release has a result yet.".to_owned(),
        (_, 0) => format!("No difference beyond {margin} % is shown."),
        (_, 1) => format!("One difference beyond {margin} % is shown."),
        (_, many) => format!("{many} differences beyond {margin} % are shown."),
    };
    let headline = match head::sentence(groups) {
        Some(sentence) => format!("{sentence} {headline}"),
        None => headline,
    };
    let worse = changes.iter().filter(|change| change.verdict.is_worse());
    let kind = match (releases, changes.len(), worse.count()) {
        (0, ..) => VerdictKind::Described,
        (_, 0, _) => VerdictKind::Inconclusive,
        (_, _, 0) => VerdictKind::Better,
        (_, all, worse) if all == worse => VerdictKind::Worse,
        _ => VerdictKind::Differs,
    };
    let incomparable = incomparable_releases(groups);
    let versions = incomparable.iter().map(|change| change.version.as_str());
    let not_comparable = versions_sentence(versions, "not comparable by slot", ["is", "are"]);
    let versions = failed.iter().map(|failed| failed.version.as_str());
    let no_result = versions_sentence(versions, "no result", ["has", "have"]);
    let group_sections = groups
        .iter()
        .enumerate()
        .map(|(index, group)| group_section(index, group));
    let sections = chain!(
        group_sections,
        groups.first().and_then(trends),
        (releases > 0).then(|| recordings(groups)),
        (!failed.is_empty()).then(|| without_a_result(failed)),
        [method(campaign)],
    );
    Report {
        title: campaign.name.clone(),
        subtitle: format!(
            "Releases against the pinned baseline {}",
            campaign.baseline.version
        ),
        verdict: Verdict {
            headline: headline + &ended_early(groups) + &not_comparable + &no_result,
            bullets: chain!(changes, incomparable)
                .map(|change| change.sentence)
                .collect(),
            kind,
        },
        overview: head::effects(groups).into_iter().collect(),
        sections: sections.collect(),
        made_by: format!("faultline {}", env!("CARGO_PKG_VERSION")),
        ..Report::default()
    }
}

/// ` 1.2.0, 1.3.0 have no result.`; empty without versions.
fn versions_sentence<'v>(
    versions: impl Iterator<Item = &'v str>,
    predicate: &str,
    verbs: [&str; 2],
) -> String {
    let versions = versions.collect_vec();
    let [singular, plural] = verbs;
    match versions.as_slice() {
        [] => String::new(),
        [version] => format!(" {version} {singular} {predicate}."),
        versions => format!(" {} {plural} {predicate}.", versions.join(", ")),
    }
}

fn ended_early(groups: &[ReleaseGroup]) -> String {
    let newest = groups.iter().take(1).flat_map(|group| &group.releases);
    let (completed, all) = newest
        .map(Release::completed_and_all_runs)
        .fold((0, 0), |sum, release| {
            (sum.0 + release.0, sum.1 + release.1)
        });
    match all - completed {
        0 => String::new(),
        early => format!(" {early} of {all} runs of releases ended early."),
    }
}

fn group_section(index: usize, group: &ReleaseGroup) -> Section {
    let columns = chain!(
        [("Release", ""), ("What it is", ""), ("Runs completed", "")],
        releases::metrics().map(|metric| (metric.title, "% against the baseline")),
        [("Consensus and slot time", ""), ("Kernel", "")],
    )
    .collect_vec();
    let note = format!(
        "How much each release differs from {}, with 95 % intervals: the geometric mean of the ratios of pairs of runs. A release and its \
         differences link to the report of its newest runs. The table of recordings links to the report of each round. A mark says \
         that a difference is worse or better.",
        group.conditions.baseline
    );
    let (id, title) = match index {
        0 => ("releases".to_owned(), "Releases".to_owned()),
        _ => (
            format!("releases-{}", index + 1),
            format!("Releases under other conditions ({index})"),
        ),
    };
    let mut releases_table = table(&id, "Releases against metrics", &columns, &note);
    releases_table.rows = group.releases.iter().rev().map(release_row).collect();
    let conditions = format!(
        "Machine: {}. Baseline: {} (SHA-256 {}). Plan: SHA-256 {}. Rows of other machines, plans or baselines are not compared with these.",
        group.machine,
        group.conditions.baseline,
        group.conditions.baseline_digest,
        group.conditions.plan_digest
    );
    let blocks = vec![
        Block::Text(conditions),
        Block::Table(without_missing_columns(releases_table)),
    ];
    section(&id, &title, blocks)
}

fn release_row(release: &Release) -> Vec<Cell> {
    let report = release.report_path();
    let linked = |cell: Cell, mark: &str| Cell::Linked {
        cell: Box::new(cell),
        to: report.clone(),
        mark: mark.to_owned(),
    };
    let (completed, runs) = release.completed_and_all_runs();
    let differences = releases::metrics().map(|metric| match release.test(metric) {
        Some(test) if test.verdict == verdict::Verdict::NotComparable => {
            linked(text_cell(test.verdict.label()), "")
        }
        Some(test) => linked(estimate(percents(test), 1), test.verdict.label()),
        None => match release.no_ratio_reason(metric) {
            Some(NoRatioReason::Zero { .. }) => linked(text_cell("a run has 0"), ""),
            Some(NoRatioReason::Missing) => {
                missing("the baseline has values, the release has none")
            }
            None => missing("no two pairs of runs have a value above 0"),
        },
    });
    let kernels = release.runs.iter().map(|run| &run.kernel);
    chain!(
        [
            linked(text_cell(&release.version), ""),
            text_or(Some(release.name.as_str()), "not said"),
            Cell::Text(format!("{completed} of {runs}")),
        ],
        differences,
        [
            text_cell(&release.comparability.text()),
            Cell::Text(kernels.sorted().dedup().join(", ")),
        ],
    )
    .collect()
}

fn percents(test: &MetricTest) -> [f64; 3] {
    test.ratio_test
        .ratio
        .value_and_ends()
        .map(|ratio| 100.0 * (ratio - 1.0))
}

fn trends(group: &ReleaseGroup) -> Option<Section> {
    let mut blocks = Vec::new();
    for metric in releases::metrics() {
        let has_test = |release: &Release| release.test(metric).is_some();
        if !group.releases.iter().any(has_test) {
            continue;
        }
        let bar = |release: &Release| -> Option<ValueWithInterval> {
            let test = release.test(metric);
            let [value, low, high] =
                percents(test.filter(|test| test.verdict != verdict::Verdict::NotComparable)?);
            Some((value, Some((low, high))))
        };
        let category = |release: &Release| {
            let shift = group
                .shifts
                .iter()
                .find(|shift| shift.metric.id == metric.id && shift.version == release.version);
            let word = match (shift, release.test(metric)) {
                (Some(shift), _) => format!("change: {}", shift.verdict.label()),
                (None, Some(test)) => test.verdict.label().to_owned(),
                (None, None) => String::new(),
            };
            format!("{} {word}", release.version).trim_end().to_owned()
        };
        let bars = Bars {
            y_label: format!("Against {} (%)", group.conditions.baseline),
            categories: group.releases.iter().map(category).collect(),
            series: vec![BarSeries {
                name: metric.title.to_owned(),
                values: group.releases.iter().map(bar).collect(),
            }],
            log: false,
        };
        let caption =
            "Geometric mean of the ratios of pairs of runs, less 1, with its 95 % interval.";
        blocks.push(figure(
            &format!("trend-{}", metric.id),
            metric.title,
            caption,
            Chart::Bars(bars),
        ));
    }
    (!blocks.is_empty()).then(|| section("trends", "Trends", blocks))
}

fn recordings(groups: &[ReleaseGroup]) -> Section {
    let columns = [
        "Run",
        "Round",
        "Replicate",
        "Outcome",
        "Validity",
        "Recording",
        "SHA-256",
        "Consensus",
        "Slot time [s]",
        "Kernel",
        "Plan",
        "Machine",
    ];
    let note = "Each run in results.db, except those of removed releases. Plan: the first digits of its SHA-256.";
    let mut recordings = table("recordings", "Runs and their recordings", &columns, note);
    for run in groups
        .iter()
        .flat_map(|group| &group.releases)
        .flat_map(|release| &release.runs)
    {
        let arm = if run.is_baseline {
            format!("{} for {}", run.conditions.baseline, run.version)
        } else {
            run.version.clone()
        };
        recordings.rows.push(vec![
            Cell::Linked {
                cell: Box::new(Cell::Text(arm)),
                to: run.report.clone(),
                mark: String::new(),
            },
            number_cell(f64::from(run.round), 0),
            number_cell(f64::from(run.replicate), 0),
            text_cell(&run.outcome),
            text_cell(&run.validity),
            text_cell(&run.recording),
            text_or(run.recording_digest.as_deref(), "no recording"),
            text_or(run.consensus().as_deref(), "not known"),
            number_or(run.slot_seconds(), 2, "not measured"),
            text_cell(&run.kernel),
            Cell::Text(format!("{:.8}", run.conditions.plan_digest)),
            text_cell(&run.machine),
        ]);
    }
    section("recordings", "Recordings", vec![Block::Table(recordings)])
}

fn without_a_result(failed: &[FailedVersion]) -> Section {
    let columns = ["Release", "Why"];
    let note = "The next run of the campaign tries again.";
    let mut failed_table = table(
        "failed",
        "Releases that could not be measured",
        &columns,
        note,
    );
    failed_table.rows = failed
        .iter()
        .map(|failed| vec![text_cell(&failed.version), text_cell(&failed.error)])
        .collect();
    section(
        "failed",
        "Without a result",
        vec![Block::Table(failed_table)],
    )
}

fn method(campaign: &Campaign) -> Section {
    let margin = percent(campaign.margin);
    let texts = [
        format!(
            "Each release alternates with the baseline {}. The ratio of the two runs of each pair is compared, so that drift of the \
             host cancels. A cell is marked if Student's test of the log ratios, adjusted by Holm over the metrics of the release, has \
             p < 0.05, and the ratio of each of two rounds differs by more than {margin} % in the same direction. If no \
             test is possible, a mark says that every pair differs in one direction, and the ratio by more than {margin} %.",
            campaign.baseline.version
        ),
        format!(
            "A change in a trend can be marked from {MIN_RELEASES} releases on, with two of them or more on each side of it. The history is split into \
             segments of constant mean log ratio. The penalty for a split grows with the spread of the pairs of one release. A flat history has a mark in fewer than one of 100 cases, \
             for each metric and each time the pages are renewed."
        ),
        "The same results for other programs: results.json, changes.xml (Atom), badges/METRIC.svg."
            .to_owned(),
    ];
    section("method", "Method", texts.map(Block::Text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        comparability::tests::{cluster, with_clusters},
        compare::tests::runs,
    };

    #[test]
    fn early_ended_runs_are_in_the_headline() {
        let campaign = Campaign {
            name: "x".to_owned(),
            margin: 0.05,
            ..Campaign::default()
        };
        let mut all = runs("1.1.0", 1.0, 1);
        all.iter_mut()
            .filter(|run| !run.is_baseline)
            .for_each(|run| run.outcome = "oom".to_owned());
        let page_html = report(&campaign, &compare::release_groups(&all, 0.05), &[])
            .verdict
            .headline;
        assert_eq!(
            page_html,
            "No difference beyond 5 % is shown. 3 of 3 runs of releases ended early."
        );
    }

    #[test]
    fn the_method_counts_no_metric_that_the_plan_cannot_have() {
        let section = method(&Campaign::default());
        let texts = section.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text = texts.collect_vec().concat();
        assert!(text.contains("for each metric and each time"), "{text}");
        let all = format!("{} metrics", releases::metrics().count());
        assert!(!text.contains(&all), "{text}");
    }

    #[test]
    fn a_release_of_another_consensus_is_named_and_has_no_numbers() {
        let clusters = [
            &cluster(&["tower"], Some(0.4)),
            &cluster(&["alpenglow"], Some(0.2)),
        ];
        let campaign = Campaign {
            margin: 0.05,
            ..Campaign::default()
        };
        let groups = compare::release_groups(&with_clusters("1.2.0", clusters), 0.05);
        let report = report(&campaign, &groups, &[]);
        assert_eq!(
            report.verdict.headline,
            "No difference beyond 5 % is shown. 1.2.0 is not comparable by slot."
        );
        assert_eq!(
            report.verdict.bullets,
            ["1.2.0 is not comparable by slot: Alpenglow at 0.20 s, the baseline Tower at 0.40 s."]
        );
        let cells = release_row(&groups[0].releases[0]);
        let cells: Vec<String> = { cells.iter() }
            .filter_map(|cell| match cell.without_link() {
                Cell::Text(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        let count = |wanted: &str| cells.iter().filter(|text| *text == wanted).count();
        assert_eq!(count("not comparable"), 2, "{cells:?}");
        assert_eq!(
            count("Alpenglow at 0.20 s, the baseline Tower at 0.40 s"),
            1
        );
    }

    #[test]
    fn every_row_has_all_cells_and_only_detected_changes_a_mark() {
        let campaign = Campaign {
            name: "x".to_owned(),
            margin: 0.05,
            ..Campaign::default()
        };
        for name in ["", "a build"] {
            let mut groups = compare::release_groups(
                &[runs("1.1.0", 1.0, 1), runs("1.2.0", 1.08, 2)].concat(),
                0.05,
            );
            groups[0].releases[1].name = name.to_owned();
            let failed = [FailedVersion {
                version: "1.3.0".to_owned(),
                error: "it cannot be built".to_owned(),
                added_unix_ns: 0,
            }];
            let report = report(&campaign, &groups, &failed);
            assert!(report.sections.iter().any(|section| section.id == "failed"));
            let end = "One difference beyond 5 % is shown. 1.3.0 has no result.";
            assert!(report.verdict.headline.ends_with(end));
            let tables = report
                .sections
                .iter()
                .flat_map(|section| &section.blocks)
                .filter_map(|block| match block {
                    Block::Table(table) => Some(table),
                    _ => None,
                });
            for table in tables {
                assert!(
                    table
                        .rows
                        .iter()
                        .all(|row| row.len() == table.columns.len()),
                    "{table:#?}"
                );
                for row in table.rows.iter().filter(|_| table.id == "releases") {
                    let index = table
                        .columns
                        .iter()
                        .position(|column| column.title == "Replay time per slot, p95");
                    let marked: Vec<usize> = (0..row.len())
                        .filter(
                            |at| matches!(&row[*at], Cell::Linked { mark, .. } if !mark.is_empty()),
                        )
                        .collect();
                    let worse = row[0].without_link() == &Cell::Text("1.2.0".to_owned());
                    assert_eq!(
                        marked,
                        if worse {
                            vec![index.unwrap()]
                        } else {
                            Vec::new()
                        }
                    );
                }
            }
        }
    }
}
