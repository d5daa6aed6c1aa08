//! Sentences on the result of a memory search. In a dwell, the search holds the limit at a headroom
//! above the memory that cannot be reclaimed, and examines whether the validator keeps up.

use super::{SLOTS_PER_EPOCH, SearchReport};
use crate::{
    plan::Cluster,
    search::{
        DwellResult, EndTrials, HeadroomInterval, SearchAnswer, SearchOutcome, VALIDATOR_ENDED,
        Verdict,
    },
};
use faultline_text::{bytes, counted, duration, number};
use itertools::Itertools;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// A range whose upper end is at least this is shown in GiB.
const MIN_GIB_BYTES: u64 = 10 << 30;

pub fn headline(searches: &[SearchReport<'_>]) -> Option<String> {
    let mut answers = searches.iter().map(|search| {
        if search.is_only_search {
            search.answer()
        } else {
            format!("Search {}: {}", search.scheduled.replicate, search.answer())
        }
    });
    Some(answers.join(" ")).filter(|text| !text.is_empty())
}

impl SearchReport<'_> {
    fn answer(&self) -> String {
        let Some(answer) = &self.search_log.answer else {
            return self.without_answer();
        };
        let doubt = if self.counts {
            ""
        } else {
            " The run of this search has no result that counts."
        };
        self.outcome(answer) + doubt
    }

    fn outcome(&self, answer: &SearchAnswer) -> String {
        let max_duration = duration(self.rules.max_duration);
        let words = match &answer.outcome {
            SearchOutcome::Found(interval) => return self.found(answer, interval),
            SearchOutcome::Unconfirmed(interval) => {
                let found = self.found(answer, interval);
                return format!(
                    "{found} Not confirmed: {max_duration} were over before both ends of the interval had been tried again."
                );
            }
            SearchOutcome::NeverFailed { lowest } => format!(
                "Never failed: the smallest headroom that was tried, {}, was enough, so the least headroom is not known.",
                bytes(*lowest)
            ),
            SearchOutcome::Noisy => {
                "Noisy: the dwells gave no reliable interval, so there is no size.".to_owned()
            }
            SearchOutcome::FirstHeadroomTooSmall => format!(
                "The first headroom, {}, was too small to keep up: the least headroom is larger.",
                bytes(self.rules.first_headroom)
            ),
            SearchOutcome::OutOfTime => format!(
                "Out of time: {max_duration} were over before the interval was narrow enough, so there is no size."
            ),
            SearchOutcome::Inconclusive { why } => {
                format!("Inconclusive: {why}. There is no size.")
            }
        };
        match startup_text(answer) {
            Some(start) => format!("{words} Its {start}."),
            None => words,
        }
    }

    fn without_answer(&self) -> String {
        if let Some(dwell) = self.dwells().last()
            && let Some(headroom) = dwell.headroom
            && dwell.evidence.why.iter().any(|why| why == VALIDATOR_ENDED)
        {
            return format!(
                "The validator ended by itself in a dwell with a headroom of {}, before the search was over: there is no answer.",
                bytes(headroom)
            );
        }
        "The search is not finished, or was cut off: there is no answer.".to_owned()
    }

    /// `Keeps up with 412 to 430 GiB after 6 h; needs 1.9 GiB more each hour; its start alone needs 388 GiB.`
    fn found(&self, answer: &SearchAnswer, interval: &HeadroomInterval) -> String {
        let HeadroomInterval { low, high, .. } = *interval;
        let Some(base) = answer.overall_peak_bytes() else {
            return format!(
                "Keeps up with {} above memory that cannot be reclaimed.",
                range(low, high)
            );
        };
        let after = self
            .hours_from_first_dwell()
            .map_or_else(String::new, |hours| {
                format!(" after {}", duration_words(hours))
            });
        let memory = range(base.saturating_add(low), base.saturating_add(high));
        let mut text = vec![format!("Keeps up with {memory}{after}")];
        text.extend(match (answer.is_stable, answer.growth_bytes_per_hour) {
            (Some(false), Some(growth)) => Some(format!(
                "needs {} more each hour",
                bytes(growth.max(0.0) as u64)
            )),
            (Some(true), _) => Some("memory that cannot be reclaimed hardly grows".to_owned()),
            _ => None,
        });
        text.extend(startup_text(answer).map(|start| format!("its {start}")));
        format!("{}.", text.join("; "))
    }

    pub fn paragraphs(&self) -> Vec<String> {
        let mut all = vec![self.answer()];
        if let Some(answer) = &self.search_log.answer {
            all.extend(self.headroom_paragraph(answer));
            all.extend(self.growth_paragraph(answer));
        }
        all.push(self.time_paragraph());
        all.extend(cut_off_sentence(self.earlier_unanswered));
        all.push(
            "The search does not say: whether a start with less memory succeeds, since a run starts once; what happens at \
             events outside the time of the search, on another day, or with another load or version; and what happens under a \
             limit that kills the validator instead of slowing it down. To see this, run an arm with memory_max for hours \
             from its start."
                .to_owned(),
        );
        all
    }

    fn headroom_paragraph(&self, answer: &SearchAnswer) -> Option<String> {
        let HeadroomInterval { low, middle, high } = answer.outcome.interval()?;
        let ends = answer
            .confirmed
            .as_ref()
            .map_or_else(String::new, |ends| self.end_trials(ends));
        Some(format!(
            "The least headroom above memory that cannot be reclaimed is {} with 90 % confidence, most likely about {}.{ends} {}",
            range(low, high),
            bytes(middle),
            self.failures(high)
        ))
    }

    fn end_trials(&self, ends: &EndTrials) -> String {
        let untried = |end| {
            self.dwells()
                .filter(|dwell| dwell.confirms && dwell.headroom == Some(end))
                .filter(|dwell| dwell.evidence.seconds <= 0.0)
                .count() as u32
        };
        let (high_untried, low_untried) = (untried(ends.high), untried(ends.low));
        let high = ends.high_kept_up + ends.high_failed.saturating_sub(high_untried);
        let low_failed = ends.low_failed.saturating_sub(low_untried);
        let low = ends.low_kept_up + low_failed;
        let (high_end, low_end) = (bytes(ends.high), bytes(ends.low));
        let tried = [
            (high > 0).then(|| format!("{high_end} kept up {} of {high} times", ends.high_kept_up)),
            (low > 0).then(|| format!("{low_end} failed {low_failed} of {low} times")),
        ];
        let tried = tried.into_iter().flatten().join(", and ");
        let mut text = String::new();
        if !tried.is_empty() {
            text = format!(" Tried again at double length, {tried}.");
        }
        for (end, untried) in [(high_end, high_untried), (low_end, low_untried)] {
            if untried > 0 {
                text += &format!(
                    " {end} could not be tried again, and counts as too small: unreclaimable memory had once risen by \
                     at least half of this headroom within a second. The true need may be less."
                );
            }
        }
        text
    }

    /// Failures of dwells whose headroom was the upper end of the interval or more.
    fn failures(&self, high: u64) -> String {
        let is_at_least_high = |headroom| headroom >= high / PAGE * PAGE;
        let dwells = self
            .dwells()
            .filter(|dwell| dwell.headroom.is_some_and(is_at_least_high))
            .filter(|dwell| dwell.verdict != Verdict::Void)
            .collect_vec();
        let hours = dwells
            .iter()
            .fold(0.0, |hours, dwell| hours + dwell.evidence.seconds / 3600.0);
        let is_failed = |dwell: &&&DwellResult| dwell.verdict == Verdict::Failed;
        let (end, time) = (bytes(high), duration_words(hours));
        match dwells.iter().filter(is_failed).count() {
            _ if hours <= 0.0 => format!("No dwell had {end} or more."),
            0 => format!(
                "With {end} or more there was no failure in {time}: at most {} an hour, with 95 % confidence.",
                number(3.0 / hours, if hours > 3.0 { 2 } else { 1 })
            ),
            1 => format!("With {end} or more it failed once in {time}."),
            count => format!("With {end} or more it failed {count} times in {time}."),
        }
    }

    fn growth_paragraph(&self, answer: &SearchAnswer) -> Option<String> {
        let horizon = duration(self.rules.growth_horizon);
        let headroom = match answer.outcome {
            SearchOutcome::NeverFailed { .. } => "the smallest headroom that was tried",
            _ => "the headroom at the upper end of the interval",
        };
        match answer.is_stable {
            None => Some(
                "There is too little data to say whether memory that cannot be reclaimed grows.".to_owned(),
            ),
            Some(true) => answer.sufficient_sizes.first().map(|sufficient| {
                format!(
                    "Memory that cannot be reclaimed is stable: at its present growth it rises by less than 5 % in {horizon}. With \
                     {headroom}, {} is enough for that long.",
                    size_text(sufficient.bytes)
                )
            }),
            Some(false) => {
                let sizes = answer
                    .sufficient_sizes
                    .iter()
                    .map(|sufficient| {
                        let time = duration_words(sufficient.hours);
                        format!("{} after {time}", size_text(sufficient.bytes))
                    })
                    .join(", ");
                let enough = if sizes.is_empty() {
                    sizes
                } else {
                    format!(
                        " If this growth continues, then with {headroom}, these sizes are enough: {sizes}."
                    )
                };
                Some(
                    format!("Memory that cannot be reclaimed is not stable: it grows by more than 5 % in {horizon}.{enough}"),
                )
            }
        }
    }

    fn time_paragraph(&self) -> String {
        let is_void = |dwell: &&DwellResult| dwell.verdict == Verdict::Void;
        let void = self.dwells().filter(is_void).count();
        let limited = self
            .dwells()
            .filter(|dwell| !is_void(dwell) && dwell.headroom.is_some())
            .filter(|dwell| dwell.evidence.seconds > 0.0)
            .count();
        let took = self.hours_from_first_dwell().map_or_else(
            || "No dwell is over".to_owned(),
            |hours| format!("It took {} at the tip", duration_words(hours)),
        );
        let text = format!(
            "{took}: {} with a limit, {} without, {void} void.",
            counted(limited as f64, "dwell"),
            counted(self.references().count() as f64, "reference")
        );
        let Some((first, last)) = self.slots else {
            return format!(
                "{text} The slots of the run were not recorded, so it is not known which events they include."
            );
        };
        let passed = counted(last.saturating_sub(first) as f64, "slot");
        let epochs = match self.cluster {
            Some(Cluster::MainnetBeta | Cluster::Testnet | Cluster::Devnet) => {
                if first / SLOTS_PER_EPOCH == last / SLOTS_PER_EPOCH {
                    "no epoch boundary is among them"
                } else {
                    "an epoch boundary is among them"
                }
            }
            _ => {
                "the length of an epoch of this cluster is not known, so an epoch boundary may be among them"
            }
        };
        format!(
            "{text} {passed} passed in the whole run, from {first} to {last}: {epochs}. A full snapshot was written if --full-snapshot-interval-slots is less than {passed}."
        )
    }
}

fn cut_off_sentence(times: usize) -> Option<String> {
    match times {
        0 => None,
        1 => Some(
            "An earlier search ended without an answer: it was stopped, or its attempt failed. This one began anew, and uses no result of it."
                .to_owned(),
        ),
        many => Some(format!(
            "{many} earlier searches ended without an answer: they were stopped, or their attempts failed. The search began anew each time, and \
             uses no result of them."
        )),
    }
}

fn startup_text(answer: &SearchAnswer) -> Option<String> {
    (answer.startup_peak_bytes > 0)
        .then(|| format!("start alone needs {}", size_text(answer.startup_peak_bytes)))
}

/// `412 to 430 GiB`, `1,480 to 1,560 MiB`.
fn range(low: u64, high: u64) -> String {
    let digits = |value| number(value, if value >= 100.0 { 0 } else { 1 });
    let (unit, one) = if high >= MIN_GIB_BYTES {
        ("GiB", 1_u64 << 30)
    } else {
        ("MiB", MIB)
    };
    let [low, high] = [low, high].map(|bytes| digits(bytes as f64 / one as f64));
    if low == high {
        format!("{high} {unit}")
    } else {
        format!("{low} to {high} {unit}")
    }
}

fn size_text(bytes: u64) -> String {
    range(bytes, bytes)
}

/// `6 h`, `6.2 h`, `42 min`.
fn duration_words(hours: f64) -> String {
    if hours < 1.0 {
        return duration(Duration::from_secs_f64((hours * 3600.0).round().max(0.0)));
    }
    let text = number(hours, 1);
    format!("{} h", text.strip_suffix(".0").unwrap_or(&text))
}
