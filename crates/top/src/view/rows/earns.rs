use super::super::Scene;
use super::super::numbers::{number, percent};
use super::super::row::{Beside, Row};
use super::row;
use crate::page::Earns;
use ratatui::style::Style;
use ratatui::text::Span;
use std::time::Duration;

/// Empty if the votes are unknown. Alpenglow takes two lines.
pub(super) fn rows(scene: &Scene<'_>) -> Vec<Row> {
    let Some(earns) = scene.state().newest().earns() else {
        return Vec::new();
    };
    let (words, style) = match earns.delinquent {
        Some(true) => ("delinquent", scene.look.bad()),
        Some(false) if earns.is_standby => ("standby", Style::new()),
        Some(false) => ("votes", scene.look.good()),
        None if earns.is_unjudged => ("far behind, votes not judged", Style::new()),
        None if earns.has_none => {
            return vec![row(
                "Earns",
                "it has no vote account with stake",
                Beside::Nothing,
            )];
        }
        None => {
            return vec![row(
                "Earns",
                "it is not known whether it votes",
                Beside::Nothing,
            )];
        }
    };
    let slots = leader_slots(&earns);
    let first = |rest: String| {
        let spans = vec![Span::styled(words, style), Span::raw(rest)];
        row("Earns", spans, Beside::Nothing)
    };
    if !earns.is_alpenglow {
        return vec![first(joined(&tower(&earns, slots)))];
    }
    let distances: Vec<String> = certificates(&earns).into_iter().collect();
    let second = [rewards(&earns), slots].concat().join(", ");
    vec![first(joined(&distances)), row("", second, Beside::Nothing)]
}

fn joined(parts: &[String]) -> String {
    parts.iter().map(|part| format!(", {part}")).collect()
}

fn plural(count: f64) -> &'static str {
    if count == 1.0 { "" } else { "s" }
}

/// The most important first: 80 columns have no space for the end.
fn tower(earns: &Earns, leader_slots: Vec<String>) -> Vec<String> {
    let votes = [
        earns
            .distance
            .map(|slots| format!("{} slot{} ago", number(slots), plural(slots))),
        earns.rank.map(|rank| format!("rank {}", number(rank))),
        earns
            .days
            .map(f64::floor)
            .map(|days| format!("SOL for {} day{}", number(days), plural(days))),
    ];
    let credits = earns
        .credits
        .map(|credits| format!("{} credits", number(credits)));
    let votes = votes.into_iter().flatten();
    let admission = earns.admission.clone();
    { votes.chain(leader_slots) }
        .chain(credits)
        .chain(admission)
        .collect()
}

fn certificates(earns: &Earns) -> Option<String> {
    let [reward, last] = [earns.reward_certificate, earns.finalization_certificate]
        .map(|slots| slots.map_or("?".to_owned(), number));
    (reward != "?" || last != "?")
        .then(|| format!("certificates {reward} (reward) and {last} (finalization) slots behind"))
}

/// What costs the next epoch first: 80 columns have no space for the end.
fn rewards(earns: &Earns) -> Vec<String> {
    let parts = [
        earns.admission.clone(),
        earns
            .reward
            .map(|sol| format!("{sol:.3} SOL earned this epoch")),
        earns
            .per_stake
            .map(|share| format!("{:.1} % of the best per stake", share * 100.0)),
    ];
    parts.into_iter().flatten().collect()
}

fn leader_slots(earns: &Earns) -> Vec<String> {
    let all = earns
        .cluster_skips
        .map(|share| format!(" (all {})", percent(share)))
        .unwrap_or_default();
    let skips = earns
        .leads
        .map(|(passed, skipped)| format!("skips {}{all}", percent(skipped / passed)));
    let next = earns.next.map(|next| {
        let time = faultline_text::time(Duration::from_secs(next as u64));
        format!("leads in {time}")
    });
    [skips, next].into_iter().flatten().collect()
}
