mod figures;

use crate::{
    compare::{Comparison, comparisons},
    encoding, nodes, plan_file, render,
    results::Results,
    transport,
};
use anyhow::anyhow;
use faultline_common::files::NotOverwritten;
use faultline_pages::{
    cells::{section, slug},
    effects,
    model::{Block, Caveat, Report, RunCard, Verdict, VerdictKind},
};
use faultline_stats::arms::Direction;
use faultline_text::{count, counted};
use itertools::{Itertools, chain};
use std::{collections::BTreeSet, path::Path};

/// Writes a single page, or a folder with the page, tables and figures. Returns the page's path and
/// a line break.
pub fn write(report: &Report, out: &Path) -> anyhow::Result<String> {
    let written =
        faultline_pages::render::write(report, out, false).map_err(|error| {
            match error.downcast_ref() {
                Some(NotOverwritten(path)) => anyhow!(
                    "{} is there already: choose another path with --html, or remove {} first",
                    path.display(),
                    out.display()
                ),
                None => error,
            }
        })?;
    Ok(format!("{}\n", written.page.display()))
}

/// The title of the page, and the title and blocks of its first section.
fn first_section(results: &Results) -> (&'static str, &'static str, Vec<Block>) {
    let study_title = "The study's own tables";
    match results.header.subcommand.as_str() {
        "nodes" => (
            "Nodes on the same requests",
            study_title,
            nodes::page(results),
        ),
        "run" => (
            "Requests of a plan",
            "All requests together",
            plan_file::all_requests_tables(results)
                .into_iter()
                .map(Block::Table)
                .collect(),
        ),
        "transport" => (
            "HTTP and WebSocket, reading and writing",
            study_title,
            transport::page(results),
        ),
        _ => (
            "Encodings of account data",
            study_title,
            encoding::page(results),
        ),
    }
}

pub fn report(results: &Results) -> Report {
    let compared = comparisons(results);
    let header = &results.header;
    let (title, first_title, first_blocks) = first_section(results);
    let latencies = vec![
        Block::Table(render::latency_table(results, "latencies", "Latency")),
        Block::Table(render::phase_table(results)),
    ];
    let mut differences = Vec::new();
    if !compared.is_empty() {
        let table = render::difference_table(results, &compared, "differences");
        differences.push(Block::Table(table));
        differences.extend(figures::differences(results, &compared));
    }
    let mut sections = vec![
        section("study", first_title, first_blocks),
        section("latency", "Latency", latencies),
        section("differences", "Differences", differences),
        section(
            "answers",
            "Answers compared",
            render::paragraphs(&render::answer_comparison_text(results)),
        ),
        section(
            "distribution",
            "Distribution",
            figures::distributions(results),
        ),
        section(
            "how",
            "How requests were sent",
            render::settings_blocks(results),
        ),
    ];
    sections.retain(|section| !section.blocks.is_empty());
    Report {
        title: title.to_owned(),
        subtitle: render::subtitle(results),
        verdict: verdict(results, &compared),
        overview: chain!(
            figures::effects(results, &compared),
            figures::over_time(results)
        )
        .collect(),
        runs: cards(results),
        caveats: caveats(results, &compared),
        sections,
        runs_heading: "Arms".to_owned(),
        made_by: made_by(&header.version),
        ..Report::default()
    }
}

pub fn verdict_with_headline(default: &str, mut points: Vec<String>, kind: VerdictKind) -> Verdict {
    let headline = if points.is_empty() {
        default.to_owned()
    } else {
        points.remove(0)
    };
    Verdict {
        headline: format!("{headline}."),
        bullets: points,
        kind,
    }
}

pub fn card(id: String, name: &str, facts: Vec<(&str, String)>) -> RunCard {
    let fact = |(name, value): (&str, _)| (name.to_owned(), value);
    RunCard {
        id,
        name: name.to_owned(),
        arm: name.to_owned(),
        facts: facts.into_iter().map(fact).collect(),
    }
}

pub fn made_by(version: &str) -> String {
    format!("faultline {version}")
}

pub fn unique_ids<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let id = |name| {
        let slug = slug(name);
        let (mut id, mut number) = (slug.clone(), 2);
        while !taken.insert(id.clone()) {
            id = format!("{slug}-{number}");
            number += 1;
        }
        id
    };
    names.map(id).collect()
}

fn verdict(results: &Results, compared: &[Comparison]) -> Verdict {
    let arms = results.header.arms.split_first();
    let Some((reference, others)) = arms.filter(|_| !compared.is_empty()) else {
        let nothing = "There is nothing to compare";
        return verdict_with_headline(nothing, Vec::new(), VerdictKind::Described);
    };
    let mut points = Vec::from_iter(largest_difference(results, reference, compared));
    for arm in others {
        let directions = compared
            .iter()
            .filter(|comparison| comparison.arm == *arm)
            .map(|comparison| comparison.decision.established())
            .collect_vec();
        let count_of = |direction| {
            directions
                .iter()
                .filter(|established| **established == Some(direction))
                .count()
        };
        let (fast, slow) = (count_of(Direction::Lower), count_of(Direction::Higher));
        let comparisons = counted(directions.len() as f64, "comparison");
        points.push(match directions.len() - fast - slow {
            undecided if undecided == directions.len() => {
                format!(
                    "No difference between {arm} and {reference} is established in {comparisons}"
                )
            }
            undecided => format!(
                "{arm} is faster than {reference} in {fast} of {comparisons}, slower in {slow}; no difference is established in {undecided}"
            ),
        });
    }
    points.extend(
        render::crossover_sentences(results)
            .lines()
            .map(str::to_owned),
    );
    let mut directions = compared
        .iter()
        .filter_map(|comparison| comparison.decision.established());
    let kind = match directions.next() {
        None => VerdictKind::Inconclusive,
        Some(first) if directions.any(|other| other != first) => VerdictKind::Differs,
        Some(Direction::Lower) => VerdictKind::Better,
        Some(Direction::Higher) => VerdictKind::Worse,
    };
    verdict_with_headline("", points, kind)
}

/// The largest established difference, relative to the reference's mean latency.
fn largest_difference(
    results: &Results,
    reference: &str,
    compared: &[Comparison],
) -> Option<String> {
    let is_established = |comparison: &&Comparison| comparison.decision.established().is_some();
    let differences = compared.iter().filter(is_established).collect_vec();
    let effect_size =
        |comparison: &Comparison| comparison.ratio.map_or(0.0, |ratio| ratio.value.ln().abs());
    let largest = differences
        .iter()
        .max_by(|a, b| effect_size(a).total_cmp(&effect_size(b)))?;
    let mean = |arm| results.mean_latency_ms(arm, &largest.request);
    let means = [mean(reference)?, mean(&largest.arm)?];
    let means = effects::means_text(means, "ms", 2, "instead of");
    let label = results.short_label(&largest.request, largest.answer_bytes);
    let effect = effects::effect_text(largest.ratio?.value_and_ends());
    let arms = [reference, &largest.arm];
    let sentence = effects::sentence(&format!("Latency of {label}"), &effect, arms, &means);
    let sentence = sentence.trim_end_matches('.');
    Some(match differences.len() {
        1 => sentence.to_owned(),
        count => format!("{sentence} (the largest of {count} differences)"),
    })
}

fn cards(results: &Results) -> Vec<RunCard> {
    let arms = &results.header.arms;
    let ids = unique_ids(arms.iter().map(String::as_str));
    let arm_card = |(index, (arm, id)): (usize, (&String, String))| {
        let (requests, failures) = results.failures(arm);
        let failed = failures.values().sum();
        let mut facts = vec![
            ("good answers", count(requests - failed)),
            ("failed", count(failed)),
        ];
        if results.header.subcommand != "transport" {
            let counts = &results.header.answer_comparisons[index];
            let compared = match (index, counts.equal, counts.different) {
                (0, _, 0) => "the reference".to_owned(),
                (_, equal, different) => {
                    format!("{} equal, {} different", count(equal), count(different))
                }
            };
            facts.push(("answers compared", compared));
        }
        card(id, arm, facts)
    };
    arms.iter().zip(ids).enumerate().map(arm_card).collect()
}

fn caveats(results: &Results, compared: &[Comparison]) -> Vec<Caveat> {
    let mut caveats = render::problems(results)
        .into_iter()
        .map(|problem| Caveat::new(problem, "Fix it and measure again."))
        .collect_vec();
    let unreliable = compared
        .iter()
        .filter(|comparison| !comparison.mean.reliability.is_reliable())
        .count();
    if unreliable > 0 {
        caveats.push(Caveat::new(
            format!(
                "{unreliable} of {} intervals may be too narrow, so they establish no difference: the column \"caveat\" of the differences says why.",
                compared.len()
            ),
            "Repeat with more rounds (--rounds; in a plan: rounds), at a quieter time.",
        ));
    }
    if results.header.rate.is_none() && results.header.subcommand != "transport" {
        caveats.push(Caveat::new(
            "A closed loop sends nothing while it waits: a stall of the node is one slow request for each worker.",
            "Send at a steady rate (--rate; in a plan: rate): then every request that had to wait counts.",
        ));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn the_headline_is_the_largest_difference_that_is_shown() {
        let mut random = fastrand::Rng::with_seed(3);
        let noise: Vec<u64> = (0..800).map(|_| random.u64(0..1_000_000)).collect();
        let at = |base: u64, case: u64| {
            let noise = &noise;
            move |round: u64| base + noise[(4 * round + case) as usize]
        };
        let times = [
            at(20_000_000, 0),
            at(10_000_000, 1),
            at(40_000_000, 2),
            at(30_000_000, 3),
        ];
        let run = results(
            200,
            &[
                ("a", 1000, &times[0]),
                ("b", 1000, &times[1]),
                ("a", 4000, &times[2]),
                ("b", 4000, &times[3]),
            ],
        );
        let page = report(&run);
        let headline = page.verdict.headline;
        assert!(
            headline.starts_with(
                "Latency of 1,000 bytes is 49 % lower (48 to 49 %) with b than with a: 10."
            ),
            "{headline}"
        );
        assert!(
            headline.ends_with(" ms (the largest of 2 differences)."),
            "{headline}"
        );
        assert_eq!(page.verdict.kind, VerdictKind::Better);
        assert!(matches!(&page.overview[0], Block::Figure(figure) if figure.id == "effects"));
    }

    #[test]
    fn caveats_also_name_the_keys_of_a_plan() {
        let remedies = |run: &Results| {
            let caveats = caveats(run, &comparisons(run)).into_iter();
            caveats.map(|caveat| caveat.remedy).join("\n")
        };
        let run = results(2, &[("a", 1, &|_| 5), ("b", 1, &|_| 6)]);
        for option_and_key in ["(--rounds; in a plan: rounds)", "(--rate; in a plan: rate)"] {
            assert!(
                remedies(&run).contains(option_and_key),
                "{}",
                remedies(&run)
            );
        }
    }

    #[test]
    fn an_existing_page_is_kept_with_advice_for_this_command() {
        let folder = tempfile::tempdir().unwrap();
        let page = report(&results(30, &[("a", 1, &|_| 5)]));
        for (name, file) in [("page.html", "page.html"), ("page", "page/report.html")] {
            let [out, file] = [name, file].map(|name| folder.path().join(name));
            write(&page, &out).unwrap();
            let error = write(&page, &out).unwrap_err().to_string();
            let advice = format!(
                "{} is there already: choose another path with --html, or remove {} first",
                file.display(),
                out.display()
            );
            assert_eq!(error, advice);
        }
    }

    #[test]
    fn texts_of_a_results_file_never_become_links() {
        let evil = [
            "<a href=\"javascript:x\">a</a>",
            "[a](javascript:x)",
            "http://evil.example",
        ];
        let mut run = results(30, &[(evil[0], 1, &|_| 5), (evil[1], 1, &|_| 6)]);
        for case in &mut run.cases {
            case.request_label = evil[2].to_owned();
        }
        run.header.notes = evil.map(str::to_owned).into();
        run.header.nodes = evil.map(str::to_owned).into();
        run.header.stopped_by = Some(evil[1].to_owned());
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("page");
        write(&report(&run), &out).unwrap();
        let mut files = vec![out];
        let mut links = 0;
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(
                    std::fs::read_dir(path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                continue;
            }
            let begin = match path.extension().and_then(|extension| extension.to_str()) {
                Some("html") => "href=\"",
                Some("md") => "](",
                _ => continue,
            };
            // Escaped, it is no link.
            let text = std::fs::read_to_string(&path).unwrap().replace("\\](", "");
            for target in text.split(begin).skip(1) {
                links += 1;
                let ours = ["#", "data:", "figures/", "tables/"];
                let is_ours = ours.iter().any(|ours| target.starts_with(ours));
                assert!(is_ours, "{path:?}: {target:.60}");
            }
        }
        assert!(links > 10, "{links}");
    }
}
