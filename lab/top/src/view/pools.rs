use super::{Scene, split_top};
use faultline_metrics::Source;
use faultline_status::Pool;
use faultline_text::{clean, percent, short};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span, Text},
    widgets::Widget,
};

const FIGURE_WIDTH: usize = 10;
const MIN_NAME_WIDTH: usize = 16;

pub fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
    let (head, below) = split_top(area, 1);
    let width = usize::from(area.width);
    let title = format!(" Pools by {}", scene.session.order.word());
    let titles = ["threads", "major/s", "minor/s", "CPU", "waiting"].map(str::to_owned);
    Span::styled(line(&title, &titles, width), scene.theme.reversed()).render(head, buffer);
    let pools = scene.state().pools(scene.session.order);
    if pools.is_empty() {
        let why = match scene.state().status.source(Source::Threads) {
            _ if scene.state().received_at.is_none() => "",
            None => " the source threads is disabled",
            Some(_) => " none reported",
        };
        let (line_area, after) = split_top(below, 1);
        Line::from(why).render(line_area, buffer);
        return after;
    }
    let shown = pools.iter().skip(scene.session.first);
    let lines = shown.map(|pool| line(&format!(" {}", pool.name), &figures(scene, pool), width));
    let lines = Text::from_iter(lines);
    let (pools, rest) = split_top(below, u16::try_from(lines.height()).unwrap_or(u16::MAX));
    lines.render(pools, buffer);
    rest
}

fn figures(scene: &Scene<'_>, pool: &Pool) -> [String; 5] {
    let value_or_dash = |value: Option<f64>, words: fn(f64) -> String| {
        value.map_or_else(|| scene.theme.absent().to_owned(), words)
    };
    [
        value_or_dash(pool.threads, short),
        value_or_dash(pool.major_faults, short),
        value_or_dash(pool.minor_faults, short),
        value_or_dash(pool.cpu, percent),
        value_or_dash(pool.waiting, percent),
    ]
}

fn line(name: &str, figures: &[String], width: usize) -> String {
    let shown = figures
        .len()
        .min(width.saturating_sub(MIN_NAME_WIDTH + 1) / FIGURE_WIDTH);
    let available = width.saturating_sub(shown * FIGURE_WIDTH + 1);
    let name: String = clean(name).chars().take(available).collect();
    let mut line = format!("{name:<available$}");
    for figure in figures.iter().take(shown) {
        line += &format!("{figure:>FIGURE_WIDTH$}");
    }
    line.push(' ');
    line
}
