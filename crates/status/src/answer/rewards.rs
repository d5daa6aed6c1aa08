use super::{
    Answer, AnswerInputs, Consensus, Finding, RecentLeaderSlots, Subject, Verdict, too_early_text,
    worst,
};
use crate::thresholds as t;
use faultline_text::{percent, short};

pub fn answer(inputs: &AnswerInputs) -> Answer {
    if let Some(why) = why_no_verdict(inputs) {
        let clauses = [why].into_iter().chain(share_of_best(inputs));
        return Answer::new(Subject::Rewards, Verdict::Unknown, clauses.collect());
    }
    let (mut verdict, mut clauses) = worst(findings(inputs));
    if let Some(why) = too_early_text(verdict, inputs.seconds_to_enough_samples, "samples") {
        verdict = Verdict::Unknown;
        clauses.push(why);
    }
    let earned = share_of_best(inputs);
    clauses.push(earned.unwrap_or("how it compares with the best is not known yet".to_owned()));
    Answer::new(Subject::Rewards, verdict, clauses)
}

/// Why there is no verdict. The alerts are silent then, too.
fn why_no_verdict(inputs: &AnswerInputs) -> Option<String> {
    let is_unsettled = inputs.is_delinquent == Some(true) && inputs.is_catching_up == Some(true);
    let why = match inputs {
        AnswerInputs {
            has_vote_account: Some(false),
            ..
        } => "it has no vote account with stake, so it earns nothing by votes",
        AnswerInputs {
            consensus: Some(Consensus::Migrating),
            ..
        } => "it migrates to Alpenglow: votes are not judged",
        _ if inputs.has_migrated_lately => "it migrated minutes ago: votes are not judged yet",
        _ if is_unsettled => "it catches up after its start: votes are not judged",
        AnswerInputs {
            is_delinquent: None,
            ..
        } => inputs
            .why_voting_unknown
            .as_deref()
            .unwrap_or("it is not known whether it votes"),
        _ => return None,
    };
    Some(why.to_owned())
}

fn findings(inputs: &AnswerInputs) -> Vec<Finding> {
    let is_alpenglow = inputs.consensus == Some(Consensus::Alpenglow);
    let is_standby = inputs.is_standby == Some(true);
    let mut findings = Vec::new();
    if inputs.is_delinquent == Some(true) {
        findings.push(Finding::page("delinquent: it earns nothing now"));
    }
    let sol = inputs.identity_balance;
    let sol = sol.filter(|sol| *sol < t::BALANCE_SOL && !is_standby && !is_alpenglow);
    let sol = sol.map(|sol| format!("{sol:.3} SOL are left for votes"));
    findings.extend(sol.map(Finding::page));
    if inputs.is_at_tip == Some(true) {
        findings.extend(vote_finding(inputs, is_alpenglow));
        if inputs.has_active_stake == Some(true) && !is_standby {
            findings.extend(admission(inputs).map(Finding::page));
        }
    }
    findings.extend(inputs.leader_slots.and_then(skipped).map(Finding::ticket));
    findings
}

fn vote_finding(inputs: &AnswerInputs, is_alpenglow: bool) -> Option<Finding> {
    let is_far = |distance: &f64| *distance > t::VOTE_DISTANCE;
    let slots_since_certified = inputs.slots_since_certified_vote;
    if let Some(slots) = slots_since_certified.filter(is_far) {
        let slots = short(slots);
        let text = format!("no certificate of the last {slots} slots has its vote");
        return Some(Finding::page(text));
    }
    let slots_since_landed = inputs.slots_since_landed_vote.filter(|_| !is_alpenglow);
    if let Some(slots) = slots_since_landed.filter(is_far) {
        let text = format!("its last vote that landed is {} slots old", short(slots));
        return Some(Finding::page(text));
    }
    let is_late = match inputs.late_votes_share {
        Some(share) => share > t::LATE_VOTES_SHARE,
        None => { inputs.fewest_slots_since_certified_vote }
            .is_some_and(|slots| slots >= t::LATE_CERTIFIED_VOTE_DISTANCE),
    };
    is_late.then(|| Finding::ticket("most of its votes come after their slots are final"))
}

fn admission(inputs: &AnswerInputs) -> Option<String> {
    let shortfall = inputs.admission_shortfall.filter(|sol| *sol > 0.0);
    match inputs.is_admitted {
        Some(false) => Some("not admitted to the epoch after next".to_owned()),
        Some(true) => None,
        None => shortfall.map(|sol| format!("{} SOL are missing for its admission", short(sol))),
    }
}

fn skipped(slots: RecentLeaderSlots) -> Option<String> {
    let share = slots.skipped / slots.passed;
    let cluster = slots.cluster_skipped_share.unwrap_or_default();
    let is_worse = share >= cluster * t::SKIPPED_TIMES_CLUSTER;
    let skips = slots.skipped > t::SKIPPED_SLOTS && share > t::SKIPPED_SHARE && is_worse;
    skips.then(|| {
        let (skipped, passed) = (short(slots.skipped), short(slots.passed));
        format!("skipped {skipped} of {passed} leader slots in three hours")
    })
}

/// With Tower by credits, with Alpenglow by lamports per stake.
fn share_of_best(inputs: &AnswerInputs) -> Option<String> {
    let reward = inputs.reward_share_of_best.map(percent);
    let reward = reward.map(|share| format!("{share} of the best validator's reward per stake"));
    let rank = inputs.rank.map(|rank| format!("rank {}", short(rank)));
    let credits = inputs.credits_share_of_best.map(percent);
    let credits = credits.map(|share| format!("{share} of the best validator's credits"));
    let by_credits: Vec<String> = rank.into_iter().chain(credits).collect();
    reward.or((!by_credits.is_empty()).then(|| by_credits.join(", ")))
}
