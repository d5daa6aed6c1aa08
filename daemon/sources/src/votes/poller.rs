//! Polls votes, leader slots and the cluster, one request at a time.

use super::{
    Handle, OwnVoteAccount, VoteFacts, cluster,
    own_schedule::OwnLeaderSchedule,
    vote_facts::{
        ROUNDS_PER_CLUSTER_REQUEST, ROUNDS_PER_NODES_REQUEST, STAKE_SCAN_INTERVAL,
        first_slot_of_epoch,
    },
};
use crate::{
    distance::DistanceEvidence,
    polling::{AbsenceLog, PollTimer, Timestamped},
    rpc::{Client, Endpoint, Failure, Readiness, url_origin},
};
use faultline_agave::{
    Error, PublicKey,
    identify::DEFAULT_HEALTH_DISTANCE,
    rpc::{
        self, ALPENGLOW_GATE, BlockProduction, ClusterNodes, EpochInfo, FeatureGate,
        GenesisCertificate, LeaderSchedule, NOT_IN_LEADER_SCHEDULE, ResultWithContext,
        StakeAccounts, VoteAccounts,
    },
};
use faultline_core::{clock::Clock, config, supervisor::Stop};
use faultline_metrics::{Problem, Source, Stamp};
use faultline_text::without_address;
use hyper::Uri;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// On mainnet-beta the response with all vote accounts has about 1 MB, that with all nodes 2 MB.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Time from a failed stake scan to the next one: the node continues a scan even after its request
/// has timed out. A stake scan reads stake accounts by `getProgramAccounts`.
const STAKE_SCAN_RETRY_INTERVAL: Duration = Duration::from_secs(6 * 3_600);
const STAKE_SCAN_TIMEOUT: Duration = Duration::from_secs(60);

/// Methods that older versions, or the minimal API, do not have.
const OPTIONAL_METHODS: [&str; 2] = ["getAgGenesisCert", "getAccountInfo"];

/// A new process or identity starts a round after at most this time. A round makes all requests
/// that are due.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Every request has this id, because HTTP assigns a response to its request. A problem may quote a
/// response: with a changing id, a repeated problem would look like a new one.
const ID: u64 = 1;

pub struct Poller {
    config: config::Votes,
    clock: Clock,
    endpoint: Endpoint,
    pub handle: Handle,
    /// Methods that the current process does not offer. They are not requested again for this
    /// process and identity.
    missing_methods: Vec<&'static str>,
    absence_log: AbsenceLog,
}

impl Poller {
    pub fn new(config: &config::Votes, clock: Clock, endpoint: Endpoint) -> Self {
        Self {
            config: config.clone(),
            clock,
            endpoint,
            handle: Handle::default(),
            missing_methods: Vec::new(),
            absence_log: AbsenceLog::default(),
        }
    }

    pub async fn run(mut self, stop: Stop) {
        let interval = self.config.interval;
        let check_interval = interval.min(CHECK_INTERVAL);
        let mut timer = PollTimer::new(self.clock, check_interval, stop);
        let mut round_started_at = None;
        let mut client = Client::with_limit(MAX_ANSWER_BYTES);
        let mut known: Option<VoteFacts> = None;
        while timer.next().await {
            let Some((process, url)) = self.endpoint.current() else {
                continue;
            };
            let Some(identity) = self.endpoint.identity(process) else {
                continue;
            };
            let now = self.clock.now();
            let is_known = known
                .as_ref()
                .is_some_and(|facts| (facts.process, facts.identity) == (process, identity));
            let is_due =
                round_started_at.is_none_or(|at| now.since(at) + check_interval / 2 >= interval);
            if !self.handle.take_round_request() && is_known && !is_due {
                continue;
            }
            round_started_at = Some(now);
            if !is_known {
                client = Client::with_limit(MAX_ANSWER_BYTES);
                self.missing_methods.clear();
                known = None;
            }
            let new = || VoteFacts {
                process,
                identity,
                poll_interval: interval,
                polled_at: now,
                vote_account: self.config.vote_account,
                ..VoteFacts::default()
            };
            let mut round = Round {
                facts: known.take().unwrap_or_else(new),
                client: client.clone(),
                url,
                timeout: self.config.timeout,
                poller: &mut self,
            };
            // No action if the next poll falls due during this round: the sampler checks the age of
            // each value.
            if timer.wait_for(round.run(), || {}).await.is_none() {
                return;
            }
            if !round.publish() {
                continue;
            }
            if round.is_stake_scan_due() {
                round.timeout = STAKE_SCAN_TIMEOUT;
                if timer.wait_for(round.scan_stakes(), || {}).await.is_none() {
                    return;
                }
                round.publish();
            }
            known = Some(round.facts);
        }
    }
}

struct Round<'a> {
    poller: &'a mut Poller,
    facts: VoteFacts,
    client: Client,
    url: Uri,
    timeout: Duration,
}

impl Round<'_> {
    fn now(&self) -> Stamp {
        self.poller.clock.now()
    }

    fn add_broken_problem(&mut self, what: String) {
        self.facts.problems.push(Problem::broken(what));
    }

    /// False, without publishing, if the process has been replaced.
    fn publish(&mut self) -> bool {
        let (poller, facts) = (&mut *self.poller, &self.facts);
        let is_current = poller
            .endpoint
            .current()
            .is_some_and(|(process, _)| process == facts.process);
        if is_current {
            poller
                .absence_log
                .log_new_absences(Source::Votes, facts.up, &facts.problems);
            poller.handle.publish(facts);
        }
        is_current
    }

    async fn run(&mut self) {
        self.facts.problems.clear();
        self.facts.up = false;
        let finished_rounds = self.facts.rounds;
        self.facts.rounds += 1;
        if self.facts.genesis_hash.is_none() {
            // A hash has the format of a public key.
            let hash: Option<PublicKey> = self.request("getGenesisHash", json!([])).await;
            self.facts.genesis_hash = hash.map(|hash| hash.to_string().into());
        }
        self.request_epoch_info().await;
        self.request_alpenglow_genesis().await;
        let mut all_votes = None;
        let protocol = self.poller.handle.protocol(self.facts.process);
        let is_cluster_due = finished_rounds.is_multiple_of(ROUNDS_PER_CLUSTER_REQUEST);
        if is_cluster_due
            || !self.facts.has_all_vote_accounts()
            || self.facts.has_late_votes(protocol)
        {
            all_votes = self.request_all_votes().await;
        }
        self.request_own_votes().await;
        // Both publications of the first round have this time, so its problems count once.
        self.facts.polled_at = self.now();
        if finished_rounds == 0 {
            // Early: a slow node takes long for the other requests.
            self.poller.handle.publish(&self.facts);
        }
        self.request_balances().await;
        self.request_schedule().await;
        if is_cluster_due {
            self.request_production().await;
        }
        if finished_rounds.is_multiple_of(ROUNDS_PER_NODES_REQUEST)
            && let Some(all_votes) = all_votes
        {
            self.request_versions(&all_votes).await;
        }
        self.report_missing_methods();
        self.facts.is_complete = true;
    }

    fn is_stake_scan_due(&self) -> bool {
        let rpc_facts = self.poller.endpoint.rpc_facts(self.facts.process);
        let distance = DistanceEvidence::new(
            self.now(),
            rpc_facts.as_deref(),
            // No pushed slots: the scan needs the full JSON-RPC API, which reports the distance.
            None,
            DEFAULT_HEALTH_DISTANCE,
        );
        self.poller.config.scans_stakes
            && self.facts.needs_stake_scan()
            && distance.is_near_tip() == Some(true)
    }

    async fn scan_stakes(&mut self) {
        let epoch_info = self.facts.epoch_info(self.now());
        let Some((account, epoch_info)) = self.facts.vote_account.zip(epoch_info) else {
            return;
        };
        let params = rpc::stake_accounts_params(account);
        let stakes: Option<StakeAccounts> = self.request("getProgramAccounts", params).await;
        let now = self.now();
        let mut interval = STAKE_SCAN_RETRY_INTERVAL;
        if let Some(stakes) = stakes {
            let pending_stake = stakes.pending_stake(epoch_info.epoch);
            self.facts
                .pending_stake
                .set((epoch_info.epoch, pending_stake), now);
            interval = STAKE_SCAN_INTERVAL;
        }
        self.facts.stake_scan_due = Some(now.uptime + interval);
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<T, Failure> {
        let request = rpc::request_body(method, &params, ID);
        let body = self.client.send(&self.url, request, self.timeout).await?;
        rpc::read_result(method, ID, &body).map_err(Failure::AnswerError)
    }

    async fn request<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Option<T> {
        if self.poller.missing_methods.contains(&method) {
            return None;
        }
        let result = self.call(method, params).await;
        self.answer_or_problem(method, result)
    }

    fn answer_or_problem<T>(
        &mut self,
        method: &'static str,
        result: Result<T, Failure>,
    ) -> Option<T> {
        match result {
            Ok(answer) => return Some(answer),
            Err(Failure::AnswerError(Error::NotOffered { .. })) => {
                self.poller.missing_methods.push(method);
            }
            Err(failure) => {
                let mut problem =
                    failure.problem(&url_origin(&self.url), Readiness::RespondedBefore);
                let what = without_address(&problem.what, &self.url.to_string());
                problem.what = format!("{method}: {what}");
                if !self.facts.problems.contains(&problem) {
                    self.facts.problems.push(problem);
                }
            }
        }
        None
    }

    fn report_missing_methods(&mut self) {
        for method in &self.poller.missing_methods {
            // Without the optional methods, other evidence shows the consensus protocol.
            if !OPTIONAL_METHODS.contains(method) {
                let message =
                    format!("{method} is not offered: the validator runs without --full-rpc-api");
                self.facts.problems.push(Problem::absent_data(message));
            }
        }
    }

    async fn request_epoch_info(&mut self) -> Option<EpochInfo> {
        let info = self.request("getEpochInfo", processed()).await?;
        self.facts.epoch_info.set(info, self.now());
        Some(info)
    }

    /// Requests the genesis certificate and the feature gate until a certificate exists. A node may
    /// lack one of the two methods.
    async fn request_alpenglow_genesis(&mut self) {
        if self.facts.certified_genesis_slot.is_some() {
            return;
        }
        let certificate: Option<Option<GenesisCertificate>> =
            self.request("getAgGenesisCert", json!([])).await;
        if let Some(Some(certificate)) = &certificate {
            self.facts.certified_genesis_slot = Some(certificate.block.slot);
            return;
        }
        let params = rpc::feature_gate_params(ALPENGLOW_GATE);
        let gate: Option<ResultWithContext<FeatureGate>> =
            self.request("getAccountInfo", params).await;
        match (gate, certificate) {
            (None, _) => {}
            // Without a response about the certificate, an active gate does not say whether the
            // migration is over.
            (Some(gate), None) if matches!(gate.value, FeatureGate::ActiveSince(_)) => {
                self.facts.feature_gate = Timestamped::default();
            }
            (Some(gate), _) => self.facts.feature_gate.set(gate.value, self.now()),
        }
    }

    async fn request_all_votes(&mut self) -> Option<VoteAccounts> {
        let votes: VoteAccounts = self.request("getVoteAccounts", processed()).await?;
        if self.poller.config.vote_account.is_none() {
            let of_command_line = self.poller.endpoint.vote_account(self.facts.process);
            self.facts
                .set_vote_account(votes.of_identity(self.facts.identity, of_command_line));
        }
        self.facts.set_cluster_votes(&votes, self.now());
        Some(votes)
    }

    async fn request_own_votes(&mut self) {
        let Some(account) = self.facts.vote_account else {
            let ttl = self.facts.ttl(ROUNDS_PER_CLUSTER_REQUEST);
            self.facts.up = self.facts.cluster_votes.fresh(self.now(), ttl).is_some();
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
            let has_unnamed = votes.all().any(|(other, _)| other.vote_pubkey.is_none());
            self.add_broken_problem(if has_unnamed {
                format!("getVoteAccounts: votePubkey is missing in the answer about {account}")
            } else {
                format!("getVoteAccounts: the node knows no vote account {account}")
            });
            self.facts.own_account.set(None, self.now());
            return;
        };
        let missing_fields = own.missing_fields();
        if !missing_fields.is_empty() {
            let fields = missing_fields.join(", ");
            self.add_broken_problem(format!(
                "getVoteAccounts: vote account {account} has no readable {fields}"
            ));
        }
        self.facts.up = true;
        let Some(epoch_info) = self.request_epoch_info().await else {
            return;
        };
        let own = OwnVoteAccount {
            account: own.clone(),
            delinquent,
            epoch_info,
        };
        self.facts.own_account.set(Some(own), self.now());
    }

    async fn request_balances(&mut self) {
        if let Some(lamports) = self.request_balance(self.facts.identity).await {
            self.facts.identity_balance.set(lamports, self.now());
        }
        if let Some(account) = self.facts.vote_account
            && let Some(lamports) = self.request_balance(account).await
        {
            self.facts.vote_balance.set(lamports, self.now());
        }
    }

    async fn request_balance(&mut self, account: PublicKey) -> Option<u64> {
        let params = json!([account.to_string(), {"commitment": "processed"}]);
        let ResultWithContext { value } = self.request("getBalance", params).await?;
        Some(value)
    }

    async fn request_schedule(&mut self) {
        let Some(epoch_info) = self.facts.epoch_info(self.now()) else {
            return;
        };
        let method = "getLeaderSchedule";
        let is_known = self
            .facts
            .own_schedule
            .as_ref()
            .is_some_and(|schedule| schedule.epoch == epoch_info.epoch);
        if is_known || self.poller.missing_methods.contains(&method) {
            return;
        }
        let identity = self.facts.identity;
        let params = json!([epoch_info.absolute_slot, {"commitment": "processed", "identity": identity.to_string()}]);
        let answer = match self.call(method, params).await {
            Err(Failure::AnswerError(Error::Rpc {
                code: NOT_IN_LEADER_SCHEDULE,
                ..
            })) => Some(Some(LeaderSchedule::default())),
            result => self.answer_or_problem(method, result),
        };
        if let Some(Some(schedule)) = answer {
            let schedule = OwnLeaderSchedule::new(
                epoch_info.epoch,
                first_slot_of_epoch(&epoch_info),
                epoch_info.slots_in_epoch,
                schedule.slot_indices_of(identity),
            );
            self.facts.own_schedule = Some(Arc::new(schedule));
        }
    }

    /// Uses `confirmed`: a processed bank may be on a fork that is abandoned later. A slot skipped
    /// on this fork may have a block on the final one: the count of skipped slots would fall.
    async fn request_production(&mut self) {
        let params = json!([{"commitment": "confirmed"}]);
        if let Some(ResultWithContext::<BlockProduction> { value }) =
            self.request("getBlockProduction", params).await
        {
            let own = value.slot_counts_of(self.facts.identity);
            let production = (value.range.first_slot, own, value.slot_counts_of_all());
            self.facts.production.set(production, self.now());
        }
    }

    async fn request_versions(&mut self, votes: &VoteAccounts) {
        let rpc_facts = self.poller.endpoint.rpc_facts(self.facts.process);
        let Some(version) = rpc_facts.as_ref().and_then(|facts| facts.version.as_ref()) else {
            return;
        };
        if let Some(ClusterNodes(nodes)) = self.request("getClusterNodes", json!([])).await
            && let Some(shares) =
                cluster::version_shares(votes, &nodes, self.facts.identity, version)
        {
            self.facts.version_shares.set(shares, self.now());
        }
    }
}

fn processed() -> Value {
    json!([{"commitment": "processed"}])
}
