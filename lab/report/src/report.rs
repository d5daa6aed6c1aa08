//! Builds the report of recordings.
//!
//! "The study" in comments and notes is the paper that `docs/PAPER.md` describes.

mod accounts;
mod answers;
mod bias_floor;
mod cache;
mod cache_sizes;
mod caveats;
pub mod comparability;
mod comparison;
mod effect;
mod faults;
mod folds;
mod hardware;
mod hosts;
mod limits;
mod measured_run;
mod memory;
mod paired;
pub mod releases;
mod run_metrics;
mod section_builder;
mod slots;
mod sufficient_memory;
mod timeline;
mod tps;
mod verdict;
mod what_happened;

pub(crate) use cells::bytes;
pub use run_metrics::{Better, RUN_METRICS, RunMetric, run_metric};

use crate::{measure::lifecycle::lifecycle, run::Run};
use bias_floor::PairedEffects;
use comparability::Pace;
use comparison::ArmComparison;
use faultline_pages::{cells, groups, model};
use faultline_stats::block::IntervalPlan;
use faultline_text::{counted, moment, seconds};
use itertools::Itertools;
use limits::Limits;
use measured_run::{MeasuredRun, MeasuredRuns};
use model::{Block, Caveat, Report, RunCard, Section, VerdictKind};
use run_metrics::{DEFAULT_METRIC, DEFAULT_PROCESS_METRIC};

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub primary: &'static RunMetric,
    /// Smaller relative differences do not matter.
    pub margin: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Whether per-slot metrics are compared as rates, for arms of different slot times.
    pub compare_rates: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            primary: default_metric(&[]),
            margin: 0.05,
            seed: 1,
            compare_rates: false,
        }
    }
}

/// Context that the recordings do not have.
#[derive(Debug, Default)]
pub struct ReportContext {
    pub title: String,
    /// Precedes the headline.
    pub headline_prefix: Option<String>,
    /// If the runs were not tested, this headline replaces theirs, which becomes the first point
    /// after `points`. If the runs were tested, this headline follows theirs.
    pub headline: Option<String>,
    pub points: Vec<String>,
    pub caveats: Vec<Caveat>,
    pub sections: Vec<Section>,
    /// The first is the reference. If empty, the report chooses an order.
    pub arms: Vec<String>,
}

/// The primary metric unless one is chosen.
pub fn default_metric(runs: &[Run]) -> &'static RunMetric {
    let has_process = runs.iter().any(|run| !run.processes.is_empty());
    let mut validators = runs
        .iter()
        .filter(|run| run.is_offline_replay() || lifecycle(run).has_validator);
    let id = if has_process && validators.next().is_none() {
        DEFAULT_PROCESS_METRIC
    } else {
        DEFAULT_METRIC
    };
    run_metric(id).unwrap_or(&RUN_METRICS[0])
}

pub fn build(runs: impl IntoIterator<Item = Run>, options: &Options) -> Report {
    build_with_context(runs, options, ReportContext::default())
}

pub fn build_with_context(
    runs: impl IntoIterator<Item = Run>,
    options: &Options,
    context: ReportContext,
) -> Report {
    let mut report = build_report(runs, options, &context.arms);
    if !context.title.is_empty() {
        report.title = context.title;
    }
    if let Some(headline) = context.headline {
        let runs_headline = std::mem::replace(&mut report.verdict.headline, headline);
        match report.verdict.kind {
            VerdictKind::Described => report.verdict.points.insert(0, runs_headline),
            _ => report.verdict.headline = format!("{runs_headline} {}", report.verdict.headline),
        }
    }
    if let Some(headline_prefix) = context.headline_prefix {
        report.verdict.headline = format!("{headline_prefix} {}", report.verdict.headline);
    }
    report.verdict.points.splice(0..0, context.points);
    report.caveats.splice(0..0, context.caveats);
    report.sections.splice(0..0, context.sections);
    report
}

fn metric_sections(runs: &MeasuredRuns) -> Vec<Section> {
    if runs.all.is_empty() {
        return Vec::new();
    }
    if runs.has_no_validator() {
        return vec![
            what_happened::section(runs),
            memory::section(runs),
            faults::section(runs),
            hardware::section(runs),
        ];
    }
    let mut sections = vec![
        what_happened::section(runs),
        tps::section(runs),
        slots::section(runs),
        memory::section(runs),
        faults::section(runs),
        cache::section(runs),
    ];
    sections.extend(cache_sizes::section(runs));
    sections.extend(accounts::section(runs));
    sections.push(hardware::section(runs));
    sections
}

fn build_report(runs: impl IntoIterator<Item = Run>, options: &Options, arms: &[String]) -> Report {
    let plan = IntervalPlan {
        seed: options.seed,
        ..IntervalPlan::default()
    };
    let margin = options.margin;
    let mut subjects = MeasuredRuns::new(runs, &plan, arms);
    subjects.compare_rates = options.compare_rates;
    let mut comparisons = comparison::compare_arms(&subjects, options.primary, margin);
    let limits = limits::limits(&subjects);
    let paired_runs = paired::pair_runs(&subjects, options.primary, &plan);
    let all_are_paired = paired_runs.all_are_paired;
    let host_comparison = comparisons
        .iter()
        .find(|comparison| comparison.primary.is_compared_within_hosts);
    let floor = PairedEffects::new(&paired_runs, margin, host_comparison.is_some());
    let mut comparison_blocks = floor.blocks();
    comparison_blocks.extend(host_comparison.and_then(|comparison| {
        let arms = [&*comparison.reference, &*comparison.other];
        hosts::table_of_hosts(&subjects, arms, options.primary, margin)
    }));
    floor.withdraw_differences(&mut comparisons, &subjects);
    comparison_blocks.extend(limits.iter().flat_map(Limits::blocks));
    comparison_blocks.extend(paired_runs.blocks());
    let comparison = comparison_section(&subjects, &comparisons, comparison_blocks, &floor, margin);
    let mut sections = comparison
        .into_iter()
        .chain(metric_sections(&subjects))
        .collect_vec();
    let overview = effect::take_overview(options.primary, &comparisons, &mut sections);
    let verdict = verdict::verdict(
        &subjects,
        options.primary,
        &comparisons,
        limits.as_ref(),
        &floor,
        margin,
    );
    let mut caveats = caveats::caveats(&subjects, options.primary, all_are_paired);
    caveats.extend(hosts::io_pressure_caveats(&subjects));
    Report {
        title: title(&subjects),
        subtitle: subtitle(&subjects),
        verdict,
        answers: answers::answers_by_arm(&subjects),
        overview,
        runs: subjects.all.iter().map(card).collect(),
        caveats,
        sections: sections.into_iter().map(folds::folded).collect(),
        made_by: format!("faultline {}", env!("CARGO_PKG_VERSION")),
        ..Report::default()
    }
}

fn comparison_section(
    runs: &MeasuredRuns,
    comparisons: &[ArmComparison],
    blocks: Vec<Block>,
    floor: &PairedEffects,
    margin: f64,
) -> Option<Section> {
    match comparisons {
        [first, ..] => Some(comparison::section(
            runs,
            first,
            comparisons,
            blocks,
            margin,
        )),
        [] if floor.is_empty() => None,
        // One arm, run twice at the same time.
        [] => Some(cells::section("comparison", "The A/A pair", blocks)),
    }
}

fn title(subjects: &MeasuredRuns) -> String {
    let runs = subjects.all.as_slice();
    let prefix = match runs
        .iter()
        .filter(|run| run.recording.facts.is_demo)
        .count()
    {
        0 => "",
        count if count == runs.len() => "Simulated validator. ",
        _ => "Partly simulated. ",
    };
    match (runs, subjects.arms.as_slice()) {
        ([], _) => format!("{prefix}No runs"),
        ([run], _) => format!("{prefix}Run {}", run.name),
        (_, [arm]) => format!("{prefix}{} of {arm}", counted(runs.len() as f64, "run")),
        (_, arms) => format!("{prefix}Comparison: {}", arms.join(", ")),
    }
}

fn subtitle(runs: &MeasuredRuns) -> String {
    let begun = runs
        .all
        .iter()
        .map(|run| run.recording.origin_unix_ns)
        .filter(|begun| *begun > 0)
        .minmax()
        .into_option();
    match (runs.single_run(), begun) {
        (_, None) => String::new(),
        (Some(run), Some((first, _))) => {
            format!(
                "{}, recorded for {}",
                moment(first),
                seconds(run.recording.end_seconds())
            )
        }
        (None, Some((first, last))) => format!(
            "{} of {}, begun from {} to {}",
            counted(runs.all.len() as f64, "run"),
            counted(runs.arms.len() as f64, "arm"),
            moment(first),
            moment(last)
        ),
    }
}

fn card(run: &MeasuredRun) -> RunCard {
    let (recording, lifecycle) = (&run.recording, &run.lifecycle);
    let labels = recording
        .labels
        .iter()
        .filter(|(key, _)| key != "arm" && key != "run")
        .map(|(key, value)| (key.as_str(), Some(value.clone())));
    let versions = recording.facts.versions.join(", ");
    let success = match lifecycle.success.answer {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    let did = if recording.is_offline_replay() {
        "Did all of its work"
    } else {
        "Kept up"
    };
    let is_judged = lifecycle.has_validator || recording.is_offline_replay();
    let facts = [
        ("Validator", Some(versions).filter(|all| !all.is_empty())),
        ("Consensus", comparability::consensus_timeline(recording)),
        ("Slot time", Pace::of_run(run).slot_time()),
        ("Begun", run.begun()),
        ("Recorded for", Some(seconds(recording.end_seconds()))),
        ("Ended after", lifecycle.last_process_end.map(seconds)),
        ("Memory limit", run.limit().map(bytes)),
        ("Catch-up", run.catch_up().map(seconds)),
        (did, is_judged.then(|| success.to_owned())),
        ("End", Some(lifecycle.end.how.clone())),
    ];
    let facts = [("File", Some(recording.file.clone()))]
        .into_iter()
        .chain(labels)
        .chain(facts);
    RunCard {
        id: run.id.clone(),
        name: run.name.clone(),
        arm: run.arm.clone(),
        facts: facts
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
    }
}
