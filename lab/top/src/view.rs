mod panels;
mod row;
mod rows;
mod theme;

pub use theme::Theme;

use crate::{
    session::Session,
    state::{Moment, State},
};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span, Text},
    widgets::Widget,
};

const MIN_SIZE: (u16, u16) = (40, 8);
/// From this width on, the pools are next to the figures.
const MIN_WIDE_WIDTH: u16 = 137;
const POOLS_WIDTH: u16 = 67;
const FOOT_HEIGHT: u16 = 2;
const MIN_POOL_LINES: u16 = 4;
const MAX_POOL_LINES: u16 = 30;
/// If the pools are next to the figures: a gap, a title, four events.
const EVENT_LINES: u16 = 6;

const ROWS_HIDDEN_WHEN_SHORT: [&str; 3] = ["Votes", "Capacity", "TPS"];

#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub session: &'a Session,
    pub address: &'a str,
    pub now: Moment,
    pub theme: Theme,
}

impl Scene<'_> {
    fn state(&self) -> &State {
        self.session.state()
    }
}

pub fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    draw_with_plots(scene, area, row::MAX_PLOT_HEIGHT, buffer);
}

fn draw_with_plots(scene: &Scene<'_>, area: Rect, max_plot_height: u16, buffer: &mut Buffer) {
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let text = format!("{} by {} is too small", area.width, area.height);
        Line::from(text).render(area, buffer);
        return;
    }
    let [head, rest] = split_top(area, 1);
    panels::head(scene, head, buffer);
    let [body, foot] = split_top(rest, rest.height.saturating_sub(FOOT_HEIGHT));
    if scene.session.shows_help {
        panels::help(scene, body, buffer);
    } else {
        figures_and_pools(scene, body, max_plot_height, buffer);
    }
    panels::foot(scene, foot, buffer);
    remove_control_characters(buffer);
}

/// Text of a page or an error must not control the terminal.
fn remove_control_characters(buffer: &mut Buffer) {
    for cell in buffer
        .content
        .iter_mut()
        .filter(|cell| cell.symbol().contains(faultline_text::is_unsafe_char))
    {
        let safe: String = cell
            .symbol()
            .chars()
            .filter(|letter| !faultline_text::is_unsafe_char(*letter))
            .collect();
        cell.set_symbol(if safe.is_empty() { " " } else { &safe });
    }
}

fn figures_and_pools(scene: &Scene<'_>, body: Rect, max_plot_height: u16, buffer: &mut Buffer) {
    let is_wide = body.width >= MIN_WIDE_WIDTH;
    let pool_lines = pool_lines(scene).min(MAX_POOL_LINES);
    let (lines_below, min_lines_below) = if is_wide {
        (EVENT_LINES, EVENT_LINES)
    } else {
        (pool_lines, MIN_POOL_LINES)
    };
    let available = body.height.saturating_sub(lines_below);
    let width = width_of_figures(body.width);
    let mut rows = scene.rows(width, true);
    if rows.len() > usize::from(body.height.saturating_sub(min_lines_below)) {
        rows = scene.rows(width, false);
    }
    if rows.len() > usize::from(body.height) {
        rows.retain(|row| !ROWS_HIDDEN_WHEN_SHORT.contains(&&*row.name.content));
    }
    let extra_rows = scene.extra_rows();
    if rows.len() + extra_rows.len() <= usize::from(available) {
        rows.extend(extra_rows);
    }
    let plot_height = row::height_of_plots(&rows, available, max_plot_height);
    let heights: u16 = rows.iter().map(|row| row.height(plot_height)).sum();
    let [figures_area, pools_area] = if is_wide {
        split_left(body, width)
    } else {
        split_top(body, heights.min(body.height))
    };
    row::draw(&rows, plot_height, scene.theme, figures_area, buffer);
    let below_pools = panels::pools(scene, pools_area, buffer);
    let [_, below_figures] = split_top(figures_area, heights);
    events(
        scene,
        if is_wide { below_figures } else { below_pools },
        buffer,
    );
}

fn events(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let events = &scene.state().events;
    if area.height < 3 || events.is_empty() {
        return;
    }
    let [_, area] = split_top(area, 1);
    let [head, rest] = split_top(area, 1);
    let width = usize::from(area.width);
    let title = format!("{:<width$}", " What happened");
    Span::styled(title, scene.theme.title_bar()).render(head, buffer);
    let lines = events.iter().map(|event| {
        let time = faultline_text::utc(event.time.unix_ns);
        format!(" {time}  {}", event.text)
    });
    Text::from_iter(lines).render(rest, buffer);
}

fn pool_lines(scene: &Scene<'_>) -> u16 {
    let pools = scene.state().thread_pools(scene.session.order);
    u16::try_from(pools.len() + 1)
        .unwrap_or(u16::MAX)
        .max(MIN_POOL_LINES)
}

fn width_of_figures(width: u16) -> u16 {
    if width >= MIN_WIDE_WIDTH {
        width - POOLS_WIDTH
    } else {
        width
    }
}

fn split_top(area: Rect, height: u16) -> [Rect; 2] {
    Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area)
}

fn split_left(area: Rect, width: u16) -> [Rect; 2] {
    Layout::horizontal([Constraint::Length(width), Constraint::Fill(1)]).areas(area)
}

pub fn render_as_text(scene: &Scene<'_>, width: u16) -> String {
    let width = width.clamp(MIN_SIZE.0, 400);
    let rows = scene.rows(width_of_figures(width), true).len() + scene.extra_rows().len();
    let rows = u16::try_from(rows).unwrap_or(u16::MAX);
    let body = if width >= MIN_WIDE_WIDTH {
        pool_lines(scene).max(rows.saturating_add(EVENT_LINES))
    } else {
        rows.saturating_add(pool_lines(scene))
    };
    let height = body.saturating_add(1 + FOOT_HEIGHT).min(u16::MAX / width);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw_with_plots(scene, area, 1, &mut buffer);
    text(&buffer)
}

/// The buffer as text, without colors, trailing blanks and trailing empty lines.
pub fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let text: String = buffer
        .content
        .chunks(width)
        .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>())
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests;
