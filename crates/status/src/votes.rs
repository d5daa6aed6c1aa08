//! Votes, leader slots and rewards. The migration to Alpenglow changes what is counted.

use crate::{StatusItem, Tone, readings::Readings};
use faultline_metrics::{
    Metric, Source,
    metrics::{validator as v, votes as m},
};
use faultline_text::{counted, duration_f64, percent, short};

const LAMPORTS_PER_SOL: f64 = 1e9;

/// A Tower vote costs 5,000 lamports for its signature, and a validator votes once per slot.
/// Alpenglow's votes cost nothing.
const SOL_PER_VOTE: f64 = 5_000.0 / LAMPORTS_PER_SOL;

pub fn votes(readings: Readings<'_>) -> Vec<StatusItem> {
    let role = readings.label(&m::VOTE_ACCOUNT, "role");
    let is_standby = role == Some("standby");
    let state = match readings.flag(&m::DELINQUENT) {
        Some(true) => StatusItem::new("delinquent", Tone::Bad),
        Some(false) if is_standby => StatusItem::plain("standby"),
        Some(false) => StatusItem::new("votes", Tone::Good),
        None if role.is_some() => StatusItem::plain("far behind: votes are not judged"),
        None if readings.number(&m::EPOCH).is_none() => return Vec::new(),
        // Without an account, the source is up only if it has searched all accounts.
        None if readings.is_up(Source::Votes) => {
            return vec![StatusItem::plain("it has no vote account with stake")];
        }
        None => return vec![StatusItem::plain("it is not known whether it votes")],
    };
    let standby = is_standby.then(|| "the vote account is another node's".to_owned());
    let next_leader_slot = readings.number(&m::NEXT_LEADER_SLOT);
    let next_leader_slot = next_leader_slot.map(|time| match time {
        0.0 => "leads now".to_owned(),
        _ => format!("leads in {}", duration_f64(time)),
    });
    let balance = balance(readings).filter(|_| !is_standby);
    let details = { [standby].into_iter().chain(vote_details(readings)) }
        .chain([skipped(readings), next_leader_slot, balance])
        .flatten()
        .map(StatusItem::plain);
    [state].into_iter().chain(details).collect()
}

fn balance(readings: Readings<'_>) -> Option<String> {
    let sol = readings.labeled_number(&m::BALANCE, &["identity"])?;
    let is_tower = readings.labeled_flag(&v::CONSENSUS, &["tower"]) == Some(true);
    let slot_seconds = readings.number(&v::SLOT_SECONDS);
    Some(match slot_seconds.filter(|_| is_tower) {
        Some(slot_seconds) => {
            let days = (sol / SOL_PER_VOTE * slot_seconds / 86_400.0).floor();
            format!(
                "{} SOL, votes for about {}",
                short(sol),
                counted(days, "day")
            )
        }
        None => format!("{} SOL", short(sol)),
    })
}

/// Votes and what they earned: credits with Tower, lamports with Alpenglow.
fn vote_details(readings: Readings<'_>) -> [Option<String>; 9] {
    let distance = readings
        .labeled_number(&m::VOTE_DISTANCE, &["last_vote"])
        .map(|slots| format!("last vote {} ago", counted(slots, "slot")));
    let [reward_certificate, finalization] = ["reward", "finalization"].map(|name| {
        readings
            .labeled_number(&m::CERTIFICATE_DISTANCE, &[name])
            .map(|slots| format!("{name} certificate {} behind", counted(slots, "slot")))
    });
    let admitted = |epoch| readings.labeled_flag(&m::ADMITTED, &[epoch]);
    let admission = match (admitted("this_epoch"), admitted("epoch_after_next")) {
        (Some(false), _) => Some("not admitted this epoch"),
        (_, Some(false)) => Some("not admitted to the epoch after next"),
        (Some(true), Some(true)) => Some("admitted"),
        _ => None,
    };
    let shortfall = readings
        .number(&m::ADMISSION_SHORTFALL)
        .filter(|sol| *sol > 0.0);
    let shortfall =
        shortfall.map(|sol| format!("{} SOL missing for the admission ticket", short(sol)));
    let of_best = readings
        .number(&m::VOTE_CREDITS_VS_BEST)
        .map(|share| format!(", {} of the best validator's credits", percent(share)))
        .unwrap_or_default();
    let rank = readings
        .number(&m::VOTE_RANK)
        .map(|rank| format!("rank {}{of_best}", short(rank)));
    let reward = readings
        .labeled_number(&m::VOTE_REWARD, &["this_epoch"])
        .map(|lamports| format!("{:.3} SOL earned this epoch", lamports / LAMPORTS_PER_SOL));
    let per_stake = readings.number(&m::VOTE_REWARD_VS_BEST).map(|share| {
        format!(
            "{} of the best validator's reward per stake",
            percent(share)
        )
    });
    let credits = readings
        .labeled_number(&m::VOTE_CREDITS, &["this_epoch"])
        .map(|credits| format!("{} this epoch", counted(credits, "credit")));
    [
        distance,
        reward_certificate,
        finalization,
        admission.map(str::to_owned),
        shortfall,
        rank,
        reward,
        per_stake,
        credits,
    ]
}

fn skipped(readings: Readings<'_>) -> Option<String> {
    let slots = |metric: &Metric| {
        let passed = readings.labeled_number(metric, &["passed"])?;
        (passed > 0.0).then_some((passed, readings.labeled_number(metric, &["skipped"])?))
    };
    let cluster = slots(&m::CLUSTER_LEADER_SLOTS)
        .map(|(passed, skipped)| format!(" (cluster {})", percent(skipped / passed)))
        .unwrap_or_default();
    let (passed, skipped) = slots(&m::LEADER_SLOTS)?;
    Some(format!(
        "skipped {} of {} leader slots{cluster}",
        short(skipped),
        short(passed)
    ))
}
