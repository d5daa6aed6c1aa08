mod memory;
mod vote_status;

use super::Scene;
use super::numbers::{bytes, number, percent, seconds};
use super::row::{Graphic, Row};
use crate::page::Page;
use crate::state::{Figure, phase};
use faultline_catalog::Source;
use faultline_catalog::metrics::{cgroup, daemon, host, process, validator};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

const PLOTTED: usize = 600;
/// Shares of the memory limit: a warning, and the OOM killer is near.
const FULL: (f64, f64) = (0.75, 0.9);
/// Slots behind: no longer at the tip, and behind. They are the daemon's thresholds.
const BEHIND: (f64, f64) = (32.0, 128.0);
/// Free share of a nearly full file system, as in AgaveDiskNearlyFull.
const NEARLY_FULL: f64 = 0.05;
/// Seconds until a file system is full, as in AgaveDiskFullAhead.
const FULL_SOON: f64 = 4.0 * 3600.0;
/// Seconds; a validator pushes every ten.
const PUSH_IS_LATE: f64 = 30.0;

pub(super) fn rows(scene: &Scene<'_>) -> Vec<Row> {
    let mut rows = vec![who(scene), phase_row(scene)];
    rows.extend(vote_status::rows(scene));
    rows.extend(resource_usage(scene));
    rows.extend([behind(scene), tps(scene)]);
    rows.extend(memory::rows(scene));
    rows.extend(faults(scene));
    rows.extend(cache(scene));
    rows
}

pub(super) fn more(scene: &Scene<'_>) -> [Row; 4] {
    let (state, page) = (scene.state(), scene.state().newest());
    let cpu = value_or_reason(scene, state.now(Figure::Cpu), Source::Process, percent);
    let flow = |what| value_or_dash(scene, state.now(what), |rate| format!("{}/s", bytes(rate)));
    let host = |kind| page.get(&host::MEMORY, &[kind]);
    let swapped = host("swap_total")
        .zip(host("swap_free"))
        .map(|(all, free)| all - free);
    let free = format!(
        "{} of {} available, swap used {}",
        value_or_reason(scene, host("available"), Source::Host, bytes),
        value_or_dash(scene, host("total"), bytes),
        value_or_dash(scene, swapped, bytes),
    );
    let open = value_or_dash(scene, page.get(&process::OPEN_FDS, &[]), number);
    let most = value_or_dash(scene, page.get(&process::MAX_FDS, &[]), number);
    let threads = value_or_dash(scene, page.get(&process::THREADS, &[]), number);
    [
        row(
            "CPU",
            format!("{cpu}, {threads} threads"),
            plot(scene, Figure::Cpu),
        ),
        row(
            "Disk",
            format!(
                "read {}, write {}",
                flow(Figure::ReadBytes),
                flow(Figure::WrittenBytes)
            ),
            plot(scene, Figure::ReadBytes),
        ),
        row("Host", free, Graphic::Nothing),
        row("Files", format!("{open} of {most} open"), Graphic::Nothing),
    ]
}

fn row(name: &'static str, words: impl Into<Line<'static>>, graphic: Graphic) -> Row {
    Row {
        name,
        words: words.into(),
        graphic,
    }
}

fn plot(scene: &Scene<'_>, what: Figure) -> Graphic {
    Graphic::Plot(
        scene
            .state()
            .history(what)
            .map(|history| history.last(PLOTTED))
            .unwrap_or_default(),
    )
}

/// A value in words, or a dash and, where the page tells, why it is missing.
fn value_or_reason(
    scene: &Scene<'_>,
    value: Option<f64>,
    source: Source,
    words: impl FnOnce(f64) -> String,
) -> String {
    match value {
        Some(value) => words(value),
        None => absent(scene, source),
    }
}

fn absent(scene: &Scene<'_>, source: Source) -> String {
    let dash = scene.theme.absent();
    match scene.state().newest().is_up(source) {
        _ if scene.state().taken().is_none() => dash.to_owned(),
        None => format!("{dash} ({} is disabled)", source.name()),
        Some(false) => format!("{dash} ({} is down)", source.name()),
        Some(true) => dash.to_owned(),
    }
}

/// [`value_or_reason`] without the reason, for several values in a line.
fn value_or_dash(
    scene: &Scene<'_>,
    value: Option<f64>,
    words: impl FnOnce(f64) -> String,
) -> String {
    value.map_or_else(|| scene.theme.absent().to_owned(), words)
}

fn who(scene: &Scene<'_>) -> Row {
    let (page, theme) = (scene.state().newest(), scene.theme);
    let text = |name| page.label(&process::TARGET_INFO, name).map(short);
    let words = match page.flag(&process::UP, &[]) {
        Some(true) => {
            let program = [text("client"), text("version")]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ");
            let program = if program.is_empty() {
                text("comm").unwrap_or_default()
            } else {
                program
            };
            let identity = text("identity").map(|identity| shortened(&identity));
            let now = page.last_success(Source::Daemon);
            let age = now
                .zip(page.get(&process::START_TIME, &[]))
                .map(|(now, start)| (now - start).max(0.0));
            let age = age.map(|age| {
                format!(
                    "up {}",
                    faultline_text::time(Duration::from_secs(age as u64))
                )
            });
            [Some(program), identity, text("cluster"), age]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("  ")
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
    if page.flag(&daemon::DEMO, &[]) == Some(true) {
        spans.push(Span::styled("  demo: no real numbers", theme.warn()));
    }
    row("Who", spans, Graphic::Nothing)
}

fn short(text: &str) -> String {
    faultline_text::clean(text).chars().take(60).collect()
}

fn shortened(identity: &str) -> String {
    let mut first: String = identity.chars().take(8).collect();
    if first.len() < identity.len() {
        first += "..";
    }
    first
}

fn phase_row(scene: &Scene<'_>) -> Row {
    let (page, theme) = (scene.state().newest(), scene.theme);
    let mut spans = match phase(page) {
        Some(phase) => {
            let style = match phase {
                "at_tip" => theme.good(),
                "behind" | "gone" | "absent" | "halted" => theme.bad(),
                _ => theme.warn(),
            };
            vec![Span::styled(short(phase).replace('_', " "), style)]
        }
        None => vec![Span::raw(absent(scene, Source::Conclusions))],
    };
    spans.extend(blocked_reason(page).map(|words| Span::styled(format!(", {words}"), theme.bad())));
    if page.flag(&validator::CONSENSUS, &["migrating"]) == Some(true) {
        spans.push(Span::styled(", migrates to Alpenglow", theme.warn()));
    }
    match page.flag(&validator::HEALTHY, &[]) {
        Some(true) => spans.push(Span::raw(", healthy")),
        Some(false) => spans.push(Span::styled(", not healthy", theme.bad())),
        None => {}
    }
    match page.flag(&validator::KEPT_UP, &[]) {
        Some(true) => spans.push(Span::raw(", kept up")),
        Some(false) => spans.push(Span::styled(", did not keep up", theme.warn())),
        None => {}
    }
    let restarts = page.sum(&process::RESTARTS, &[]);
    if let Some(restarts) = restarts {
        let reasons = page
            .by_label(&process::RESTARTS, "reason")
            .filter(|(_, count)| *count > 0.0);
        let reasons: Vec<_> = reasons
            .map(|(reason, n)| format!("{} {}", short(reason).replace('_', " "), number(n)))
            .collect();
        let reasons = if reasons.is_empty() {
            String::new()
        } else {
            format!(" ({})", reasons.join(", "))
        };
        spans.push(Span::raw(format!(
            ", restarts {}{reasons}",
            number(restarts)
        )));
    }
    row("Phase", spans, Graphic::Nothing)
}

fn blocked_reason(page: &Page) -> Option<&'static str> {
    let states = [
        ("stopped", "stopped by a signal"),
        ("tracing_stop", "stopped by a debugger"),
        ("zombie", "main thread exited"),
    ];
    let stopped = states
        .into_iter()
        .find(|(state, _)| page.flag(&process::STATE, &[state]) == Some(true));
    // Waiting for a disk is normal for a moment. Without a phase nothing shows other activity.
    let hangs = phase(page).is_none() && page.flag(&process::STATE, &["disk_sleep"]) == Some(true);
    let stopped = stopped
        .map(|(_, words)| words)
        .or(hangs.then_some("hangs in the kernel (D)"));
    let frozen = (page.flag(&cgroup::FROZEN, &[]) == Some(true)).then_some("cgroup frozen");
    frozen.or(stopped)
}

fn resource_usage(scene: &Scene<'_>) -> Option<Row> {
    let known = scene.state().newest().resource_usage()?;
    let time = |seconds: f64| faultline_text::time(Duration::from_secs(seconds as u64));
    let mut spans = Vec::new();
    let ends = |span: &Span<'_>| span.content.ends_with(", ");
    if known.read_only == Some(true) {
        spans.push(Span::styled("read-only", scene.theme.bad()));
    }
    if let Some(location) = &known.silent {
        spans.push(Span::styled(
            format!("{} does not answer, ", short(location)),
            scene.theme.bad(),
        ));
    }
    if let Some((mountpoint, avail, share)) = known.tightest {
        let style = if share < NEARLY_FULL {
            scene.theme.bad()
        } else {
            Style::default()
        };
        let joint = if spans.is_empty() { "" } else { ", " };
        let words = format!(
            "{} {} ({}) left",
            short(&mountpoint),
            bytes(avail),
            percent(share)
        );
        spans.extend([Span::raw(joint), Span::styled(words, style)]);
    }
    if let Some(seconds) = known.full {
        let style = if seconds < FULL_SOON {
            scene.theme.warn()
        } else {
            Style::default()
        };
        let joint = if spans.last().is_none_or(ends) {
            ""
        } else {
            ", "
        };
        spans.push(Span::styled(
            format!("{joint}full in {}", time(seconds)),
            style,
        ));
    }
    let parts = [
        known
            .busiest
            .map(|(disk, share)| format!("{} {} busy", short(&disk), percent(share))),
        known
            .drops
            .map(|drops| format!("{} UDP drops", number(drops))),
    ];
    let rest: Vec<String> = parts.into_iter().flatten().collect();
    let joint = if rest.is_empty() || spans.last().is_none_or(ends) {
        ""
    } else {
        ", "
    };
    spans.push(Span::raw(format!("{joint}{}", rest.join(", "))));
    Some(row("Room", spans, Graphic::Nothing))
}

fn behind(scene: &Scene<'_>) -> Row {
    let value = scene.state().now(Figure::Behind);
    let words = value_or_reason(scene, value, Figure::Behind.source(), |slots| {
        format!("{} slots", number(slots))
    });
    let mut spans = vec![Span::styled(words, level(scene, value, BEHIND))];
    let own = scene.state().newest().get(&validator::SLOT, &["processed"]);
    spans.extend(own.map(|slot| {
        Span::raw(format!(
            ", at {}",
            faultline_text::count(slot.max(0.0) as u64)
        ))
    }));
    row("Behind", spans, plot(scene, Figure::Behind))
}

fn tps(scene: &Scene<'_>) -> Row {
    let state = scene.state();
    // Pushes are used only if JSON-RPC has no value.
    let (what, how) = match (state.now(Figure::Tps), state.now(Figure::TpsPushed)) {
        (None, Some(_)) => (Figure::TpsPushed, " in frozen banks"),
        _ => (Figure::Tps, ""),
    };
    let words = value_or_reason(scene, state.now(what), what.source(), |tps| {
        format!("{}/s{how}", number(tps))
    });
    row("TPS", words, plot(scene, what))
}

fn faults(scene: &Scene<'_>) -> [Row; 2] {
    let words = |name: &str, what: Figure| {
        let rate = value_or_reason(scene, scene.state().now(what), what.source(), |rate| {
            format!("{}/s", number(rate))
        });
        format!("{name} {rate}")
    };
    [
        row(
            "Faults",
            words("major", Figure::Major),
            plot(scene, Figure::Major),
        ),
        row(
            "",
            words("minor", Figure::Minor),
            plot(scene, Figure::Minor),
        ),
    ]
}

fn cache(scene: &Scene<'_>) -> [Row; 3] {
    let rate = |what| {
        value_or_dash(scene, scene.state().now(what), |rate| {
            format!("{}/s", number(rate))
        })
    };
    let [misses, reloads, evictions] =
        [Figure::Misses, Figure::Reloads, Figure::Evictions].map(rate);
    [
        cache_entries(scene),
        row(
            "",
            format!("reload {reloads}, miss {misses}, evict {evictions}"),
            plot(scene, Figure::Reloads),
        ),
        row("Per slot", cache_per_slot(scene), Graphic::Nothing),
    ]
}

fn cache_entries(scene: &Scene<'_>) -> Row {
    let (state, page) = (scene.state(), scene.state().newest());
    let entries = |metric, kind| page.get(metric, &[kind]).filter(|entries| *entries > 0.0);
    let either = |metric| entries(metric, "observed").or_else(|| entries(metric, "configured"));
    let (capacity, target) = (
        either(&validator::CACHE_CAPACITY),
        either(&validator::CACHE_SHRINK_TARGET),
    );
    let loaded = state.now(Figure::Loaded);
    let share = loaded
        .zip(capacity)
        .map(|(loaded, capacity)| loaded / capacity);
    let words = match (loaded, share) {
        (Some(loaded), Some(share)) => {
            let of = format!(
                "{} of {} entries, {}",
                number(loaded),
                value_or_dash(scene, capacity, number),
                percent(share)
            );
            // A full cache stays at this level and never reaches its capacity.
            target.map_or(of.clone(), |target| {
                format!("{of}, evicts above {}", number(target))
            })
        }
        _ => {
            format!(
                "{}, capacity {}",
                value_or_reason(scene, loaded, Source::Datapoints, number),
                value_or_dash(scene, capacity, number)
            )
        }
    };
    let mut spans = vec![Span::raw(words)];
    spans.extend(pushes(page).map(|note| Span::styled(format!(" {note}"), scene.theme.warn())));
    let bar = share.map_or(Graphic::Nothing, |share| Graphic::Bar(share, 0.0));
    row("Cache", spans, bar)
}

fn cache_per_slot(scene: &Scene<'_>) -> String {
    let slots = scene.state().slots();
    let share = slots
        .cache_mean()
        .zip(slots.replay_mean())
        .filter(|(_, replay)| *replay > 0.0)
        .map(|(cache, replay)| cache / replay);
    format!(
        "{} of cache time, p95 {}; replay {}, {} of it",
        value_or_dash(scene, slots.cache_mean(), seconds),
        value_or_dash(scene, slots.cache_p95(), seconds),
        value_or_dash(scene, slots.replay_mean(), seconds),
        value_or_dash(scene, share, percent),
    )
}

fn pushes(page: &Page) -> Option<String> {
    if page.flag(&daemon::PUSHES_FILTERED, &[]) == Some(true) {
        return Some("RUST_LOG filters the pushes".to_owned());
    }
    let last = page.get(&daemon::LAST_PUSH, &[])?;
    let age = page.last_success(Source::Daemon)? - last;
    (age > PUSH_IS_LATE).then(|| {
        format!(
            "last push {} ago",
            faultline_text::time(Duration::from_secs(age as u64))
        )
    })
}

fn level(scene: &Scene<'_>, value: Option<f64>, (warn, bad): (f64, f64)) -> Style {
    match value {
        Some(value) if value > bad => scene.theme.bad(),
        Some(value) if value > warn => scene.theme.warn(),
        _ => Style::new(),
    }
}
