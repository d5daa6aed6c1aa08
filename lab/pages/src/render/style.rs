//! An arm has one color and dash in all figures. Its first three runs differ by line width.

use std::collections::BTreeMap;

use super::text::escaped;
use crate::model::{Chart, Line, Report, Timeline};

const COLOR_COUNT: usize = 8;

const TINT_COUNT: usize = 13;

/// Fixed tints of phases, by parts of their names.
const PHASE_TINTS: [(&str, usize); TINT_COUNT + 1] = [
    ("tip", 2),
    ("catch", 0),
    ("behind", 4),
    ("gone", 3),
    ("the end", 3),
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

/// Values of `stroke-dasharray`.
const DASHES: [&str; 5] = ["none", "7 3", "2 2.5", "9 3 2 3", "4 2"];

/// Line widths, thickest first.
const LINE_WIDTHS: [f64; 3] = [1.9, 1.4, 1.0];

#[derive(Clone, Copy)]
pub struct SeriesStyle {
    /// Index of a CSS class; `None` is gray, for lines of no run.
    pub color: Option<usize>,
    /// Index in [`DASHES`].
    pub dash: usize,
    /// Index in [`LINE_WIDTHS`].
    pub width_index: usize,
}

impl SeriesStyle {
    pub const NEUTRAL: Self = Self {
        color: None,
        dash: 4,
        width_index: 1,
    };

    pub const fn nth(index: usize) -> Self {
        Self {
            color: Some(index % COLOR_COUNT),
            dash: index % DASHES.len(),
            width_index: 0,
        }
    }

    pub fn class(self) -> String {
        self.color
            .map_or("kn".to_owned(), |color| format!("k{color}"))
    }

    pub fn filled_class(self) -> String {
        format!("{} f", self.class())
    }

    pub fn dashes(self) -> &'static str {
        DASHES[self.dash % DASHES.len()]
    }

    pub fn thickness(self) -> f64 {
        LINE_WIDTHS[self.width_index % LINE_WIDTHS.len()]
    }
}

pub struct StyledSeries {
    pub name: String,
    pub style: SeriesStyle,
    /// ` data-run="ID"` or ` data-arm="ARM"`, by which the page hides elements; or empty.
    pub data_attribute: String,
}

#[derive(Default)]
pub struct SeriesStyles {
    /// By id.
    runs: BTreeMap<String, SeriesStyle>,
    /// By name of a run or arm, with the [`StyledSeries::data_attribute`].
    names: BTreeMap<String, (SeriesStyle, String)>,
    /// In the order of their first runs.
    pub arms: Vec<String>,
    phase_tints: BTreeMap<String, usize>,
}

impl SeriesStyles {
    pub fn of(report: &Report) -> Self {
        let mut styles = Self::default();
        for (index, run) in report.runs.iter().enumerate() {
            if !styles.arms.contains(&run.arm) {
                styles.arms.push(run.arm.clone());
            }
            let arm = styles.arms.iter().position(|arm| *arm == run.arm);
            let earlier = report
                .runs
                .iter()
                .take(index)
                .filter(|earlier| earlier.arm == run.arm);
            let style = SeriesStyle {
                width_index: earlier.count().min(LINE_WIDTHS.len() - 1),
                ..SeriesStyle::nth(arm.unwrap_or_default())
            };
            styles.runs.insert(run.id.clone(), style);
            styles
                .names
                .insert(run.name.clone(), (style, run_attribute(&run.id)));
        }
        // An arm takes precedence over a run of the same name.
        for (index, arm) in styles.arms.iter().enumerate() {
            let data_attribute = format!(r#" data-arm="{}""#, escaped(arm));
            styles
                .names
                .insert(arm.clone(), (SeriesStyle::nth(index), data_attribute));
        }
        for figure in super::figures(report) {
            if let Chart::Timeline(timeline) = &figure.chart {
                for band in timeline.bands.iter().filter(|band| band.name != "gap") {
                    styles.assign_tint(&band.name);
                }
            }
        }
        styles
    }

    /// Gives a phase its fixed tint, or another free one.
    fn assign_tint(&mut self, name: &str) {
        if self.phase_tints.contains_key(name) {
            return;
        }
        let fixed = PHASE_TINTS.iter().find(|(part, _)| name.contains(part));
        let tint = [fixed.map_or(1, |(_, tint)| *tint)]
            .into_iter()
            .chain(PHASE_TINTS.iter().rev().map(|(_, tint)| *tint))
            .find(|tint| self.phase_tints.values().all(|taken| taken != tint))
            .unwrap_or(self.phase_tints.len() % TINT_COUNT);
        self.phase_tints.insert(name.to_owned(), tint);
    }

    pub fn run_style(&self, id: &str) -> SeriesStyle {
        self.runs.get(id).copied().unwrap_or(SeriesStyle::NEUTRAL)
    }

    /// The class of a band: pale for shading behind lines, stronger for a strip.
    pub fn band_class(&self, name: &str, is_strip: bool) -> String {
        let index = self.phase_tints.get(name).copied().unwrap_or(0);
        match (name == "gap", is_strip) {
            (true, false) => "gap".to_owned(),
            (true, true) => "pgap".to_owned(),
            (false, false) => format!("b{index}"),
            (false, true) => format!("p{index}"),
        }
    }

    /// `series` has names and run ids. The style is that of the id, else that of the run or arm with
    /// the name, else one by position.
    pub fn styled_series<'a>(
        &self,
        series: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Vec<StyledSeries> {
        let styled = |(index, (name, run)): (usize, (&str, &str))| {
            let named = self.names.get(name);
            let style = self.runs.get(run).or(named.map(|(style, _)| style));
            let data_attribute = match named {
                Some((_, data_attribute)) if run.is_empty() => data_attribute.clone(),
                _ => run_attribute(run),
            };
            StyledSeries {
                name: name.to_owned(),
                style: *style.unwrap_or(&SeriesStyle::nth(index)),
                data_attribute,
            }
        };
        series.enumerate().map(styled).collect()
    }

    pub fn mark_style(&self, timeline: &Timeline, run: &str) -> SeriesStyle {
        match line_counts_by_run(&timeline.series).len() {
            0 | 1 => SeriesStyle::NEUTRAL,
            _ => self.run_style(run),
        }
    }

    /// Lines of no run are gray if other lines have runs. If each run has one line, lines have the
    /// styles of the runs. Otherwise, lines of several runs have the run's color and a dash by
    /// position. Lines of a single run, or all lines without any run, have a style each.
    pub fn line_styles(&self, lines: &[Line]) -> Vec<SeriesStyle> {
        let is_one_per_run = one_line_per_run(lines);
        let runs = line_counts_by_run(lines).len();
        let line_style = |(index, line): (usize, &Line)| {
            let earlier = || lines.iter().take(index);
            match self.runs.get(&line.run) {
                _ if line.run.is_empty() && runs > 0 => SeriesStyle::NEUTRAL,
                Some(style) if is_one_per_run => *style,
                Some(style) if runs > 1 => SeriesStyle {
                    dash: earlier().filter(|other| other.run == line.run).count() % DASHES.len(),
                    ..*style
                },
                _ => SeriesStyle::nth(
                    earlier()
                        .filter(|other| runs == 0 || !other.run.is_empty())
                        .count(),
                ),
            }
        };
        lines.iter().enumerate().map(line_style).collect()
    }
}

pub fn run_attribute(run: &str) -> String {
    if run.is_empty() {
        String::new()
    } else {
        format!(r#" data-run="{}""#, escaped(run))
    }
}

fn line_counts_by_run(lines: &[Line]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines.iter().filter(|line| !line.run.is_empty()) {
        *counts.entry(line.run.as_str()).or_default() += 1;
    }
    counts
}

pub fn one_line_per_run(lines: &[Line]) -> bool {
    line_counts_by_run(lines).values().all(|count| *count == 1)
}
