mod words;

use super::Experiment;
use crate::{
    journal::SearchLog,
    plan::{self, Cluster},
    schedule::{Scheduled, Turn},
    search::{DwellResult, Evidence, HeadroomInterval, Line, Outcome, Verdict, median},
};
use faultline_pages::{
    cells::{self, figure, known, number, table, text, without_missing, words},
    model::{Block, Cell, Chart, Curve, Curves, Section, Table},
};
use faultline_report::run::{Run, Signal};
use faultline_stats::summary::mean;
use faultline_status::RamEvidence;
use faultline_text::{day, moment};
use std::collections::BTreeMap;
pub use words::headline;

const MAX_ROWS: usize = 1000;
const MIB: f64 = 1_048_576.0;
type Value = fn(&Evidence) -> Option<f64>;

/// Slots per epoch of the public clusters.
const SLOTS_PER_EPOCH: u64 = 432_000;

/// The search of the newest attempt at a run.
pub struct Search<'e> {
    scheduled: &'e Scheduled,
    rules: &'e plan::Search,
    searched: &'e SearchLog,
    /// Earlier searches that were cut off.
    cut_off: usize,
    cluster: Option<Cluster>,
    /// The first and the last slot that the run processed.
    slots: Option<(u64, u64)>,
    release: Option<String>,
    /// Whether the experiment has no other search.
    is_only_search: bool,
}

pub fn searches<'e>(experiment: &'e Experiment, runs: &[Run]) -> Vec<Search<'e>> {
    let (plan, journal_state) = (&experiment.plan, &experiment.journal_state);
    let Some(rules) = &plan.search else {
        return Vec::new();
    };
    let is_only_search = journal_state.scheduled().count() == 1;
    let of = |(_, one): (&Turn, &'e Scheduled)| {
        let searched = &journal_state.newest_run(one.run)?.searched;
        let run = runs
            .iter()
            .find(|run| run.label("run") == Some(one.replicate.to_string().as_str()));
        Some(Search {
            scheduled: one,
            rules,
            searched,
            cut_off: journal_state.searches_cut_off(one.run),
            cluster: plan.workload.cluster,
            slots: run.and_then(slots),
            release: run.and_then(|run| run.facts.versions.last().cloned()),
            is_only_search,
        })
    };
    journal_state.scheduled().filter_map(of).collect()
}

fn slots(run: &Run) -> Option<(u64, u64)> {
    let mut known = run.signal(Signal::Processed).iter().flatten();
    let first = *known.next()?;
    Some((
        first as u64,
        known.next_back().copied().unwrap_or(first) as u64,
    ))
}

/// The evidence of the newest search that has any; without one, why the newest has none.
pub fn evidence(searches: &[Search<'_>]) -> Result<RamEvidence, String> {
    let mut proven = searches.iter().rev().map(Search::evidence);
    proven
        .next()
        .unwrap_or_else(|| Err("the experiment has no search".to_owned()))
        .or_else(|why| proven.find_map(Result::ok).ok_or(why))
}

pub fn section(searches: &[Search<'_>]) -> Option<Section> {
    let blocks: Vec<Block> = searches.iter().flat_map(Search::blocks).collect();
    (!blocks.is_empty()).then(|| cells::section("search", "The least memory", blocks))
}

impl<'e> Search<'e> {
    fn evidence(&self) -> Result<RamEvidence, String> {
        let no_size = "the search has no confirmed size; see its report";
        let answer = self.searched.answer.as_ref().ok_or(no_size)?;
        let Outcome::Found(HeadroomInterval { low, high, .. }) = answer.outcome else {
            return Err(no_size.to_owned());
        };
        if answer.settles != Some(true) {
            let grows = "memory still grew when the search ended, so no size is enough for longer than it lasted";
            return Err(grows.to_owned());
        }
        let unreclaimable = answer.highest.or(answer.unreclaimable).ok_or(no_size)?;
        let least = unreclaimable.max(answer.start);
        let (_, last) = self.searched.lines.last().ok_or(no_size)?;
        Ok(RamEvidence {
            proven_bytes: least.saturating_add(high),
            interval_bytes: [low, high].map(|headroom| least.saturating_add(headroom)),
            release: self.release.clone(),
            measured: day(*last),
        })
    }

    fn dwells(&self) -> impl Iterator<Item = &'e DwellResult> {
        self.timed_dwells().map(|(dwell, _)| dwell)
    }

    fn timed_dwells(&self) -> impl Iterator<Item = (&'e DwellResult, i64)> {
        self.searched
            .lines
            .iter()
            .filter_map(|(line, unix_ns)| match line {
                Line::Limit { .. } => None,
                Line::Dwell(dwell) => Some((dwell, *unix_ns)),
            })
    }

    /// From the start of the first dwell to the last line of the log.
    fn hours(&self) -> Option<f64> {
        let (first, ended) = self.timed_dwells().next()?;
        let (_, last) = self.searched.lines.last()?;
        Some((last.saturating_sub(ended) as f64 / 1e9 + first.evidence.seconds) / 3600.0)
    }

    /// Includes the replicate if there are several.
    fn id(&self, id: &str) -> String {
        if self.is_only_search {
            id.to_owned()
        } else {
            format!("{id}-{}", self.scheduled.replicate)
        }
    }

    fn title(&self, title: &str) -> String {
        if self.is_only_search {
            title.to_owned()
        } else {
            format!("{title}: search {}", self.scheduled.replicate)
        }
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.paragraphs().into_iter().map(Block::Text).collect();
        blocks.extend(self.figures());
        blocks.extend((self.dwells().next().is_some()).then(|| Block::Table(self.table())));
        blocks
    }

    fn figures(&self) -> Vec<Block> {
        let behind = |evidence: &Evidence| evidence.behind_most.map(|slots| slots as f64);
        let refaults = |evidence: &Evidence| evidence.refaults;
        let replay = |evidence: &Evidence| evidence.replay_p95_us.map(|us| us / 1e3);
        let figures: [(&str, &str, &str, Value); 3] = [
            ("behind", "slots behind", "Most slots behind", behind),
            ("refaults", "refaults", "Refaults (/s)", refaults),
            ("replay", "replay time", "Replay time, p95 (ms)", replay),
        ];
        figures
            .into_iter()
            .filter_map(|(id, what, label, of)| {
                let title = format!("Headroom against {what}");
                self.curve(&format!("search-{id}"), &title, label, of)
            })
            .collect()
    }

    fn curve(&self, id: &str, title: &str, label: &str, of: Value) -> Option<Block> {
        let line = |verdict: Verdict| {
            let mut by_headroom: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for dwell in self.dwells().filter(|dwell| dwell.verdict == verdict) {
                if let Some((headroom, value)) = dwell.headroom.zip(of(&dwell.evidence)) {
                    by_headroom.entry(headroom).or_default().push(value);
                }
            }
            let point = |(headroom, values): (u64, Vec<f64>)| {
                let mean = mean(&values).unwrap_or_default();
                let ends = values.iter().fold((mean, mean), |(low, high), one| {
                    (low.min(*one), high.max(*one))
                });
                (headroom as f64 / MIB, (mean, Some(ends)))
            };
            let points: Vec<_> = by_headroom.into_iter().map(point).collect();
            Curve {
                name: verdict.in_words().to_owned(),
                points,
                ..Curve::default()
            }
        };
        let mut series = vec![line(Verdict::KeptUp), line(Verdict::Failed)];
        series.retain(|curve| !curve.points.is_empty());
        if series.is_empty() {
            return None;
        }
        let references = self.dwells().filter(|dwell| is_reference(dwell));
        let reference_text = median(references.filter_map(|dwell| of(&dwell.evidence)).collect())
            .map_or_else(String::new, |value| {
                format!(
                    " Without a limit it was {} (median of the references).",
                    faultline_text::number(value, 1)
                )
            });
        let caption = format!(
            "A point is a headroom that was tried: the mean of its dwells, the band from the least to the most. Void dwells are left out.{reference_text}"
        );
        let chart = Chart::Curves(Curves {
            x_label: "Headroom over what cannot be reclaimed (MiB)".to_owned(),
            y_label: label.to_owned(),
            series,
            ..Curves::default()
        });
        Some(figure(&self.id(id), &self.title(title), &caption, chart))
    }

    fn table(&self) -> Table {
        let columns = [
            "Dwell",
            "Over at",
            "What for",
            "Headroom [MiB]",
            "Verdict",
            "Why",
            "Lasted [s]",
            "Behind, most [slots]",
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
        let note = "In their order. Headroom: the limit less what cannot be reclaimed. A reference has no limit. Kept up: near the tip \
                    all through, no farther behind at its end, and replay at most 1.2 times as slow as in the references. Void: it \
                    shows nothing, and is repeated. Replay waited for a CPU: in the busiest eighth. Stalled: all tasks, the most in \
                    10 s. Unreclaimable and memory: at its end. MiB is 2^20 bytes.";
        let mut listed = table(&self.id("dwells"), &self.title("Dwells"), &columns, note);
        listed.rows = self
            .timed_dwells()
            .take(MAX_ROWS)
            .zip(1..)
            .map(|((dwell, ended), number)| row(number, dwell, ended))
            .collect();
        without_missing(listed)
    }
}

fn is_reference(dwell: &DwellResult) -> bool {
    dwell.headroom.is_none() && dwell.verdict == Verdict::KeptUp
}

fn row(row_number: u32, dwell: &DwellResult, ended_unix_ns: i64) -> Vec<Cell> {
    let evidence = &dwell.evidence;
    let read = |value: Option<f64>, decimals| number(value, decimals, "not read");
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / MIB);
    let what = match (dwell.headroom, dwell.confirms) {
        (None, _) => "reference",
        (Some(_), false) => "to try",
        (Some(_), true) => "to confirm",
    };
    vec![
        known(f64::from(row_number), 0),
        Cell::Text(moment(ended_unix_ns)),
        words(what),
        number(mib(dwell.headroom), 1, "no limit"),
        words(dwell.verdict.in_words()),
        text(Some(&evidence.why.join("; ")), "all held"),
        read(Some(evidence.seconds), 1),
        read(evidence.behind_most.map(|slots| slots as f64), 0),
        read(evidence.behind_first, 1),
        read(evidence.behind_last, 1),
        read(evidence.replay_p95_us.map(|us| us / 1e3), 1),
        read(evidence.refaults, 1),
        read(evidence.waited.map(|share| 100.0 * share), 1),
        read(evidence.cluster, 2),
        read(evidence.memory_full, 1),
        read(mib(evidence.unreclaimable), 1),
        read(mib(evidence.memory), 1),
    ]
}

#[cfg(test)]
mod tests;
