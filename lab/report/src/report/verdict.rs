use super::{
    cells::{bytes, percent},
    comparison::{
        Metric, Pair, conclusion, direction_word, in_every_block, lowercase_first, refusals,
    },
    effect::{effect_text, estimates_text, means_text, with_unit},
    floor::Floor,
    groups::by_key,
    limits::{Limits, have_equal_limits},
    model::{Tone, Verdict, VerdictKind},
    scalars::Scalar,
    subject::{Subject, Subjects},
    what_happened::lifecycle_sentences,
};
use faultline_pages::effects;
use faultline_stats::arms::{Conclusion, Direction};
use faultline_text::{counted, number as grouped};
use itertools::Itertools;

pub fn verdict(
    subjects: &Subjects,
    primary: &Scalar,
    pairs: &[Pair],
    limits: Option<&Limits>,
    floor: &Floor,
    margin: f64,
) -> Verdict {
    match (subjects.all.as_slice(), pairs) {
        ([], _) => Verdict {
            headline: "There is no run to report.".to_owned(),
            ..Verdict::default()
        },
        ([one], _) => single(one),
        (_, []) => replicates(subjects, primary, floor),
        (_, pairs) => comparison_verdict(subjects, primary, pairs, limits, floor, margin),
    }
}

fn single(subject: &Subject) -> Verdict {
    let (name, lifecycle) = (&subject.name, &subject.lifecycle);
    let why = &lifecycle.success.why;
    let replay = subject.run.is_replay();
    let headline = match lifecycle.success.answer {
        Some(true) if replay => format!("{name} did all of its work."),
        Some(false) if replay => format!("{name} did not do all of its work: {why}."),
        _ if !lifecycle.has_validator && !subject.run.processes.is_empty() => {
            format!("{name} shows nothing of a validator: the process itself is described.")
        }
        Some(true) => format!("{name} kept up with the tip."),
        Some(false) => format!("{name} did not keep up: {why}."),
        None => format!("Whether {name} kept up is not known: {why}."),
    };
    let mut points = vec![lifecycle_sentences(subject)];
    points.extend(reported(subject));
    points.push("This is one run: it is described, and nothing is tested.".to_owned());
    Verdict {
        headline,
        points,
        standing: VerdictKind::Described,
    }
}

fn reported(subject: &Subject) -> Vec<String> {
    let n = &subject.from_execution;
    let mut text = Vec::new();
    let slots = n.replay.iter().flatten().count();
    match n.replay_quantile(0.95) {
        Some(p95) => {
            let slots = grouped(n.replay.len() as f64, 0);
            text.push(format!(
                "Replay took at most {} ms in 95 % of {slots} slots.",
                grouped(p95, 1)
            ));
        }
        None if slots > 0 => text.push(format!(
            "It replayed {}, too few for a p95 of their times.",
            counted(slots as f64, "slot")
        )),
        None => {}
    }
    if let Some(tps) = n.tps.all_known {
        let zero = n.tps.zero.map_or_else(String::new, |zero| {
            format!(", {} at zero", counted(zero as f64, "second"))
        });
        text.push(format!(
            "It executed {} transactions per second on average{zero}.",
            grouped(tps.mean_of_all, 0)
        ));
    }
    if let Some(mean) = n.cache.misses.mean {
        text.push(format!(
            "The program cache missed {}, {} per batch.",
            counted(n.cache.misses.sum, "time"),
            grouped(mean, 3)
        ));
    }
    if let Some(rss) = n.levels.rss.max {
        let headroom = n.levels.headroom.min;
        let headroom = headroom.map_or_else(String::new, |left| {
            format!("; the smallest headroom was {}", bytes(left))
        });
        text.push(format!("RSS was at most {}{headroom}.", bytes(rss)));
    }
    text
}

fn replicates(subjects: &Subjects, primary: &Scalar, floor: &Floor) -> Verdict {
    let several = &subjects.all;
    let arm = several.first().map_or("", |first| first.arm.as_str());
    let mut headline = format!("{} runs of one arm, {arm}", several.len());
    if !subjects.has_no_validator() {
        let run_count = |answer| {
            let runs = several.iter();
            runs.filter(|subject| subject.lifecycle.success.answer == answer)
                .count()
        };
        let did = match subjects.are_replays() {
            true => "did all of their work",
            false => "kept up",
        };
        headline += &format!(
            ": {} {did}, {} did not, of {} it is not known",
            run_count(Some(true)),
            run_count(Some(false)),
            run_count(None)
        );
    }
    headline.push('.');
    if let Some((answer, standing)) = floor.aa_headline(primary) {
        let mut points = floor.points();
        points.push(headline);
        return Verdict {
            headline: answer,
            points,
            standing,
        };
    }
    let points =
        "There is no other arm to compare with: the runs are described, and nothing is tested.";
    Verdict {
        headline,
        points: vec![points.to_owned()],
        standing: VerdictKind::Described,
    }
}

fn comparison_verdict(
    subjects: &Subjects,
    primary: &Scalar,
    pairs: &[Pair],
    limits: Option<&Limits>,
    floor: &Floor,
    margin: f64,
) -> Verdict {
    let mut points = floor.points();
    points.extend(pairs.iter().map(sentence));
    let by_floor = floor.headline(primary);
    let (headline, standing) = match limits {
        // A bracket has no test. The test of the primary metric is a point below it.
        Some(limits) => {
            points.splice(0..0, limits.points());
            let bracket = limits.headline();
            let has_equal_limits =
                |pair: &&Pair| have_equal_limits(subjects, &pair.reference, &pair.other);
            let tested: Vec<Pair> = pairs
                .iter()
                .filter(has_equal_limits)
                .filter(|pair| is_tested(pair))
                .cloned()
                .collect();
            match tested.is_empty() {
                true => (bracket, VerdictKind::Described),
                // Arms with equal limits have a test.
                false => (
                    format!("{} {bracket}", headline(&tested, margin)),
                    standing(&tested),
                ),
            }
        }
        None => by_floor.unwrap_or_else(|| (headline(pairs, margin), standing(pairs))),
    };
    points.extend(floor.paired_sentences());
    if !subjects.has_no_validator() {
        points.extend(outcomes(subjects));
    }
    points.extend(described(pairs));
    points.extend(differing(pairs));
    Verdict {
        headline,
        points,
        standing,
    }
}

fn is_tested(pair: &Pair) -> bool {
    use Conclusion::{Differs, Equivalent, Inconclusive};
    matches!(
        pair.conclusion(),
        Differs { .. } | Equivalent { .. } | Inconclusive { .. }
    )
}

fn headline(pairs: &[Pair], margin: f64) -> String {
    match pairs {
        [pair] => pair_headline(pair, margin),
        pairs => pairs_headline(pairs, margin),
    }
}

fn pair_headline(pair: &Pair, margin: f64) -> String {
    let metric = &pair.primary;
    let title = &*metric.title;
    let what = lowercase_first(title);
    let (reference, other) = (&pair.reference, &pair.other);
    match pair.conclusion() {
        Conclusion::Differs { direction, .. } => {
            let effect = effect_text(metric);
            let effect = effect.unwrap_or_else(|| direction_word(direction).to_owned());
            let means = means_text(metric, "instead of");
            effects::sentence(
                title,
                &effect,
                [other, reference],
                &means.unwrap_or_default(),
            )
        }
        Conclusion::Equivalent { .. } => {
            let margin = percent(margin);
            let means = means_text(metric, "and");
            let means = means.map_or_else(String::new, |means| format!(": {means}"));
            format!("By {what}, {other} and {reference} are equivalent within {margin} %{means}.")
        }
        Conclusion::Inconclusive { p: None, .. } => {
            format!("{title}, {}", without_spread(pair))
        }
        Conclusion::Inconclusive { .. } => {
            let effect = effect_text(metric);
            let effect = effect.map_or_else(String::new, |effect| format!(": {effect}"));
            format!(
                "By {what}, neither a difference between {other} and {reference} nor their equivalence is shown{effect}."
            )
        }
        Conclusion::Described | Conclusion::TooFewRuns { .. } => {
            let means = means_text(metric, "against");
            let means = means.map_or_else(String::new, |means| format!(" {title}: {means}."));
            format!(
                "{other} and {reference} are described, not tested: too few runs to distinguish a difference from chance.{means}"
            )
        }
        Conclusion::NoValues => match &metric.refusal {
            Some(why) => format!("{title} of {other} and {reference} is {why}."),
            None => format!(
                "{other} and {reference} cannot be compared by {what}: it was not recorded in both."
            ),
        },
    }
}

/// For arms whose runs are all equal: no test can tell a difference from chance.
fn without_spread(pair: &Pair) -> String {
    let (metric, comparison) = (&pair.primary, &pair.primary.comparison);
    let (reference, other) = (&pair.reference, &pair.other);
    if metric.by_block {
        let means = means_text(metric, "against").unwrap_or_default();
        let text = conclusion(metric);
        return format!("{other} against {reference}: {text} ({means}).");
    }
    let (Some(before), Some(after)) = (comparison.reference.mean, comparison.other.mean) else {
        return format!("{other} against {reference}: not recorded in both.");
    };
    let text = |value| with_unit(value, metric);
    if text(before) == text(after) {
        return format!("{other} and {reference}: {} in every run.", text(before));
    }
    format!(
        "{other} against {reference}: {} in every run against {} in every run. That no run differs from another of its arm \
         leaves nothing to test against.",
        text(after),
        text(before)
    )
}

fn pairs_headline(pairs: &[Pair], margin: f64) -> String {
    let reference = pairs.first().map_or("", |pair| pair.reference.as_str());
    let title = pairs
        .first()
        .map_or_else(String::new, |pair| pair.primary.title.clone());
    let arms_where = |which: &dyn Fn(&Conclusion) -> bool| -> Option<String> {
        let these = pairs.iter().filter(|pair| which(&pair.conclusion()));
        let arms: Vec<&str> = these.map(|pair| pair.other.as_str()).collect();
        (!arms.is_empty()).then(|| joined_by_and(&arms))
    };
    let differ = |wanted: Direction| {
        let arm = |pair: &Pair| match pair.conclusion() {
            Conclusion::Differs { direction, .. } if direction == wanted => {
                let effect = effect_text(&pair.primary);
                let effect = effect.unwrap_or_else(|| direction_word(direction).to_owned());
                Some(format!("{effect} with {}", pair.other))
            }
            _ => None,
        };
        let arms: Vec<String> = pairs.iter().filter_map(arm).collect();
        let arms: Vec<&str> = arms.iter().map(String::as_str).collect();
        let than = effects::than_or_as(arms.last()?);
        Some(format!("{} {than} with {reference}", joined_by_and(&arms)))
    };
    let alike = |pair: &Pair| {
        let text = in_every_block(&pair.primary)?;
        Some(format!("{text}, with {} against {reference}", pair.other))
    };
    let alike = pairs.iter().filter_map(alike).join("; ");
    let refused = refusals(pairs);
    let parts = [
        differ(Direction::Lower),
        differ(Direction::Higher),
        arms_where(&|one| matches!(one, Conclusion::Equivalent { .. }))
            .map(|arms| format!("equivalent within {} % with {arms} and {reference}", percent(margin))),
        arms_where(&|one| matches!(one, Conclusion::Inconclusive { p: None, .. })).map(|arms| {
            format!(
                "without a spread with {arms} and {reference}, so that there is nothing to test against"
            )
        }),
        (!alike.is_empty()).then_some(alike),
        arms_where(&|one| matches!(one, Conclusion::Inconclusive { p: Some(_), .. }))
            .map(|arms| format!("neither a difference nor equivalence is shown between {arms} and {reference}")),
        arms_where(&|one| matches!(one, Conclusion::Described | Conclusion::TooFewRuns { .. })).map(|arms| {
            format!("described, not tested, with {arms} and {reference}: too few runs to distinguish a difference from chance")
        }),
        refused.clone(),
        arms_where(&|one| matches!(one, Conclusion::NoValues))
            .filter(|_| refused.is_none())
            .map(|arms| format!("not recorded with both {arms} and {reference}")),
    ];
    format!("{title}: {}.", parts.into_iter().flatten().format("; "))
}

fn joined_by_and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn standing(pairs: &[Pair]) -> VerdictKind {
    // Arms without values do not weaken the conclusions about others.
    let pairs = || {
        pairs
            .iter()
            .filter(|pair| !matches!(pair.conclusion(), Conclusion::NoValues))
    };
    let any = |which: fn(&Conclusion) -> bool| pairs().any(|pair| which(&pair.conclusion()));
    let differences = pairs().filter_map(|pair| pair.primary.tone());
    let merged = |one, other| if one == other { one } else { Tone::Neutral };
    if let Some(tone) = differences.reduce(merged) {
        match tone {
            Tone::Better => VerdictKind::Better,
            Tone::Worse => VerdictKind::Worse,
            Tone::Neutral => VerdictKind::Differs,
        }
    } else if any(|conclusion| matches!(conclusion, Conclusion::Inconclusive { .. })) {
        VerdictKind::Inconclusive
    } else if pairs().count() > 0
        && pairs().all(|pair| matches!(pair.conclusion(), Conclusion::Equivalent { .. }))
    {
        VerdictKind::Equivalent
    } else {
        VerdictKind::Described
    }
}

fn sentence(pair: &Pair) -> String {
    let Pair {
        reference,
        other,
        primary: metric,
        ..
    } = pair;
    let compared = || format!("{}; {}", estimates_text(metric), conclusion(metric));
    let text = metric.refusal.clone().unwrap_or_else(compared);
    format!("{}, {other} against {reference}: {text}.", metric.title)
}

fn outcomes(subjects: &Subjects) -> Vec<String> {
    let success = || {
        subjects
            .all
            .iter()
            .map(|subject| &subject.lifecycle.success)
    };
    let failed = subjects.all.iter().zip(success());
    let failed = failed.filter(|(_, success)| success.answer == Some(false));
    let reasons = by_key(failed.map(|(subject, success)| (&success.why, subject.name.as_str())));
    let run_count = success()
        .filter(|success| success.answer == Some(true))
        .count();
    let replays = subjects.are_replays();
    let (what, not) = match replays {
        true => ("did their work to the end", "Did not do all of it"),
        false => ("are known to have kept up with the tip", "Did not keep up"),
    };
    let mut text = vec![format!(
        "{run_count} of {} runs {what}.",
        subjects.all.len()
    )];
    text.extend(
        reasons
            .iter()
            .map(|(why, runs)| format!("{not} ({why}): {}.", runs.join("; "))),
    );
    text
}

/// Metrics shown for arms that are not tested.
const UNTESTED_METRICS: [&str; 5] = [
    "cache-misses",
    "cache-time",
    "tps",
    "rss-mean",
    "major-faults",
];

fn described(pairs: &[Pair]) -> Vec<String> {
    let untested = |pair: &&Pair| {
        matches!(
            pair.conclusion(),
            Conclusion::Described | Conclusion::TooFewRuns { .. }
        )
    };
    let one = |pair: &Pair| {
        let metrics = pair.others.iter();
        let shown = metrics.filter(|metric| UNTESTED_METRICS.contains(&metric.scalar.id));
        let means = |metric: &Metric| {
            let comparison = &metric.comparison;
            let [other, reference] = [comparison.other.mean?, comparison.reference.mean?]
                .map(|mean| with_unit(mean, metric));
            let title = lowercase_first(&metric.title);
            Some(format!("{title} {other} against {reference}"))
        };
        let reported = shown.filter_map(means).join("; ");
        let (other, reference) = (&pair.other, &pair.reference);
        (!reported.is_empty())
            .then(|| format!("As described, {other} against {reference}: {reported}."))
    };
    pairs.iter().filter(untested).filter_map(one).collect()
}

fn differing(pairs: &[Pair]) -> Vec<String> {
    let shown = |pair: &Pair| {
        let differ = |metric: &Metric| match metric.comparison.conclusion {
            Conclusion::Differs { direction, .. } => Some(format!(
                "{} ({})",
                lowercase_first(&metric.title),
                direction_word(direction)
            )),
            _ => None,
        };
        let differ = pair.others.iter().filter_map(differ).join("; ");
        let (other, reference) = (&pair.other, &pair.reference);
        (!differ.is_empty()).then(|| {
            format!("Of the other metrics these differ, {other} against {reference}: {differ}.")
        })
    };
    pairs.iter().filter_map(shown).collect()
}
