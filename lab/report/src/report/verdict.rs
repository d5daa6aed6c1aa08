//! The headline of a report, and the bullets below it.

use super::{
    cells::{bytes, percent},
    comparison::{
        ArmComparison, MetricComparison, conclusion, direction_in_every_block, direction_word,
        lowercase_first,
    },
    effect::{effect_text, estimates_text, means_text, with_unit},
    groups::by_key,
    limits::{SufficientLimits, have_equal_limits},
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Tone, Verdict, VerdictKind},
    paired_effects::PairedEffects,
    run_metrics::RunMetric,
    what_happened::lifecycle_sentences,
};
use faultline_pages::effects;
use faultline_stats::arms::{Conclusion, Direction};
use faultline_text::{counted, number};
use itertools::{Itertools, chain};

/// `pairs` compare an arm with the reference. `limits` is set if runs had different memory limits.
pub fn verdict(
    runs: &MeasuredRuns,
    primary: &RunMetric,
    pairs: &[ArmComparison],
    limits: Option<&SufficientLimits>,
    paired_effects: &PairedEffects,
    margin: f64,
) -> Verdict {
    match (runs.all.as_slice(), pairs) {
        ([], _) => Verdict {
            headline: "There is no run to report.".to_owned(),
            ..Verdict::default()
        },
        ([run], _) => verdict_of_run(run),
        (_, []) => verdict_of_arm(runs, primary, paired_effects),
        _ => verdict_of_arms(runs, primary, pairs, limits, paired_effects, margin),
    }
}

fn verdict_of_run(run: &MeasuredRun) -> Verdict {
    let (name, lifecycle) = (&run.name, &run.lifecycle);
    let why = &lifecycle.success.why;
    let is_offline_replay = run.recording.is_offline_replay();
    let headline = match lifecycle.success.passed {
        Some(true) if is_offline_replay => format!("{name} did all of its work."),
        Some(false) if is_offline_replay => format!("{name} did not do all of its work: {why}."),
        _ if !lifecycle.has_validator && !run.recording.processes.is_empty() => {
            format!("{name} shows nothing of a validator: the process itself is described.")
        }
        Some(true) => format!("{name} kept up with the tip."),
        Some(false) => format!("{name} did not keep up: {why}."),
        None => format!("Whether {name} kept up is not known: {why}."),
    };
    let note = "This is one run: it is described, and nothing is tested.";
    let bullets = chain!(
        [lifecycle_sentences(run)],
        metric_sentences(run),
        [note.to_owned()],
    );
    Verdict {
        headline,
        bullets: bullets.collect(),
        kind: VerdictKind::Described,
    }
}

fn metric_sentences(run: &MeasuredRun) -> impl Iterator<Item = String> + use<> {
    let numbers = &run.since_first_transaction;
    let slots = numbers.replay_ms.iter().flatten().count();
    let replay = match numbers.replay_quantile(0.95) {
        Some(p95) => Some(format!(
            "Replay took at most {} ms in 95 % of {} slots.",
            number(p95, 1),
            number(slots as f64, 0)
        )),
        None => (slots > 0).then(|| {
            format!(
                "It replayed {}, too few for a p95 of their times.",
                counted(slots as f64, "slot")
            )
        }),
    };
    let tps = numbers.tps.over_known_seconds.map(|tps| {
        let zero = numbers.tps.zero_seconds.map_or_else(String::new, |zero| {
            format!(", {} at zero", counted(zero as f64, "second"))
        });
        format!("Its mean TPS was {}{zero}.", number(tps.mean_with_peaks, 0))
    });
    let misses = numbers.cache.misses.mean.map(|mean| {
        format!(
            "The program cache missed {}, {} per batch.",
            counted(numbers.cache.misses.sum, "time"),
            number(mean, 3)
        )
    });
    let rss = numbers.gauges.rss.max.map(|rss| {
        let headroom = numbers
            .gauges
            .headroom
            .min
            .map(|min| faultline_status::size(min, f64::floor));
        let headroom = headroom.map_or_else(String::new, |headroom| {
            format!("; the smallest headroom was {headroom}")
        });
        format!("RSS was at most {}{headroom}.", bytes(rss))
    });
    chain!(replay, tps, misses, rss)
}

fn verdict_of_arm(
    runs: &MeasuredRuns,
    primary: &RunMetric,
    paired_effects: &PairedEffects,
) -> Verdict {
    let arm = runs.arms.join(", ");
    let mut headline = format!(
        "{} of one arm, {arm}",
        counted(runs.all.len() as f64, "run")
    );
    if !runs.has_no_validator() {
        let did = if runs.are_offline_replays() {
            "did all of their work"
        } else {
            "kept up"
        };
        let [yes, no, unknown] =
            [Some(true), Some(false), None].map(|answer| success_count(runs, answer));
        headline += &format!(": {yes} {did}, {no} did not, {unknown} not known");
    }
    headline.push('.');
    if let Some((aa_headline, kind)) = paired_effects.aa_headline(primary) {
        let mut bullets = paired_effects.verdict_bullets();
        bullets.push(headline);
        return Verdict {
            headline: aa_headline,
            bullets,
            kind,
        };
    }
    let point =
        "There is no other arm to compare with: the runs are described, and nothing is tested.";
    Verdict {
        headline,
        bullets: vec![point.to_owned()],
        kind: VerdictKind::Described,
    }
}

fn verdict_of_arms(
    runs: &MeasuredRuns,
    primary: &RunMetric,
    pairs: &[ArmComparison],
    limits: Option<&SufficientLimits>,
    paired_effects: &PairedEffects,
    margin: f64,
) -> Verdict {
    let (headline, kind) = match limits {
        // The headline says between which limits runs begin to fail, which is no statistical test.
        // Comparisons of the primary metric are bullets below it.
        Some(limits) => {
            let tested = pairs.iter().filter(|pair| {
                matches!(
                    pair.conclusion(),
                    Conclusion::Differs { .. }
                        | Conclusion::Equivalent { .. }
                        | Conclusion::Inconclusive { .. }
                ) && have_equal_limits(runs, &pair.reference, &pair.other)
            });
            match tested.collect_vec().as_slice() {
                [] => (limits.headline(), VerdictKind::Described),
                // The limit does not explain a difference between arms with equal limits, so their
                // test precedes the limits in the headline.
                tested => (
                    format!("{} {}", headline(tested, margin), limits.headline()),
                    verdict_kind(tested),
                ),
            }
        }
        None => paired_effects.headline(primary).unwrap_or_else(|| {
            let pairs = pairs.iter().collect_vec();
            (headline(&pairs, margin), verdict_kind(&pairs))
        }),
    };
    let outcomes = (!runs.has_no_validator()).then(|| outcome_sentences(runs));
    let difference = |_: &_, metric: &MetricComparison| match metric.result.conclusion {
        Conclusion::Differs { direction, .. } => Some(format!(
            "{} ({})",
            lowercase_first(&metric.title),
            direction_word(direction)
        )),
        _ => None,
    };
    let bullets = chain!(
        limits.map_or_else(Vec::new, SufficientLimits::verdict_bullets),
        paired_effects.verdict_bullets(),
        pairs.iter().map(pair_sentence),
        paired_effects.paired_sentences(),
        outcomes.unwrap_or_default(),
        secondary_sentences(pairs, "Other means, not tested", mean_sentence),
        secondary_sentences(pairs, "Other metrics that differ", difference),
    );
    Verdict {
        headline,
        bullets: bullets.collect(),
        kind,
    }
}

fn success_count(runs: &MeasuredRuns, answer: Option<bool>) -> String {
    number(runs.runs_by_success(answer).count() as f64, 0)
}

fn is_described(conclusion: Conclusion) -> bool {
    matches!(conclusion, Conclusion::Described | Conclusion::TwoRuns)
}

fn headline(pairs: &[&ArmComparison], margin: f64) -> String {
    match pairs {
        [] => String::new(),
        [pair] => pair_headline(pair, margin),
        [first, ..] => pairs_headline(first, pairs, margin),
    }
}

fn pair_headline(pair: &ArmComparison, margin: f64) -> String {
    let metric = &pair.primary;
    let title = &metric.title;
    let lowercase_title = lowercase_first(title);
    let (reference, other) = (&pair.reference, &pair.other);
    match pair.conclusion() {
        Conclusion::Differs { direction, .. } => {
            let effect = effect_or_direction(metric, direction);
            let means = means_text(metric, "instead of").unwrap_or_default();
            effects::sentence(title, &effect, [reference, other], &means)
        }
        Conclusion::Equivalent { .. } => {
            let margin = percent(margin);
            let means =
                means_text(metric, "and").map_or_else(String::new, |means| format!(": {means}"));
            format!(
                "By {lowercase_title}, {other} and {reference} are equivalent within {margin} %{means}."
            )
        }
        Conclusion::Inconclusive { p: None, .. } => {
            format!("{title}, {}", text_without_spread(pair))
        }
        Conclusion::Inconclusive { .. } => {
            let effect =
                effect_text(metric).map_or_else(String::new, |effect| format!(": {effect}"));
            format!(
                "By {lowercase_title}, neither a difference between {other} and {reference} nor their equivalence is shown{effect}."
            )
        }
        Conclusion::Described | Conclusion::TwoRuns => {
            let means = means_text(metric, "against")
                .map_or_else(String::new, |means| format!(" {title}: {means}."));
            format!(
                "{other} and {reference} are described, not tested: too few runs to distinguish a difference from chance.{means}"
            )
        }
        Conclusion::NoValues => match &metric.refusal {
            Some(why) => format!("{title} of {other} and {reference} is {why}."),
            None => {
                let missing = if metric.unit == metric.run_metric.unit
                    || !metric.run_metric.needs_slot_time()
                {
                    "it was not recorded"
                } else {
                    "it or the slot time, which --per-second needs, is not known"
                };
                format!(
                    "{other} and {reference} cannot be compared by {lowercase_title}: {missing} in both."
                )
            }
        },
    }
}

fn effect_or_direction(metric: &MetricComparison, direction: Direction) -> String {
    effect_text(metric).unwrap_or_else(|| direction_word(direction).to_owned())
}

/// For two arms without a spread (`p` is `None`): each arm has equal values in all runs, or all
/// blocks of hosts the same ratio. Then no test is possible.
fn text_without_spread(pair: &ArmComparison) -> String {
    let metric = &pair.primary;
    let (reference, other) = (&pair.reference, &pair.other);
    if metric.is_compared_within_hosts {
        let means = means_text(metric, "against").unwrap_or_default();
        let text = conclusion(metric);
        return format!("{other} against {reference}: {text} ({means}).");
    }
    let Some(means) = metric.means() else {
        return format!("{other} against {reference}: not recorded in both.");
    };
    let [reference_mean, other_mean] = means.map(|mean| with_unit(mean, metric));
    if reference_mean == other_mean {
        return format!("{other} and {reference}: {reference_mean} in every run.");
    }
    format!(
        "{other} against {reference}: {other_mean} in every run against {reference_mean} in every run. No run differs from \
         another of its arm, so there is nothing to test against."
    )
}

fn pairs_headline(first: &ArmComparison, pairs: &[&ArmComparison], margin: f64) -> String {
    let reference = &first.reference;
    let arms_where = |has: fn(&MetricComparison, Conclusion) -> bool| {
        let pairs = pairs
            .iter()
            .filter(|pair| has(&pair.primary, pair.conclusion()));
        joined_by_and(&pairs.map(|pair| pair.other.clone()).collect_vec())
    };
    let arms_that_differ = |wanted| {
        let arms = pairs.iter().filter_map(|pair| match pair.conclusion() {
            Conclusion::Differs { direction, .. } if direction == wanted => {
                let effect = effect_or_direction(&pair.primary, direction);
                Some(format!("{effect} with {}", pair.other))
            }
            _ => None,
        });
        let arms = arms.collect_vec();
        let than = effects::than_or_as(arms.last()?);
        Some(format!("{} {than} with {reference}", joined_by_and(&arms)?))
    };
    let same_direction_in_every_block = pairs.iter().filter_map(|pair| {
        let text = direction_in_every_block(&pair.primary)?;
        Some(format!("{text}, with {} against {reference}", pair.other))
    });
    let refusals = pairs
        .iter()
        .filter_map(|pair| pair.primary.refusal.as_ref())
        .dedup()
        .join("; ");
    let parts = chain!(
        arms_that_differ(Direction::Lower),
        arms_that_differ(Direction::Higher),
        arms_where(|_, conclusion| matches!(conclusion, Conclusion::Equivalent { .. }))
            .map(|arms| format!("equivalent within {} % with {arms} and {reference}", percent(margin))),
        arms_where(|metric, conclusion| {
            matches!(conclusion, Conclusion::Inconclusive { p: None, .. })
                && direction_in_every_block(metric).is_none()
        })
        .map(|arms| {
            format!(
                "no test is possible with {arms} and {reference}, because their values do not vary"
            )
        }),
        [same_direction_in_every_block.format("; ").to_string()],
        arms_where(|_, conclusion| matches!(conclusion, Conclusion::Inconclusive { p: Some(_), .. }))
            .map(|arms| format!("neither a difference nor equivalence is shown between {arms} and {reference}")),
        arms_where(|_, conclusion| is_described(conclusion)).map(|arms| {
            format!(
                "described, not tested, with {arms} and {reference}: too few runs to distinguish a difference from chance"
            )
        }),
        arms_where(|metric, conclusion| {
            metric.refusal.is_none() && matches!(conclusion, Conclusion::NoValues)
        })
            .map(|arms| format!("no values to compare {arms} with {reference}")),
        [refusals],
    );
    let parts = parts.filter(|part| !part.is_empty());
    format!("{}: {}.", first.primary.title, parts.format("; "))
}

fn joined_by_and(names: &[String]) -> Option<String> {
    let (last, first) = names.split_last()?;
    Some(match first {
        [] => last.clone(),
        _ => format!("{} and {last}", first.join(", ")),
    })
}

fn verdict_kind(pairs: &[&ArmComparison]) -> VerdictKind {
    let tones = pairs.iter().filter_map(|pair| pair.primary.tone());
    // Pairs without values do not change the kind that the other pairs give.
    let conclusions = pairs
        .iter()
        .map(|pair| pair.conclusion())
        .filter(|conclusion| !matches!(conclusion, Conclusion::NoValues))
        .collect_vec();
    let is_equivalent = |conclusion| matches!(conclusion, &Conclusion::Equivalent { .. });
    match tones.reduce(|one, other| if one == other { one } else { Tone::Neutral }) {
        Some(Tone::Better) => VerdictKind::Better,
        Some(Tone::Worse) => VerdictKind::Worse,
        Some(Tone::Neutral) => VerdictKind::Differs,
        None if conclusions
            .iter()
            .any(|conclusion| matches!(conclusion, Conclusion::Inconclusive { .. })) =>
        {
            VerdictKind::Inconclusive
        }
        None if !conclusions.is_empty() && conclusions.iter().all(is_equivalent) => {
            VerdictKind::Equivalent
        }
        None => VerdictKind::Described,
    }
}

fn pair_sentence(pair: &ArmComparison) -> String {
    let metric = &pair.primary;
    let compared = || format!("{}; {}", estimates_text(metric), conclusion(metric));
    let text = metric.refusal.clone().unwrap_or_else(compared);
    let (other, reference) = (&pair.other, &pair.reference);
    format!("{}, {other} against {reference}: {text}.", metric.title)
}

fn outcome_sentences(runs: &MeasuredRuns) -> Vec<String> {
    let failed = runs.runs_by_success(Some(false));
    let reasons = by_key(failed.map(|run| (&run.lifecycle.success.why, run.name.as_str())));
    let (did, did_not) = if runs.are_offline_replays() {
        ("did their work to the end", "Did not do all of it")
    } else {
        ("are known to have kept up with the tip", "Did not keep up")
    };
    let successes = format!(
        "{} of {} {did}.",
        success_count(runs, Some(true)),
        counted(runs.all.len() as f64, "run")
    );
    let failures = reasons.iter().map(|(why, names)| {
        let why = why.strip_prefix("it ").unwrap_or(why);
        format!("{did_not} ({why}): {}.", names.join("; "))
    });
    chain!([successes], failures).collect()
}

/// With too few runs for a test of the primary metric, the verdict lists the means of these.
const METRICS_LISTED_IF_UNTESTED: [&str; 5] = [
    "cache-misses",
    "cache-time",
    "tps",
    "rss-mean",
    "major-faults",
];

/// One sentence for each pair of arms: the `text` of each secondary metric that has one. No
/// sentence for pairs without a text.
fn secondary_sentences(
    pairs: &[ArmComparison],
    start: &str,
    text: fn(&ArmComparison, &MetricComparison) -> Option<String>,
) -> impl Iterator<Item = String> {
    pairs.iter().filter_map(move |pair| {
        let texts = pair
            .secondary
            .iter()
            .filter_map(|metric| text(pair, metric))
            .join("; ");
        let (other, reference) = (&pair.other, &pair.reference);
        (!texts.is_empty()).then(|| format!("{start}, {other} against {reference}: {texts}."))
    })
}

fn mean_sentence(pair: &ArmComparison, metric: &MetricComparison) -> Option<String> {
    if !is_described(pair.conclusion())
        || !METRICS_LISTED_IF_UNTESTED.contains(&metric.run_metric.id)
    {
        return None;
    }
    let [reference, other] = metric.means()?.map(|mean| with_unit(mean, metric));
    let title = lowercase_first(&metric.title);
    Some(format!("{title} {other} against {reference}"))
}

#[cfg(test)]
mod tests {
    use crate::{
        report::{Options, build},
        run::{Run, Signal, Tick},
    };

    #[test]
    fn the_headline_names_the_arm_though_its_second_run_comes_first() {
        let label = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let run = |second| Run {
            labels: [("arm", "512"), ("second", second)].map(label).to_vec(),
            ..Run::default()
        };
        let headline = build([run("1"), run("0")], &Options::default())
            .verdict
            .headline;
        assert!(
            headline.starts_with("2 runs of one arm, 512:"),
            "{headline}"
        );
    }

    #[test]
    fn the_smallest_headroom_is_not_rounded_up() {
        let mut run = Run {
            ticks: vec![Tick::default()],
            signals: vec![vec![Some(0.0)]; Signal::ALL.len()],
            ..Run::default()
        };
        run.signals[Signal::Limit as usize] = vec![Some(251.678 * 1_073_741_824.0)];
        let bullets = build([run], &Options::default()).verdict.bullets.join(" ");
        assert!(
            bullets.contains("the smallest headroom was 251 GiB."),
            "{bullets}"
        );
    }
}
