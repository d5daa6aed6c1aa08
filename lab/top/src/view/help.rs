use super::Scene;
use crate::keys::HELP;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

const FIGURES: [&str; 10] = [
    "fine, look, act: verdicts of the last minutes, by the thresholds of the alerts.",
    "Memory: what cannot be dropped without swap, of the smallest limit, and whose;",
    "the lighter part of the bar is page cache, which may fill a limit.",
    "Faults: a major one waited for a disk. Stalled: share of time some or all stood",
    "still for memory. Refaults: page cache that was thrown away and read again.",
    "Cache: the program cache. Reloads are programs compiled again after eviction:",
    "many mean that it is too small. It and Per slot come with pushes, every 10 s.",
    "Cache time is that of all threads. CPU: 100 % is one core. Waiting: for a CPU.",
    "A dash is what is not known: in brackets whose fault that is. Rates go from one",
    "look of a source to the next; a restart or a gap has none.",
];

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let keys = HELP.iter().map(|(keys, what)| {
        Line::from(vec![
            Span::styled(format!(" {keys:<10}"), scene.theme.label()),
            Span::raw(*what),
        ])
    });
    let figures = FIGURES.iter().map(|line| Line::from(format!(" {line}")));
    let all = keys.chain([Line::default()]).chain(figures);
    for (y, line) in (area.y..area.bottom()).zip(all) {
        line.render(
            Rect {
                y,
                height: 1,
                ..area
            },
            buffer,
        );
    }
}
