//! Checks votes and rewards with the daemon's poller.

use super::{
    pollers::{MAX_TIMEOUT, poll, problem_text, target_lookup},
    report::Check,
    rights::ProcessInspection,
};
use faultline_core::{
    clock::Clock,
    config::{self, Config, MIN_INTERVAL},
    hub::Latest,
};
use faultline_sources::{admin::AdminFacts, distance::DistanceEvidence, rpc, votes};

use faultline_agave::{identify::HEALTH_DISTANCE, rpc::LAMPORTS_PER_SOL};
use std::time::Duration;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Call it only after the JSON-RPC check, whose facts it uses.
pub async fn check(
    config: &Config,
    inspection: &ProcessInspection,
    (admin, rpc): (Latest<AdminFacts>, rpc::Handle),
    clock: Clock,
) -> Check {
    if !config.validator.enabled {
        return Check::off("not checked: disabled (validator.enabled)");
    }
    let target_lookup =
        target_lookup(config, inspection).filter(|_| rpc.facts().is_some_and(|facts| facts.up));
    let Some(target_lookup) = target_lookup else {
        return Check::off("not asked: JSON-RPC does not answer");
    };
    let timeout = config.validator.timeout.min(MAX_TIMEOUT);
    let quick = config::Validator {
        interval: MIN_INTERVAL,
        timeout,
        ..config.validator.clone()
    };
    let distance_evidence =
        DistanceEvidence::new(clock.now(), rpc.facts().as_deref(), None, HEALTH_DISTANCE);
    let is_far = distance_evidence.is_near_tip() == Some(false);
    let endpoint = rpc::Endpoint::new(&config.rpc, target_lookup, admin, rpc);
    let poller = votes::Poller::new(&quick, clock, endpoint);
    let handle = poller.handle();
    let complete = poll(
        |stop| poller.run(stop),
        RESPONSE_TIMEOUT,
        || handle.facts().filter(|facts| facts.is_complete),
    );
    let facts = complete.await.or_else(|| handle.facts());
    match facts {
        Some(facts) => vote_check(&facts, config.validator.vote_account.is_some(), is_far),
        None => Check::attention(
            "no answer within 5 s, or the identity is not known",
            "if JSON-RPC is slow, check again",
        ),
    }
}

fn vote_check(facts: &votes::VoteFacts, is_configured: bool, is_far: bool) -> Check {
    let lacks = problem_text(&facts.problems);
    let (account, own) = match (facts.vote_account, facts.own(facts.at)) {
        (Some(account), Some(Some(own))) => (account, own),
        (Some(account), Some(None)) if is_configured => {
            let remedy = "correct validator.vote_account, or leave it out";
            return Check::attention(format!("the node knows no vote account {account}"), remedy);
        }
        (None, _) if facts.has_all_accounts() => {
            return Check::off(
                "the identity has no vote account with stake: the node does not vote",
            );
        }
        _ => return Check::off("not known").with("lacks", lacks),
    };
    let behind = own
        .distance()
        .map(|slots| format!("{slots} {} ago", if slots == 1 { "slot" } else { "slots" }));
    let behind = behind.filter(|_| !is_far);
    let check = match own.delinquent {
        _ if is_far => Check::off(
            "not judged: the validator is far behind the tip, and would judge by its own old bank",
        ),
        false if facts.is_standby(&own) => Check::ok(
            "the vote account is current; another node votes with it, and this one is on standby",
        ),
        false => Check::ok("the vote account is current"),
        true => Check::attention(
            format!(
                "the vote account is delinquent and earns nothing: its last vote was {}",
                behind.as_deref().unwrap_or("never")
            ),
            "if the validator has just started, check again once it is at the tip; else see runbook AgaveDelinquent",
        ),
    };
    let consensus = facts
        .consensus()
        .map_or("not proven by JSON-RPC alone".to_owned(), |proven| {
            format!("{}, by {}", proven.protocol.name(), proven.sign.name())
        });
    check
        .with("consensus", Some(consensus))
        .with("account", Some(account.to_string()))
        .with("last_vote", behind)
        .with(
            "stake",
            { own.account.activated_stake }
                .map(|lamports| format!("{:.2} SOL", lamports as f64 / LAMPORTS_PER_SOL)),
        )
        .with("lacks", lacks)
}
