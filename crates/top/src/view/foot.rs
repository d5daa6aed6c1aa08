use super::numbers::{bytes, percent};
use super::{Scene, cut_below};
use crate::page::Page;
use crate::state::Figure;
use faultline_catalog::metrics::daemon;
use faultline_catalog::{Source, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
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
    Line::from(Span::styled(
        format!("{left:<available$}{right}"),
        scene.theme.reversed(),
    ))
    .render(area, buffer);
}

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let (health, keys) = cut_below(area, 1);
    let (words, style) = self::health(scene, usize::from(area.width));
    Line::from(Span::styled(format!(" {words}"), style)).render(health, buffer);
    let last = scene.state().events().next().map(|event| {
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
    Line::from(Span::styled(line, scene.theme.reversed())).render(keys, buffer);
}

fn health(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let (state, theme) = (scene.state(), scene.theme);
    let seconds = |since: Duration| {
        faultline_text::time(
            Duration::from_secs(scene.now.uptime.saturating_sub(since).as_secs())
                .max(Duration::from_secs(1)),
        )
    };
    match (state.error(), state.taken()) {
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
        (None, Some(_)) => match state.stuck_for(scene.now) {
            Some(still) => {
                let still = faultline_text::time(Duration::from_secs(still.as_secs()));
                (
                    format!("faultlined HANGS: no new sample for {still}. The values are older."),
                    theme.bad(),
                )
            }
            None => sources(scene, width),
        },
    }
}

fn sources(scene: &Scene<'_>, width: usize) -> (String, Style) {
    let page = scene.state().newest();
    let all: Vec<(&str, bool)> = page
        .by_label(&daemon::SOURCE_UP, "source")
        .map(|(name, up)| (name, up == 1.0))
        .collect();
    let up = all.iter().filter(|(_, up)| *up).count();
    let down: Vec<&str> = all
        .iter()
        .filter(|(_, up)| !up)
        .map(|(name, _)| *name)
        .collect();
    let cpu = scene.state().now(Figure::DaemonCpu);
    let cost = [
        cpu.map(|cpu| format!("CPU {}", percent(cpu))),
        page.get(&daemon::SELF_RESIDENT, &[])
            .map(|resident| format!("RSS {}", bytes(resident))),
    ];
    let version = page
        .label(&daemon::BUILD_INFO, "version")
        .unwrap_or_default();
    let mut words = format!("faultlined {version}: {up} sources up");
    if !down.is_empty() {
        let list = |say: fn(&Page, &str) -> String| {
            down.iter()
                .map(|name| say(page, name))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (why, names) = (list(with_kinds), list(|_, name| known(name).to_owned()));
        words += "; down: ";
        let counted = format!("{} of them", down.len());
        let fits = [why, names, counted]
            .into_iter()
            .find(|list| words.len() + list.len() < width);
        words += &fits.unwrap_or_default();
    }
    // Only whole parts: half a figure would be a wrong one.
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

fn with_kinds(page: &Page, name: &str) -> String {
    let kinds = page.pairs(&daemon::SOURCE_PROBLEMS, "source");
    let kinds: Vec<&str> = kinds
        .filter(|(source, _, count)| *source == name && *count > 0.0)
        .filter_map(|(_, kind, _)| kind)
        .collect();
    let kinds: Vec<&str> = Status::ALL
        .iter()
        .map(|status| status.name())
        .filter(|name| kinds.contains(name))
        .collect();
    let name = known(name);
    if kinds.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({})", kinds.join(", "))
    }
}

/// Other names could control the terminal.
fn known(name: &str) -> &str {
    if Source::ALL.iter().any(|source| source.name() == name) {
        name
    } else {
        "another"
    }
}
