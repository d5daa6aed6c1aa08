//! The chapter of a report about a search for the least memory. A search moves the memory limit of a
//! validator. Headroom is what the limit leaves above memory that cannot be reclaimed. A dwell is the
//! time for which the search keeps one headroom; its verdict says whether the validator kept up.

mod sentences;

use super::{Experiment, section::limit_rows};
use crate::{
    journal::SearchLog,
    outcome::Validity,
    plan::{self, Cluster},
    schedule::ScheduledRun,
    search::{
        DwellEvidence, DwellResult, HeadroomInterval, SearchEvent, SearchOutcome, Verdict, median,
    },
};
use faultline_pages::{
    cells::{self, count, figure, number_or, table, text_cell, text_or, without_missing_columns},
    model::{Block, Cell, Chart, Curve, Curves, Section, Table},
};
use faultline_report::run::{Run, Signal};
use faultline_stats::summary::mean;
use faultline_status::RamEvidence;
use faultline_text::{date, utc};
use itertools::Itertools;
pub use sentences::headline;

const MIB: f64 = 1_048_576.0;
/// Reads one value of a dwell. `None` if it was not measured.
type Measurement = fn(&DwellEvidence) -> Option<f64>;

/// Slots per epoch of the public clusters.
const SLOTS_PER_EPOCH: u64 = 432_000;

/// The search of the newest attempt at a run.
pub struct SearchReport<'e> {
    scheduled: &'e ScheduledRun,
    rules: &'e plan::MemorySearchRules,
    search_log: &'e SearchLog,
    /// The run has a result that is not repeated.
    pub counts: bool,
    /// Number of searches in earlier attempts that were cut off.
    earlier_unanswered: usize,
    cluster: Option<Cluster>,
    /// The first and the last slot that the run processed.
    slots: Option<(u64, u64)>,
    release: Option<String>,
    is_only_search: bool,
}

pub fn searches<'e>(experiment: &'e Experiment, runs: &[Run]) -> Vec<SearchReport<'e>> {
    let (plan, journal_state) = (&experiment.plan, &experiment.journal_state);
    let Some(rules) = &plan.memory_search else {
        return Vec::new();
    };
    let is_only_search = journal_state.scheduled().count() == 1;
    let searches = journal_state.scheduled().filter_map(|(turn, scheduled)| {
        let search_log = &journal_state.newest_run(scheduled.run)?.search_log;
        let replicate = scheduled.replicate.to_string();
        let run = runs.iter().find(|run| run.label("run") == Some(&replicate));
        Some(SearchReport {
            scheduled,
            rules,
            search_log,
            counts: journal_state
                .newest_attempt(turn)
                .and_then(|newest| newest.result(scheduled.run))
                .is_some_and(|ending| !matches!(ending.validity, Validity::Invalid(_))),
            earlier_unanswered: journal_state.searches_unanswered(scheduled.run),
            cluster: plan.workload.cluster,
            slots: run.and_then(slots),
            release: run.and_then(|run| run.facts.versions.last().cloned()),
            is_only_search,
        })
    });
    searches.collect()
}

fn slots(run: &Run) -> Option<(u64, u64)> {
    let slots = run.signal(Signal::Processed).iter().flatten();
    let last = *slots.clone().next_back()?;
    Some((*slots.clone().next()? as u64, last as u64))
}

/// Returns the evidence of the last search that confirmed a size. If none did, returns why the last
/// search did not.
pub fn ram_evidence(searches: &[SearchReport<'_>]) -> Result<RamEvidence, String> {
    let mut results = searches.iter().rev().map(SearchReport::ram_evidence);
    match results.next() {
        None => Err("the experiment has no search".to_owned()),
        Some(newest) => newest.or_else(|why| results.find_map(Result::ok).ok_or(why)),
    }
}

pub fn section(searches: &[SearchReport<'_>]) -> Option<Section> {
    let blocks = searches.iter().flat_map(SearchReport::blocks).collect_vec();
    (!blocks.is_empty()).then(|| cells::section("search", "The least memory", blocks))
}

impl<'e> SearchReport<'e> {
    pub fn ram_evidence(&self) -> Result<RamEvidence, String> {
        let no_size = "the search has no confirmed size; see its report";
        let answer = self.search_log.answer.as_ref().ok_or(no_size)?;
        let SearchOutcome::Found(HeadroomInterval { low, high, .. }) = answer.outcome else {
            return Err(no_size.to_owned());
        };
        if !self.counts {
            return Err("the run of the search has no result that counts".to_owned());
        }
        if answer.is_stable != Some(true) {
            let grows = "memory still grew when the search ended, so no size is proven for longer than the search lasted";
            return Err(grows.to_owned());
        }
        let base = answer.overall_peak_bytes().ok_or(no_size)?;
        let (_, last_unix_ns) = self.search_log.events.last().ok_or(no_size)?;
        Ok(RamEvidence {
            proven_bytes: base.saturating_add(high),
            interval_bytes: [low, high].map(|headroom| base.saturating_add(headroom)),
            release: self.release.clone(),
            measured: date(*last_unix_ns),
        })
    }

    fn dwells(&self) -> impl Iterator<Item = &'e DwellResult> {
        self.timed_dwells().map(|(dwell, _)| dwell)
    }

    /// Each dwell with its end in nanoseconds since 1970.
    fn timed_dwells(&self) -> impl Iterator<Item = (&'e DwellResult, i64)> {
        self.search_log
            .events
            .iter()
            .filter_map(|(event, unix_ns)| match event {
                SearchEvent::Limit { .. } => None,
                SearchEvent::Dwell(dwell) => Some((dwell, *unix_ns)),
            })
    }

    /// From the start of the first dwell to the last line of the log.
    fn hours_from_first_dwell(&self) -> Option<f64> {
        let (first, ended) = self.timed_dwells().next()?;
        let (_, last) = self.search_log.events.last()?;
        Some((last.saturating_sub(ended) as f64 / 1e9 + first.evidence.seconds) / 3600.0)
    }

    /// `text` with the replicate, if there are several.
    fn with_replicate(&self, text: &str, separator: &str) -> String {
        if self.is_only_search {
            return text.to_owned();
        }
        format!("{text}{separator}{}", self.scheduled.replicate)
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks = self.paragraphs().into_iter().map(Block::Text).collect_vec();
        let mut add = |id, subject, label, measurement| {
            let title = format!("Headroom against {subject}");
            blocks.extend(self.curve(&format!("search-{id}"), &title, label, measurement));
        };
        add("behind", "slots behind", "Most slots behind", |evidence| {
            evidence.max_slots_behind.map(|slots| slots as f64)
        });
        add("refaults", "refaults", "Refaults (/s)", |evidence| {
            evidence.refaults_per_second
        });
        add(
            "replay",
            "replay time",
            "Replay time, p95 (ms)",
            |evidence| evidence.replay_p95_us.map(|us| us / 1e3),
        );
        if self.dwells().next().is_some() {
            blocks.push(Block::Table(self.table()));
        }
        blocks
    }

    /// Dwells without a limit that kept up. The others are compared with them.
    fn references(&self) -> impl Iterator<Item = &'e DwellResult> {
        self.dwells()
            .filter(|dwell| dwell.headroom.is_none() && dwell.verdict == Verdict::KeptUp)
    }

    fn curve(&self, id: &str, title: &str, label: &str, measurement: Measurement) -> Option<Block> {
        let curve = |verdict| {
            let dwells = self.dwells().filter(|dwell| dwell.verdict == verdict);
            let by_headroom = dwells
                .filter_map(|dwell| dwell.headroom.zip(measurement(&dwell.evidence)))
                .into_group_map();
            let sorted = by_headroom
                .into_iter()
                .sorted_by_key(|(headroom, _)| *headroom);
            let points = sorted.map(|(headroom, values)| {
                let mean = mean(&values).unwrap_or_default();
                let low = values.iter().copied().fold(mean, f64::min);
                let high = values.into_iter().fold(mean, f64::max);
                (headroom as f64 / MIB, (mean, Some((low, high))))
            });
            Curve {
                name: verdict.in_words().to_owned(),
                points: points.collect(),
                ..Curve::default()
            }
        };
        let mut series = vec![curve(Verdict::KeptUp), curve(Verdict::Failed)];
        series.retain(|curve| !curve.points.is_empty());
        if series.is_empty() {
            return None;
        }
        let references = self
            .references()
            .filter_map(|dwell| measurement(&dwell.evidence));
        let reference = median(references.collect());
        let reference_text = reference.map_or_else(String::new, |value| {
            let value = faultline_text::number(value, 1);
            format!(" Without a limit, the median of the references was {value}.")
        });
        let caption = format!(
            "A point is the mean of all dwells with one headroom; the band is from the lowest to the highest of them. Void dwells are left out.{reference_text}"
        );
        let chart = Chart::Curves(Curves {
            x_label: "Headroom over what cannot be reclaimed (MiB)".to_owned(),
            y_label: label.to_owned(),
            series,
            ..Curves::default()
        });
        Some(figure(
            &self.with_replicate(id, "-"),
            &self.with_replicate(title, ": search "),
            &caption,
            chart,
        ))
    }

    fn table(&self) -> Table {
        let columns = [
            "Dwell",
            "Ended",
            "Purpose",
            "Headroom [MiB]",
            "Verdict",
            "Why",
            "Lasted [s]",
            "Behind, maximum [slots]",
            "Behind, first eighth [slots]",
            "Behind, last eighth [slots]",
            "Replay p95 [ms]",
            "Refaults [/s]",
            "Replay waited for a CPU [%]",
            "Cluster [slots/s]",
            "Stalled for memory [%]",
            "Unreclaimable [MiB]",
            "Memory [MiB]",
        ];
        let note = "In the order of time. Headroom: the limit minus memory that cannot be reclaimed. A reference has no limit. \
                    Kept up: near the tip all the time, no farther behind at the end of the dwell, and replay at most 1.2 times \
                    as slow as in the references. Void: the dwell shows nothing, and is repeated. Replay waited for a CPU: the \
                    share of time in the busiest eighth of the dwell. Stalled: the share of time in which all tasks waited for \
                    memory, in the worst 10 s. Unreclaimable and memory: at the end of the dwell. MiB is 2^20 bytes.";
        let mut listed = table(
            &self.with_replicate("dwells", "-"),
            &self.with_replicate("Dwells", ": search "),
            &columns,
            note,
        );
        listed.rows = self
            .timed_dwells()
            .zip(1..)
            .map(|((dwell, ended), number)| row(number, dwell, ended))
            .collect();
        without_missing_columns(limit_rows(listed))
    }
}

fn row(number_in_order: usize, dwell: &DwellResult, ended_unix_ns: i64) -> Vec<Cell> {
    let evidence = &dwell.evidence;
    let read = |value, decimals| number_or(value, decimals, "not read");
    let mib = |bytes| bytes as f64 / MIB;
    let purpose = match (dwell.headroom, dwell.confirms) {
        (None, _) => "reference",
        (Some(_), false) => "to try",
        (Some(_), true) => "to confirm",
    };
    vec![
        count(number_in_order),
        Cell::Text(utc(ended_unix_ns)),
        text_cell(purpose),
        number_or(dwell.headroom.map(mib), 1, "no limit"),
        text_cell(dwell.verdict.in_words()),
        text_or(Some(&evidence.why.join("; ")), "all conditions met"),
        read(Some(evidence.seconds), 1),
        read(evidence.max_slots_behind.map(|slots| slots as f64), 0),
        read(evidence.slots_behind_first_eighth, 1),
        read(evidence.slots_behind_last_eighth, 1),
        read(evidence.replay_p95_us.map(|us| us / 1e3), 1),
        read(evidence.refaults_per_second, 1),
        read(evidence.replay_cpu_wait_share.map(|share| 100.0 * share), 1),
        read(evidence.cluster_slots_per_second, 2),
        read(evidence.max_stall_percent, 1),
        read(evidence.unreclaimable.map(mib), 1),
        read(evidence.memory.map(mib), 1),
    ]
}

#[cfg(test)]
mod tests;
