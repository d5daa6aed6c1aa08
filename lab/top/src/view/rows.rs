use super::{
    Scene,
    row::{Graphic, NAME_WIDTH, Row, clauses, wrap},
    theme::Theme,
};
use faultline_metrics::Source;
use faultline_status::{Answer, Figure, LevelStatus, StatusItem, Tone};
use faultline_text::{bytes_f64, clean, counted, percent, seconds, short};
use ratatui::{style::Style, text::Span};

const MAX_PLOTTED: usize = 600;

/// Lines of the reason that stands where figures of the cache would be.
const REASON_LINES: usize = 3;

/// Slots behind the tip: above the first a warning, above the second an alarm. These are the
/// daemon's thresholds.
const BEHIND_THRESHOLDS: (f64, f64) = (32.0, 128.0);

/// `wraps`: facts and answers take as many lines as they need, instead of one.
pub fn rows(scene: &Scene<'_>, width: u16, wraps: bool) -> Vec<Row> {
    let (status, theme) = (&scene.state().status, scene.theme);
    let width = usize::from(width.saturating_sub(NAME_WIDTH));
    let wrap_at = wraps.then_some(width);
    let answers = status.answers.iter();
    let answers = answers.flat_map(|answer| answer_rows(answer, theme, wrap_at));
    let mut rows: Vec<Row> = answers.chain(validator_rows(scene, width)).collect();
    let named = [
        ("Phase", &phase(scene)),
        ("Votes", &status.votes),
        ("Capacity", &status.capacity),
    ];
    for (name, facts) in named {
        let facts =
            { facts.iter() }.map(|fact| Span::styled(clean(&fact.text), theme.tone(fact.tone)));
        let lines = wrap(facts, ", ", wrap_at.unwrap_or(usize::MAX));
        rows.extend(wrapped_rows(name.into(), lines));
    }
    rows.extend([behind(scene), tps(scene)]);
    rows.extend(memory_rows(scene));
    rows.extend(faults(scene));
    rows.extend(cache_rows(scene, width));
    rows
}

/// Rows for terminals that have the space.
pub fn extra_rows(scene: &Scene<'_>) -> [Row; 3] {
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
    let threads = |count| counted(count, "thread");
    let threads = value_or_dash(scene, status.figure(Figure::Threads), threads);
    let (read, written) = (flow(Figure::ReadBytes), flow(Figure::WrittenBytes));
    [
        text_row(
            "CPU",
            &format!("{cpu}, {threads}"),
            plot(scene, Figure::Cpu),
        ),
        text_row(
            "Disk",
            &format!("read {read}, write {written}"),
            plot(scene, Figure::ReadBytes),
        ),
        text_row("Host", &host, Graphic::Nothing),
    ]
}

fn row(name: impl Into<Span<'static>>, words: Vec<Span<'static>>, graphic: Graphic) -> Row {
    Row {
        name: name.into(),
        words,
        graphic,
    }
}

fn text_row(name: &'static str, text: &str, graphic: Graphic) -> Row {
    row(name, clauses(text), graphic)
}

/// The verdict stands where other rows have a name.
fn answer_rows(answer: &Answer, theme: Theme, width: Option<usize>) -> Vec<Row> {
    let verdict = Span::styled(answer.verdict.word(), theme.verdict(answer.verdict));
    let line = clean(&answer.line());
    match width {
        Some(width) => paragraph(verdict, &line, Style::new(), width),
        None => vec![row(verdict, clauses(&line), Graphic::Nothing)],
    }
}

/// Text in as many lines as it needs.
fn paragraph(name: impl Into<Span<'static>>, text: &str, style: Style, width: usize) -> Vec<Row> {
    let words = text.split_whitespace();
    let words = words.map(|word| Span::styled(word.to_owned(), style));
    wrapped_rows(name.into(), wrap(words, " ", width))
}

fn wrapped_rows(name: Span<'static>, lines: Vec<Vec<Span<'static>>>) -> Vec<Row> {
    let names = [name].into_iter().chain(std::iter::repeat(Span::raw("")));
    let rows = names.zip(lines);
    rows.map(|(name, line)| row(name, line, Graphic::Nothing))
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

fn validator_rows(scene: &Scene<'_>, width: usize) -> Vec<Row> {
    let (status, theme) = (&scene.state().status, scene.theme);
    let target = &status.target;
    if target.is_followed == Some(false) {
        let why = target.search_problem.as_ref();
        let why = why.map(|why| format!(": {}", clean(why)));
        let text = format!("no validator is followed{}", why.unwrap_or_default());
        return paragraph("Who", &text, theme.bad(), width);
    }
    let demo = status
        .is_demo
        .then(|| Span::styled("demo: no real numbers  ", theme.warn()));
    let mut words: Vec<Span<'static>> = demo.into_iter().collect();
    if target.is_followed.is_none() {
        words.push(Span::raw(absent(scene, Source::Target)));
    }
    let fact = |name: &str| target.fact(name).map(|value| truncated(value, 60));
    let program: Vec<String> = { [fact("Client"), fact("Version")].into_iter() }
        .flatten()
        .collect();
    let program = match program.as_slice() {
        [] => target.name.as_ref().map(|name| truncated(name, 60)),
        program => Some(program.join(" ")),
    };
    let age = fact("Running for").map(|age| format!("up {age}"));
    let identity = target.fact("Identity");
    let identity = identity.map(|identity| truncated(identity, 8));
    let parts = [program, age, fact("Cluster"), identity];
    let parts = parts.into_iter().flatten();
    words.extend(parts.map(|part| Span::raw(part + "  ")));
    vec![row("Who", words, Graphic::Nothing)]
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
    let words = value_or_reason(scene, Figure::SlotsBehind, |slots| counted(slots, "slot"));
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
    text_row("TPS", &words, plot(scene, figure))
}

fn faults(scene: &Scene<'_>) -> [Row; 2] {
    let kinds = [
        ("Faults", "major", Figure::MajorFaults),
        ("", "minor", Figure::MinorFaults),
    ];
    kinds.map(|(name, kind, figure)| {
        let rate = value_or_reason(scene, figure, per_second);
        text_row(name, &format!("{kind} {rate}"), plot(scene, figure))
    })
}

fn level(scene: &Scene<'_>, value: Option<f64>, (warn, bad): (f64, f64)) -> Style {
    match value {
        Some(value) if value > bad => scene.theme.bad(),
        Some(value) if value > warn => scene.theme.warn(),
        _ => Style::new(),
    }
}

/// Whose the memory is: what has the limit, and how much of it others than the validator use.
fn owners(level: &LevelStatus) -> Vec<String> {
    let owner = match level.level.as_str() {
        "0" => "its cgroup".to_owned(),
        "numa" => "its NUMA nodes".to_owned(),
        _ => clean(&level.title),
    };
    let others = level.others.filter(|others| *others > 0.0);
    let others = others.map(|others| format!(", others {}", bytes_f64(others)));
    [Some(format!(" of {owner}")), others]
        .into_iter()
        .flatten()
        .collect()
}

fn memory_rows(scene: &Scene<'_>) -> [Row; 3] {
    let status = &scene.state().status;
    let limit = status
        .figure(Figure::MemoryLimit)
        .filter(|limit| *limit > 0.0);
    let used = status.figure(Figure::Unreclaimable);
    let of_limit = |figure| {
        status
            .figure(figure)
            .zip(limit)
            .map(|(used, limit)| used / limit)
    };
    let share = of_limit(Figure::Unreclaimable);
    let binding = status.memory.as_ref().and_then(|memory| memory.binding());
    let used = used.map_or_else(|| absent(scene, Source::Cgroup), bytes_f64);
    let words = match (share, limit) {
        (Some(share), Some(limit)) => { [format!("{used} of {}", bytes_f64(limit))].into_iter() }
            .chain(binding.map(owners).unwrap_or_default())
            .chain([format!(", {}", percent(share)), " unreclaimable".to_owned()])
            .collect(),
        _ => vec![
            format!("unreclaimable {used}"),
            format!(", limit {}", value_or_dash(scene, limit, bytes_f64)),
        ],
    };
    let tone = binding.map_or(Tone::Plain, LevelStatus::tone);
    let tone = scene.theme.tone(tone);
    let words = { words.into_iter() }.map(|words| Span::styled(words, tone));
    let cached = of_limit(Figure::PageCache).unwrap_or_default();
    let full = share.map_or(Graphic::Nothing, |share| Graphic::Bar(share, cached));
    [
        row("Memory", words.collect(), full),
        resident(scene),
        pressure(scene),
    ]
}

fn resident(scene: &Scene<'_>) -> Row {
    let anon = value_or_reason(scene, Figure::Anon, bytes_f64);
    let [file, swap] = [Figure::File, Figure::Swap]
        .map(|figure| value_or_dash(scene, scene.state().now(figure), bytes_f64));
    let words = format!("anon {anon}, file {file}, swap {swap}");
    text_row("RSS", &words, plot(scene, Figure::Anon))
}

fn pressure(scene: &Scene<'_>) -> Row {
    let state = scene.state();
    let refaults = value_or_dash(scene, state.now(Figure::Refaults), per_second);
    let stalled = match (
        state.now(Figure::StalledSome),
        state.now(Figure::StalledFull),
    ) {
        (Some(some), Some(full)) => format!("{} some, {} full", percent(some), percent(full)),
        _ => scene.theme.absent().to_owned(),
    };
    let kills = state.status.figure(Figure::OomKills);
    let words = clauses(&format!("stalled {stalled}; file refaults {refaults}"));
    let killed = format!("OOM kills {}", value_or_dash(scene, kills, short));
    let words = match kills.is_some_and(|kills| kills > 0.0) {
        true => { [Span::styled(killed + "; ", scene.theme.bad())].into_iter() }
            .chain(words)
            .collect(),
        false => { words.into_iter() }
            .chain([Span::raw(format!("; {killed}"))])
            .collect(),
    };
    row("Pressure", words, Graphic::Nothing)
}

fn cache_rows(scene: &Scene<'_>, width: usize) -> Vec<Row> {
    let (state, cache) = (scene.state(), &scene.state().status.cache);
    if let Some(reason) = why_no_datapoints(scene) {
        let mut rows = paragraph("Cache", &reason, scene.theme.warn(), width);
        rows.truncate(REASON_LINES);
        return rows;
    }
    let warning = cache.warning.as_ref();
    let warning = warning.map(|words| Span::styled(format!("{words}; "), scene.theme.warn()));
    let words = cache.summary();
    let words = words.unwrap_or_else(|| absent(scene, Source::Datapoints));
    let [misses, reloads, evictions] = [
        Figure::CacheMisses,
        Figure::CacheReloads,
        Figure::CacheEvictions,
    ]
    .map(|figure| value_or_dash(scene, state.now(figure), per_second));
    vec![
        row(
            "Cache",
            warning.into_iter().chain(clauses(&words)).collect(),
            { cache.share() }.map_or(Graphic::Nothing, |share| Graphic::Bar(share, 0.0)),
        ),
        text_row(
            "",
            &format!("reload {reloads}, miss {misses}, evict {evictions}"),
            plot(scene, Figure::CacheReloads),
        ),
        text_row("Per slot", &per_slot(scene), Graphic::Nothing),
    ]
}

/// Says why the daemon has received no datapoints, and for how long. `None` after the first datapoint.
fn why_no_datapoints(scene: &Scene<'_>) -> Option<String> {
    let status = &scene.state().status;
    let source = status.source(Source::Datapoints)?;
    let waits = status
        .cache
        .warning
        .as_ref()
        .filter(|_| source.values_from.is_none())?;
    let why = source.newest_problem.as_ref();
    let why = why.map(|(_, what)| format!(": {what}"));
    Some(clean(&format!("{waits}{}", why.unwrap_or_default())))
}

fn per_slot(scene: &Scene<'_>) -> String {
    let slots = &scene.state().slots;
    let recorded = scene.state().status.per_slot;
    let cache = slots.cache.mean.or(recorded.cache_seconds);
    let replay = slots.replay.mean.or(recorded.replay_seconds);
    let share = cache.zip(replay).filter(|(_, replay)| *replay > 0.0);
    format!(
        "{} of cache time, p95 {}; replay {}, {} of it",
        value_or_dash(scene, cache, seconds),
        value_or_dash(scene, slots.cache.p95, seconds),
        value_or_dash(scene, replay, seconds),
        value_or_dash(scene, share.map(|(cache, replay)| cache / replay), percent),
    )
}
