use super::{
    Answer, AnswerInputs, Finding, LimitForecast, Subject, Verdict, measured_on,
    missing_evidence_text, too_early_text, worst,
};
use crate::thresholds as t;
use faultline_text::{bytes_f64, date, duration_f64, percent, short};

const GIB: f64 = (1_u64 << 30) as f64;

const HOW_TO_MEASURE: &str = "the least RAM is not measured: a search takes 4 h to a day on a \
    dedicated host (`faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml`)";

pub fn answer(inputs: &AnswerInputs) -> Answer {
    let (mut verdict, mut clauses) = worst(findings(inputs));
    if inputs.headroom.is_none() {
        let why = inputs.why_headroom_unknown.as_deref();
        let why = why.unwrap_or("no memory limit can be read");
        clauses.push(format!("the headroom is not known: {why}"));
        if verdict == Verdict::Fine {
            verdict = Verdict::Unknown;
        }
    }
    if let Some(why) = too_early_text(verdict, inputs.seconds_to_enough_samples, "samples") {
        verdict = Verdict::Unknown;
        clauses.push(why);
    }
    clauses.extend(proven_clause(inputs));
    clauses.extend(headroom_clause(inputs));
    clauses.extend(inputs.forecast.as_ref().map(forecast_clause));
    if inputs.proven_bytes.is_none() {
        clauses.push(missing_evidence_text(inputs, HOW_TO_MEASURE));
    }
    Answer::new(Subject::Ram, verdict, clauses)
}

fn findings(inputs: &AnswerInputs) -> Vec<Finding> {
    let above = |value: Option<f64>, threshold: f64| value.filter(|value| *value > threshold);
    let share = inputs.unreclaimable_share;
    let is_growth_relevant = above(share, t::OOM_AHEAD_GROWING_SHARE).is_some();
    let full_ahead = |time: Option<f64>, limit: f64, pace: &str| {
        let time = time.filter(|time| is_growth_relevant && *time < limit)?;
        Some(format!(
            "memory is full in {} at {pace}",
            duration_f64(time)
        ))
    };
    let at_present_pace = full_ahead(
        inputs.seconds_to_limit_at_present_pace,
        t::OOM_AHEAD_PRESENT_PACE_SECONDS,
        "its present pace",
    );
    let at_half_hour_pace = full_ahead(
        inputs.seconds_to_limit_by_half_hour_fit,
        t::OOM_AHEAD_HALF_HOUR_PACE_SECONDS,
        "the slower pace of the last 10 and 30 minutes",
    );
    let page_alert_texts = [
        above(share, t::OOM_AHEAD_SHARE)
            .map(|share| format!("unreclaimable memory is {} of the limit", percent(share))),
        at_present_pace.or(at_half_hour_pace),
        above(inputs.oom_kills, 0.0)
            .map(|_| "the kernel OOM-killed a process in the last 15 minutes".to_owned()),
        inputs
            .was_oom_killed
            .then(|| "a run was OOM-killed".to_owned()),
    ];
    let ticket_alert_texts = [
        above(inputs.swap, t::SWAP_BYTES)
            .map(|bytes| format!("{} are swapped out", bytes_f64(bytes))),
        above(inputs.memory_stalled_share, t::MEMORY_STALLED_SHARE)
            .map(|share| format!("tasks wait for memory {} of the time", percent(share))),
        above(inputs.major_faults_per_second, t::MAJOR_FAULTS_PER_SECOND)
            .map(|rate| format!("{} major faults per second", short(rate))),
    ];
    let page_findings = page_alert_texts.map(|text| text.map(Finding::page));
    let ticket_findings = ticket_alert_texts.map(|text| text.map(Finding::ticket));
    let findings = page_findings.into_iter().chain(ticket_findings);
    findings.flatten().collect()
}

fn proven_clause(inputs: &AnswerInputs) -> Option<String> {
    let proven = inputs.proven_bytes?;
    let limit_clause = memory_size(inputs).map(|(memory, source)| {
        let (joining_words, round): (_, fn(f64) -> f64) = match memory < proven {
            true => (", of only", f64::floor),
            false => (" of", f64::ceil),
        };
        let memory = size_after(proven, memory, round);
        format!("{joining_words} {memory} {source}")
    });
    let limit_clause = limit_clause.unwrap_or_default();
    let measured = measured_on(inputs.proven_on.as_deref());
    Some(format!(
        "{} proven enough{measured}{limit_clause}",
        size(proven, f64::ceil)
    ))
}

/// The limit, else the size of the machine, and the word for it.
fn memory_size(inputs: &AnswerInputs) -> Option<(f64, &'static str)> {
    let limit = inputs.limit.map(|bytes| (bytes, "allowed"));
    limit.or(inputs.installed.map(|bytes| (bytes, "installed")))
}

fn headroom_clause(inputs: &AnswerInputs) -> Option<String> {
    let headroom = inputs.headroom?;
    let memory = memory_size(inputs).filter(|_| inputs.proven_bytes.is_none());
    let limit_clause = memory
        .map(|(memory, source)| {
            format!(" of {} {source}", size_after(headroom, memory, f64::round))
        })
        .unwrap_or_default();
    let headroom = size(headroom, f64::floor);
    Some(match inputs.is_finished_run {
        true => format!("at least {headroom} of headroom{limit_clause}"),
        false => format!("{headroom} of headroom now{limit_clause}"),
    })
}

fn forecast_clause(forecast: &LimitForecast) -> String {
    let date = |unix: f64| date((unix * 1e9) as i64);
    let [expected, earliest] = [forecast.expected, forecast.earliest].map(date);
    let latest = forecast.latest.map(|latest| format!("to {}", date(latest)));
    let latest = latest.unwrap_or("or later".to_owned());
    format!("at this growth memory reaches the limit on {expected} ({earliest} {latest})")
}

/// `412 GiB`, `1.9 GiB`, `640.0 MiB`. `round` makes the last digit.
pub fn size(bytes: f64, round: fn(f64) -> f64) -> String {
    let gib = bytes / GIB;
    if gib < 1.0 {
        return bytes_f64(round(gib * 10240.0) / 10240.0 * GIB);
    }
    let scale = if gib < 10.0 { 100.0 } else { 1.0 };
    format!("{} GiB", short(round(gib * scale) / scale))
}

/// [`size`], without the unit if both sizes are in GiB.
fn size_after(preceding: f64, bytes: f64, round: fn(f64) -> f64) -> String {
    let size = size(bytes, round);
    match size.strip_suffix(" GiB") {
        Some(number) if preceding >= GIB => number.to_owned(),
        _ => size,
    }
}
