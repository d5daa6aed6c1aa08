use super::{absent, per_second, plot, row, text_row, value_or_dash, value_or_reason};
use crate::view::Scene;
use crate::view::row::{Graphic, Row, clauses};
use faultline_metrics::Source;
use faultline_status::{Figure, LevelStatus, Status, Tone};
use faultline_text::{bytes_f64, clean, percent, short};
use ratatui::text::Span;

/// Whose the memory is: what has the limit, and how much of it others than the validator use.
fn owners(status: &Status) -> Vec<String> {
    let binding = status.memory.as_ref().and_then(|memory| memory.binding());
    let Some(level) = binding else {
        return Vec::new();
    };
    let owner = match level.level.as_str() {
        "0" => "its cgroup".to_owned(),
        "numa" => "its NUMA nodes".to_owned(),
        _ => clean(&level.title),
    };
    let others = level.others.filter(|others| *others > 0.0);
    let others = others.map(|others| format!(", others {}", bytes_f64(others)));
    [Some(format!(" of {owner}")), others]
        .into_iter()
        .flatten()
        .collect()
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
        (Some(share), Some(limit)) => { [format!("{used} of {}", bytes_f64(limit))].into_iter() }
            .chain(owners(status))
            .chain([format!(", {}", percent(share)), " unreclaimable".to_owned()])
            .collect(),
        _ => vec![
            format!("unreclaimable {used}"),
            format!(", limit {}", value_or_dash(scene, limit, bytes_f64)),
        ],
    };
    let binding = status.memory.as_ref().and_then(|memory| memory.binding());
    let tone = binding.map_or(Tone::Plain, LevelStatus::tone);
    let tone = scene.theme.tone(tone);
    let words = { words.into_iter() }.map(|words| Span::styled(words, tone));
    let cached = of_limit(Figure::PageCache).unwrap_or_default();
    let full = share.map_or(Graphic::Nothing, |share| Graphic::Bar(share, cached));
    [
        row("Memory", words.collect(), full),
        resident(scene),
        pressure(scene),
    ]
}

fn resident(scene: &Scene<'_>) -> Row {
    let anon = value_or_reason(scene, Figure::Anon, bytes_f64);
    let [file, swap] = [Figure::File, Figure::Swap]
        .map(|figure| value_or_dash(scene, scene.state().now(figure), bytes_f64));
    let words = format!("anon {anon}, file {file}, swap {swap}");
    text_row("RSS", &words, plot(scene, Figure::Anon))
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
    let words = clauses(&format!("stalled {stalled}; file refaults {refaults}"));
    let killed = format!("OOM kills {}", value_or_dash(scene, kills, short));
    let words = match kills.is_some_and(|kills| kills > 0.0) {
        true => { [Span::styled(killed + "; ", scene.theme.bad())].into_iter() }
            .chain(words)
            .collect(),
        false => { words.into_iter() }
            .chain([Span::raw(format!("; {killed}"))])
            .collect(),
    };
    row("Pressure", words, Graphic::Nothing)
}
