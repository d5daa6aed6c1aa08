use super::Scene;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span, Text},
    widgets::Widget,
};

const KEYS: [(&str, &str); 10] = [
    ("h  ?", "this help"),
    ("s", "order of the pools: faults, CPU, name"),
    ("f  c  n", "order by faults, by CPU, by name"),
    ("up  down", "scroll the pools, as k and j do"),
    ("PgUp PgDn", "scroll by ten; Home goes to the first"),
    ("p  space", "pause the screen; new values are kept"),
    ("Esc", "back from help and pause"),
    ("ctrl-L", "redraw the screen"),
    ("ctrl-Z", "back to the shell for a while; `fg` continues"),
    ("q  ctrl-C", "quit"),
];

const FIGURES: [&str; 10] = [
    "fine, look, act: verdicts of the last minutes, by the alerts' thresholds.",
    "Memory: bytes that cannot be dropped without swap, of the smallest limit.",
    "The lighter part of its bar is page cache, which may fill a limit.",
    "Faults: a major fault waited for a disk. Stalled: share of time in which some",
    "or all tasks waited for memory. Refaults: page cache that was read again.",
    "Cache: the program cache. A reload compiles an evicted program again: many",
    "reloads mean that the cache is too small. Its figures arrive every 10 s.",
    "Cache time: sum over threads. CPU: 100 % is one core. Waiting: for a CPU.",
    "A dash is an unknown value. The brackets say which source lacks it.",
    "Rates are from one sample to the next. A restart or a gap has no rate.",
];

pub fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let keys = KEYS.iter().map(|(keys, what)| {
        Line::from(vec![
            Span::styled(format!(" {keys:<10}"), scene.theme.label()),
            Span::raw(*what),
        ])
    });
    let figures = FIGURES.iter().map(|line| Line::from(format!(" {line}")));
    let all = keys.chain([Line::default()]).chain(figures);
    Text::from_iter(all).render(area, buffer);
}
