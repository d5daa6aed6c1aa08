//! Head and foot (address, state of the daemon, keys, newest event), the help, and the pools.

use super::{Scene, split_top};
use faultline_metrics::{ProblemKind, Source};
use faultline_status::{Figure, SourceStatus, ThreadPool};
use faultline_text::{bytes_f64, clean, counted, percent, short};
use itertools::{Itertools, chain};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span, Text},
    widgets::Widget,
};
use std::time::Duration;

const FOOT_KEYS: &str = " h help s order p pause q quit";

pub fn head(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let demo = if scene.state().status.is_demo {
        "DEMO  "
    } else {
        ""
    };
    let paused = if scene.session.is_paused() {
        "PAUSED  "
    } else {
        ""
    };
    let time = faultline_text::utc(scene.now.unix_ns);
    let left_and_right = |title, time| {
        (
            format!("{title} {}", scene.address),
            format!("  {demo}{paused}{time} "),
        )
    };
    // A narrow line omits the title, then also the date.
    let (left, right) = [(" faultline top ", &*time), ("", &time)]
        .map(|(title, time)| left_and_right(title, time))
        .into_iter()
        .find(|(left, right)| left.chars().count() + right.len() <= width)
        .unwrap_or_else(|| left_and_right("", time_of_day(&time)));
    let available = width.saturating_sub(right.len());
    let left: String = left.chars().take(available).collect();
    Span::styled(
        format!("{left:<available$}{right}"),
        scene.theme.title_bar(),
    )
    .render(area, buffer);
}

/// `14:52:50` of `2026-11-21 14:52:50 UTC`.
fn time_of_day(time: &str) -> &str {
    time.get(11..19).unwrap_or_default()
}

pub fn foot(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let [health_area, keys] = split_top(area, 1);
    let (text, style) = health(scene, usize::from(area.width));
    Span::styled(format!(" {text}"), style).render(health_area, buffer);
    let newest_event = scene.state().events.front().map(|event| {
        let time = faultline_text::utc(event.time.unix_ns);
        format!("{} {} ", time_of_day(&time), event.text)
    });
    let newest_event = newest_event.unwrap_or_default();
    let available = usize::from(area.width).saturating_sub(FOOT_KEYS.len() + 2);
    let newest_event: String = newest_event.chars().take(available).collect();
    let line = format!("{FOOT_KEYS}  {newest_event:>available$}");
    Span::styled(line, scene.theme.title_bar()).render(keys, buffer);
}

fn health(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let state = scene.state();
    let theme = scene.theme;
    let has_values = state.received_at.is_some();
    match (&state.error, &state.status.stale) {
        (Some(error), _) => {
            let elapsed = scene.now.uptime.saturating_sub(error.since.uptime);
            let duration = faultline_text::duration(Duration::from_secs(elapsed.as_secs().max(1)));
            let effect = if has_values {
                "the values are older"
            } else {
                "retrying"
            };
            let text = format!("NO ANSWER for {duration}, {effect}: {}", error.text);
            (text, theme.bad())
        }
        (None, _) if !has_values => ("no answer yet".to_owned(), theme.faint()),
        (None, Some(stale)) => (format!("faultlined HANGS: {stale}"), theme.bad()),
        (None, None) => source_summary(scene, width),
    }
}

fn source_summary(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let status = &scene.state().status;
    let (up, down): (Vec<_>, Vec<_>) = status.sources.iter().partition(|source| source.is_up);
    let with_problems = up
        .iter()
        .copied()
        .filter(|source| needs_attention(source))
        .collect_vec();
    let cost = chain!(
        scene
            .state()
            .value(Figure::DaemonCpu)
            .map(|cpu| format!("CPU {}", percent(cpu))),
        status
            .figure(Figure::DaemonResident)
            .map(|resident| format!("RSS {}", bytes_f64(resident))),
    );
    let mut text = format!(
        "faultlined {}: {} up",
        status.faultlined,
        counted(up.len() as f64, "source")
    );
    for (title, sources) in [("down", &down), ("problems", &with_problems)] {
        if !sources.is_empty() {
            text += &format!("; {title}: ");
            text += &names(sources, width.saturating_sub(text.len()));
        }
    }
    // A truncated figure would be a wrong one, so it is left out.
    for part in cost {
        if text.len() + part.len() + 4 <= width {
            text += &format!("; {part}");
        }
    }
    let style = if down.is_empty() && with_problems.is_empty() {
        Style::new()
    } else {
        scene.theme.warn()
    };
    (text, style)
}

/// A source that is up needs no attention if the kernel or validator merely lacks something.
fn needs_attention(source: &SourceStatus) -> bool {
    source
        .newest_problem
        .as_ref()
        .is_some_and(|(kind, _)| kind != ProblemKind::Absent.name())
}

/// The first that fits: sources with their kinds of problems, their names, or their number.
fn names(sources: &[&SourceStatus], width: usize) -> String {
    let list =
        |text: fn(&SourceStatus) -> String| sources.iter().map(|source| text(source)).join(", ");
    let fitting = [list(with_kinds), list(|source| source.name.clone())]
        .into_iter()
        .find(|list| list.len() < width);
    fitting.unwrap_or_else(|| format!("{} of them", sources.len()))
}

/// The kind of the newest problem, else all kinds since the start.
fn with_kinds(source: &SourceStatus) -> String {
    let kinds = match &source.newest_problem {
        Some((kind, _)) => kind.clone(),
        None => source.problems.keys().join(", "),
    };
    if kinds.is_empty() {
        source.name.clone()
    } else {
        format!("{} ({kinds})", source.name)
    }
}

const KEYS: [(&str, &str); 10] = [
    ("h  ?", "this help"),
    ("s", "order of the pools: faults, CPU, name"),
    ("f  c  n", "order by faults, by CPU, by name"),
    ("up  down", "scroll the pools, as k and j do"),
    ("PgUp PgDn", "scroll by ten; Home goes to the first"),
    ("p  space", "pause the screen; new values still arrive"),
    ("Esc", "back from help and pause"),
    ("ctrl-L", "redraw the screen"),
    ("ctrl-Z", "suspend to the shell; `fg` continues"),
    ("q  ctrl-C", "quit"),
];

const HELP_ON_FIGURES: [&str; 10] = [
    "Each verdict is fine, look or act, by the alerts' thresholds for some minutes.",
    "Memory: bytes that cannot be dropped, and the limit with the least headroom.",
    "The lighter part of its bar is page cache, which may fill a limit.",
    "Faults: a major fault waited for a disk. Stalled: share of time in which some",
    "or all tasks waited for memory. Refaults: page cache that was read again.",
    "Cache: the program cache. A reload compiles an evicted program again: many",
    "reloads mean that the cache is too small. Its figures arrive every 10 s.",
    "Cache time: sum over threads. CPU: 100 % is one core. Waiting: for a CPU.",
    "A dash is an unknown value. Parentheses name the source that lacks it.",
    "Rates are from one sample to the next. A restart or a gap has no rate.",
];

pub fn help(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let keys = KEYS.iter().map(|(keys, effect)| {
        Line::from(vec![
            Span::styled(format!(" {keys:<10}"), scene.theme.label()),
            Span::raw(*effect),
        ])
    });
    let figures = HELP_ON_FIGURES
        .iter()
        .map(|line| Line::from(format!(" {line}")));
    Text::from_iter(chain!(keys, [Line::default()], figures)).render(area, buffer);
}

const FIGURE_WIDTH: usize = 10;
const MIN_NAME_WIDTH: usize = 16;

/// Returns the area below the pools.
pub fn pools(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
    let [head, below] = split_top(area, 1);
    let width = usize::from(area.width);
    let title = format!(" Pools by {}", scene.session.order.name());
    let titles = ["threads", "major/s", "minor/s", "CPU", "waiting"].map(str::to_owned);
    Span::styled(line(&title, &titles, width), scene.theme.title_bar()).render(head, buffer);
    let pools = scene.state().thread_pools(scene.session.order);
    if pools.is_empty() {
        let reason = match scene.state().status.source(Source::Threads) {
            _ if scene.state().received_at.is_none() => "",
            None => " the source threads is disabled",
            Some(_) => " none reported",
        };
        let [line_area, after] = split_top(below, 1);
        Line::from(reason).render(line_area, buffer);
        return after;
    }
    let lines = pools
        .iter()
        .skip(scene.session.first_pool.min(pools.len() - 1))
        .map(|pool| line(&format!(" {}", pool.name), &figures(scene, pool), width));
    let lines = Text::from_iter(lines);
    let [pools, rest] = split_top(below, u16::try_from(lines.height()).unwrap_or(u16::MAX));
    lines.render(pools, buffer);
    rest
}

fn figures(scene: &Scene<'_>, pool: &ThreadPool) -> [String; 5] {
    [
        scene.value_or_dash(pool.threads, short),
        scene.value_or_dash(pool.major_faults, short),
        scene.value_or_dash(pool.minor_faults, short),
        scene.value_or_dash(pool.cpu, percent),
        scene.value_or_dash(pool.waiting, percent),
    ]
}

fn line(name: &str, figures: &[String], width: usize) -> String {
    let shown_figures = figures
        .len()
        .min(width.saturating_sub(MIN_NAME_WIDTH + 1) / FIGURE_WIDTH);
    let available = width.saturating_sub(shown_figures * FIGURE_WIDTH + 1);
    let name: String = clean(name).chars().take(available).collect();
    let mut line = format!("{name:<available$}");
    for figure in figures.iter().take(shown_figures) {
        line += &format!("{figure:>FIGURE_WIDTH$}");
    }
    line.push(' ');
    line
}
