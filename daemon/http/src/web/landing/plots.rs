//! The sections with plots: the last minute, and the program cache with the replay it slows down.

use super::{View, bar};
use crate::sinks::history::{HISTORY_SPAN, History, PLOTS, TREND_SPAN};
use faultline_metrics::{Source, Unit};
use faultline_status::{Figure, PerSlot, ProgramCacheStatus, Status, Tone};
use faultline_text::{bytes_f64, counted, duration_f64, escaped, ms, short};
use itertools::{Itertools, chain};
use std::{fmt::Write, time::Duration};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 56.0;
const MARGIN: f64 = 3.0;

/// Minimum range of a gauge's axis as a share of its value, so that noise stays small in the plot.
const MIN_SPREAD: f64 = 0.02;

/// Maximum seconds between two joined points: three rows and a tolerance. Rows and pushes come
/// every ten seconds, so a row may have no new slot.
const TREND_GAP: f64 = 35.0;

/// Age in seconds before the newest tick, and the value at that time.
type Point = (f64, f64);

struct Curve<'a> {
    title: &'a str,
    points: &'a [Point],
    format: &'a dyn Fn(f64) -> String,
    /// The axis starts at zero; else it surrounds the values.
    starts_at_zero: bool,
    span: Duration,
    /// Maximum seconds between two joined points; `None`: 1.9 times the median spacing.
    max_gap: Option<f64>,
    /// Seconds. An older point is not shown as the present value.
    max_age: f64,
    /// Why there are no points.
    missing: &'a str,
}

pub fn last_minute_section(view: &View<'_>, cache: &ProgramCacheStatus) -> String {
    let plots = view.history.plot_series();
    if plots.iter().all(Vec::is_empty) {
        return String::new();
    }
    let mut figures = String::new();
    for ((title, figure), points) in PLOTS.iter().zip(&plots) {
        let warning = cache.warning.as_deref();
        let missing = warning.filter(|_| figure.source() == Source::Datapoints);
        figures += &plot_figure(&Curve {
            title,
            points,
            format: &|x| value_text(x, *figure),
            starts_at_zero: figure.is_counter(),
            span: HISTORY_SPAN,
            max_gap: None,
            max_age: view.tick_interval.as_secs_f64().mul_add(2.0, 1.0),
            missing: missing.unwrap_or("nothing in the last minute"),
        });
    }
    format!(
        "<section>\n<h2>The last minute</h2>\n<div class=\"plots\">\n{figures}</div>\n</section>\n"
    )
}

pub fn cache_section(status: &Status, history: &History) -> String {
    let cache = &status.cache;
    let per_slot = per_slot_summary(status.per_slot);
    if cache.summary().is_none() && cache.warning.is_none() && per_slot.is_none() {
        return String::new();
    }
    let mut out =
        "<section>\n<h2>Program cache and replay</h2>\n<div class=\"card memory\">\n".to_owned();
    let headline = per_slot.or_else(|| cache.summary());
    if let Some(words) = &headline {
        out += &format!("<p><strong>{words}</strong></p>\n");
    }
    if let Some(share) = cache.share() {
        out += &bar(share, Tone::Plain, "of the program cache");
    }
    let level = cache
        .summary()
        .filter(|words| Some(words) != headline.as_ref());
    let level = level.map(|words| format!("{words}."));
    for note in chain!(&level, &cache.warning, &cache.notes) {
        out += &format!("<p class=\"quiet\">{}</p>\n", escaped(note));
    }
    let (pool_faults, trends) = (pool_faults_line(history), trend_plots(history));
    out + &format!("{pool_faults}</div>\n{trends}</section>\n")
}

/// `24 reloads, 8.3 ms of cache time, 13.2 ms of replay per slot`
fn per_slot_summary(per_slot: PerSlot) -> Option<String> {
    let reloads = per_slot.reloads.map(|reloads| counted(reloads, "reload"));
    let times = [
        (" of cache time", per_slot.cache_seconds),
        (" of replay", per_slot.replay_seconds),
    ];
    let times = times.map(|(what, time)| Some(format!("{}{what}", ms(time?))));
    let known = chain!([reloads], times).flatten().join(", ");
    (!known.is_empty()).then(|| format!("{known} per slot"))
}

fn pool_faults_line(history: &History) -> String {
    let pools = history.trends().pool_faults();
    let rate = |(name, rate): &(String, f64)| format!("{} {}/s", escaped(name), short(*rate));
    let rates = pools.iter().take(4).map(rate).join(", ");
    if rates.is_empty() {
        return String::new();
    }
    format!("<p class=\"quiet\">Major faults by pool: {rates}.</p>\n")
}

fn trend_plots(history: &History) -> String {
    let curves = history.trends().per_slot_series();
    if curves.iter().all(Vec::is_empty) {
        return String::new();
    }
    let titles = [
        "Reloads per slot, five minutes",
        "Cache time per slot, five minutes",
        "Replay time per slot, five minutes",
    ];
    let formats: [fn(f64) -> String; 3] = [short, ms, ms];
    let mut figures = String::new();
    for ((title, points), format) in titles.into_iter().zip(&curves).zip(formats) {
        figures += &plot_figure(&Curve {
            title,
            points,
            format: &format,
            starts_at_zero: true,
            span: TREND_SPAN,
            max_gap: Some(TREND_GAP),
            max_age: TREND_GAP,
            missing: "nothing in the last five minutes",
        });
    }
    format!("<div class=\"plots trends\">\n{figures}</div>\n")
}

fn plot_figure(curve: &Curve<'_>) -> String {
    let (title, points, format) = (curve.title, curve.points, curve.format);
    let caption = format!("<figure class=\"card\"><figcaption>{title}</figcaption>\n");
    let Some((newest, last)) = points.last().copied() else {
        let missing = escaped(curve.missing);
        return format!(
            "{caption}<p class=\"now quiet\">no data</p><p class=\"range quiet\">{missing}</p></figure>\n"
        );
    };
    let (low, high) = value_range(points);
    let now = if newest <= curve.max_age {
        format!("<p class=\"now\">{}</p>", format(last))
    } else {
        format!(
            "<p class=\"now quiet\">no data for {}</p>",
            duration_f64(newest)
        )
    };
    let (low_text, high_text) = (format(low), format(high));
    let scale = Scale::new(curve.starts_at_zero, low, high, curve.span);
    let lines = split_at_gaps(points, curve.max_gap).map(|line| draw(line, &scale));
    format!(
        "{caption}{now}\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{title}, from {low_text} to {high_text}\">{}</svg>\n\
         <p class=\"range quiet\"><span>min {low_text}</span> <span>max {high_text}</span></p></figure>\n",
        lines.collect::<String>()
    )
}

/// A value with its unit, per second if it is a rate.
fn value_text(x: f64, figure: Figure) -> String {
    let number = match figure.metric().unit {
        Unit::Bytes => bytes_f64(x),
        Unit::Seconds => format!("{} s", short(x)),
        _ => short(x),
    };
    if figure.is_counter() {
        format!("{number}/s")
    } else {
        number
    }
}

fn value_range(points: &[Point]) -> (f64, f64) {
    points
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, y)| {
            (low.min(*y), high.max(*y))
        })
}

/// Splits a series at gaps, so that the plot has a hole where points are missing.
fn split_at_gaps(points: &[Point], max_gap: Option<f64>) -> impl Iterator<Item = &[Point]> {
    let pairs = points.iter().tuple_windows();
    let spacings = pairs.map(|(before, after)| before.0 - after.0);
    let mut spacings = spacings.sorted_by(f64::total_cmp);
    let median = spacings.nth(spacings.len() / 2);
    let usual = median.map_or(f64::INFINITY, |median| median * 1.9);
    let gap = max_gap.unwrap_or(usual);
    points.chunk_by(move |before, after| before.0 - after.0 <= gap)
}

struct Scale {
    bottom: f64,
    spread: f64,
    /// Seconds of the whole width.
    span: f64,
}

impl Scale {
    fn new(starts_at_zero: bool, low: f64, high: f64, span: Duration) -> Self {
        let span = span.as_secs_f64();
        if starts_at_zero {
            return Self {
                span,
                bottom: 0.0,
                spread: if high > 0.0 { high } else { 1.0 },
            };
        }
        let min_spread = high.abs() * MIN_SPREAD;
        let spread = if high - low > min_spread {
            high - low
        } else {
            min_spread.max(1.0)
        };
        Self {
            span,
            bottom: (low + high - spread) / 2.0,
            spread,
        }
    }

    fn x(&self, age: f64) -> f64 {
        WIDTH * (1.0 - age / self.span).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let share = ((value - self.bottom) / self.spread).clamp(0.0, 1.0);
        HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN)
    }
}

fn draw(line: &[Point], scale: &Scale) -> String {
    let (Some(first), Some(last)) = (line.first(), line.last()) else {
        return String::new();
    };
    // A single point becomes a short dash.
    let start = scale.x(first.0);
    let end = scale.x(last.0).max(start + 1.0).min(WIDTH);
    let mut path = String::with_capacity(line.len() * 12);
    for (i, (age, value)) in line.iter().enumerate() {
        let step = if i == 0 { "M" } else { "L" };
        let _ = write!(path, "{step}{:.1} {:.1}", scale.x(*age), scale.y(*value));
    }
    path += &format!("L{end:.1} {:.1}", scale.y(last.1));
    // An area shows an amount, so it needs an axis from zero.
    let area = (scale.bottom == 0.0).then(|| {
        format!("<path class=\"area\" d=\"{path}L{end:.1} {HEIGHT}L{start:.1} {HEIGHT}Z\"/>")
    });
    area.unwrap_or_default() + &format!("<path class=\"line\" d=\"{path}\"/>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_series_is_a_gap_in_the_plot() {
        let points = [(9.0, 1.0), (8.0, 1.0), (7.0, 1.0), (4.0, 1.0), (3.0, 1.0)];
        assert_eq!(
            split_at_gaps(&points, None)
                .map(<[Point]>::len)
                .collect::<Vec<_>>(),
            [3, 2]
        );
        assert_eq!(split_at_gaps(&[(0.0, 1.0)], None).count(), 1);
        assert_eq!(split_at_gaps(&[], None).count(), 0);
    }

    #[test]
    fn a_nearly_constant_value_is_drawn_flat() {
        let scale = Scale::new(false, 1000.0, 1001.0, HISTORY_SPAN);
        assert!((scale.y(1000.0) - scale.y(1001.0)).abs() < HEIGHT / 10.0);
    }

    #[test]
    fn rate_plots_start_at_zero() {
        let scale = Scale::new(true, 90.0, 100.0, HISTORY_SPAN);
        assert!((scale.y(0.0) - (HEIGHT - MARGIN)).abs() < 1e-9);
        assert!((scale.y(100.0) - MARGIN).abs() < 1e-9);
        assert!(Scale::new(true, 0.0, 0.0, HISTORY_SPAN).y(0.0).is_finite());
    }
}
