//! Does it earn? Votes, leader slots and what pays for votes.

use super::super::Scene;
use super::super::numbers::{number, percent};
use super::super::row::{Beside, Row};
use super::row;
use crate::page::Earns;
use ratatui::style::Style;
use ratatui::text::Span;
use std::time::Duration;

/// None of a node of which nothing of it is known. Alpenglow takes two lines.
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
    let certificates = earns.certificates.map(|(reward, last)| {
        let [reward, last] = [reward, last].map(number);
        format!("certificates {reward} (reward) and {last} (finalization) slots behind")
    });
    let alpenglow = alpenglow(&earns);
    let slots = leader_slots(&earns);
    let first = |rest: String| {
        let spans = vec![Span::styled(words, style), Span::raw(rest)];
        row("Earns", spans, Beside::Nothing)
    };
    if alpenglow.is_empty() {
        let parts = [certificates.into_iter().collect(), tower(&earns, slots)].concat();
        return vec![first(joined(&parts))];
    }
    let second = [alpenglow, slots].concat().join(", ");
    vec![
        first(joined(certificates.as_slice())),
        row("", second, Beside::Nothing),
    ]
}

fn joined(parts: &[String]) -> String {
    parts.iter().map(|part| format!(", {part}")).collect()
}

fn plural(count: f64) -> &'static str {
    if count == 1.0 { "" } else { "s" }
}

/// What matters most comes first: 80 columns have no room for the end.
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
    votes.chain(leader_slots).chain(credits).collect()
}

/// In the words and the order of the landing page.
fn alpenglow(earns: &Earns) -> Vec<String> {
    let parts = [
        earns
            .reward
            .map(|sol| format!("{sol:.2} SOL earned this epoch")),
        earns
            .per_stake
            .map(|share| format!("{:.1} % of the best per stake", share * 100.0)),
        earns.admission.clone(),
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
