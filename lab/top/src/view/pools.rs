use super::{Scene, cut_below};
use faultline_metrics::Source;
use faultline_status::Pool;
use faultline_text::{clean, percent, short};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

const FIGURE: usize = 10;
const NAME: usize = 16;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
    let (head, below) = cut_below(area, 1);
    let width = usize::from(area.width);
    let title = format!(" Pools by {}", scene.session.order().word());
    let titles = ["threads", "major/s", "minor/s", "CPU", "waiting"].map(str::to_owned);
    Line::from(Span::styled(
        line(&title, &titles, width),
        scene.theme.reversed(),
    ))
    .render(head, buffer);
    let pools = scene.state().pools(scene.session.order());
    if pools.is_empty() {
        let why = match scene.state().newest().source(Source::Threads) {
            _ if scene.state().taken().is_none() => "",
            None => " the source threads is disabled",
            Some(_) => " none reported",
        };
        let (own, after) = cut_below(below, 1);
        Line::from(why).render(own, buffer);
        return after;
    }
    let mut rest = below;
    for pool in pools.iter().skip(scene.session.first()) {
        if rest.is_empty() {
            break;
        }
        let (own, after) = cut_below(rest, 1);
        Line::from(line(
            &format!(" {}", pool.name),
            &figures(scene, pool),
            width,
        ))
        .render(own, buffer);
        rest = after;
    }
    rest
}

fn figures(scene: &Scene<'_>, pool: &Pool) -> [String; 5] {
    let say = |value: Option<f64>, words: fn(f64) -> String| {
        value.map_or_else(|| scene.theme.absent().to_owned(), words)
    };
    [
        say(pool.threads, short),
        say(pool.major_faults, short),
        say(pool.minor_faults, short),
        say(pool.cpu, percent),
        say(pool.waiting, percent),
    ]
}

fn line(name: &str, figures: &[String], width: usize) -> String {
    let shown = figures.len().min(width.saturating_sub(NAME + 1) / FIGURE);
    let available = width.saturating_sub(shown * FIGURE + 1);
    let name: String = clean(name).chars().take(available).collect();
    let mut line = format!("{name:<available$}");
    for figure in figures.iter().take(shown) {
        line += &format!("{figure:>FIGURE$}");
    }
    line.push(' ');
    line
}
