//! Compares what the daemon said with what was true.

use crate::{
    said::{Said, Scraped},
    truth::{Moment, Range, TICK, UNDER_WAY},
    witness::{STEP, Sightings},
};
use std::fmt::Write as _;

/// What a tick says must have been true at some moment within this time before it: the daemon polls once per tick, and the answer
/// waits for the next tick.
const TICKS: f64 = 2.0 * TICK;

/// One tick, and its errors.
pub struct Judged {
    pub at: f64,
    pub said: Said,
    pub wrong: Vec<String>,
}

/// Compares every recorded tick. The first one may describe the time before the first look.
pub fn judge(recorded: Vec<(f64, Said)>, moments: &[Moment], sightings: &Sightings) -> Vec<Judged> {
    let judged = recorded.into_iter().map(|(at, said)| {
        let (from, to) = span(sightings, at);
        let window = window(moments, from, to);
        let mut wrong = complaints(&said, window, as_it_knows(sightings, from, to));
        let is_early = moments.first().is_some_and(|first| from < first.at);
        wrong.retain(|what| what != "phase absent" || !is_early);
        Judged { at, said, wrong }
    });
    judged.collect()
}

/// The time that a tick at `at` may describe. A follower without CPU time answers late: as late as it answered the witness.
fn span(sightings: &Sightings, at: f64) -> (f64, f64) {
    let lately = sightings
        .follower
        .iter()
        .filter(|asked| asked.heard <= at && asked.heard >= at - TICKS);
    let slowest = lately
        .map(|asked| asked.heard - asked.asked)
        .fold(0.0, f64::max);
    (at - TICKS - slowest - STEP, at + STEP)
}

fn window(moments: &[Moment], from: f64, to: f64) -> &[Moment] {
    let from = moments.partition_point(|moment| moment.at < from);
    let to = moments.partition_point(|moment| moment.at <= to);
    &moments[from..to]
}

/// The smallest distance by what the follower itself knew of the tip: a starved one hears of it late. If it did not answer within this
/// time, the distance lies between its answers before and after: both its slot and the tip that it knows only grow.
fn as_it_knows(sightings: &Sightings, from: f64, to: f64) -> Option<u64> {
    let all = || sightings.follower.iter();
    let lately = all().filter(|asked| asked.heard >= from && asked.asked <= to);
    lately
        .filter_map(|asked| Some(asked.received?.saturating_sub(asked.slot?)))
        .min()
        .or_else(|| {
            let received = all()
                .rev()
                .filter(|asked| asked.heard < from)
                .find_map(|asked| asked.received)?;
            let slot = all()
                .filter(|asked| asked.asked > to)
                .find_map(|asked| asked.slot)?;
            Some(received.saturating_sub(slot))
        })
}

fn complaints(said: &Said, window: &[Moment], known_to_it: Option<u64>) -> Vec<String> {
    let mut wrong = Vec::new();
    if window.is_empty() {
        return wrong;
    }
    if let Some(phase) = &said.phase
        && !window.iter().any(|moment| moment.phases.allow(phase))
    {
        wrong.push(format!("phase {phase}"));
    }
    if let Some(behind) = said.behind {
        let seen = window.iter().filter_map(|moment| moment.distance);
        let range = seen.reduce(|all: Range, one| (all.0.min(one.0), all.1.max(one.1)));
        let can_be = |(lowest, highest): Range| {
            behind + UNDER_WAY >= known_to_it.unwrap_or(lowest).min(lowest)
                && behind <= highest + UNDER_WAY
        };
        if !range.is_some_and(can_be) {
            wrong.push(format!("{behind} slots behind, true: {range:?}"));
        }
    }
    if let Some(kept_up) = said.kept_up
        && !window.iter().any(|moment| {
            if kept_up {
                moment.kept_up.0
            } else {
                moment.kept_up.1
            }
        })
    {
        wrong.push(format!("kept up: {kept_up}"));
    }
    wrong
}

/// All errors, with their times.
pub fn wrong(judged: &[Judged]) -> Vec<String> {
    judged
        .iter()
        .flat_map(|tick| {
            tick.wrong
                .iter()
                .map(|what| format!("{:.1} s: {what}", tick.at))
        })
        .collect()
}

/// Unknown is never an error, but once the follower has been at the tip for long, phase, distance and kept up must all be known at
/// one of the last five ticks at least.
pub fn unknown_for_long(judged: &[Judged], at_the_tip: &[f64]) -> Vec<String> {
    let known = |Said {
                     phase,
                     behind,
                     kept_up,
                 }: &Said| {
        phase.as_deref() == Some("at_tip") && behind.is_some() && kept_up.is_some()
    };
    let unknown = at_the_tip.iter().filter(|at| {
        let last = judged
            .iter()
            .filter(|tick| tick.at <= **at && tick.at > **at - 5.0 * TICK);
        !{ last }.any(|tick| known(&tick.said))
    });
    unknown
        .map(|at| format!("{at:.1} s: at the tip for long, but not all of it is known"))
        .collect()
}

/// Pages that differ from the ticks that were the newest at the time of the scrape.
pub fn pages_apart(pages: &[Scraped], judged: &[Judged]) -> Vec<String> {
    let apart = pages.iter().filter(|page| {
        // A tick appears on the page a moment after it began.
        let from = judged
            .partition_point(|tick| tick.at <= page.asked)
            .saturating_sub(2);
        let to = judged.partition_point(|tick| tick.at <= page.heard);
        let ticks = &judged[from.min(to)..to];
        !ticks.is_empty() && ticks.iter().all(|tick| tick.said != page.said)
    });
    apart
        .map(|page| {
            format!(
                "{:.1} s: the page says {:?}, unlike the recorded ticks of that time",
                page.heard, page.said
            )
        })
        .collect()
}

/// One line per tick: the truth, what was said, and the errors.
pub fn table(judged: &[Judged], moments: &[Moment], steps: &[(f64, &str)]) -> String {
    let mut out = String::from(
        "    time  true: process   leader  follower      behind      phase               kept up   said: phase     behind  kept up\n",
    );
    let mut steps = steps.iter().peekable();
    for tick in judged {
        while let Some((at, what)) = steps.next_if(|(at, _)| *at <= tick.at) {
            writeln!(out, "{at:7.1} s  ---- {what}").expect("a text grows");
        }
        let place = moments
            .partition_point(|moment| moment.at <= tick.at)
            .checked_sub(1);
        let truth = place
            .and_then(|place| moments.get(place))
            .map_or_else(String::new, row);
        let [phase, behind, kept_up] = tick.said.words();
        let wrong = if tick.wrong.is_empty() {
            String::new()
        } else {
            format!("  WRONG: {}", tick.wrong.join(", "))
        };
        writeln!(
            out,
            "{:7.1} s  {truth:74}  {phase:14}  {behind:>6}  {kept_up:7}{wrong}",
            tick.at
        )
        .expect("a text grows");
    }
    out
}

fn row(moment: &Moment) -> String {
    let range = |range: Option<Range>| match range {
        None => "?".to_owned(),
        Some((low, high)) if low == high => low.to_string(),
        Some((low, high)) => format!("{low}..{high}"),
    };
    let kept_up = match moment.kept_up {
        (true, true) => "yes|no",
        (true, false) => "yes",
        (false, true) => "no",
        (false, false) => "?",
    };
    format!(
        "{:13}  {:>8}  {:>10}  {:>8}  {:20}  {kept_up}",
        format!("{:?}", moment.life),
        range(moment.leader),
        range(moment.slot),
        range(moment.distance),
        moment.phases.words()
    )
}
