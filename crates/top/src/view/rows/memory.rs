use super::{FULL, brief, level, plot, row, told};
use crate::page::Page;
use crate::state::What;
use crate::view::Scene;
use crate::view::numbers::{bytes, number, percent};
use crate::view::row::{Beside, Row};
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
    let unreclaimable = state.now(What::Unreclaimable);
    let share = unreclaimable.zip(limit).map(|(used, limit)| used / limit);
    let used = told(scene, unreclaimable, Source::Cgroup, bytes);
    let of = match (share, limit) {
        (Some(share), Some(limit)) => format!(
            "{used} of {}{} unreclaimable, {}",
            bytes(limit),
            binding_level(page),
            percent(share)
        ),
        _ => format!("unreclaimable {used}, limit {}", brief(scene, limit, bytes)),
    };
    let cached = get(&cgroup::STAT, &["file"])
        .zip(limit)
        .map_or(0.0, |(cached, limit)| cached / limit);
    let full = match share {
        Some(share) => Beside::Bar(share, cached),
        None => Beside::Nothing,
    };
    [
        row("Memory", Span::styled(of, level(scene, share, FULL)), full),
        resident(scene),
        pressure(scene),
    ]
}

fn resident(scene: &Scene<'_>) -> Row {
    let (state, page) = (scene.state(), scene.state().newest());
    let anon = told(scene, state.now(What::Anon), Source::Process, bytes);
    let file = brief(scene, page.get(&process::RESIDENT, &["file"]), bytes);
    let swap = brief(scene, page.get(&process::SWAP, &[]), bytes);
    let words = format!("anon {anon}, file {file}, swap {swap}");
    row("RSS", words, plot(scene, What::Anon))
}

fn pressure(scene: &Scene<'_>) -> Row {
    let (state, page) = (scene.state(), scene.state().newest());
    let refaults = brief(scene, state.now(What::Refaults), |rate| {
        format!("{}/s", number(rate))
    });
    let stalled = match (state.now(What::StalledSome), state.now(What::StalledFull)) {
        (Some(some), Some(full)) => format!("{} some, {} full", percent(some), percent(full)),
        _ => scene.look.absent().to_owned(),
    };
    let kills = page.get(&cgroup::EVENTS, &["oom_kill"]);
    let alarm = if kills.is_some_and(|kills| kills > 0.0) {
        scene.look.bad()
    } else {
        Style::new()
    };
    let pressed = vec![
        Span::raw(format!("stalled {stalled}; file refaults {refaults}; ")),
        Span::styled(format!("OOM kills {}", brief(scene, kills, number)), alarm),
    ];
    row("Pressure", pressed, Beside::Nothing)
}
