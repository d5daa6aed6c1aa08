//! Head and foot: address, state of the daemon, keys, and the newest event.

use super::{Scene, split_top};
use faultline_metrics::Status as Problem;
use faultline_status::{Figure, SourceStatus};
use faultline_text::{bytes_f64, percent};
use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span, widgets::Widget};
use std::time::Duration;

const KEYS: &str = " h help s order p pause q quit";

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
    let moment = faultline_text::moment(scene.now.unix_ns);
    let halves = |title: &str, time: &str| {
        (
            format!("{title} {}", scene.address),
            format!("  {demo}{paused}{time} "),
        )
    };
    // The title gives way first, then the date.
    let fitting = [(" faultline top ", &*moment), ("", &moment)]
        .map(|(title, time)| halves(title, time))
        .into_iter()
        .find(|(left, right)| left.chars().count() + right.len() <= width);
    let (left, right) = fitting.unwrap_or_else(|| halves("", time_of_day(&moment)));
    let available = width.saturating_sub(right.len());
    let left: String = left.chars().take(available).collect();
    Span::styled(format!("{left:<available$}{right}"), scene.theme.reversed()).render(area, buffer);
}

/// `14:52:50` of `2026-11-21 14:52:50 UTC`.
fn time_of_day(moment: &str) -> &str {
    moment.get(11..19).unwrap_or_default()
}

pub fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let (health, keys) = split_top(area, 1);
    let (words, style) = self::health(scene, usize::from(area.width));
    Span::styled(format!(" {words}"), style).render(health, buffer);
    let last = scene.state().events.front().map(|event| {
        let moment = faultline_text::moment(event.at.unix_ns);
        format!("{} {} ", time_of_day(&moment), event.what)
    });
    let last = last.unwrap_or_default();
    let available = usize::from(area.width).saturating_sub(KEYS.len() + 2);
    let last: String = last.chars().take(available).collect();
    let line = format!("{KEYS}  {last:>available$}");
    Span::styled(line, scene.theme.reversed()).render(keys, buffer);
}

fn health(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let (state, theme) = (scene.state(), scene.theme);
    let seconds = |since: Duration| {
        faultline_text::time(
            Duration::from_secs(scene.now.uptime.saturating_sub(since).as_secs())
                .max(Duration::from_secs(1)),
        )
    };
    let has_values = state.received_at.is_some();
    match (&state.error, &state.status.stale) {
        (Some(error), _) => {
            let since = seconds(error.since.uptime);
            let effect = match has_values {
                true => "the values are older",
                false => "retrying",
            };
            let words = format!("NO ANSWER for {since}, {effect}: {}", error.what);
            (words, theme.bad())
        }
        (None, _) if !has_values => ("asking ..".to_owned(), theme.faint()),
        (None, Some(stale)) => (format!("faultlined HANGS: {stale}"), theme.bad()),
        (None, None) => source_summary(scene, width),
    }
}

fn source_summary(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let status = &scene.state().status;
    let (up, down): (Vec<_>, Vec<_>) = status.sources.iter().partition(|source| source.is_up);
    let troubled = { up.iter().copied() }.filter(|source| needs_attention(source));
    let troubled: Vec<&SourceStatus> = troubled.collect();
    let cost = [
        { scene.state().now(Figure::DaemonCpu) }.map(|cpu| format!("CPU {}", percent(cpu))),
        { status.figure(Figure::DaemonResident) }
            .map(|resident| format!("RSS {}", bytes_f64(resident))),
    ];
    let mut words = format!("faultlined {}: {} sources up", status.faultlined, up.len());
    for (title, sources) in [("down", &down), ("problems", &troubled)] {
        if !sources.is_empty() {
            words += &format!("; {title}: ");
            words += &names(sources, width.saturating_sub(words.len()));
        }
    }
    // A truncated figure would be a wrong one, so it is left out.
    for part in cost.into_iter().flatten() {
        if words.len() + part.len() + 4 <= width {
            words += &format!("; {part}");
        }
    }
    let style = if down.is_empty() && troubled.is_empty() {
        Style::new()
    } else {
        scene.theme.warn()
    };
    (words, style)
}

/// A source that is up needs no attention if the kernel or validator merely lacks something.
fn needs_attention(source: &SourceStatus) -> bool {
    let newest = source.newest_problem.as_ref();
    newest.is_some_and(|(kind, _)| kind != Problem::Absent.name())
}

/// The sources with their kinds of problems, only their names, or only how many they are.
fn names(sources: &[&SourceStatus], width: usize) -> String {
    let list = |text: fn(&SourceStatus) -> String| {
        let texts: Vec<String> = sources.iter().map(|source| text(source)).collect();
        texts.join(", ")
    };
    let lists = [list(with_kinds), list(|source| source.name.clone())];
    let fitting = lists.into_iter().find(|list| list.len() < width);
    fitting.unwrap_or_else(|| format!("{} of them", sources.len()))
}

/// The kind of the newest problem, else all kinds since the start.
fn with_kinds(source: &SourceStatus) -> String {
    let kinds = match &source.newest_problem {
        Some((kind, _)) => kind.clone(),
        None => { source.problems.keys().map(String::as_str) }
            .collect::<Vec<_>>()
            .join(", "),
    };
    if kinds.is_empty() {
        source.name.clone()
    } else {
        format!("{} ({kinds})", source.name)
    }
}
