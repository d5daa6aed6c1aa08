//! Head and foot: address, state of the daemon, keys, and the newest event.

use super::{Scene, cut_below};
use faultline_status::{Figure, SourceStatus};
use faultline_text::{bytes_f64, percent};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Widget;
use std::time::Duration;

const KEYS: &str = " h help s order p pause q quit";

pub(super) fn head(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let paused = if scene.session.is_paused() {
        "PAUSED  "
    } else {
        ""
    };
    let right = format!("{paused}{} ", faultline_text::moment(scene.now.unix_ns));
    let available = width.saturating_sub(right.len());
    let left: String = format!(" faultline top  {}", scene.address)
        .chars()
        .take(available)
        .collect();
    Span::styled(format!("{left:<available$}{right}"), scene.theme.reversed()).render(area, buffer);
}

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let (health, keys) = cut_below(area, 1);
    let (words, style) = self::health(scene, usize::from(area.width));
    Span::styled(format!(" {words}"), style).render(health, buffer);
    let last = scene.state().events.front().map(|event| {
        let time: String = faultline_text::moment(event.at.unix_ns)
            .chars()
            .skip(11)
            .take(8)
            .collect();
        format!("{time} {} ", event.what)
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
    match (&state.error, state.received_at) {
        (Some(error), Some(_)) => {
            let since = seconds(error.since.uptime);
            (
                format!(
                    "NO ANSWER for {since}, the values are older: {}",
                    error.what
                ),
                theme.bad(),
            )
        }
        (Some(error), None) => {
            let since = seconds(error.since.uptime);
            (
                format!("NO ANSWER for {since}, retrying: {}", error.what),
                theme.bad(),
            )
        }
        (None, None) => ("asking ..".to_owned(), theme.faint()),
        (None, Some(_)) => match &state.status.stale {
            Some(stale) => (format!("faultlined HANGS: {stale}"), theme.bad()),
            None => source_summary(scene, width),
        },
    }
}

fn source_summary(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let status = &scene.state().status;
    let (up, down): (Vec<_>, Vec<_>) = status.sources.iter().partition(|source| source.is_up);
    let cost = [
        { scene.state().now(Figure::DaemonCpu) }.map(|cpu| format!("CPU {}", percent(cpu))),
        { status.figure(Figure::DaemonResident) }
            .map(|resident| format!("RSS {}", bytes_f64(resident))),
    ];
    let mut words = format!("faultlined {}: {} sources up", status.faultlined, up.len());
    if !down.is_empty() {
        let list = |text: fn(&SourceStatus) -> String| {
            let texts: Vec<String> = down.iter().map(|source| text(source)).collect();
            texts.join(", ")
        };
        words += "; down: ";
        let fits = [
            list(with_kinds),
            list(|source| source.name.clone()),
            format!("{} of them", down.len()),
        ]
        .into_iter()
        .find(|list| words.len() + list.len() < width);
        words += &fits.unwrap_or_default();
    }
    // A truncated figure would be a wrong one, so it is left out.
    for part in cost.into_iter().flatten() {
        if words.len() + part.len() + 4 <= width {
            words += &format!("; {part}");
        }
    }
    let style = if down.is_empty() {
        Style::new()
    } else {
        scene.theme.warn()
    };
    (words, style)
}

fn with_kinds(source: &SourceStatus) -> String {
    let kinds: Vec<&str> = source.problems.keys().map(String::as_str).collect();
    if kinds.is_empty() {
        source.name.clone()
    } else {
        format!("{} ({})", source.name, kinds.join(", "))
    }
}
