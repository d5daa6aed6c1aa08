use super::theme::Theme;
use super::{cut_below, cut_right};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar, Widget};

pub(super) const NAME_WIDTH: u16 = 10;
const WORDS_WIDTH: u16 = 46;
pub(super) const MAX_PLOT_HEIGHT: u16 = 6;
/// Plots take whole numbers; the highest value becomes this.
const PLOT_SCALE: f64 = 1000.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Graphic {
    Nothing,
    Plot(Vec<Option<f64>>),
    /// Filled and half-filled shares; the rest is empty.
    Bar(f64, f64),
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) words: Line<'static>,
    pub(super) graphic: Graphic,
}

impl Row {
    pub(super) fn height(&self, plot_height: u16) -> u16 {
        if matches!(self.graphic, Graphic::Plot(_)) {
            plot_height
        } else {
            1
        }
    }
}

/// Height of plots with which all rows fit into `available` lines: from 1 to `max_plot_height`.
pub(super) fn height_of_plots(rows: &[Row], available: u16, max_plot_height: u16) -> u16 {
    let all = |plot_height: u16| rows.iter().map(|row| row.height(plot_height)).sum::<u16>();
    (1..=max_plot_height)
        .rev()
        .find(|plot_height| all(*plot_height) <= available)
        .unwrap_or(1)
}

pub(super) fn draw(rows: &[Row], plot_height: u16, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let mut rest = area;
    for row in rows {
        if rest.is_empty() {
            return;
        }
        let (row_area, below) = cut_below(rest, row.height(plot_height));
        draw_row(row, theme, row_area, buffer);
        rest = below;
    }
}

fn draw_row(row: &Row, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let (name, right) = cut_right(area, NAME_WIDTH);
    Span::styled(format!(" {}", row.name), theme.label()).render(name, buffer);
    if row.graphic == Graphic::Nothing {
        (&row.words).render(right, buffer);
        return;
    }
    let (words, graphic) = cut_right(right, WORDS_WIDTH);
    (&row.words).render(words, buffer);
    match &row.graphic {
        Graphic::Plot(values) => plot(values, theme, graphic, buffer),
        Graphic::Bar(filled, half) => bar(*filled, *half, theme, graphic, buffer),
        Graphic::Nothing => {}
    }
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
    let data: Vec<SparklineBar> = std::iter::repeat_n(SparklineBar::from(None::<u64>), empty)
        .chain(bars)
        .collect();
    let plot = Sparkline::default()
        .data(data)
        .max(PLOT_SCALE as u64)
        .bar_set(theme.bars())
        .style(theme.plot());
    plot.absent_value_symbol(" ").render(area, buffer);
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
