use super::{
    MEMORY_THRESHOLDS, absent, level, per_second, plot, row, value_or_dash, value_or_reason,
};
use crate::view::Scene;
use crate::view::row::{Graphic, Row};
use faultline_metrics::Source;
use faultline_status::{Figure, Status};
use faultline_text::{bytes_f64, percent, short};
use ratatui::style::Style;
use ratatui::text::Span;

/// Names what sets the limit, unless it is the validator's own cgroup.
fn binding_level(status: &Status) -> String {
    let binding = status.memory.as_ref().and_then(|memory| memory.binding());
    match binding.map(|level| level.level.as_str()) {
        None | Some("0") => String::new(),
        Some("machine") => " (machine)".to_owned(),
        Some("numa") => " (NUMA nodes)".to_owned(),
        Some(level) => format!(" (level {level})"),
    }
}

pub(super) fn rows(scene: &Scene<'_>) -> [Row; 3] {
    let status = &scene.state().status;
    let limit = status
        .figure(Figure::MemoryLimit)
        .filter(|limit| *limit > 0.0);
    let used = status.figure(Figure::Unreclaimable);
    let of_limit = |figure| {
        status
            .figure(figure)
            .zip(limit)
            .map(|(used, limit)| used / limit)
    };
    let share = of_limit(Figure::Unreclaimable);
    let used = used.map_or_else(|| absent(scene, Source::Cgroup), bytes_f64);
    let words = match (share, limit) {
        (Some(share), Some(limit)) => format!(
            "{used} of {}{} unreclaimable, {}",
            bytes_f64(limit),
            binding_level(status),
            percent(share)
        ),
        _ => format!(
            "unreclaimable {used}, limit {}",
            value_or_dash(scene, limit, bytes_f64)
        ),
    };
    let cached = of_limit(Figure::PageCache).unwrap_or_default();
    let full = share.map_or(Graphic::Nothing, |share| Graphic::Bar(share, cached));
    [
        row(
            "Memory",
            Span::styled(words, level(scene, share, MEMORY_THRESHOLDS)),
            full,
        ),
        resident(scene),
        pressure(scene),
    ]
}

fn resident(scene: &Scene<'_>) -> Row {
    let anon = value_or_reason(scene, Figure::Anon, bytes_f64);
    let [file, swap] = [Figure::File, Figure::Swap]
        .map(|figure| value_or_dash(scene, scene.state().now(figure), bytes_f64));
    let words = format!("anon {anon}, file {file}, swap {swap}");
    row("RSS", words, plot(scene, Figure::Anon))
}

fn pressure(scene: &Scene<'_>) -> Row {
    let state = scene.state();
    let refaults = value_or_dash(scene, state.now(Figure::Refaults), per_second);
    let stalled = match (
        state.now(Figure::StalledSome),
        state.now(Figure::StalledFull),
    ) {
        (Some(some), Some(full)) => format!("{} some, {} full", percent(some), percent(full)),
        _ => scene.theme.absent().to_owned(),
    };
    let kills = state.status.figure(Figure::OomKills);
    let alarm = match kills {
        Some(kills) if kills > 0.0 => scene.theme.bad(),
        _ => Style::new(),
    };
    let pressed = vec![
        Span::raw(format!("stalled {stalled}; file refaults {refaults}; ")),
        Span::styled(
            format!("OOM kills {}", value_or_dash(scene, kills, short)),
            alarm,
        ),
    ];
    row("Pressure", pressed, Graphic::Nothing)
}
