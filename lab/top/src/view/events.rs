use super::{Scene, split_top};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    if area.height < 3 || scene.state().events.is_empty() {
        return;
    }
    let (_, area) = split_top(area, 1);
    let (head, mut rest) = split_top(area, 1);
    let title = format!(
        "{:<width$}",
        " What happened",
        width = usize::from(area.width)
    );
    Span::styled(title, scene.theme.reversed()).render(head, buffer);
    for event in &scene.state().events {
        if rest.is_empty() {
            return;
        }
        let (line_area, after) = split_top(rest, 1);
        Line::from(format!(
            " {}  {}",
            faultline_text::moment(event.at.unix_ns),
            event.what
        ))
        .render(line_area, buffer);
        rest = after;
    }
}
