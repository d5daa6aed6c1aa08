use super::Scene;
use crate::keys::HELP;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

const FIGURES: [&str; 10] = [
    "Memory: what cannot be dropped without swap, of the smallest limit; the lighter",
    "part of the bar is page cache, which fills a limit by design and is no alarm.",
    "Faults: a major one waited for a disk. Stalled: share of time some or all stood",
    "still for memory. Refaults: page cache that was thrown away and read again.",
    "Cache: the program cache. Reloads are programs compiled again after eviction:",
    "many mean that it is too small. It and Per slot come with pushes, every 10 s.",
    "Cache time is summed over threads. CPU: 100 % is one core. Waiting: ready to",
    "run, and no CPU was free.",
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
