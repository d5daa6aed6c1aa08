use super::{FULL, level, plot, row, value_or_dash, value_or_reason};
use crate::page::Page;
use crate::state::Figure;
use crate::view::Scene;
use crate::view::numbers::{bytes, number, percent};
use crate::view::row::{Graphic, Row};
use faultline_catalog::metrics::{cgroup, memory, process};
use faultline_catalog::{Metric, Source};
use ratatui::style::Style;
use ratatui::text::Span;

/// What sets the limit, unless it is the validator's own cgroup.
fn binding_level(page: &Page) -> String {
    let binding = page
        .by_label(&memory::BINDING, "level")
        .find(|(_, binds)| *binds == 1.0);
    match binding {
        None | Some(("0", _)) => String::new(),
        Some(("machine", _)) => " (machine)".to_owned(),
        Some(("numa", _)) => " (NUMA nodes)".to_owned(),
        Some((level, _)) => format!(" (level {level})"),
    }
}

pub(super) fn rows(scene: &Scene<'_>) -> [Row; 3] {
    let (state, page) = (scene.state(), scene.state().newest());
    let get = |metric: &Metric, labels: &[&str]| page.get(metric, labels);
    let limit = get(&memory::EFFECTIVE_LIMIT, &[]).filter(|limit| *limit > 0.0);
    let unreclaimable = state.now(Figure::Unreclaimable);
    let share = unreclaimable.zip(limit).map(|(used, limit)| used / limit);
    let used = value_or_reason(scene, unreclaimable, Source::Cgroup, bytes);
    let of = match (share, limit) {
        (Some(share), Some(limit)) => format!(
            "{used} of {}{} unreclaimable, {}",
            bytes(limit),
            binding_level(page),
            percent(share)
        ),
        _ => format!(
            "unreclaimable {used}, limit {}",
            value_or_dash(scene, limit, bytes)
        ),
    };
    let cached = get(&cgroup::STAT, &["file"])
        .zip(limit)
        .map_or(0.0, |(cached, limit)| cached / limit);
    let full = match share {
        Some(share) => Graphic::Bar(share, cached),
        None => Graphic::Nothing,
    };
    [
        row("Memory", Span::styled(of, level(scene, share, FULL)), full),
        resident(scene),
        pressure(scene),
    ]
}

fn resident(scene: &Scene<'_>) -> Row {
    let (state, page) = (scene.state(), scene.state().newest());
    let anon = value_or_reason(scene, state.now(Figure::Anon), Source::Process, bytes);
    let file = value_or_dash(scene, page.get(&process::RESIDENT, &["file"]), bytes);
    let swap = value_or_dash(scene, page.get(&process::SWAP, &[]), bytes);
    let words = format!("anon {anon}, file {file}, swap {swap}");
    row("RSS", words, plot(scene, Figure::Anon))
}

fn pressure(scene: &Scene<'_>) -> Row {
    let (state, page) = (scene.state(), scene.state().newest());
    let refaults = value_or_dash(scene, state.now(Figure::Refaults), |rate| {
        format!("{}/s", number(rate))
    });
    let stalled = match (
        state.now(Figure::StalledSome),
        state.now(Figure::StalledFull),
    ) {
        (Some(some), Some(full)) => format!("{} some, {} full", percent(some), percent(full)),
        _ => scene.theme.absent().to_owned(),
    };
    let kills = page.get(&cgroup::EVENTS, &["oom_kill"]);
    let alarm = if kills.is_some_and(|kills| kills > 0.0) {
        scene.theme.bad()
    } else {
        Style::new()
    };
    let pressed = vec![
        Span::raw(format!("stalled {stalled}; file refaults {refaults}; ")),
        Span::styled(
            format!("OOM kills {}", value_or_dash(scene, kills, number)),
            alarm,
        ),
    ];
    row("Pressure", pressed, Graphic::Nothing)
}
