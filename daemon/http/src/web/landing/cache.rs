//! The program cache and the replay it slows down: level, means per slot, and their trend.

use super::{
    bar,
    plots::{Curve, figure},
};
use crate::sinks::history::{History, TREND_SPAN};
use faultline_status::{PerSlot, Status, Tone};
use faultline_text::{counted, escaped, short};

/// Seconds. Pushes come every ten seconds, and samples as well: one of two may have no slot.
const TREND_GAP: f64 = 35.0;

pub fn section(status: &Status, history: &History) -> String {
    let cache = &status.cache;
    let means = means(status.per_slot);
    if cache.summary().is_none() && cache.warning.is_none() && means.is_none() {
        return String::new();
    }
    let mut out =
        "<section>\n<h2>Program cache and replay</h2>\n<div class=\"card memory\">\n".to_owned();
    let headline = means.or_else(|| cache.summary());
    if let Some(words) = &headline {
        out += &format!("<p><strong>{words}</strong></p>\n");
    }
    if let Some(share) = cache.share() {
        out += &bar(share, Tone::Plain, "of the program cache");
    }
    let level = cache
        .summary()
        .filter(|words| Some(words) != headline.as_ref());
    let level = level.map(|words| format!("{words}."));
    for note in level.iter().chain(&cache.warning).chain(&cache.notes) {
        out += &format!("<p class=\"quiet\">{}</p>\n", escaped(note));
    }
    let (pools, trends) = (pools(history), trends(history));
    out + &format!("{pools}</div>\n{trends}</section>\n")
}

/// `24 reloads, 8.3 ms, 13.2 ms of replay per slot`
fn means(means: PerSlot) -> Option<String> {
    let reloads = means.reloads.map(|reloads| counted(reloads, "reload"));
    let times = [
        ("", means.cache_seconds),
        (" of replay", means.replay_seconds),
    ];
    let times = times.map(|(what, time)| Some(format!("{}{what}", ms(time?))));
    let known: Vec<String> = { [reloads].into_iter() }.chain(times).flatten().collect();
    (!known.is_empty()).then(|| format!("{} per slot", known.join(", ")))
}

fn pools(history: &History) -> String {
    let pools = history.trends().pool_faults();
    let pools = pools.iter().take(4);
    let rates: Vec<String> = pools
        .map(|(name, rate)| format!("{} {}/s", escaped(name), short(*rate)))
        .collect();
    if rates.is_empty() {
        return String::new();
    }
    let rates = rates.join(", ");
    format!("<p class=\"quiet\">Major faults by pool: {rates}.</p>\n")
}

fn trends(history: &History) -> String {
    let curves = history.trends().per_slot();
    if curves.iter().all(Vec::is_empty) {
        return String::new();
    }
    let titles = [
        "Reloads per slot, five minutes",
        "Cache time per slot, five minutes",
        "Replay time per slot, five minutes",
    ];
    let formats: [fn(f64) -> String; 3] = [short, ms, ms];
    let mut figures = String::new();
    for ((title, points), format) in titles.into_iter().zip(&curves).zip(formats) {
        figures += &figure(&Curve {
            title,
            points,
            format: &format,
            has_zero: true,
            span: TREND_SPAN,
            max_gap: Some(TREND_GAP),
            max_age: TREND_GAP,
            missing: "no replayed slot in five minutes",
        });
    }
    format!("<div class=\"plots trends\">\n{figures}</div>\n")
}

fn ms(seconds: f64) -> String {
    format!("{} ms", short(seconds * 1e3))
}
