//! Checks the admin socket, JSON-RPC, votes and the log with the daemon's pollers.

use super::{
    process::{ProcessInspection, is_any_forbidden, rights_remedy},
    report::Check,
};
use faultline_agave::{
    admin::StartProgress,
    identify::{DEFAULT_HEALTH_DISTANCE, Program},
    rpc::{Health, LAMPORTS_PER_SOL},
};
use faultline_core::{
    clock::Clock,
    config::{self, Config, Log, MIN_INTERVAL, TargetSelector},
    publish::Latest,
    supervisor::{Stop, WorkerGroup},
};
use faultline_datapoints::{tail::LogTail, validator::intake::Intake};
use faultline_kernel::ProcessId;
use faultline_metrics::Problem;
use faultline_sources::{
    admin::{self, AdminFacts, TargetLookup},
    discovery::Target,
    distance::DistanceEvidence,
    rpc::{self, RpcFacts},
    votes,
};
use itertools::Itertools;
use std::{sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// Maximum timeout of one response, whatever the configuration says.
const MAX_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
const FIRST_FACTS_TIMEOUT: Duration = Duration::from_secs(3);
/// More than the 2 s without an error after which journalctl counts as working.
const LOG_TIMEOUT: Duration = Duration::from_secs(4);
const RESULT_CHECK_INTERVAL: Duration = Duration::from_millis(10);
const WORKER_END_TIMEOUT: Duration = Duration::from_secs(1);

pub fn new_worker_group() -> WorkerGroup {
    WorkerGroup::new("once", &Handle::current())
}

async fn run_until_found<T, F: Future<Output = ()> + Send + 'static>(
    run: impl FnOnce(Stop) -> F,
    max_wait: Duration,
    find_result: impl Fn() -> Option<T>,
) -> Option<T> {
    let mut workers = new_worker_group();
    workers.task("poller", run);
    wait_and_end(workers, max_wait, find_result).await
}

pub async fn wait_and_end<T>(
    workers: WorkerGroup,
    max_wait: Duration,
    find_result: impl Fn() -> Option<T>,
) -> Option<T> {
    let found = async {
        loop {
            match find_result() {
                Some(found) => return found,
                None => tokio::time::sleep(RESULT_CHECK_INTERVAL).await,
            }
        }
    };
    let found = tokio::time::timeout(max_wait, found).await.ok();
    workers.end(WORKER_END_TIMEOUT).await;
    found
}

/// The facts are for [`check_rpc`].
pub async fn check_admin(
    config: &Config,
    inspection: &ProcessInspection,
    clock: Clock,
) -> (Check, Latest<AdminFacts>) {
    if let Some(check) = admin_unavailable(config, inspection) {
        return (check, Latest::default());
    }
    let facts = Latest::default();
    let timeout = config.admin.timeout.min(MAX_RESPONSE_TIMEOUT);
    let poller = admin::Poller::new(
        &config::Admin {
            timeout,
            ..config.admin
        },
        clock,
        admin::target_lookup(&inspection.target_handle),
        facts.clone(),
    );
    poller.latest_config.set(Some(Arc::new(config.clone())));
    let reported = run_until_found(
        |stop| poller.with_short_intervals().run(stop),
        FIRST_FACTS_TIMEOUT,
        || {
            facts
                .get()
                .filter(|facts| facts.up || !facts.problems.is_empty())
        },
    );
    let check = match reported.await {
        Some(reported) => judge_admin(&reported, inspection),
        None => Check::attention("no answer within 3 s", SEE_LOG),
    };
    (check, facts)
}

fn admin_unavailable(config: &Config, inspection: &ProcessInspection) -> Option<Check> {
    let off = |why: &str| Some(Check::off(why));
    if !config.admin.enabled {
        return off("not checked: disabled (admin.enabled), or not a validator");
    }
    let Some(target) = &inspection.target else {
        return off("not asked: no process was found");
    };
    let Some(validator) = &target.validator else {
        return off("not asked: the process is not known as a validator");
    };
    if target.ledger.is_some() {
        return None;
    }
    if validator.program == Program::Fdctl {
        return off("not asked: Frankendancer names its ledger in a file, not in its arguments");
    }
    let finding =
        "the ledger's path is relative, and the process's working directory cannot be read";
    Some(Check::attention(
        finding,
        rights_remedy(inspection.process_uid),
    ))
}

fn judge_admin(reported: &AdminFacts, inspection: &ProcessInspection) -> Check {
    let problems = problem_text(&reported.problems);
    match &reported.progress {
        Some(StartProgress::Running) => {
            Check::ok("it answers: the validator runs").with_detail("lacks", problems)
        }
        Some(progress) => Check::ok(format!(
            "it answers: the validator is starting ({})",
            progress.name()
        )),
        None => {
            let remedy = if is_any_forbidden(&reported.problems) {
                rights_remedy(inspection.process_uid) + " (admin.enabled = false)"
            } else {
                SEE_LOG.to_owned()
            };
            Check::attention(problems.unwrap_or_default(), remedy)
        }
    }
}

const SEE_LOG: &str = "if the validator is just starting, check again; if it is stopped or hangs (ps -eo pid,stat,comm), \
                       look at its log; else let this user open the ledger by the path that the validator uses";

fn problem_text(problems: &[Problem]) -> Option<String> {
    (!problems.is_empty()).then(|| problems.iter().map(|problem| &problem.what).join("; "))
}

/// Without a validator, the poller of `rpc.url` still needs a target: an empty process.
fn target_lookup(config: &Config, inspection: &ProcessInspection) -> Option<TargetLookup> {
    let validator = inspection
        .target
        .as_ref()
        .filter(|target| target.validator.is_some());
    match (&config.rpc.url, validator) {
        (_, Some(_)) => Some(admin::target_lookup(&inspection.target_handle)),
        (Some(_), None) => {
            let target = Arc::new(Target {
                process: ProcessId::default(),
                comm: String::new(),
                exe: None,
                validator: None,
                ledger: None,
                found_by: "",
            });
            Some(Box::new(move || Some(Arc::clone(&target))))
        }
        (None, None) => None,
    }
}

pub async fn check_rpc(
    config: &Config,
    inspection: &ProcessInspection,
    admin: Latest<AdminFacts>,
    clock: Clock,
) -> (Check, rpc::Handle) {
    let off = |why: &str| (Check::off(why), rpc::Handle::default());
    if !config.rpc.enabled {
        return off("not checked: disabled (rpc.enabled), or not a validator");
    }
    let Some(target) = target_lookup(config, inspection) else {
        return off("not asked: no validator was found");
    };
    let timeout = config.rpc.timeout.min(MAX_RESPONSE_TIMEOUT);
    let quick = config::Rpc {
        interval: MIN_INTERVAL,
        timeout,
        ..config.rpc.clone()
    };
    let poller = rpc::Poller::new(&quick, clock, target, admin.clone());
    let handle = poller.handle.clone();
    let reported = run_until_found(
        |stop| poller.run(stop),
        FIRST_FACTS_TIMEOUT,
        || {
            handle
                .facts()
                .filter(|facts| facts.up || !facts.problems.is_empty())
        },
    );
    let reported = reported.await;
    let admin = admin.get();
    let check = match reported {
        None => Check::attention(
            "no answer within 3 s",
            "look at the validator's log; set rpc.url",
        ),
        Some(reported) if reported.up => {
            rpc_ok(&reported, admin.as_deref()).with_detail("probe", probe_text(config))
        }
        Some(reported) => rpc_failed(config, &reported, admin.as_deref()),
    };
    (check, handle)
}

fn rpc_failed(config: &Config, reported: &RpcFacts, admin: Option<&AdminFacts>) -> Check {
    let starting = admin
        .and_then(|facts| facts.progress.as_ref())
        .filter(|progress| **progress != StartProgress::Running);
    match starting {
        Some(progress) if config.rpc.url.is_none() => Check::off(format!(
            "no answer yet: the validator is starting ({}), and opens JSON-RPC last",
            progress.name()
        )),
        _ => Check::attention(
            format!(
                "no answer: {}",
                problem_text(&reported.problems).unwrap_or_default()
            ),
            "if the validator is stopped or hangs (ps -eo pid,stat,comm), look at its log; else set rpc.url (--rpc) to \
                 where it serves JSON-RPC; if it has none, start it with --rpc-port and --private-rpc, or set \
                 rpc.enabled = false",
        ),
    }
}

fn probe_text(config: &Config) -> Option<String> {
    let probe = &config.probe;
    probe
        .enabled
        .then(|| format!("{} every {} s", probe.method, probe.interval.as_secs_f64()))
}

fn rpc_ok(reported: &RpcFacts, admin: Option<&AdminFacts>) -> Check {
    if let (Some(rpc), Some(own)) = (
        &reported.identity,
        admin.and_then(|facts| facts.identity.as_ref()),
    ) && rpc != own
    {
        return Check::attention(
            format!("another node answers: its identity is {rpc}, that of the validator is {own}"),
            "set rpc.url to the JSON-RPC of this validator, or leave it out",
        );
    }
    let health = match reported.health.as_ref().and_then(Health::is_healthy) {
        Some(true) => "healthy",
        Some(false) => "behind",
        None => "of unknown health",
    };
    Check::ok(format!("it answers: the node is {health}"))
        .with_detail("slot", reported.epoch_info.map(|info| info.absolute_slot))
        .with_detail("behind", reported.slots_behind)
        .with_detail(
            "version",
            reported
                .version
                .as_ref()
                .map(|version| version.solana_core.clone()),
        )
        .with_detail("lacks", problem_text(&reported.problems))
}

pub async fn check_log(config: &Config, clock: Clock) -> Check {
    let Some(log) = &config.log else {
        let why = match config.target.selector {
            TargetSelector::ProcessName(_) => "not read: not a validator",
            _ if !config.ingest.enabled => "not configured",
            _ => "not configured; datapoints come by pushes",
        };
        return Check::off(why);
    };
    let tail = LogTail::build(log, Intake::new(&config.datapoints), clock);
    let status_handle = tail.status();
    let mut workers = new_worker_group();
    let started = tail.start(&mut workers).map_err(|error| error.to_string());
    let status = wait_and_end(workers, LOG_TIMEOUT, || {
        Some(status_handle.snapshot()).filter(|status| status.up || status.problem.is_some())
    })
    .await;
    let (what, remedy) = match log {
        Log::File(file) => (
            format!("{} can be read", faultline_text::path(file)),
            "correct log.file, or give the daemon's user the right to read the file and its folder",
        ),
        Log::Journal(unit) => (
            format!(
                "journalctl reads the journal of {unit}; whether there is such a unit is not checked"
            ),
            "correct log.journal, or add the daemon's user to the group systemd-journal (drop-in faultlined/journal.conf)",
        ),
    };
    match (started, status) {
        (Err(error), _) => Check::attention(
            error,
            "no thread can be started: look at the limits of this user",
        ),
        (Ok(()), Some(status)) => match status.problem {
            None => Check::ok(what),
            Some(problem) => Check::attention(problem.what, remedy),
        },
        (Ok(()), None) => Check::attention("reading it did not begin within 4 s", remedy),
    }
}

const VOTES_TIMEOUT: Duration = Duration::from_secs(5);

pub async fn check_votes(
    config: &Config,
    inspection: &ProcessInspection,
    admin: &Latest<AdminFacts>,
    rpc: &rpc::Handle,
    clock: Clock,
) -> Check {
    if !config.validator.enabled {
        return Check::off("not checked: disabled (validator.enabled)");
    }
    let target_lookup =
        target_lookup(config, inspection).filter(|_| rpc.facts().is_some_and(|facts| facts.up));
    let Some(target_lookup) = target_lookup else {
        return Check::off("not asked: no answer from JSON-RPC, see the line \"rpc\"");
    };
    let timeout = config.validator.timeout.min(MAX_RESPONSE_TIMEOUT);
    let quick = config::Votes {
        interval: MIN_INTERVAL,
        timeout,
        ..config.validator.clone()
    };
    let is_far_behind = DistanceEvidence::new(
        clock.now(),
        rpc.facts().as_deref(),
        None,
        DEFAULT_HEALTH_DISTANCE,
    )
    .is_near_tip()
        == Some(false);
    let poller = votes::Poller::new(
        &quick,
        clock,
        rpc::Endpoint::new(&config.rpc, target_lookup, admin.clone(), rpc.clone()),
    );
    let handle = poller.handle.clone();
    let facts = run_until_found(
        |stop| poller.run(stop),
        VOTES_TIMEOUT,
        || handle.facts().filter(|facts| facts.is_complete),
    )
    .await
    .or_else(|| handle.facts());
    match facts {
        Some(facts) => judge_votes(
            &facts,
            config.validator.vote_account.is_some(),
            is_far_behind,
        ),
        None => Check::attention(
            "no answer within 5 s, or the identity is not known",
            "if JSON-RPC is slow, check again",
        ),
    }
}

fn judge_votes(
    facts: &votes::VoteFacts,
    has_configured_account: bool,
    is_far_behind: bool,
) -> Check {
    let problems = problem_text(&facts.problems);
    let (account, own) = match (facts.vote_account, facts.own_account(facts.polled_at)) {
        (Some(account), Some(Some(own))) => (account, own),
        (Some(account), Some(None)) if has_configured_account => {
            return Check::attention(
                format!("the node knows no vote account {account}"),
                "correct validator.vote_account, or leave it out",
            );
        }
        (None, _) if facts.has_all_vote_accounts() => {
            return Check::off(
                "the identity has no vote account with stake: the node does not vote",
            );
        }
        _ => {
            return Check::off("it is not known whether the vote account is current")
                .with_detail("lacks", problems);
        }
    };
    let last_vote = own.slots_since_vote().filter(|_| !is_far_behind);
    let last_vote =
        last_vote.map(|slots| format!("{slots} {} ago", if slots == 1 { "slot" } else { "slots" }));
    let check = match own.delinquent {
        _ if is_far_behind => Check::off(
            "not judged: the validator is far behind the tip, so it judges votes by an old bank",
        ),
        false if facts.is_standby(&own) => Check::ok(
            "the vote account is current; another node votes with it, and this one is on standby",
        ),
        false => Check::ok("the vote account is current"),
        true => Check::attention(
            format!(
                "the vote account is delinquent and earns nothing: {}",
                last_vote
                    .as_ref()
                    .map_or("it has never voted".to_owned(), |ago| {
                        format!("its last vote was {ago}")
                    })
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
        .with_detail("consensus", Some(consensus))
        .with_detail("account", Some(account.to_string()))
        .with_detail("last_vote", last_vote)
        .with_detail(
            "stake",
            own.account
                .activated_stake
                .map(|lamports| format!("{:.2} SOL", lamports as f64 / LAMPORTS_PER_SOL)),
        )
        .with_detail("lacks", problems)
}
