mod memory;

use super::Scene;
use super::row::{Graphic, NAME_WIDTH, Row};
use super::theme::Theme;
use faultline_metrics::Source;
use faultline_status::{Figure, StatusItem, Tone};
use faultline_text::{bytes_f64, clean, percent, seconds, short};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

const MAX_PLOTTED: usize = 600;

/// Shares of the memory limit: above the first a warning, above the second the OOM killer is near.
const MEMORY_THRESHOLDS: (f64, f64) = (0.75, 0.9);

/// Slots behind the tip: above the first a warning, above the second an alarm. These are the
/// daemon's thresholds.
const BEHIND_THRESHOLDS: (f64, f64) = (32.0, 128.0);

pub(super) fn rows(scene: &Scene<'_>, width: u16) -> Vec<Row> {
    let status = &scene.state().status;
    let mut rows = vec![validator_row(scene)];
    let named = [
        ("Phase", &phase(scene)),
        ("Votes", &status.votes),
        ("Capacity", &status.capacity),
    ];
    rows.extend(
        named
            .into_iter()
            .flat_map(|(name, facts)| lines(name, facts, scene.theme, width)),
    );
    rows.extend([behind(scene), tps(scene)]);
    rows.extend(memory::rows(scene));
    rows.extend(faults(scene));
    rows.extend(cache(scene));
    rows
}

/// Rows for terminals that have the space.
pub(super) fn extra_rows(scene: &Scene<'_>) -> [Row; 3] {
    let (state, status) = (scene.state(), &scene.state().status);
    let cpu = value_or_reason(scene, Figure::Cpu, percent);
    let flow = |figure| {
        value_or_dash(scene, state.now(figure), |rate| {
            format!("{}/s", bytes_f64(rate))
        })
    };
    let swap = status.figure(Figure::HostSwap);
    let swapped = swap.zip(status.figure(Figure::HostSwapFree));
    let host = format!(
        "{} of {} available, swap used {}",
        value_or_reason(scene, Figure::HostAvailable, bytes_f64),
        value_or_dash(scene, status.figure(Figure::HostMemory), bytes_f64),
        value_or_dash(scene, swapped.map(|(all, free)| all - free), bytes_f64),
    );
    let threads = value_or_dash(scene, status.figure(Figure::Threads), short);
    let (read, written) = (flow(Figure::ReadBytes), flow(Figure::WrittenBytes));
    [
        row(
            "CPU",
            format!("{cpu}, {threads} threads"),
            plot(scene, Figure::Cpu),
        ),
        row(
            "Disk",
            format!("read {read}, write {written}"),
            plot(scene, Figure::ReadBytes),
        ),
        row("Host", host, Graphic::Nothing),
    ]
}

fn row(name: &'static str, words: impl Into<Line<'static>>, graphic: Graphic) -> Row {
    Row {
        name,
        words: words.into(),
        graphic,
    }
}

/// Facts of one kind, in as many lines as they need.
fn lines(name: &'static str, facts: &[StatusItem], theme: Theme, width: u16) -> Vec<Row> {
    let width = usize::from(width.saturating_sub(NAME_WIDTH));
    let mut lines: Vec<Vec<Span<'static>>> = Vec::new();
    let mut left = 0;
    for fact in facts {
        let span = Span::styled(clean(&fact.text), theme.tone(fact.tone));
        let length = span.width() + 2;
        if lines.is_empty() || length > left {
            lines.push(Vec::new());
            left = width;
        }
        left = left.saturating_sub(length);
        if let Some(line) = lines.last_mut() {
            line.extend([span, Span::raw(", ")]);
        }
    }
    lines.last_mut().map(Vec::pop);
    let names = [name].into_iter().chain(std::iter::repeat(""));
    names
        .zip(lines)
        .map(|(name, line)| row(name, line, Graphic::Nothing))
        .collect()
}

fn plot(scene: &Scene<'_>, figure: Figure) -> Graphic {
    let history = scene.state().history(figure);
    Graphic::Plot(history.map_or_else(Vec::new, |history| history.last(MAX_PLOTTED)))
}

/// A figure in words, or a dash and, where the daemon knows it, why it is missing.
fn value_or_reason(scene: &Scene<'_>, figure: Figure, words: impl FnOnce(f64) -> String) -> String {
    match scene.state().now(figure) {
        Some(value) => words(value),
        None => absent(scene, figure.source()),
    }
}

fn absent(scene: &Scene<'_>, source: Source) -> String {
    let dash = scene.theme.absent();
    match scene.state().status.source(source) {
        _ if scene.state().received_at.is_none() => dash.to_owned(),
        None => format!("{dash} ({} is disabled)", source.name()),
        Some(status) if !status.is_up => format!("{dash} ({} is down)", source.name()),
        Some(_) => dash.to_owned(),
    }
}

/// A value in words, or a dash without the reason, for lines with several values.
fn value_or_dash(
    scene: &Scene<'_>,
    value: Option<f64>,
    words: impl FnOnce(f64) -> String,
) -> String {
    value.map_or_else(|| scene.theme.absent().to_owned(), words)
}

fn per_second(rate: f64) -> String {
    format!("{}/s", short(rate))
}

fn validator_row(scene: &Scene<'_>) -> Row {
    let (status, theme) = (&scene.state().status, scene.theme);
    let target = &status.target;
    let fact = |name: &str| target.fact(name).map(|value| truncated(value, 60));
    let words = match target.is_followed {
        Some(true) => {
            let program: Vec<String> = [fact("Client"), fact("Version")]
                .into_iter()
                .flatten()
                .collect();
            let program = match program.as_slice() {
                [] => target.name.as_ref().map(|name| truncated(name, 60)),
                program => Some(program.join(" ")),
            };
            let identity = target
                .fact("Identity")
                .map(|identity| truncated(identity, 8));
            let age = fact("Running for").map(|age| format!("up {age}"));
            let parts = [program, identity, fact("Cluster"), age];
            parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
        }
        Some(false) => {
            return row(
                "Who",
                Span::styled("no validator is followed", theme.bad()),
                Graphic::Nothing,
            );
        }
        None => absent(scene, Source::Target),
    };
    let mut spans = vec![Span::raw(words)];
    if status.is_demo {
        spans.push(Span::styled("  demo: no real numbers", theme.warn()));
    }
    row("Who", spans, Graphic::Nothing)
}

/// Foreign text without control characters, cut to `most` letters.
fn truncated(text: &str, most: usize) -> String {
    let text = clean(text);
    let mut first: String = text.chars().take(most).collect();
    if first.len() < text.len() {
        first += "..";
    }
    first
}

fn phase(scene: &Scene<'_>) -> Vec<StatusItem> {
    let status = &scene.state().status;
    let is_known = status
        .source(Source::Conclusions)
        .is_some_and(|source| source.is_up);
    let unknown = (!is_known).then(|| StatusItem {
        text: absent(scene, Source::Conclusions),
        tone: Tone::Plain,
    });
    let state = status.target.state.iter().cloned();
    unknown.into_iter().chain(state).collect()
}

fn behind(scene: &Scene<'_>) -> Row {
    let status = &scene.state().status;
    let words = value_or_reason(scene, Figure::SlotsBehind, |slots| {
        format!("{} slots", short(slots))
    });
    let tone = level(scene, status.figure(Figure::SlotsBehind), BEHIND_THRESHOLDS);
    let mut spans = vec![Span::styled(words, tone)];
    let own = status.figure(Figure::Slot);
    spans.extend(own.map(|slot| Span::raw(format!(", at {}", short(slot)))));
    row("Behind", spans, plot(scene, Figure::SlotsBehind))
}

fn tps(scene: &Scene<'_>) -> Row {
    let state = scene.state();
    let (transactions, blocks) = (Figure::Transactions, Figure::BlockTransactions);
    // Pushes are used only if JSON-RPC has no number.
    let (figure, origin) = match (state.now(transactions), state.now(blocks)) {
        (None, Some(_)) => (blocks, " in frozen banks"),
        _ => (transactions, ""),
    };
    let words = value_or_reason(scene, figure, |tps| format!("{}/s{origin}", short(tps)));
    row("TPS", words, plot(scene, figure))
}

fn faults(scene: &Scene<'_>) -> [Row; 2] {
    let kinds = [
        ("Faults", "major", Figure::MajorFaults),
        ("", "minor", Figure::MinorFaults),
    ];
    kinds.map(|(name, kind, figure)| {
        let rate = value_or_reason(scene, figure, per_second);
        row(name, format!("{kind} {rate}"), plot(scene, figure))
    })
}

fn cache(scene: &Scene<'_>) -> [Row; 3] {
    let (state, cache) = (scene.state(), &scene.state().status.cache);
    let words = cache.words();
    let words = words.unwrap_or_else(|| absent(scene, Source::Datapoints));
    let mut spans = vec![Span::raw(words)];
    let warning = cache.warning.as_ref();
    spans.extend(warning.map(|words| Span::styled(format!(" {words}"), scene.theme.warn())));
    let [misses, reloads, evictions] = [
        Figure::CacheMisses,
        Figure::CacheReloads,
        Figure::CacheEvictions,
    ]
    .map(|figure| value_or_dash(scene, state.now(figure), per_second));
    [
        row(
            "Cache",
            spans,
            { cache.share() }.map_or(Graphic::Nothing, |share| Graphic::Bar(share, 0.0)),
        ),
        row(
            "",
            format!("reload {reloads}, miss {misses}, evict {evictions}"),
            plot(scene, Figure::CacheReloads),
        ),
        row("Per slot", per_slot(scene), Graphic::Nothing),
    ]
}

fn per_slot(scene: &Scene<'_>) -> String {
    let slots = &scene.state().slots;
    let both = slots.cache.mean.zip(slots.replay.mean);
    let share = both.filter(|(_, replay)| *replay > 0.0);
    format!(
        "{} of cache time, p95 {}; replay {}, {} of it",
        value_or_dash(scene, slots.cache.mean, seconds),
        value_or_dash(scene, slots.cache.p95, seconds),
        value_or_dash(scene, slots.replay.mean, seconds),
        value_or_dash(scene, share.map(|(cache, replay)| cache / replay), percent),
    )
}

fn level(scene: &Scene<'_>, value: Option<f64>, (warn, bad): (f64, f64)) -> Style {
    match value {
        Some(value) if value > bad => scene.theme.bad(),
        Some(value) if value > warn => scene.theme.warn(),
        _ => Style::new(),
    }
}
