use super::{split_left, split_top, theme::Theme};
use itertools::Itertools;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Sparkline, SparklineBar, Widget},
};

pub const NAME_WIDTH: u16 = 10;
/// A narrow terminal has less.
const MIN_TEXT_WIDTH: u16 = 46;
const MIN_BAR_WIDTH: u16 = 10;
pub const MAX_PLOT_HEIGHT: u16 = 6;
/// Plots take whole numbers; the highest value becomes this.
const PLOT_SCALE: f64 = 1000.0;

pub enum Graphic {
    Nothing,
    Plot(Vec<Option<f64>>),
    /// Filled and half-filled shares; the rest is empty.
    Bar(f64, f64),
}

pub struct Row {
    /// Drawn in the style of labels, changed by its own style.
    pub name: Span<'static>,
    /// Parts that do not fit are left out, from the end.
    pub text: Vec<Span<'static>>,
    pub graphic: Graphic,
}

impl Row {
    pub fn height(&self, plot_height: u16) -> u16 {
        if matches!(self.graphic, Graphic::Plot(_)) {
            plot_height
        } else {
            1
        }
    }
}

/// The largest height with which all rows fit into `available` lines, from 1 to `max_plot_height`.
pub fn height_of_plots(rows: &[Row], available: u16, max_plot_height: u16) -> u16 {
    let total = |plot_height| rows.iter().map(|row| row.height(plot_height)).sum::<u16>();
    (1..=max_plot_height)
        .rev()
        .find(|plot_height| total(*plot_height) <= available)
        .unwrap_or(1)
}

pub fn draw(rows: &[Row], plot_height: u16, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let mut rest = area;
    for row in rows {
        if rest.is_empty() {
            return;
        }
        let [row_area, below] = split_top(rest, row.height(plot_height));
        draw_row(row, theme, row_area, buffer);
        rest = below;
    }
}

fn draw_row(row: &Row, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let [name, right] = split_left(area, NAME_WIDTH);
    let style = theme.label().patch(row.name.style);
    Span::styled(format!(" {}", row.name.content), style).render(name, buffer);
    let min_width = MIN_TEXT_WIDTH.min(right.width).max(right.width * 2 / 3);
    let text_width = match row.graphic {
        Graphic::Nothing => right.width,
        Graphic::Plot(_) => min_width,
        Graphic::Bar(..) => {
            let full_width = row.text.iter().map(Span::width).sum::<usize>() + 1;
            let full_width = u16::try_from(full_width).unwrap_or(u16::MAX);
            let max_width = right.width.saturating_sub(MIN_BAR_WIDTH);
            full_width.min(max_width).max(min_width)
        }
    };
    let [text, graphic] = split_left(right, text_width);
    let blank = u16::from(graphic.width > 0);
    fitting_parts(&row.text, text.width.saturating_sub(blank)).render(text, buffer);
    match &row.graphic {
        Graphic::Plot(values) => plot(values, theme, graphic, buffer),
        Graphic::Bar(filled, half) => bar(*filled, *half, theme, graphic, buffer),
        Graphic::Nothing => {}
    }
}

fn fitting_parts(parts: &[Span<'static>], width: u16) -> Line<'static> {
    let mut available = usize::from(width);
    let fits = |span: &&Span<'_>| {
        available.checked_sub(span.width()).is_some_and(|rest| {
            available = rest;
            true
        })
    };
    let mut fitting = parts.iter().take_while(fits).cloned().collect_vec();
    if let (true, Some(first)) = (fitting.is_empty(), parts.first()) {
        let length = usize::from(width).saturating_sub(2);
        let start: String = first.content.chars().take(length).collect();
        fitting.push(Span::styled(start + "..", first.style));
    }
    Line::from(fitting)
}

/// Splits a text before commas, semicolons and parentheses, but not within parentheses.
pub fn clauses(text: &str) -> Vec<Span<'static>> {
    let mut starts = vec![0];
    let mut depth = 0_usize;
    for (index, letter) in text.char_indices() {
        let rest = text.get(index..).unwrap_or_default();
        let is_start = [", ", "; ", " ("].iter().any(|mark| rest.starts_with(mark));
        if is_start && depth == 0 && index > 0 {
            starts.push(index);
        }
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| text.get(*start..end))
        .map(|clause| Span::raw(clause.to_owned()))
        .collect()
}

/// Fills each line with as many pieces as fit, with `separator` between them.
pub fn wrap(
    pieces: impl IntoIterator<Item = Span<'static>>,
    separator: &'static str,
    width: usize,
) -> Vec<Vec<Span<'static>>> {
    let mut lines = Vec::new();
    let mut remaining = 0;
    for piece in pieces {
        let length = piece.width() + separator.len();
        if lines.is_empty() || length > remaining {
            lines.push(Vec::new());
            remaining = width;
        }
        remaining = remaining.saturating_sub(length);
        if let Some(line) = lines.last_mut() {
            line.extend([piece, Span::raw(separator)]);
        }
    }
    lines.last_mut().map(Vec::pop);
    lines
}

fn plot(values: &[Option<f64>], theme: Theme, area: Rect, buffer: &mut Buffer) {
    let empty = usize::from(area.width).saturating_sub(values.len());
    let newest = values
        .iter()
        .skip(values.len().saturating_sub(usize::from(area.width)));
    let highest = newest.clone().flatten().copied().fold(0.0, f64::max);
    let scale = if highest > 0.0 {
        PLOT_SCALE / highest
    } else {
        0.0
    };
    let bars = newest.map(|value| {
        SparklineBar::from(value.map(|value| (value.max(0.0) * scale).round() as u64))
    });
    let data = std::iter::repeat_n(SparklineBar::from(None::<u64>), empty)
        .chain(bars)
        .collect_vec();
    Sparkline::default()
        .data(data)
        .max(PLOT_SCALE as u64)
        .bar_set(theme.bars())
        .style(theme.plot())
        .absent_value_symbol(" ")
        .render(area, buffer);
}

fn bar(filled: f64, half: f64, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width.saturating_sub(1));
    let cells = |share: f64| ((share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    let filled = cells(filled);
    let half = cells(half).min(width - filled);
    let [full, middle, empty] = theme.fills();
    let spans = vec![
        Span::styled(full.repeat(filled), theme.plot()),
        Span::styled(middle.repeat(half), theme.plot()),
        Span::styled(empty.repeat(width - filled - half), theme.faint()),
    ];
    Line::from(spans).render(area, buffer);
}
