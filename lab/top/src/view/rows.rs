use super::{
    Scene,
    row::{Graphic, NAME_WIDTH, Row, clauses, wrap},
    theme::Theme,
};
use crate::state::MAX_HISTORY;
use faultline_metrics::Source;
use faultline_status::{Answer, Figure, LevelStatus, StatusItem, Tone};
use faultline_text::{bytes_f64, clean, counted, duration_f64, percent, short};
use itertools::{Itertools, chain};
use ratatui::{style::Style, text::Span};

const MAX_REASON_LINES: usize = 3;

/// Slots behind the tip above which the row warns and alarms: the defaults of `phase.at_tip_slots`
/// and `phase.behind_slots`.
const BEHIND_THRESHOLDS: (f64, f64) = (32.0, 128.0);

impl Scene<'_> {
    /// If `wraps`, answers and items take as many lines as they need instead of one.
    pub fn rows(&self, width: u16, wraps: bool) -> Vec<Row> {
        let status = &self.state().status;
        let theme = self.theme;
        let width = usize::from(width.saturating_sub(NAME_WIDTH));
        let wrap_at = wraps.then_some(width);
        let answers = status.answers.iter();
        let named_items = [
            ("Phase", &self.phase_items()),
            ("Votes", &status.votes),
            ("Capacity", &status.capacity),
        ];
        let item_rows = |(name, items): (&'static str, &Vec<StatusItem>)| {
            let spans = items
                .iter()
                .map(|item| Span::styled(clean(&item.text), theme.tone(item.tone)));
            let lines = wrap(spans, ", ", wrap_at.unwrap_or(usize::MAX));
            wrapped_rows(name.into(), lines)
        };
        chain!(
            answers.flat_map(|answer| answer_rows(answer, theme, wrap_at)),
            self.validator_rows(width),
            named_items.into_iter().flat_map(item_rows),
            [self.behind_row(), self.tps_row()],
            self.memory_rows(),
            self.fault_rows(),
            self.cache_rows(width),
        )
        .collect()
    }

    /// Rows for terminals that have the space.
    pub fn extra_rows(&self) -> [Row; 3] {
        let state = self.state();
        let status = &state.status;
        let cpu = self.value_or_reason(Figure::Cpu, percent);
        let byte_rate = |figure| {
            self.value_or_dash(state.value(figure), |rate| format!("{}/s", bytes_f64(rate)))
        };
        let swap = status.figure(Figure::HostSwap);
        let swapped = swap.zip(status.figure(Figure::HostSwapFree));
        let host = format!(
            "{} of {} available, swap used {}",
            self.value_or_reason(Figure::HostAvailable, bytes_f64),
            self.value_or_dash(status.figure(Figure::HostMemory), bytes_f64),
            self.value_or_dash(swapped.map(|(all, free)| all - free), bytes_f64),
        );
        let threads = |count| counted(count, "thread");
        let threads = self.value_or_dash(status.figure(Figure::Threads), threads);
        let read = byte_rate(Figure::ReadBytes);
        let written = byte_rate(Figure::WrittenBytes);
        [
            text_row("CPU", &format!("{cpu}, {threads}"), self.plot(Figure::Cpu)),
            text_row(
                "Disk",
                &format!("read {read}, write {written}"),
                self.plot(Figure::ReadBytes),
            ),
            text_row("Host", &host, Graphic::Nothing),
        ]
    }

    fn plot(&self, figure: Figure) -> Graphic {
        let history = self.state().history(figure);
        Graphic::Plot(history.map_or_else(Vec::new, |history| history.last(MAX_HISTORY)))
    }

    /// A figure as text, or a dash with the reason if the daemon knows it.
    fn value_or_reason(&self, figure: Figure, format: impl FnOnce(f64) -> String) -> String {
        match self.state().value(figure) {
            Some(value) => format(value),
            None => self.missing_value(figure.source()),
        }
    }

    fn missing_value(&self, source: Source) -> String {
        let dash = self.theme.dash();
        match self.state().status.source(source) {
            _ if self.state().received_at.is_none() => dash.to_owned(),
            None => format!("{dash} ({} is disabled)", source.name()),
            Some(status) if !status.is_up => format!("{dash} ({} is down)", source.name()),
            Some(_) => dash.to_owned(),
        }
    }

    pub fn value_or_dash(&self, value: Option<f64>, format: impl FnOnce(f64) -> String) -> String {
        value.map_or_else(|| self.theme.dash().to_owned(), format)
    }

    fn validator_rows(&self, width: usize) -> Vec<Row> {
        let status = &self.state().status;
        let theme = self.theme;
        let target = &status.target;
        if target.is_followed == Some(false) {
            let problem = target
                .search_problem
                .as_ref()
                .map(|problem| format!(": {}", clean(problem)));
            let text = format!("no validator is followed{}", problem.unwrap_or_default());
            return paragraph("Who", &text, theme.bad(), width);
        }
        let mut spans = status
            .is_demo
            .then(|| Span::styled("demo: no real numbers  ", theme.warn()))
            .into_iter()
            .collect_vec();
        if target.is_followed.is_none() {
            spans.push(Span::raw(self.missing_value(Source::Target)));
        }
        let fact = |name| target.fact(name).map(|value| truncated(value, 60));
        let program = chain!(fact("Client"), fact("Version")).collect_vec();
        let program = match program.as_slice() {
            [] => target.name.as_ref().map(|name| truncated(name, 60)),
            program => Some(program.join(" ")),
        };
        let age = fact("Running for").map(|age| format!("up {age}"));
        let identity = target
            .fact("Identity")
            .map(|identity| truncated(identity, 8));
        let parts = chain!(program, age, fact("Cluster"), identity);
        spans.extend(parts.map(|part| Span::raw(part + "  ")));
        vec![row("Who", spans, Graphic::Nothing)]
    }

    fn phase_items(&self) -> Vec<StatusItem> {
        let status = &self.state().status;
        let is_known = status
            .source(Source::Conclusions)
            .is_some_and(|source| source.is_up);
        let unknown = (!is_known).then(|| StatusItem {
            text: self.missing_value(Source::Conclusions),
            tone: Tone::Plain,
        });
        let state = status.target.state.iter().cloned();
        chain!(unknown, state).collect()
    }

    fn behind_row(&self) -> Row {
        let status = &self.state().status;
        let text = self.value_or_reason(Figure::SlotsBehind, |slots| counted(slots, "slot"));
        let style = self.threshold_style(status.figure(Figure::SlotsBehind), BEHIND_THRESHOLDS);
        let slot = status
            .figure(Figure::Slot)
            .map(|slot| Span::raw(format!(", at {}", short(slot))));
        let spans = chain!([Span::styled(text, style)], slot).collect();
        row("Behind", spans, self.plot(Figure::SlotsBehind))
    }

    fn tps_row(&self) -> Row {
        let state = self.state();
        let transactions = Figure::Transactions;
        let blocks = Figure::BlockTransactions;
        // JSON-RPC has precedence over pushes.
        let (figure, origin) = match (state.value(transactions), state.value(blocks)) {
            (None, Some(_)) => (blocks, " in frozen banks"),
            _ => (transactions, ""),
        };
        let text = self.value_or_reason(figure, |tps| format!("{}/s{origin}", short(tps)));
        text_row("TPS", &text, self.plot(figure))
    }

    fn fault_rows(&self) -> [Row; 2] {
        [
            ("Faults", "major", Figure::MajorFaults),
            ("", "minor", Figure::MinorFaults),
        ]
        .map(|(name, kind, figure)| {
            let rate = self.value_or_reason(figure, per_second);
            text_row(name, &format!("{kind} {rate}"), self.plot(figure))
        })
    }

    fn threshold_style(&self, value: Option<f64>, (warn, bad): (f64, f64)) -> Style {
        match value {
            Some(value) if value > bad => self.theme.bad(),
            Some(value) if value > warn => self.theme.warn(),
            _ => Style::new(),
        }
    }

    fn memory_rows(&self) -> [Row; 3] {
        let status = &self.state().status;
        let limit = status
            .figure(Figure::MemoryLimit)
            .filter(|limit| *limit > 0.0);
        let of_limit = |figure| {
            status
                .figure(figure)
                .zip(limit)
                .map(|(used, limit)| used / limit)
        };
        let share = of_limit(Figure::Unreclaimable);
        let binding = status.memory.as_ref().and_then(|memory| memory.binding());
        let used = self.value_or_reason(Figure::Unreclaimable, bytes_f64);
        let parts = match (share, limit) {
            (Some(share), Some(limit)) => chain!(
                [format!("{used} of {}", bytes_f64(limit))],
                binding.map(limit_owner).unwrap_or_default(),
                [format!(", {}", percent(share)), " unreclaimable".to_owned()],
            )
            .collect(),
            _ => vec![
                format!("unreclaimable {used}"),
                format!(", limit {}", self.value_or_dash(limit, bytes_f64)),
            ],
        };
        let tone = binding.map_or(Tone::Plain, LevelStatus::tone);
        let style = self.theme.tone(tone);
        let spans = parts.into_iter().map(|part| Span::styled(part, style));
        let cached = of_limit(Figure::PageCache).unwrap_or_default();
        let bar = share.map_or(Graphic::Nothing, |share| Graphic::Bar(share, cached));
        [
            row("Memory", spans.collect(), bar),
            self.resident_row(),
            self.pressure_row(),
        ]
    }

    fn resident_row(&self) -> Row {
        let anon = self.value_or_reason(Figure::Anon, bytes_f64);
        let [file, swap] = [Figure::File, Figure::Swap]
            .map(|figure| self.value_or_dash(self.state().value(figure), bytes_f64));
        let text = format!("anon {anon}, file {file}, swap {swap}");
        text_row("RSS", &text, self.plot(Figure::Anon))
    }

    fn pressure_row(&self) -> Row {
        let state = self.state();
        let refaults = self.value_or_dash(state.value(Figure::Refaults), per_second);
        let stalled = match (
            state.value(Figure::StalledSome),
            state.value(Figure::StalledFull),
        ) {
            (Some(some), Some(full)) => format!("{} some, {} full", percent(some), percent(full)),
            _ => self.theme.dash().to_owned(),
        };
        let kills = state.status.figure(Figure::OomKills);
        let mut parts = clauses(&format!("stalled {stalled}; file refaults {refaults}"));
        let kills_text = format!("OOM kills {}", self.value_or_dash(kills, short));
        if kills.is_some_and(|kills| kills > 0.0) {
            parts.insert(0, Span::styled(kills_text + "; ", self.theme.bad()));
        } else {
            parts.push(Span::raw(format!("; {kills_text}")));
        }
        row("Pressure", parts, Graphic::Nothing)
    }

    fn cache_rows(&self, width: usize) -> Vec<Row> {
        let state = self.state();
        let cache = &state.status.cache;
        if let Some(reason) = self.no_datapoints_reason() {
            let mut rows = paragraph("Cache", &reason, self.theme.warn(), width);
            rows.truncate(MAX_REASON_LINES);
            return rows;
        }
        let warning = cache
            .warning
            .as_ref()
            .map(|warning| Span::styled(format!("{warning}; "), self.theme.warn()));
        let summary = cache
            .summary()
            .unwrap_or_else(|| self.missing_value(Source::Datapoints));
        let [misses, reloads, evictions] = [
            Figure::CacheMisses,
            Figure::CacheReloads,
            Figure::CacheEvictions,
        ]
        .map(|figure| self.value_or_dash(state.value(figure), per_second));
        vec![
            row(
                "Cache",
                chain!(warning, clauses(&summary)).collect(),
                cache
                    .share()
                    .map_or(Graphic::Nothing, |share| Graphic::Bar(share, 0.0)),
            ),
            text_row(
                "",
                &format!("reload {reloads}, miss {misses}, evict {evictions}"),
                self.plot(Figure::CacheReloads),
            ),
            text_row("Per slot", &self.per_slot_text(), Graphic::Nothing),
        ]
    }

    /// `None` after the first datapoint, or without a warning.
    fn no_datapoints_reason(&self) -> Option<String> {
        let status = &self.state().status;
        let source = status.source(Source::Datapoints)?;
        let warning = status
            .cache
            .warning
            .as_ref()
            .filter(|_| source.newest_values_at.is_none())?;
        let problem = source
            .newest_problem
            .as_ref()
            .map(|(_, text)| format!(": {text}"));
        Some(clean(&format!("{warning}{}", problem.unwrap_or_default())))
    }

    fn per_slot_text(&self) -> String {
        let state = self.state();
        let five_minutes = state.status.per_slot;
        let cache = state.cache_time.mean.or(five_minutes.cache_seconds);
        let replay = state.replay_time.mean.or(five_minutes.replay_seconds);
        let share = cache.zip(replay).filter(|(_, replay)| *replay > 0.0);
        format!(
            "{} of cache time, p95 {}; {} of replay ({})",
            self.value_or_dash(cache, duration_f64),
            self.value_or_dash(state.cache_time.p95, duration_f64),
            self.value_or_dash(share.map(|(cache, replay)| cache / replay), percent),
            self.value_or_dash(replay, duration_f64),
        )
    }
}

fn row(name: impl Into<Span<'static>>, text: Vec<Span<'static>>, graphic: Graphic) -> Row {
    Row {
        name: name.into(),
        text,
        graphic,
    }
}

fn text_row(name: &'static str, text: &str, graphic: Graphic) -> Row {
    row(name, clauses(text), graphic)
}

/// The verdict is the row's name.
fn answer_rows(answer: &Answer, theme: Theme, width: Option<usize>) -> Vec<Row> {
    let verdict = Span::styled(answer.verdict.word(), theme.verdict(answer.verdict));
    let line = clean(&answer.line());
    match width {
        Some(width) => paragraph(verdict, &line, Style::new(), width),
        None => vec![row(verdict, clauses(&line), Graphic::Nothing)],
    }
}

fn paragraph(name: impl Into<Span<'static>>, text: &str, style: Style, width: usize) -> Vec<Row> {
    let words = text
        .split_whitespace()
        .map(|word| Span::styled(word.to_owned(), style));
    wrapped_rows(name.into(), wrap(words, " ", width))
}

fn wrapped_rows(name: Span<'static>, lines: Vec<Vec<Span<'static>>>) -> Vec<Row> {
    chain!([name], std::iter::repeat(Span::raw("")))
        .zip(lines)
        .map(|(name, line)| row(name, line, Graphic::Nothing))
        .collect()
}

fn per_second(rate: f64) -> String {
    format!("{}/s", short(rate))
}

/// Also escapes control characters.
fn truncated(text: &str, max_letters: usize) -> String {
    let text = clean(text);
    let mut first: String = text.chars().take(max_letters).collect();
    if first.len() < text.len() {
        first += "..";
    }
    first
}

/// The limit's owner, and the unreclaimable memory of others at this level.
fn limit_owner(level: &LevelStatus) -> Vec<String> {
    let owner = match level.level.as_str() {
        "0" => "its cgroup".to_owned(),
        "numa" => "its NUMA nodes".to_owned(),
        _ => clean(&level.title),
    };
    let others = level
        .others
        .filter(|others| *others > 0.0)
        .map(|others| format!(", others {}", bytes_f64(others)));
    chain!([format!(" of {owner}")], others).collect()
}
