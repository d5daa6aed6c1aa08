//! Polls votes, leader slots and the cluster, one request at a time.

use super::cluster;
use super::connection::RpcConnection;
use super::own_schedule::OwnLeaderSchedule;
use super::vote_facts::{CacheTtls, OwnVoteAccount, VoteFacts, first_slot};
use crate::distance::DistanceEvidence;
use crate::polling::{PollTimer, ProblemLog, response_ttl};
use crate::rpc::{Client, Endpoint, Failure, Readiness, server};
use faultline_agave::identify::HEALTH_DISTANCE;
use faultline_agave::rpc::{
    self, ALPENGLOW_GATE, BlockProduction, ClusterNodes, EpochInfo, FeatureGate,
    GenesisCertificate, InContext, LeaderSchedule, NOT_IN_LEADER_SCHEDULE, StakeAccounts,
    VoteAccounts,
};
use faultline_agave::{Error, PublicKey};
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_core::supervisor::Stop;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp, Status};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// On mainnet-beta the response with all vote accounts has about 1 MB, that with all nodes 2 MB.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Rounds per request of all vote accounts and of block production.
const SLOW_FACTOR: u64 = 5;
/// Rounds per request of the cluster's nodes, a multiple of [`SLOW_FACTOR`].
const SLOWEST_FACTOR: u64 = 10;
/// Interval of stake account scans, if enabled.
const SCAN_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// Interval after a failed scan. A node still scans its accounts after the request has timed out.
const SCAN_RETRY_INTERVAL: Duration = Duration::from_secs(6 * 3_600);
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);

/// Methods that older versions, or the minimal API, do not have.
const OPTIONAL_METHODS: [&str; 2] = ["getAgGenesisCert", "getAccountInfo"];

/// Interval of checks for a new process or identity. A new one starts a round at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

pub struct Poller {
    config: config::Validator,
    clock: Clock,
    endpoint: Endpoint,
    votes_handle: super::Handle,
    /// Methods that the current process does not offer; not requested again.
    missing_methods: Vec<&'static str>,
    vote_facts: Option<VoteFacts>,
    problem_log: ProblemLog,
}

impl Poller {
    pub fn new(config: &config::Validator, clock: Clock, endpoint: Endpoint) -> Self {
        Poller {
            config: config.clone(),
            clock,
            endpoint,
            votes_handle: super::Handle::default(),
            missing_methods: Vec::new(),
            vote_facts: None,
            problem_log: ProblemLog::default(),
        }
    }

    pub fn handle(&self) -> super::Handle {
        self.votes_handle.clone()
    }

    pub async fn run(mut self, stop: Stop) {
        let check_interval = self.config.interval.min(CHECK_INTERVAL);
        let mut timer = PollTimer::new(self.clock, check_interval, stop);
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
            let same = self.vote_facts.as_ref().is_some_and(|vote_facts| {
                vote_facts.process == process && vote_facts.identity == identity
            });
            let due = self.votes_handle.take_round_request()
                || requested_at
                    .is_none_or(|at| now.since(at) + check_interval / 2 >= self.config.interval);
            if same && !due {
                continue;
            }
            requested_at = Some(now);
            if client.as_ref().is_none_or(|(owner, _)| *owner != process) {
                client = Some((process, Client::with_limit(MAX_ANSWER_BYTES)));
                self.missing_methods.clear();
            }
            let Some((_, client)) = &client else { continue };
            let connection = RpcConnection {
                client: client.clone(),
                url: url.clone(),
                timeout: self.config.timeout,
            };
            let mut vote_facts = self.begin(process, identity);
            vote_facts.argument_vote_account = self.endpoint.vote_account(process);
            let version = self.endpoint.version(process);
            let round = self.round(&mut vote_facts, connection);
            if timer.wait_for(round.run(version), || {}).await.is_none() {
                return;
            }
            if !self.publish(&vote_facts) {
                continue;
            }
            if self.config.activating_stake && vote_facts.needs_scan() && self.is_near_tip(process)
            {
                let connection = RpcConnection {
                    client: client.clone(),
                    url,
                    timeout: SCAN_TIMEOUT,
                };
                let round = self.round(&mut vote_facts, connection);
                if timer.wait_for(round.scan(), || {}).await.is_none() {
                    return;
                }
                self.publish(&vote_facts);
            }
            self.vote_facts = Some(vote_facts);
        }
    }

    fn round<'a>(
        &'a mut self,
        vote_facts: &'a mut VoteFacts,
        connection: RpcConnection,
    ) -> Round<'a> {
        Round {
            vote_facts,
            connection,
            config: &self.config,
            clock: self.clock,
            missing_methods: &mut self.missing_methods,
            votes_handle: &self.votes_handle,
        }
    }

    /// By the distance that JSON-RPC reports. A scan needs the full API, which reports it.
    fn is_near_tip(&self, process: ProcessId) -> bool {
        let facts = self.endpoint.facts(process);
        let now = self.clock.now();
        let distance_evidence = DistanceEvidence::new(now, facts.as_deref(), None, HEALTH_DISTANCE);
        distance_evidence.is_near_tip() == Some(true)
    }

    /// False, without publishing, if the process has been replaced.
    fn publish(&mut self, vote_facts: &VoteFacts) -> bool {
        let is_current = self
            .endpoint
            .current()
            .is_some_and(|(now, _)| now == vote_facts.process);
        if is_current {
            self.problem_log
                .log_changes(Source::Votes, vote_facts.up, &vote_facts.problems);
            self.votes_handle
                .vote_facts
                .set(Some(Arc::new(vote_facts.clone())));
        }
        is_current
    }

    fn begin(&mut self, process: ProcessId, identity: PublicKey) -> VoteFacts {
        let same = |vote_facts: &VoteFacts| {
            vote_facts.process == process && vote_facts.identity == identity
        };
        let mut vote_facts = self.vote_facts.take().filter(same).unwrap_or_else(|| {
            let every = |rounds: u64| {
                response_ttl(
                    self.config
                        .interval
                        .saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)),
                )
            };
            let ttls = CacheTtls {
                per_round: every(1),
                slow: every(SLOW_FACTOR),
                slowest: every(SLOWEST_FACTOR),
                stake_scan: response_ttl(SCAN_INTERVAL),
            };
            let vote_account = self.config.vote_account;
            VoteFacts::new(process, identity, ttls, vote_account, self.clock.now())
        });
        vote_facts.problems.clear();
        vote_facts.up = false;
        vote_facts.rounds += 1;
        vote_facts
    }
}

struct Round<'a> {
    vote_facts: &'a mut VoteFacts,
    connection: RpcConnection,
    config: &'a config::Validator,
    clock: Clock,
    missing_methods: &'a mut Vec<&'static str>,
    votes_handle: &'a super::Handle,
}

impl Round<'_> {
    async fn run(mut self, version: Option<rpc::NodeVersion>) {
        let first = self.vote_facts.rounds == 1;
        let every = |rounds: u64| (self.vote_facts.rounds - 1).is_multiple_of(rounds);
        let (slow, slowest) = (every(SLOW_FACTOR), every(SLOWEST_FACTOR));
        if self.vote_facts.genesis.is_none() {
            // A hash has the format of a public key.
            let genesis: Option<PublicKey> = self.request("getGenesisHash", json!([])).await;
            self.vote_facts.genesis = genesis.map(|hash| hash.to_string().into());
        }
        self.epoch().await;
        self.alpenglow_genesis().await;
        let mut all = None;
        let protocol = self.votes_handle.protocol(self.vote_facts.process);
        let has_answer = self.vote_facts.ranking.at().is_some();
        if slow || !has_answer || self.vote_facts.is_late(protocol) {
            all = self.all_votes().await;
        }
        self.own_votes().await;
        if first {
            // Published early: a slow node takes long for the other requests.
            self.vote_facts.at = self.clock.now();
            self.votes_handle
                .vote_facts
                .set(Some(Arc::new(self.vote_facts.clone())));
        }
        self.balances().await;
        self.schedule().await;
        if slow {
            self.production().await;
        }
        if let (true, Some(all), Some(version)) = (slowest, all, version) {
            let nodes: Option<ClusterNodes> = self.request("getClusterNodes", json!([])).await;
            let version_shares = nodes.and_then(|ClusterNodes(nodes)| {
                cluster::version_shares(&all, &nodes, (self.vote_facts.identity, &version))
            });
            let now = self.clock.now();
            version_shares
                .into_iter()
                .for_each(|version_shares| self.vote_facts.set_version_shares(version_shares, now));
        }
        self.report_missing_methods();
        self.vote_facts.at = self.clock.now();
        self.vote_facts.is_complete = true;
    }

    async fn scan(mut self) {
        let bank = self
            .vote_facts
            .epoch
            .fresh(self.clock.now(), self.vote_facts.ttls.per_round);
        let Some((account, bank)) = self.vote_facts.vote_account.zip(bank) else {
            return;
        };
        let method = "getProgramAccounts";
        let stakes: Option<StakeAccounts> = self
            .request(method, rpc::stake_accounts_params(account))
            .await;
        let scan_interval = if stakes.is_some() {
            SCAN_INTERVAL
        } else {
            SCAN_RETRY_INTERVAL
        };
        self.vote_facts.scan_due = Some(self.clock.now().uptime + scan_interval);
        if let Some(stakes) = stakes {
            let pending_stake = (bank.epoch, stakes.pending_stake(bank.epoch));
            self.vote_facts
                .pending_stake
                .set(pending_stake, self.clock.now());
        }
    }

    async fn request<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Option<T> {
        if self.missing_methods.contains(&method) {
            return None;
        }
        let result = self.connection.call(method, params).await;
        self.answer_or_problem(method, result)
    }

    fn answer_or_problem<T>(
        &mut self,
        method: &'static str,
        result: Result<T, Failure>,
    ) -> Option<T> {
        match result {
            Ok(answer) => Some(answer),
            Err(Failure::Answer(Error::NotOffered { .. })) => {
                self.missing_methods.push(method);
                None
            }
            Err(failure) => {
                let problem = failure.problem(&server(&self.connection.url), Readiness::Answered);
                let what = format!("{method}: {}", problem.what);
                let problem = Problem::new(problem.status, what);
                if !self.vote_facts.problems.contains(&problem) {
                    self.vote_facts.problems.push(problem);
                }
                None
            }
        }
    }

    fn report_missing_methods(&mut self) {
        // Without the optional methods, other evidence shows the consensus protocol.
        let is_needed = |method: &&&str| !OPTIONAL_METHODS.contains(*method);
        for method in self.missing_methods.iter().filter(is_needed) {
            let what =
                format!("{method} is not offered: the validator runs without --full-rpc-api");
            self.vote_facts
                .problems
                .push(Problem::new(Status::Absent, what));
        }
    }

    async fn epoch(&mut self) -> Option<EpochInfo> {
        let info: EpochInfo = self.request("getEpochInfo", processed()).await?;
        self.vote_facts.epoch.set(info, self.clock.now());
        Some(info)
    }

    /// Requested until a certificate exists. A node may lack one of the two methods.
    async fn alpenglow_genesis(&mut self) {
        if self.vote_facts.certificate.is_some() {
            return;
        }
        let certificate: Option<Option<GenesisCertificate>> =
            self.request("getAgGenesisCert", json!([])).await;
        if let Some(Some(certificate)) = certificate {
            self.vote_facts.certificate = Some(certificate.block.slot);
            return;
        }
        if certificate.is_some() {
            self.vote_facts.has_no_certificate.set((), self.clock.now());
        }
        let params = rpc::feature_gate_params(ALPENGLOW_GATE);
        let gate: Option<InContext<FeatureGate>> = self.request("getAccountInfo", params).await;
        let now = self.clock.now();
        gate.into_iter()
            .for_each(|gate| self.vote_facts.gate.set(gate.value, now));
    }

    async fn all_votes(&mut self) -> Option<VoteAccounts> {
        let votes: VoteAccounts = self.request("getVoteAccounts", processed()).await?;
        let now = self.clock.now();
        self.vote_facts
            .set_ranking(&votes, self.config.vote_account.is_some(), now);
        Some(votes)
    }

    async fn own_votes(&mut self) {
        let Some(account) = self.vote_facts.vote_account else {
            self.vote_facts.up = self
                .vote_facts
                .ranking
                .fresh(self.clock.now(), self.vote_facts.ttls.slow)
                .is_some();
            return;
        };
        let params = json!([{"commitment": "processed", "votePubkey": account.to_string(), "keepUnstakedDelinquents": true}]);
        let Some(votes) = self
            .request::<VoteAccounts>("getVoteAccounts", params)
            .await
        else {
            return;
        };
        let mut accounts = votes.all();
        let Some((own, delinquent)) =
            accounts.find(|(candidate, _)| candidate.vote_pubkey == Some(account))
        else {
            let unnamed = votes.all().any(|(other, _)| other.vote_pubkey.is_none());
            let what = if unnamed {
                format!("getVoteAccounts: votePubkey is missing in the answer about {account}")
            } else {
                format!("getVoteAccounts: the node knows no vote account {account}")
            };
            self.vote_facts
                .problems
                .push(Problem::new(Status::Broken, what));
            self.vote_facts.own.set(None, self.clock.now());
            return;
        };
        let unreadable = own.missing_fields();
        if !unreadable.is_empty() {
            let fields = unreadable.join(", ");
            let what = format!("getVoteAccounts: vote account {account} has no readable {fields}");
            self.vote_facts
                .problems
                .push(Problem::new(Status::Broken, what));
        }
        self.vote_facts.up = true;
        let Some(bank) = self.epoch().await else {
            return;
        };
        self.vote_facts.own.set(
            Some(OwnVoteAccount {
                account: own.clone(),
                delinquent,
                bank,
            }),
            self.clock.now(),
        );
    }

    async fn balances(&mut self) {
        let balance = self.balance(self.vote_facts.identity).await;
        let now = self.clock.now();
        balance
            .into_iter()
            .for_each(|lamports| self.vote_facts.identity_balance.set(lamports, now));
        let Some(account) = self.vote_facts.vote_account else {
            return;
        };
        let balance = self.balance(account).await;
        let now = self.clock.now();
        balance
            .into_iter()
            .for_each(|lamports| self.vote_facts.vote_balance.set(lamports, now));
    }

    async fn balance(&mut self, account: PublicKey) -> Option<u64> {
        let params = json!([account.to_string(), {"commitment": "processed"}]);
        self.request::<InContext<u64>>("getBalance", params)
            .await
            .map(|balance| balance.value)
    }

    async fn schedule(&mut self) {
        let Some(info) = self
            .vote_facts
            .epoch
            .fresh(self.clock.now(), self.vote_facts.ttls.per_round)
        else {
            return;
        };
        let method = "getLeaderSchedule";
        let known = self.vote_facts.schedule.as_ref();
        let is_known = known.is_some_and(|schedule| schedule.epoch == info.epoch);
        if is_known || self.missing_methods.contains(&method) {
            return;
        }
        let first = first_slot(&info);
        let params = json!([info.absolute_slot, {"commitment": "processed", "identity": self.vote_facts.identity.to_string()}]);
        let answer = match self.connection.call(method, params).await {
            Err(Failure::Answer(Error::Rpc {
                code: NOT_IN_LEADER_SCHEDULE,
                ..
            })) => Some(Some(LeaderSchedule::default())),
            result => self.answer_or_problem(method, result),
        };
        let Some(Some(schedule)) = answer else {
            return;
        };
        let own = schedule.of(self.vote_facts.identity);
        self.vote_facts.schedule = Some(Arc::new(OwnLeaderSchedule::new(
            info.epoch,
            first,
            info.slots_in_epoch,
            own,
        )));
    }

    /// Uses `confirmed`. At `processed` a block of another fork may be missing at first, so the
    /// count of skipped slots could fall again.
    async fn production(&mut self) {
        let params = json!([{"commitment": "confirmed"}]);
        let produced: Option<InContext<BlockProduction>> =
            self.request("getBlockProduction", params).await;
        let Some(InContext { value }) = produced else {
            return;
        };
        let production = (
            value.range.first_slot,
            value.of(self.vote_facts.identity),
            value.of_all(),
        );
        self.vote_facts.production.set(production, self.clock.now());
    }
}

fn processed() -> Value {
    json!([{"commitment": "processed"}])
}
