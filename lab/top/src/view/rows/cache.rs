use super::{absent, paragraph, per_second, plot, row, text_row, value_or_dash};
use crate::view::Scene;
use crate::view::row::{Graphic, Row, clauses};
use faultline_metrics::Source;
use faultline_status::Figure;
use faultline_text::{clean, percent, seconds};
use ratatui::text::Span;

/// Lines of the reason that stands where figures would be.
const REASON_LINES: usize = 3;

pub(super) fn rows(scene: &Scene<'_>, width: usize) -> Vec<Row> {
    let (state, cache) = (scene.state(), &scene.state().status.cache);
    if let Some(reason) = why_no_datapoints(scene) {
        let mut rows = paragraph("Cache", &reason, scene.theme.warn(), width);
        rows.truncate(REASON_LINES);
        return rows;
    }
    let warning = cache.warning.as_ref();
    let warning = warning.map(|words| Span::styled(format!("{words}; "), scene.theme.warn()));
    let words = cache.words();
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
