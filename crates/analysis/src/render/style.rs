//! An arm keeps its colour and dash in every figure, a run its weight.

use std::collections::BTreeMap;

use super::text::escaped;
use crate::report::model::{Block, Chart, Line, Report, Timeline};

pub(crate) const COLOURS: usize = 8;

pub(crate) const TINTS: usize = 13;

/// The fixed tint of each phase, by a part of its name.
const PHASES: [(&str, usize); TINTS] = [
    ("tip", 2),
    ("catch", 0),
    ("behind", 4),
    ("gone", 3),
    ("replay", 5),
    ("initializ", 1),
    ("download", 6),
    ("unpack", 7),
    ("search", 8),
    ("starting", 9),
    ("supermajority", 10),
    ("halted", 11),
    ("absent", 12),
];

/// As in `stroke-dasharray`; the first is solid.
pub(crate) const DASHES: [&str; 5] = ["", "7 3", "2 2.5", "9 3 2 3", "4 2"];

/// Line widths, thickest first.
pub(crate) const WEIGHTS: [f64; 3] = [1.9, 1.4, 1.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesStyle {
    /// Index of the colour; `None` is neutral grey (limits, lines of no run).
    pub colour: Option<usize>,
    pub dash: usize,
    pub weight: usize,
}

impl SeriesStyle {
    pub(crate) const NEUTRAL: Self = Self {
        colour: None,
        dash: 4,
        weight: 1,
    };

    pub(crate) const fn nth(index: usize) -> Self {
        Self {
            colour: Some(index % COLOURS),
            dash: index % DASHES.len(),
            weight: 0,
        }
    }

    pub(crate) fn class(self) -> String {
        self.colour
            .map_or_else(|| "kn".to_owned(), |colour| format!("k{colour}"))
    }

    pub(crate) fn dashes(self) -> &'static str {
        DASHES[self.dash % DASHES.len()]
    }

    pub(crate) fn thickness(self) -> f64 {
        WEIGHTS[self.weight % WEIGHTS.len()]
    }
}

#[derive(Debug, Clone, Default)]
pub struct SeriesStyles {
    runs: BTreeMap<String, SeriesStyle>,
    names: BTreeMap<String, (SeriesStyle, String)>,
    arms: Vec<String>,
    phases: BTreeMap<String, usize>,
}

impl SeriesStyles {
    pub fn of(report: &Report) -> Self {
        let mut styles = Self::default();
        let mut sizes: Vec<usize> = Vec::new();
        for run in &report.runs {
            let arm = styles
                .arms
                .iter()
                .position(|arm| *arm == run.arm)
                .unwrap_or_else(|| {
                    styles.arms.push(run.arm.clone());
                    sizes.push(0);
                    styles.arms.len() - 1
                });
            let style = SeriesStyle {
                weight: sizes[arm].min(WEIGHTS.len() - 1),
                ..SeriesStyle::nth(arm)
            };
            sizes[arm] += 1;
            styles.runs.insert(run.id.clone(), style);
            styles
                .names
                .insert(run.name.clone(), (style, of_run(&run.id)));
        }
        for (index, arm) in styles.arms.iter().enumerate() {
            styles.names.insert(
                arm.clone(),
                (
                    SeriesStyle::nth(index),
                    format!(r#" data-arm="{}""#, escaped(arm)),
                ),
            );
        }
        for block in report.sections.iter().flat_map(|section| &section.blocks) {
            if let Block::Figure(figure) = block
                && let Chart::Timeline(timeline) = &figure.chart
            {
                timeline
                    .bands
                    .iter()
                    .filter(|band| band.name != "gap")
                    .for_each(|band| styles.tint(&band.name));
            }
        }
        styles
    }

    /// Gives a phase its fixed tint, or another one if that is taken.
    fn tint(&mut self, name: &str) {
        if self.phases.contains_key(name) {
            return;
        }
        let known = if name.contains("the end") {
            "gone"
        } else {
            name
        };
        let usual = PHASES
            .into_iter()
            .find(|(part, _)| known.contains(part))
            .map_or(1, |(_, tint)| tint);
        let others = PHASES.into_iter().rev().map(|(_, tint)| tint);
        let free = |tint: &usize| self.phases.values().all(|taken| taken != tint);
        let tint = std::iter::once(usual)
            .chain(others)
            .find(free)
            .unwrap_or(self.phases.len() % TINTS);
        self.phases.insert(name.to_owned(), tint);
    }

    pub(crate) fn arms(&self) -> &[String] {
        &self.arms
    }

    pub(crate) fn run(&self, id: &str) -> Option<SeriesStyle> {
        self.runs.get(id).copied()
    }

    /// The class of a band: pale for shading behind lines, stronger for a strip.
    pub(crate) fn band(&self, name: &str, strip: bool) -> String {
        let index = self.phases.get(name).copied().unwrap_or(0);
        match (name == "gap", strip) {
            (true, false) => "gap".to_owned(),
            (true, true) => "pgap".to_owned(),
            (false, false) => format!("b{index}"),
            (false, true) => format!("p{index}"),
        }
    }

    /// Looks up each series by run, then by name, then by index.
    pub(crate) fn series<'a>(
        &self,
        series: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Vec<SeriesStyle> {
        series
            .enumerate()
            .map(|(index, (name, run))| {
                self.run(run)
                    .or_else(|| Some(self.names.get(name)?.0))
                    .unwrap_or_else(|| SeriesStyle::nth(index))
            })
            .collect()
    }

    /// HTML attribute by which the page hides elements of a run or an arm; with a leading space.
    pub(crate) fn owner(&self, name: &str, run: &str) -> String {
        match self.names.get(name) {
            _ if !run.is_empty() => of_run(run),
            Some((_, owner)) => owner.clone(),
            None => String::new(),
        }
    }

    pub(crate) fn mark(&self, timeline: &Timeline, run: &str) -> SeriesStyle {
        let mut runs = timeline
            .series
            .iter()
            .map(|line| &line.run)
            .filter(|run| !run.is_empty());
        let single = runs.next().is_none_or(|first| runs.all(|run| run == first));
        if single {
            SeriesStyle::NEUTRAL
        } else {
            self.run(run).unwrap_or(SeriesStyle::NEUTRAL)
        }
    }

    /// One line per run: the runs' styles. One run: a style per line. Otherwise the run's colour
    /// and a dash per line.
    pub(crate) fn lines(&self, lines: &[Line]) -> Vec<SeriesStyle> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let several = !each_run_once(lines);
        let mut runs = lines
            .iter()
            .map(|line| &line.run)
            .filter(|run| !run.is_empty());
        let of_runs = runs.clone().next().is_some();
        let single = runs.next().is_none_or(|first| runs.all(|run| run == first));
        let mut nth = 0;
        lines
            .iter()
            .map(|line| {
                if line.run.is_empty() && of_runs {
                    return SeriesStyle::NEUTRAL;
                }
                let at = seen.entry(&line.run).or_default();
                *at += 1;
                nth += 1;
                match self.run(&line.run) {
                    Some(style) if !several => style,
                    Some(style) if !single => SeriesStyle {
                        dash: (*at - 1) % DASHES.len(),
                        ..style
                    },
                    _ => SeriesStyle::nth(nth - 1),
                }
            })
            .collect()
    }
}

pub(crate) fn of_run(run: &str) -> String {
    if run.is_empty() {
        String::new()
    } else {
        format!(r#" data-run="{}""#, escaped(run))
    }
}

pub(crate) fn each_run_once(lines: &[Line]) -> bool {
    let mut runs: Vec<&str> = lines
        .iter()
        .map(|line| line.run.as_str())
        .filter(|run| !run.is_empty())
        .collect();
    let count = runs.len();
    runs.sort_unstable();
    runs.dedup();
    runs.len() == count
}
