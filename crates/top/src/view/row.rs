use super::look::Look;
use super::{cut_below, cut_right};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar, Widget};

const NAME: u16 = 10;
const WORDS: u16 = 44;
pub(super) const TALLEST: u16 = 6;
/// Plots take whole numbers; the highest value becomes this.
const FINENESS: f64 = 1000.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Beside {
    Nothing,
    Plot(Vec<Option<f64>>),
    /// Filled and half-filled shares; the rest is empty.
    Bar(f64, f64),
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) words: Line<'static>,
    pub(super) beside: Beside,
}

impl Row {
    pub(super) fn height(&self, tall: u16) -> u16 {
        if matches!(self.beside, Beside::Plot(_)) {
            tall
        } else {
            1
        }
    }
}

/// Height of plots with which all rows fit into `room` lines: from 1 to `tallest`.
pub(super) fn height_of_plots(rows: &[Row], room: u16, tallest: u16) -> u16 {
    let all = |tall: u16| rows.iter().map(|row| row.height(tall)).sum::<u16>();
    (1..=tallest)
        .rev()
        .find(|tall| all(*tall) <= room)
        .unwrap_or(1)
}

pub(super) fn draw(rows: &[Row], tall: u16, look: Look, area: Rect, buffer: &mut Buffer) {
    let mut rest = area;
    for row in rows {
        if rest.is_empty() {
            return;
        }
        let (own, below) = cut_below(rest, row.height(tall));
        one(row, look, own, buffer);
        rest = below;
    }
}

fn one(row: &Row, look: Look, area: Rect, buffer: &mut Buffer) {
    let (name, right) = cut_right(area, NAME);
    Line::from(Span::styled(format!(" {}", row.name), look.label())).render(name, buffer);
    if row.beside == Beside::Nothing {
        (&row.words).render(right, buffer);
        return;
    }
    let (words, beside) = cut_right(right, WORDS);
    (&row.words).render(words, buffer);
    match &row.beside {
        Beside::Plot(values) => plot(values, look, beside, buffer),
        Beside::Bar(filled, half) => bar(*filled, *half, look, beside, buffer),
        Beside::Nothing => {}
    }
}

fn plot(values: &[Option<f64>], look: Look, area: Rect, buffer: &mut Buffer) {
    let empty = usize::from(area.width).saturating_sub(values.len());
    let newest = values
        .iter()
        .skip(values.len().saturating_sub(usize::from(area.width)));
    let highest = newest.clone().flatten().copied().fold(0.0, f64::max);
    let scale = if highest > 0.0 {
        FINENESS / highest
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
        .max(FINENESS as u64)
        .bar_set(look.bars())
        .style(look.plot());
    plot.absent_value_symbol(" ").render(area, buffer);
}

fn bar(filled: f64, half: f64, look: Look, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width.saturating_sub(1));
    let cells = |share: f64| ((share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    let filled = cells(filled);
    let half = cells(half).min(width - filled);
    let [full, middle, empty] = look.fills();
    let spans = vec![
        Span::styled(full.repeat(filled), look.plot()),
        Span::styled(middle.repeat(half), look.plot()),
        Span::styled(empty.repeat(width - filled - half), look.faint()),
    ];
    Line::from(spans).render(area, buffer);
}
