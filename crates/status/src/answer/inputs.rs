//! The inputs that one tick provides.

use super::{AnswerInputs, Consensus};
use crate::{
    cache::{datapoints_warning, effective_entries, is_capacity_changed},
    memory::MemoryStatus,
    readings::Readings,
};
use faultline_metrics::{
    Source, Stamp,
    metrics::{cgroup, host, process as p, validator as v, votes as m},
};

/// AgaveDelinquent is silent while a validator younger than this catches up.
const CATCH_UP_SECONDS: f64 = 90.0 * 60.0;

/// Adds the values of the tick to `inputs`, which have only trends.
pub fn add_tick(
    readings: Readings<'_>,
    memory: Option<&MemoryStatus>,
    now: Stamp,
    inputs: AnswerInputs,
) -> AnswerInputs {
    let inputs = add_memory(readings, memory, inputs);
    add_votes(readings, now, add_cache(readings, now, inputs))
}

fn why_no_validator(readings: Readings<'_>) -> Option<&'static str> {
    match readings.flag(&p::UP) {
        Some(true) if readings.has_phases() => None,
        Some(true) => Some("the process is not a validator"),
        Some(false) => Some("no process is followed"),
        None => None,
    }
}

fn add_memory(
    readings: Readings<'_>,
    memory: Option<&MemoryStatus>,
    inputs: AnswerInputs,
) -> AnswerInputs {
    let binding = memory.and_then(MemoryStatus::binding);
    let shares = memory.into_iter().flat_map(|memory| &memory.levels);
    let share = shares.map(|level| level.share()).max_by(f64::total_cmp);
    let swap = [&p::SWAP, &cgroup::SWAP].map(|metric| readings.number(metric));
    let is_followed = readings.flag(&p::UP) != Some(false);
    let why = match memory {
        None if !is_followed => Some("no process is followed"),
        Some(_) if binding.is_none() => Some("a level that limits memory cannot be read"),
        _ => None,
    };
    AnswerInputs {
        installed: readings.labeled_number(&host::MEMORY, &["total"]),
        limit: binding
            .filter(|level| level.level != "machine")
            .map(|level| level.limit),
        headroom: binding.map(|level| level.headroom),
        unreclaimable_share: share,
        swap: swap.into_iter().flatten().max_by(f64::total_cmp),
        why_headroom_unknown: why.map(str::to_owned),
        ..inputs
    }
}

fn add_cache(readings: Readings<'_>, now: Stamp, inputs: AnswerInputs) -> AnswerInputs {
    let is_changed = is_capacity_changed(readings);
    AnswerInputs {
        cache_capacity: effective_entries(readings, &v::CACHE_CAPACITY),
        can_change_capacity: inputs.can_change_capacity.or(is_changed),
        why_reloads_unknown: Some(why_no_reloads(readings, now)),
        ..inputs
    }
}

fn why_no_reloads(readings: Readings<'_>, now: Stamp) -> String {
    if let Some(why) = why_no_validator(readings) {
        return why.to_owned();
    }
    let no_replay = "no slot was replayed between two pushes yet";
    datapoints_warning(readings, now).unwrap_or_else(|| no_replay.to_owned())
}

fn add_votes(readings: Readings<'_>, now: Stamp, inputs: AnswerInputs) -> AnswerInputs {
    let phase = readings.active_label(&v::PHASE);
    let age = readings.process_age(now);
    let is_young = age.is_some_and(|age| age < CATCH_UP_SECONDS);
    let role = readings.label(&m::VOTE_ACCOUNT, "role");
    let is_delinquent = readings.flag(&m::DELINQUENT);
    let has_no_account = readings.number(&m::EPOCH).is_some() && readings.is_up(Source::Votes);
    let has_account = role.is_some() || is_delinquent.is_some();
    AnswerInputs {
        consensus: readings
            .active_label(&v::CONSENSUS)
            .and_then(Consensus::of_label),
        is_at_tip: phase.map(|phase| phase == "at_tip"),
        is_catching_up: phase.map(|phase| phase == "catching_up" && is_young),
        has_vote_account: match has_account {
            true => Some(true),
            false => has_no_account.then_some(false),
        },
        is_standby: role.map(|role| role == "standby"),
        has_active_stake: readings
            .labeled_number(&m::STAKE, &["active"])
            .map(|sol| sol > 0.0),
        is_delinquent,
        rank: readings.number(&m::VOTE_RANK),
        credits_share_of_best: readings.number(&m::VOTE_CREDITS_VS_BEST),
        reward_share_of_best: readings.number(&m::VOTE_REWARD_VS_BEST),
        slots_since_landed_vote: readings.labeled_number(&m::VOTE_DISTANCE, &["last_vote"]),
        slots_since_certified_vote: readings.labeled_number(&m::CERTIFICATE_DISTANCE, &["reward"]),
        is_admitted: readings.labeled_flag(&m::ADMITTED, &["epoch_after_next"]),
        admission_shortfall: readings.number(&m::ADMISSION_SHORTFALL),
        identity_balance: readings.labeled_number(&m::BALANCE, &["identity"]),
        why_voting_unknown: why_no_validator(readings)
            .or(role.map(|_| "it is far behind: votes are not judged"))
            .map(str::to_owned),
        ..inputs
    }
}
