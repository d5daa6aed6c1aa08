//! Builds the report of recordings.
//!
//! "The study" in comments and notes is the paper that `docs/PAPER.md` describes.

mod accounts;
mod answers;
mod cache;
mod cache_sizes;
mod caveats;
mod collapsible;
pub mod comparability;
mod comparison;
mod effect;
mod faults;
mod hardware;
mod hosts;
mod limits;
mod measured_run;
mod memory;
mod paired;
mod paired_effects;
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
use collapsible::collapse_section;
use comparability::ClusterConditions;
use comparison::ArmComparison;
use faultline_pages::{cells, groups, model};
use faultline_stats::block_bootstrap::IntervalPlan;
use faultline_text::{counted, duration_f64, utc};
use itertools::{Itertools, chain};
use limits::SufficientLimits;
use measured_run::{MeasuredRun, MeasuredRuns};
use model::{Block, Caveat, Report, RunCard, Section, VerdictKind};
use paired_effects::PairedEffects;
use run_metrics::{DEFAULT_METRIC, DEFAULT_PROCESS_METRIC};

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub primary: &'static RunMetric,
    /// Smaller relative differences do not matter.
    pub margin: f64,
    pub seed: u64,
    pub compare_rates: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            primary: default_metric(&[]),
            margin: 0.05,
            seed: 1,
            compare_rates: false,
        }
    }
}

/// What the report says besides what it finds in the recordings.
#[derive(Debug, Default)]
pub struct ReportContext {
    pub title: String,
    /// Precedes the headline.
    pub headline_prefix: Option<String>,
    /// Follows the headline of the runs if they are tested. Otherwise replaces that headline, which
    /// becomes the first bullet after `bullets`.
    pub headline: Option<String>,
    /// Sentences below the headline, before those about the runs.
    pub bullets: Vec<String>,
    pub caveats: Vec<Caveat>,
    pub sections: Vec<Section>,
    /// In order: the first with values is the reference. If empty, the report chooses an order.
    pub arms: Vec<String>,
}

pub fn default_metric(recordings: &[Run]) -> &'static RunMetric {
    let has_process = recordings
        .iter()
        .any(|recording| !recording.processes.is_empty());
    let mut validators = recordings
        .iter()
        .filter(|recording| recording.is_offline_replay() || lifecycle(recording).has_validator);
    let id = if has_process && validators.next().is_none() {
        DEFAULT_PROCESS_METRIC
    } else {
        DEFAULT_METRIC
    };
    run_metric(id).unwrap_or(&RUN_METRICS[0])
}

pub fn build(recordings: impl IntoIterator<Item = Run>, options: &Options) -> Report {
    build_with_context(recordings, options, ReportContext::default())
}

pub fn build_with_context(
    recordings: impl IntoIterator<Item = Run>,
    options: &Options,
    context: ReportContext,
) -> Report {
    let mut report = build_report(recordings, options, &context.arms);
    if !context.title.is_empty() {
        report.title = context.title;
    }
    if let Some(headline) = context.headline {
        let runs_headline = std::mem::replace(&mut report.verdict.headline, headline);
        match report.verdict.kind {
            VerdictKind::Described => report.verdict.bullets.insert(0, runs_headline),
            _ => report.verdict.headline = format!("{runs_headline} {}", report.verdict.headline),
        }
    }
    if let Some(headline_prefix) = context.headline_prefix {
        report.verdict.headline = format!("{headline_prefix} {}", report.verdict.headline);
    }
    report.verdict.bullets.splice(0..0, context.bullets);
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
    chain!(
        [
            what_happened::section(runs),
            tps::section(runs),
            slots::section(runs),
            memory::section(runs),
            faults::section(runs),
            cache::section(runs),
        ],
        cache_sizes::section(runs),
        accounts::section(runs),
        [hardware::section(runs)],
    )
    .collect()
}

fn build_report(
    recordings: impl IntoIterator<Item = Run>,
    options: &Options,
    arms: &[String],
) -> Report {
    let plan = IntervalPlan {
        seed: options.seed,
        ..IntervalPlan::default()
    };
    let margin = options.margin;
    let mut runs = MeasuredRuns::new(recordings, &plan, arms);
    runs.compare_rates = options.compare_rates;
    let mut comparisons = comparison::compare_arms(&runs, options.primary, margin);
    let limits = limits::limits(&runs);
    let paired_runs = paired::pair_runs(&runs, options.primary, &plan);
    let all_are_paired = paired_runs.all_are_paired;
    let host_comparison = comparisons
        .iter()
        .find(|comparison| comparison.primary.is_compared_within_hosts);
    let paired_effects = PairedEffects::new(&paired_runs, margin, host_comparison.is_some());
    let table_of_hosts = host_comparison.and_then(|comparison| {
        let arms = [&*comparison.reference, &*comparison.other];
        hosts::table_of_hosts(&runs, arms, options.primary, margin)
    });
    paired_effects.withdraw_differences(&mut comparisons, &runs);
    let comparison_blocks = chain!(
        paired_effects.blocks(),
        table_of_hosts,
        limits.iter().flat_map(SufficientLimits::blocks),
        paired_runs.blocks(),
    );
    let comparison = comparison_section(&runs, &comparisons, comparison_blocks.collect(), margin);
    let mut sections = chain!(comparison, metric_sections(&runs)).collect_vec();
    let overview = effect::take_overview(options.primary, &comparisons, &mut sections);
    let verdict = verdict::verdict(
        &runs,
        options.primary,
        &comparisons,
        limits.as_ref(),
        &paired_effects,
        margin,
    );
    let caveats = chain!(
        caveats::caveats(&runs, options.primary, all_are_paired),
        hosts::io_pressure_caveats(&runs),
    );
    Report {
        title: title(&runs),
        subtitle: subtitle(&runs),
        verdict,
        answers: answers::answers_by_arm(&runs),
        overview,
        runs: runs.all.iter().map(run_card).collect(),
        caveats: caveats.collect(),
        sections: sections.into_iter().map(collapse_section).collect(),
        made_by: format!("faultline {}", env!("CARGO_PKG_VERSION")),
        ..Report::default()
    }
}

fn comparison_section(
    runs: &MeasuredRuns,
    comparisons: &[ArmComparison],
    blocks: Vec<Block>,
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
        [] if blocks.is_empty() => None,
        [] => Some(cells::section("comparison", "Runs of one arm", blocks)),
    }
}

fn title(runs: &MeasuredRuns) -> String {
    let all = runs.all.as_slice();
    let prefix = match all.iter().filter(|run| run.recording.facts.is_demo).count() {
        0 => "",
        count if count == all.len() => "Simulated validator. ",
        _ => "Partly simulated. ",
    };
    match (all, runs.arms.as_slice()) {
        ([], _) => format!("{prefix}No runs"),
        ([run], _) => format!("{prefix}Run {}", run.name),
        (_, [arm]) => format!("{prefix}{} of {arm}", counted(all.len() as f64, "run")),
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
                utc(first),
                duration_f64(run.recording.end_seconds())
            )
        }
        (None, Some((first, last))) => format!(
            "{} of {}, begun from {} to {}",
            counted(runs.all.len() as f64, "run"),
            counted(runs.arms.len() as f64, "arm"),
            utc(first),
            utc(last)
        ),
    }
}

fn run_card(run: &MeasuredRun) -> RunCard {
    let (recording, lifecycle) = (&run.recording, &run.lifecycle);
    let labels = recording
        .labels
        .iter()
        .filter(|(key, _)| key != "arm" && key != "run")
        .map(|(key, value)| (key.as_str(), Some(value.clone())));
    let versions = recording.facts.versions.join(", ");
    let success = match lifecycle.success.passed {
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
        ("Slot time", ClusterConditions::of_run(run).slot_time()),
        ("Begun", run.begun()),
        ("Recorded for", Some(duration_f64(recording.end_seconds()))),
        ("Ended after", lifecycle.last_process_end.map(duration_f64)),
        ("Memory limit", run.limit().map(bytes)),
        ("Catch-up", run.catch_up().map(duration_f64)),
        (did, is_judged.then(|| success.to_owned())),
        ("End", Some(lifecycle.end.how.clone())),
    ];
    let facts = chain!([("File", Some(recording.file.clone()))], labels, facts);
    RunCard {
        id: run.id.clone(),
        name: run.name.clone(),
        arm: run.arm.clone(),
        facts: facts
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
    }
}
