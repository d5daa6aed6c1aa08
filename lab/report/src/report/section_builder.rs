//! Builds a section of the report: tables of numbers by run and by arm, and figures.

use super::{
    cells::{count, figure, number_or, row, section, table},
    measured_run::{MeasuredRun, MeasuredRuns, RunPart},
    model::{Block, Chart, Counts, Histogram, Line, Section},
    timeline::timeline,
};
use crate::measure::WindowNumbers;
use faultline_stats::{
    histogram,
    summary::{mean, quantile},
};
use itertools::{Itertools, chain};

const MAX_HISTOGRAM_CLASSES: usize = 60;

/// Title with unit, decimals, and number of each run, computed from the part of the run that the
/// table is about.
pub type NumberColumn = (
    &'static str,
    u8,
    fn(&MeasuredRun, &WindowNumbers) -> Option<f64>,
);

pub struct SectionBuilder<'s> {
    pub runs: &'s MeasuredRuns,
    pub missing_reason: fn(&MeasuredRun) -> &'static str,
    blocks: Vec<Block>,
}

impl<'s> SectionBuilder<'s> {
    pub fn new(runs: &'s MeasuredRuns, missing_reason: fn(&MeasuredRun) -> &'static str) -> Self {
        Self {
            runs,
            missing_reason,
            blocks: Vec::new(),
        }
    }

    pub fn build(self, id: &str, title: &str) -> Section {
        section(id, title, self.blocks)
    }

    pub fn add(&mut self, blocks: impl IntoIterator<Item = Block>) {
        self.blocks.extend(blocks);
    }

    pub fn add_figure(&mut self, id: &str, title: &str, caption: &str, chart: Option<Chart>) {
        self.add(chart.map(|chart| figure(id, title, caption, chart)));
    }

    /// `label` names the vertical axis. `unit` is as in `Timeline::unit`.
    pub fn add_timeline(
        &mut self,
        id: &str,
        title: &str,
        caption: &str,
        (label, unit): (&str, &str),
        lines: impl Fn(&MeasuredRun) -> Vec<Line>,
    ) {
        let chart = timeline(self.runs, label, unit, lines);
        self.add_figure(id, title, caption, chart);
    }

    /// The last class ends at `max_quantile` of the values of all runs.
    pub fn add_histogram(
        &mut self,
        id: &str,
        title: &str,
        caption: &str,
        (x_label, y_label, max_quantile): (&str, &str, f64),
        values: impl Fn(&MeasuredRun) -> Vec<Option<f64>>,
    ) {
        let sets = self
            .runs
            .all
            .iter()
            .map(|run| (run, values(run)))
            .filter(|(_, set)| set.iter().any(Option::is_some))
            .collect_vec();
        let pooled = sets.iter().flat_map(|(_, set)| set).copied().collect_vec();
        let edges = histogram_edges(&pooled, max_quantile);
        let series = sets
            .iter()
            .map(|(run, set)| {
                let counted = histogram::count(set, &edges);
                Counts {
                    name: run.name.clone(),
                    run: run.id.clone(),
                    counts: counted.counts.iter().map(|count| *count as f64).collect(),
                    above: counted.above as f64,
                }
            })
            .collect_vec();
        let is_drawn = !series.is_empty() && edges.len() > 1;
        let chart = is_drawn.then(|| {
            Chart::Histogram(Histogram {
                x_label: x_label.to_owned(),
                y_label: y_label.to_owned(),
                edges,
                log: needs_log_scale(&series),
                series,
            })
        });
        self.add_figure(id, title, caption, chart);
    }

    /// Covers the time from the first executed transaction on, or the whole run if the process
    /// is no validator.
    pub fn add_table(
        &mut self,
        id: &str,
        title: &str,
        note: &str,
        number_columns: &[NumberColumn],
    ) {
        let part = if self.runs.has_no_validator() {
            RunPart::WholeRun
        } else {
            RunPart::FromFirstTransaction
        };
        self.add_table_of_part(part, id, title, note, number_columns);
    }

    /// [`Self::add_table`], and the same table for the time from the first sample at the tip on.
    pub fn add_tables_with_tip(
        &mut self,
        id: &str,
        title: &str,
        note: &str,
        number_columns: &[NumberColumn],
    ) {
        self.add_table(id, title, note, number_columns);
        let (id, title) = (format!("{id}-at-tip"), format!("{title} at the tip"));
        self.add_table_of_part(RunPart::FromTip, &id, &title, note, number_columns);
    }

    /// A table by run. With several runs or an A/A pair of an arm, also a table by arm. No table if
    /// no run has this part: a run may never be at the tip.
    pub fn add_table_of_part(
        &mut self,
        part: RunPart,
        id: &str,
        title: &str,
        note: &str,
        number_columns: &[NumberColumn],
    ) {
        let runs = self.runs;
        if runs.all.iter().all(|run| part.numbers(run).is_none()) {
            return;
        }
        let titles = number_columns.iter().map(|(title, ..)| *title);
        let titles = chain!(["Run"], titles).collect_vec();
        let note = format!("{} {note}", part.sentence());
        let mut by_run = table(id, title, &titles, &note);
        for run in &runs.all {
            let numbers = part.numbers(run);
            let reason = numbers.map_or("never at the tip", |_| (self.missing_reason)(run));
            let cells = number_columns.iter().map(|(_, decimals, value)| {
                let value = numbers.and_then(|numbers| value(run, numbers));
                number_or(value, *decimals, reason)
            });
            by_run.rows.push(row(&run.name, cells));
        }
        self.add([Block::Table(by_run)]);
        if runs.arms.len() < runs.all.len() {
            self.add([table_by_arm(runs, part, id, title, number_columns)]);
        }
    }
}

fn table_by_arm(
    runs: &MeasuredRuns,
    part: RunPart,
    id: &str,
    title: &str,
    number_columns: &[NumberColumn],
) -> Block {
    let titles = number_columns.iter().map(|(title, ..)| *title);
    let titles = chain!(["Arm", "Runs"], titles).collect_vec();
    let note = format!(
        "Means over the runs of an arm; each run counts once. If any run executed transactions, runs that executed none are left out. {}",
        part.sentence()
    );
    let (id, title) = (format!("{id}-by-arm"), format!("{title}, by arm"));
    let mut table = table(&id, &title, &titles, &note);
    for arm in &runs.arms {
        let counted_runs = runs.counted_runs_of(arm).collect_vec();
        let reason = if counted_runs.is_empty() {
            "no run of the arm executed a transaction"
        } else {
            "not known for every run of the arm"
        };
        let means = number_columns.iter().map(|(_, decimals, value)| {
            let value = |run: &&MeasuredRun| {
                value(run, part.numbers(run)?).filter(|value| value.is_finite())
            };
            let values: Option<Vec<f64>> = counted_runs.iter().map(value).collect();
            number_or(values.and_then(|values| mean(&values)), *decimals, reason)
        });
        let cells = chain!([count(counted_runs.len())], means);
        table.rows.push(row(arm, cells));
    }
    Block::Table(table)
}

pub fn averaging_caption(size: usize, sample: &str, samples: &str) -> String {
    match size {
        1 => format!("One value for each {sample}"),
        size => format!("Moving average over {size} {samples}, centred"),
    }
}

/// If all values are small integers, each integer has a class.
fn histogram_edges(values: &[Option<f64>], max_quantile: f64) -> Vec<f64> {
    let upper_bound = quantile(values, max_quantile).unwrap_or(0.0);
    let is_count = |value: &f64| value.fract() == 0.0 && *value >= 0.0;
    if values.iter().flatten().all(is_count) && upper_bound < MAX_HISTOGRAM_CLASSES as f64 {
        return (0..=upper_bound.ceil() as i64 + 1)
            .map(|edge| edge as f64 - 0.5)
            .collect();
    }
    histogram::freedman_diaconis_edges(values, max_quantile, MAX_HISTOGRAM_CLASSES)
}

/// More than half of the counts are below 1/200 of the largest.
fn needs_log_scale(series: &[Counts]) -> bool {
    let counts = series
        .iter()
        .flat_map(|of_run| of_run.counts.clone())
        .filter(|count| *count > 0.0)
        .collect_vec();
    let largest = counts.iter().copied().fold(0.0, f64::max);
    let small = counts.iter().filter(|count| *count * 200.0 < largest);
    small.count() * 2 > counts.len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_sample_is_no_moving_average() {
        let text = |size| super::averaging_caption(size, "slot", "slots");
        assert_eq!(text(1), "One value for each slot");
        assert_eq!(text(6), "Moving average over 6 slots, centred");
    }
}
