mod events;
mod foot;
mod help;
mod pools;
mod row;
mod rows;
mod theme;

pub(crate) use theme::Theme;

use crate::session::Session;
use crate::state::{Moment, State};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;

const MIN_SIZE: (u16, u16) = (40, 8);
/// From this width on, the pools are next to the figures.
const WIDE: u16 = 137;
const POOLS_WIDTH: u16 = 67;
const FOOT: u16 = 2;
const LEAST_POOLS: u16 = 4;
const MANY_POOLS: u16 = 30;
/// Lines for events if the pools are elsewhere: a gap, a title, four events.
const EVENTS: u16 = 6;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) session: &'a Session,
    pub(crate) address: &'a str,
    pub(crate) now: Moment,
    pub(crate) theme: Theme,
}

impl Scene<'_> {
    fn state(&self) -> &State {
        self.session.state()
    }
}

pub(crate) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    fill(scene, area, row::MAX_PLOT_HEIGHT, buffer);
}

fn fill(scene: &Scene<'_>, area: Rect, tallest: u16, buffer: &mut Buffer) {
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let words = format!("{} by {} is too small for this", area.width, area.height);
        Line::from(words).render(area, buffer);
        return;
    }
    let (head, rest) = cut_below(area, 1);
    foot::head(scene, head, buffer);
    let (body, foot) = cut_below(rest, rest.height.saturating_sub(FOOT));
    if scene.session.help {
        help::draw(scene, body, buffer);
    } else {
        figures_and_pools(scene, body, tallest, buffer);
    }
    foot::draw(scene, foot, buffer);
    scrub(buffer);
}

/// Text of a page or an error must not control the terminal.
fn scrub(buffer: &mut Buffer) {
    for cell in buffer
        .content
        .iter_mut()
        .filter(|cell| cell.symbol().contains(faultline_text::is_unfit))
    {
        let fit: String = cell
            .symbol()
            .chars()
            .filter(|letter| !faultline_text::is_unfit(*letter))
            .collect();
        cell.set_symbol(if fit.is_empty() { " " } else { &fit });
    }
}

fn figures_and_pools(scene: &Scene<'_>, body: Rect, tallest: u16, buffer: &mut Buffer) {
    let wide = body.width >= WIDE;
    let mut rows = rows::rows(scene, width_of_figures(body.width));
    let pools =
        u16::try_from(scene.state().pools(scene.session.order()).len() + 1).unwrap_or(MANY_POOLS);
    let pools = pools.clamp(LEAST_POOLS, MANY_POOLS);
    let available = body
        .height
        .saturating_sub(if wide { EVENTS } else { pools });
    let more = rows::more(scene);
    if rows.len() + more.len() <= usize::from(available) {
        rows.extend(more);
    }
    let tall = row::height_of_plots(&rows, available, tallest);
    let heights: u16 = rows.iter().map(|row| row.height(tall)).sum();
    let (figures, below) = if wide {
        cut_right(body, width_of_figures(body.width))
    } else {
        cut_below(body, heights.min(body.height))
    };
    row::draw(&rows, tall, scene.theme, figures, buffer);
    let left = pools::draw(scene, below, buffer);
    let (_, graphic) = cut_below(figures, heights);
    events::draw(scene, if wide { graphic } else { left }, buffer);
}

fn width_of_figures(width: u16) -> u16 {
    if width >= WIDE {
        width - POOLS_WIDTH
    } else {
        width
    }
}

fn cut_below(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let rest = Rect {
        y: area.y + height,
        height: area.height - height,
        ..area
    };
    (Rect { height, ..area }, rest)
}

fn cut_right(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    let rest = Rect {
        x: area.x + width,
        width: area.width - width,
        ..area
    };
    (Rect { width, ..area }, rest)
}

pub(crate) fn plain(scene: &Scene<'_>, width: u16) -> String {
    let pools = u16::try_from(scene.state().pools(scene.session.order()).len()).unwrap_or(u16::MAX);
    let pools = pools.saturating_add(1).max(LEAST_POOLS);
    let width = width.clamp(MIN_SIZE.0, 400);
    let rows = rows::rows(scene, width_of_figures(width)).len() + rows::more(scene).len();
    let rows = u16::try_from(rows).unwrap_or(u16::MAX);
    let body = if width >= WIDE {
        pools.max(rows.saturating_add(EVENTS))
    } else {
        rows.saturating_add(pools)
    };
    let height = body.saturating_add(1 + FOOT).min(u16::MAX / width);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    fill(scene, area, 1, &mut buffer);
    text(&buffer)
}

/// Without colours, blanks at the ends of lines, and empty lines at the end.
pub(crate) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let lines = buffer
        .content
        .chunks(width)
        .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
    let text: String = lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests;
