use super::super::Scene;
use super::super::numbers::{number, percent};
use super::super::row::{Graphic, Row};
use super::row;
use crate::page::VoteStatus;
use ratatui::style::Style;
use ratatui::text::Span;
use std::time::Duration;

/// Empty if the votes are unknown. Alpenglow takes two lines.
pub(super) fn rows(scene: &Scene<'_>) -> Vec<Row> {
    let Some(vote_status) = scene.state().newest().vote_status() else {
        return Vec::new();
    };
    let (words, style) = match vote_status.delinquent {
        Some(true) => ("delinquent", scene.theme.bad()),
        Some(false) if vote_status.is_standby => ("standby", Style::new()),
        Some(false) => ("votes", scene.theme.good()),
        None if vote_status.is_unjudged => ("far behind, votes not judged", Style::new()),
        None if vote_status.has_none => {
            return vec![row(
                "Earns",
                "it has no vote account with stake",
                Graphic::Nothing,
            )];
        }
        None => {
            return vec![row(
                "Earns",
                "it is not known whether it votes",
                Graphic::Nothing,
            )];
        }
    };
    let slots = leader_slots(&vote_status);
    let first = |rest: String| {
        let spans = vec![Span::styled(words, style), Span::raw(rest)];
        row("Earns", spans, Graphic::Nothing)
    };
    if !vote_status.is_alpenglow {
        return vec![first(joined(&tower(&vote_status, slots)))];
    }
    let distances: Vec<String> = certificates(&vote_status).into_iter().collect();
    let second = [rewards(&vote_status), slots].concat().join(", ");
    vec![first(joined(&distances)), row("", second, Graphic::Nothing)]
}

fn joined(parts: &[String]) -> String {
    parts.iter().map(|part| format!(", {part}")).collect()
}

fn plural(count: f64) -> &'static str {
    if count == 1.0 { "" } else { "s" }
}

/// The most important first: 80 columns have no space for the end.
fn tower(vote_status: &VoteStatus, leader_slots: Vec<String>) -> Vec<String> {
    let votes = [
        vote_status
            .distance
            .map(|slots| format!("{} slot{} ago", number(slots), plural(slots))),
        vote_status
            .rank
            .map(|rank| format!("rank {}", number(rank))),
        vote_status
            .days
            .map(f64::floor)
            .map(|days| format!("SOL for {} day{}", number(days), plural(days))),
    ];
    let credits = vote_status
        .credits
        .map(|credits| format!("{} credits", number(credits)));
    let votes = votes.into_iter().flatten();
    let admission = vote_status.admission.clone();
    { votes.chain(leader_slots) }
        .chain(credits)
        .chain(admission)
        .collect()
}

fn certificates(vote_status: &VoteStatus) -> Option<String> {
    let [reward, last] = [
        vote_status.reward_certificate,
        vote_status.finalization_certificate,
    ]
    .map(|slots| slots.map_or("?".to_owned(), number));
    (reward != "?" || last != "?")
        .then(|| format!("certificates {reward} (reward) and {last} (finalization) slots behind"))
}

/// What costs the next epoch first: 80 columns have no space for the end.
fn rewards(vote_status: &VoteStatus) -> Vec<String> {
    let parts = [
        vote_status.admission.clone(),
        vote_status
            .reward
            .map(|sol| format!("{sol:.3} SOL earned this epoch")),
        vote_status
            .per_stake
            .map(|share| format!("{:.1} % of the best per stake", share * 100.0)),
    ];
    parts.into_iter().flatten().collect()
}

fn leader_slots(vote_status: &VoteStatus) -> Vec<String> {
    let all = vote_status
        .cluster_skips
        .map(|share| format!(" (all {})", percent(share)))
        .unwrap_or_default();
    let skips = vote_status
        .leads
        .map(|(passed, skipped)| format!("skips {}{all}", percent(skipped / passed)));
    let next = vote_status.next.map(|next| {
        let time = faultline_text::time(Duration::from_secs(next as u64));
        format!("leads in {time}")
    });
    [skips, next].into_iter().flatten().collect()
}
