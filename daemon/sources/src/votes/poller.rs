//! Polls votes, leader slots and the cluster, one request at a time.

use super::ahead::Schedule;
use super::cluster;
use super::known::{CacheTtls, OwnVoteAccount, VoteFacts, first_slot};
use crate::asking::{PollTimer, ProblemLog, life};
use crate::distance::Witnesses;
use crate::rpc::{Client, Endpoint, Failure, Stage, server};
use faultline_agave::identify::HEALTH_DISTANCE;
use faultline_agave::rpc::{
    self, ALPENGLOW_GATE, BlockProduction, ClusterNodes, EpochInfo, FeatureGate,
    GenesisCertificate, InContext, LeaderSchedule, StakeAccounts, VoteAccounts,
};
use faultline_agave::{Error, PublicKey};
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_core::supervisor::Stop;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp, Status};
use hyper::Uri;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// mainnet-beta's vote accounts are about one million bytes, its nodes about two.
const ANSWER_BYTES: usize = 16 << 20;
/// Rounds per request of all vote accounts and of block production.
const SLOW_FACTOR: u64 = 5;
/// Rounds per request of the cluster's nodes, a multiple of [`SLOW_FACTOR`].
const SLOWEST_FACTOR: u64 = 10;
/// Interval of stake account scans, if enabled.
const SCAN: Duration = Duration::from_secs(30 * 60);
/// The same after a failure: a node that times out still scans its accounts.
const SCAN_AFTER_FAILURE: Duration = Duration::from_secs(6 * 3_600);
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);

/// Methods that older versions, or the minimal API, do not have.
const OPTIONAL: [&str; 2] = ["getAgGenesisCert", "getAccountInfo"];

/// Interval of checks for another process or identity, which starts a round at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

pub struct Poller {
    config: config::Validator,
    clock: Clock,
    endpoint: Endpoint,
    votes_handle: super::Handle,
    /// Methods that the current process does not offer; not requested again.
    missing: Vec<&'static str>,
    known: Option<VoteFacts>,
    standing: ProblemLog,
}

/// Constant: HTTP matches response and request. A changing id would change the text of a problem.
const ID: u64 = 1;

struct Exchange {
    client: Client,
    url: Uri,
    timeout: Duration,
}

impl Exchange {
    async fn ask<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Result<T, Failure> {
        let body = self
            .client
            .send(&self.url, rpc::question(method, &params, ID), self.timeout)
            .await?;
        rpc::result(method, ID, &body).map_err(Failure::Answer)
    }
}

impl Poller {
    pub fn new(config: &config::Validator, clock: Clock, endpoint: Endpoint) -> Self {
        Poller {
            config: config.clone(),
            clock,
            endpoint,
            votes_handle: super::Handle::default(),
            missing: Vec::new(),
            known: None,
            standing: ProblemLog::default(),
        }
    }

    pub fn handle(&self) -> super::Handle {
        self.votes_handle.clone()
    }

    pub async fn run(mut self, stop: Stop) {
        let context = self.config.interval.min(CHECK_INTERVAL);
        let mut timer = PollTimer::new(self.clock, context, stop);
        let mut requested_at: Option<Stamp> = None;
        let mut client: Option<(ProcessId, Client)> = None;
        while timer.next().await {
            let Some((process, url)) = self.endpoint.current() else {
                continue;
            };
            let Some(identity) = self.endpoint.identity(process) else {
                continue;
            };
            let now = self.clock.now();
            let same = self
                .known
                .as_ref()
                .is_some_and(|known| known.process == process && known.identity == identity);
            let due = self.votes_handle.take_request()
                || requested_at
                    .is_none_or(|at| now.since(at) + context / 2 >= self.config.interval);
            if same && !due {
                continue;
            }
            requested_at = Some(now);
            if client.as_ref().is_none_or(|(known, _)| *known != process) {
                client = Some((process, Client::with_limit(ANSWER_BYTES)));
                self.missing.clear();
            }
            let Some((_, client)) = &client else { continue };
            let exchange = Exchange {
                client: client.clone(),
                url: url.clone(),
                timeout: self.config.timeout,
            };
            let mut known = self.begin(process, identity);
            known.started_with = self.endpoint.vote_account(process);
            let version = self.endpoint.version(process);
            let round = self.round(&mut known, exchange);
            if timer.during(round.ask(version), || {}).await.is_none() {
                return;
            }
            if !self.publish(&known) {
                continue;
            }
            if self.config.activating_stake && known.needs_scan() && self.is_near_tip(process) {
                let exchange = Exchange {
                    client: client.clone(),
                    url,
                    timeout: SCAN_TIMEOUT,
                };
                let round = self.round(&mut known, exchange);
                if timer.during(round.scan(), || {}).await.is_none() {
                    return;
                }
                self.publish(&known);
            }
            self.known = Some(known);
        }
    }

    fn round<'a>(&'a mut self, known: &'a mut VoteFacts, exchange: Exchange) -> Round<'a> {
        Round {
            known,
            exchange,
            config: &self.config,
            clock: self.clock,
            missing: &mut self.missing,
            votes_handle: &self.votes_handle,
        }
    }

    /// By JSON-RPC's distance; a scan needs the full API anyway.
    fn is_near_tip(&self, process: ProcessId) -> bool {
        let facts = self.endpoint.facts(process);
        let now = self.clock.now();
        let witnesses = Witnesses::new(now, facts.as_deref(), None, HEALTH_DISTANCE);
        witnesses.is_near_tip() == Some(true)
    }

    fn publish(&mut self, known: &VoteFacts) -> bool {
        let ttls = self
            .endpoint
            .current()
            .is_some_and(|(now, _)| now == known.process);
        if ttls {
            self.standing.say(Source::Votes, known.up, &known.problems);
            self.votes_handle.known.set(Some(Arc::new(known.clone())));
        }
        ttls
    }

    fn begin(&mut self, process: ProcessId, identity: PublicKey) -> VoteFacts {
        let same = |known: &VoteFacts| known.process == process && known.identity == identity;
        let mut known = self.known.take().filter(same).unwrap_or_else(|| {
            let every = |rounds: u64| {
                life(
                    self.config
                        .interval
                        .saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)),
                )
            };
            let ttls = CacheTtls {
                often: every(1),
                slow: every(SLOW_FACTOR),
                slowest: every(SLOWEST_FACTOR),
                scanned: life(SCAN),
            };
            let vote_account = self.config.vote_account;
            VoteFacts::new(process, identity, ttls, vote_account, self.clock.now())
        });
        known.problems.clear();
        known.up = false;
        known.rounds += 1;
        known
    }
}

struct Round<'a> {
    known: &'a mut VoteFacts,
    exchange: Exchange,
    config: &'a config::Validator,
    clock: Clock,
    missing: &'a mut Vec<&'static str>,
    votes_handle: &'a super::Handle,
}

impl Round<'_> {
    async fn ask(mut self, version: Option<rpc::NodeVersion>) {
        let first = self.known.rounds == 1;
        let every = |rounds: u64| (self.known.rounds - 1).is_multiple_of(rounds);
        let (slow, slowest) = (every(SLOW_FACTOR), every(SLOWEST_FACTOR));
        if self.known.genesis.is_none() {
            // A hash has the format of an address.
            let genesis: Option<PublicKey> = self.question("getGenesisHash", json!([])).await;
            self.known.genesis = genesis.map(|hash| hash.to_string().into());
        }
        self.epoch().await;
        self.alpenglow_genesis().await;
        let mut all = None;
        let protocol = self.votes_handle.protocol(self.known.process);
        let has_answer = self.known.among_all.at().is_some();
        if slow || !has_answer || self.known.is_late(protocol) {
            all = self.all_votes().await;
        }
        self.own_votes().await;
        if first {
            // A slow node takes long for the rest.
            self.known.at = self.clock.now();
            self.votes_handle
                .known
                .set(Some(Arc::new(self.known.clone())));
        }
        self.balances().await;
        self.schedule().await;
        if slow {
            self.production().await;
        }
        if let (true, Some(all), Some(version)) = (slowest, all, version) {
            let nodes: Option<ClusterNodes> = self.question("getClusterNodes", json!([])).await;
            let running = nodes.and_then(|ClusterNodes(nodes)| {
                cluster::running(&all, &nodes, (self.known.identity, &version))
            });
            let now = self.clock.now();
            running
                .into_iter()
                .for_each(|running| self.known.hear_running(running, now));
        }
        self.missing();
        self.known.at = self.clock.now();
        self.known.whole = true;
    }

    async fn scan(mut self) {
        let bank = self
            .known
            .epoch
            .fresh(self.clock.now(), self.known.ttls.often);
        let Some((account, bank)) = self.known.vote_account.zip(bank) else {
            return;
        };
        let method = "getProgramAccounts";
        let stakes: Option<StakeAccounts> =
            self.question(method, rpc::of_vote_account(account)).await;
        let pause = if stakes.is_some() {
            SCAN
        } else {
            SCAN_AFTER_FAILURE
        };
        self.known.scan_due = Some(self.clock.now().uptime + pause);
        if let Some(stakes) = stakes {
            let moving = (bank.epoch, stakes.moving(bank.epoch));
            self.known.moving.set(moving, self.clock.now());
        }
    }

    async fn question<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Option<T> {
        if self.missing.contains(&method) {
            return None;
        }
        match self.exchange.ask(method, params).await {
            Ok(answer) => Some(answer),
            Err(Failure::Answer(Error::NotOffered { .. })) => {
                self.missing.push(method);
                None
            }
            Err(failure) => {
                let problem = failure.problem(&server(&self.exchange.url), Stage::Answered);
                let what = format!("{method}: {}", problem.what);
                let problem = Problem::new(problem.status, what);
                if !self.known.problems.contains(&problem) {
                    self.known.problems.push(problem);
                }
                None
            }
        }
    }

    fn missing(&mut self) {
        // Without these two, other signs show the consensus.
        let is_needed = |method: &&&str| !OPTIONAL.contains(*method);
        for method in self.missing.iter().filter(is_needed) {
            let what =
                format!("{method} is not offered: the validator runs without --full-rpc-api");
            self.known.problems.push(Problem::new(Status::Absent, what));
        }
    }

    async fn epoch(&mut self) -> Option<EpochInfo> {
        let info: EpochInfo = self.question("getEpochInfo", processed()).await?;
        self.known.epoch.set(info, self.clock.now());
        Some(info)
    }

    /// Until a certificate exists. For a node without one of the methods another sign may help.
    async fn alpenglow_genesis(&mut self) {
        if self.known.certificate.is_some() {
            return;
        }
        let certificate: Option<Option<GenesisCertificate>> =
            self.question("getAgGenesisCert", json!([])).await;
        if let Some(Some(certificate)) = certificate {
            self.known.certificate = Some(certificate.block.slot);
            return;
        }
        if certificate.is_some() {
            self.known.has_no_certificate.set((), self.clock.now());
        }
        let params = rpc::of_feature_gate(ALPENGLOW_GATE);
        let gate: Option<InContext<FeatureGate>> = self.question("getAccountInfo", params).await;
        let now = self.clock.now();
        gate.into_iter()
            .for_each(|gate| self.known.gate.set(gate.value, now));
    }

    async fn all_votes(&mut self) -> Option<VoteAccounts> {
        let votes: VoteAccounts = self.question("getVoteAccounts", processed()).await?;
        let now = self.clock.now();
        self.known
            .hear_all(&votes, self.config.vote_account.is_some(), now);
        Some(votes)
    }

    async fn own_votes(&mut self) {
        let Some(account) = self.known.vote_account else {
            self.known.up = self
                .known
                .among_all
                .fresh(self.clock.now(), self.known.ttls.slow)
                .is_some();
            return;
        };
        let params = json!([{"commitment": "processed", "votePubkey": account.to_string(), "keepUnstakedDelinquents": true}]);
        let Some(votes) = self
            .question::<VoteAccounts>("getVoteAccounts", params)
            .await
        else {
            return;
        };
        let mut accounts = votes.all();
        let Some((own, delinquent)) =
            accounts.find(|(known, _)| known.vote_pubkey == Some(account))
        else {
            let unnamed = votes.all().any(|(known, _)| known.vote_pubkey.is_none());
            let what = if unnamed {
                format!("getVoteAccounts: votePubkey is missing in the answer about {account}")
            } else {
                format!("getVoteAccounts: the node knows no vote account {account}")
            };
            self.known.problems.push(Problem::new(Status::Broken, what));
            self.known.own.set(None, self.clock.now());
            return;
        };
        let missing = own.missing_fields();
        if !missing.is_empty() {
            let fields = missing.join(", ");
            let what = format!("getVoteAccounts: vote account {account} has no readable {fields}");
            self.known.problems.push(Problem::new(Status::Broken, what));
        }
        self.known.up = true;
        let Some(bank) = self.epoch().await else {
            return;
        };
        self.known.own.set(
            Some(OwnVoteAccount {
                account: own.clone(),
                delinquent,
                bank,
            }),
            self.clock.now(),
        );
    }

    async fn balances(&mut self) {
        let balance = self.balance(self.known.identity).await;
        let now = self.clock.now();
        balance
            .into_iter()
            .for_each(|lamports| self.known.identity_balance.set(lamports, now));
        let Some(account) = self.known.vote_account else {
            return;
        };
        let balance = self.balance(account).await;
        let now = self.clock.now();
        balance
            .into_iter()
            .for_each(|lamports| self.known.vote_balance.set(lamports, now));
    }

    async fn balance(&mut self, account: PublicKey) -> Option<u64> {
        let params = json!([account.to_string(), {"commitment": "processed"}]);
        self.question::<InContext<u64>>("getBalance", params)
            .await
            .map(|balance| balance.value)
    }

    async fn schedule(&mut self) {
        let Some(info) = self
            .known
            .epoch
            .fresh(self.clock.now(), self.known.ttls.often)
        else {
            return;
        };
        if self
            .known
            .schedule
            .as_ref()
            .is_some_and(|schedule| schedule.epoch == info.epoch)
        {
            return;
        }
        let first = first_slot(&info);
        let params = json!([info.absolute_slot, {"commitment": "processed", "identity": self.known.identity.to_string()}]);
        let schedule: Option<Option<LeaderSchedule>> =
            self.question("getLeaderSchedule", params).await;
        let Some(Some(schedule)) = schedule else {
            return;
        };
        let own = schedule.of(self.known.identity);
        self.known.schedule = Some(Arc::new(Schedule::new(
            info.epoch,
            first,
            info.slots_in_epoch,
            own,
        )));
    }

    /// At `confirmed`: at `processed` a block of another fork may be missing at first, so that
    /// skipped slots would fall again.
    async fn production(&mut self) {
        let params = json!([{"commitment": "confirmed"}]);
        let produced: Option<InContext<BlockProduction>> =
            self.question("getBlockProduction", params).await;
        let Some(InContext { value }) = produced else {
            return;
        };
        let production = (
            value.range.first_slot,
            value.of(self.known.identity),
            value.of_all(),
        );
        self.known.production.set(production, self.clock.now());
    }
}

fn processed() -> Value {
    json!([{"commitment": "processed"}])
}
