//! The validator's identity, slots, distance to the tip and phase. Only this source combines
//! JSON-RPC, the admin socket, the datapoints and the log.

mod consensus;
mod slots;

use crate::{
    admin::AdminFacts,
    datapoints::{self, host_id_before_identity},
    discovery::Target,
    distance::DistanceEvidence,
    rpc::{self, RpcFacts, endpoint_url, identity_of},
    tick::{SampleContext, Sampler, SourceOutput},
    votes::{self, VoteFacts},
};
use faultline_core::{config, publish::Latest};
use faultline_datapoints::{
    tail,
    validator::{
        intake::{Intake, PushFacts},
        phase::{from_log_progress, from_start_progress},
        senders::Assumption,
    },
};

use consensus::ConsensusState;
use faultline_agave::{
    consensus::Protocol,
    identify::{DEFAULT_HEALTH_DISTANCE, Program},
    version::{ValidatorClient, Version, shrink_target},
};
use faultline_kernel::{ProcessId, parse::pid_stat::State};
use faultline_metrics::{
    LabelText, Reading, Stamp,
    metrics::{process as p, recorded::PHASE_EVIDENCE, validator as v},
};
use faultline_phase::{Phase, PhaseEvidence, Process, Rules, Stage, Tracker, phase_name};
use slots::SlotTracker;
use std::{sync::Arc, time::Duration};

/// Lifetime of a report about the validator's start: some stages report nothing for a while.
const STAGE_MAX_AGE: Duration = Duration::from_secs(60);

pub struct Conclusions {
    latest_config: Latest<config::Config>,
    config: Arc<config::Config>,
    intake: Intake,
    rpc: rpc::Handle,
    /// Also passes the slot time and the consensus to the poller of votes.
    votes: votes::Handle,
    admin: Latest<AdminFacts>,
    log_status: Option<tail::StatusHandle>,
    tracker: Tracker,
    slots: SlotTracker,
    consensus: ConsensusState,
    followed_process: Option<ProcessId>,
    followed_at: Stamp,
}

/// The pollers' facts about the current process.
#[derive(Clone)]
struct SourceFacts {
    now: Stamp,
    rpc: Option<Arc<RpcFacts>>,
    admin: Option<Arc<AdminFacts>>,
    votes: Option<Arc<VoteFacts>>,
    datapoints: PushFacts,
    health_distance: u64,
}

impl SourceFacts {
    fn distance_evidence(&self) -> DistanceEvidence {
        let (rpc, pushed) = (self.rpc.as_deref(), self.datapoints.slots);
        DistanceEvidence::new(self.now, rpc, pushed, self.health_distance)
    }

    fn processed_slot(&self) -> Option<u64> {
        Some(self.rpc.as_ref()?.epoch_info?.absolute_slot)
    }

    fn processed_slot_received_at(&self) -> Option<Stamp> {
        self.rpc.as_ref()?.processed_slot_received_at
    }

    fn max_shred_slot(&self) -> Option<u64> {
        self.rpc.as_ref()?.max_shred_slot
    }

    fn version(&self) -> Option<&str> {
        let rpc = self.rpc.as_ref().and_then(|facts| facts.version.as_ref());
        rpc.map(|version| &*version.solana_core)
            .or(self.datapoints.version.as_deref())
    }
}

impl Conclusions {
    pub fn new(
        latest_config: Latest<config::Config>,
        intake: Intake,
        rpc: rpc::Handle,
        votes: votes::Handle,
        admin: Latest<AdminFacts>,
        log_status: Option<tail::StatusHandle>,
    ) -> Self {
        let config = latest_config.get().unwrap_or_default();
        Self {
            tracker: Tracker::new(rules(&config)),
            latest_config,
            config,
            intake,
            rpc,
            votes,
            admin,
            log_status,
            slots: SlotTracker::default(),
            consensus: ConsensusState::default(),
            followed_process: None,
            followed_at: Stamp::default(),
        }
    }

    fn reconfigure(&mut self) {
        if let Some(config) = self.latest_config.get()
            && !Arc::ptr_eq(&config, &self.config)
        {
            self.tracker.rules = rules(&config);
            self.config = config;
        }
    }

    fn publish_slot_time(&self) {
        let slot_time = self.tracker.slot_time();
        if slot_time != self.votes.slot_time.get().map(|time| *time) {
            self.votes.slot_time.set(slot_time.map(Arc::new));
        }
    }

    /// Resets the state for a new process.
    fn update_followed(&mut self, context: &SampleContext<'_>) {
        // Without pushes and log, `datapoints` is not sampled.
        datapoints::update_followed(&self.intake, context);
        let process = context.process();
        if process == self.followed_process {
            return;
        }
        self.followed_process = process;
        self.followed_at = context.now;
        self.slots = SlotTracker::default();
        self.consensus = ConsensusState::default();
        if process.is_some() {
            self.tracker.begin_process();
        }
    }

    fn source_facts(&self, context: &SampleContext<'_>) -> SourceFacts {
        let process = self.followed_process;
        SourceFacts {
            now: context.now,
            rpc: self.rpc.facts_of(process),
            admin: self
                .admin
                .get()
                .filter(|facts| Some(facts.process) == process),
            votes: process.and_then(|process| self.votes.facts_of(process)),
            datapoints: self.intake.facts(),
            health_distance: context
                .target
                .map_or(DEFAULT_HEALTH_DISTANCE, Target::health_distance),
        }
    }

    /// By the identity and the slots, the intake distinguishes the validator's pushes from those of
    /// other senders.
    fn update_intake(&self, context: &SampleContext<'_>, target: &Target, facts: &SourceFacts) {
        let (intake, config, now) = (&self.intake, &self.config, context.now);
        let validator = target.validator.as_ref();
        if validator.is_some_and(|validator| validator.program == Program::TestValidator)
            && let Some(id) = host_id_before_identity(context.root)
        {
            // solana-test-validator pushes under its start-up host id until its end.
            intake.add_host_id(&id, now);
        }
        let (rpc, admin) = (facts.rpc.as_deref(), facts.admin.as_deref());
        if let Some(identity) = identity_of(target.process, rpc, admin) {
            intake.set_reported_identity(&identity.to_string(), now);
        } else if let Some(identity) = config.target.identity {
            intake.set_configured_identity(&identity.to_string(), now);
        }
        let url = config.rpc.url.as_deref();
        let may_report_identity = (config.rpc.enabled && endpoint_url(url, target, admin).is_ok())
            || admin.is_some_and(|facts| facts.up);
        if !may_report_identity {
            log_assumption(intake.assume_identity(now));
        }
        if let Some((slot, at)) = facts
            .processed_slot()
            .zip(facts.processed_slot_received_at())
        {
            intake.set_rpc_slots(slot, facts.max_shred_slot(), at);
        }
    }

    fn update_consensus(
        &mut self,
        process: ProcessId,
        facts: &SourceFacts,
        output: &mut SourceOutput,
    ) -> Option<Protocol> {
        let consensus = self.consensus.update(facts);
        let published = consensus.map(|consensus| Arc::new((process, consensus)));
        self.votes.consensus.set(published);
        let consensus = consensus?;
        consensus::add_readings(&consensus, output);
        if consensus.protocol == Protocol::Alpenglow {
            consensus::add_admission_shortfall(facts, self.tracker.slot_time(), output);
        }
        Some(consensus.protocol)
    }

    fn evidence(&self, context: &SampleContext<'_>, facts: &SourceFacts) -> PhaseEvidence {
        let (rpc, admin) = (facts.rpc.as_ref(), facts.admin.as_ref());
        let log = self
            .log_status
            .as_ref()
            .map(tail::StatusHandle::snapshot)
            .unwrap_or_default();
        let last_line_at = log.last_record_at.filter(|at| *at >= self.followed_at);
        let log_step = log
            .last_step
            .filter(|log_step| log_step.at >= self.followed_at);
        let admin_progress = admin.and_then(|facts| facts.progress.as_ref());
        let start_stage = match admin_progress {
            Some(progress) => from_start_progress(progress),
            // The log does not report the end of a start. A slot from JSON-RPC shows that end.
            None if facts.processed_slot_received_at().is_none() => {
                log_step.and_then(|log_step| from_log_progress(log_step.progress))
            }
            None => None,
        };
        let is_running = rpc.is_some_and(|facts| facts.up)
            || admin_progress.is_some_and(|progress| progress.name() == "Running");
        let reported_at = facts
            .datapoints
            .last_push
            .max(last_line_at)
            .max(
                admin
                    .filter(|_| admin_progress.is_some())
                    .map(|facts| facts.polled_at),
            )
            .max(facts.processed_slot_received_at());
        let stage = start_stage
            .map(Stage::Reported)
            .or(is_running.then_some(Stage::Running))
            .filter(|_| reported_at.is_some_and(|at| facts.now.since(at) < STAGE_MAX_AGE));
        let process = match context.target {
            None => Process::None,
            Some(_) if is_stopped(context) => Process::Stopped,
            Some(_) => Process::Alive,
        };
        PhaseEvidence {
            process,
            stage,
            ..PhaseEvidence::default()
        }
    }

    fn target_info(
        &self,
        context: &SampleContext<'_>,
        target: &Target,
        facts: &SourceFacts,
    ) -> Reading {
        let text = |text: Option<&str>| LabelText::from(text.unwrap_or_default().to_owned());
        let labels = &self.config.labels;
        let configured = self.config.target.identity.map(|key| key.to_string());
        let identity = facts.datapoints.identity.as_deref();
        let cluster = facts.votes.as_ref().and_then(|facts| facts.cluster());
        let exe = target.exe.as_ref().map(|exe| faultline_text::path(exe));
        let version = facts.version();
        let cgroup = context.process_state.cgroup.get();
        Reading::integer(
            &p::TARGET_INFO,
            [
                text(exe.as_deref()),
                text(Some(&target.comm)),
                text(version.map(display_version).as_deref()),
                text(client(target, version).as_deref()),
                text(labels.cluster.as_deref().or(cluster)),
                text(identity.or(configured.as_deref())),
                cgroup.map_or("".into(), |path| Arc::clone(path).into()),
                text(labels.experiment.as_deref()),
                text(labels.arm.as_deref()),
                text(labels.run.as_deref()),
            ],
            1,
        )
    }
}

impl Sampler for Conclusions {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput {
            up: true,
            ..SourceOutput::with_capacity(48)
        };
        self.reconfigure();
        self.update_followed(context);
        let facts = self.source_facts(context);
        let mut evidence = self.evidence(context, &facts);
        output.flag(&p::UP, [], context.target.is_some());
        if let Some(target) = context.target {
            output
                .readings
                .push(self.target_info(context, target, &facts));
            if target.validator.is_some() {
                self.update_intake(context, target, &facts);
                let configured = self.config.target.program_cache_entries;
                add_program_cache_readings(facts.version(), configured, &mut output);
                let protocol = self.update_consensus(target.process, &facts, &mut output);
                self.slots
                    .sample(protocol, &facts, &mut output, &mut evidence);
            }
        }
        // A wrapper has no phase.
        if context
            .target
            .is_none_or(|target| target.validator.is_some())
        {
            let before = self.tracker.phase();
            self.tracker.tick(context.now.uptime, &evidence);
            let after = self.tracker.phase();
            if after != before {
                tracing::info!(from = phase_name(before), to = phase_name(after), "phase");
            }
            self.publish_slot_time();
            add_phase_readings(&self.tracker, &evidence, &mut output);
        }
        output
    }
}

fn log_assumption(assumption: Option<Assumption>) {
    match assumption {
        Some(Assumption::Sole(identity)) => tracing::warn!(
            identity,
            "the validator does not report its identity; the only sender of pushes is assumed to be the validator"
        ),
        Some(Assumption::Changed { from, to }) => tracing::warn!(
            from,
            to,
            "the sender that was assumed to be the validator is silent; the sender that replaced it is now assumed to be the validator"
        ),
        None => {}
    }
}

fn rules(config: &config::Config) -> Rules {
    let phase = &config.phase;
    Rules {
        at_tip_slots: phase.at_tip_slots,
        at_tip_for: phase.at_tip_for,
        behind_slots: phase.behind_slots,
        behind_for: phase.behind_for,
        tick_interval: config.sampling.interval,
    }
}

fn is_stopped(context: &SampleContext<'_>) -> bool {
    let state = context.process_state.state.get();
    context.process_state.frozen.get() == Some(true)
        || matches!(state, Some(State::Stopped | State::TracingStop))
}

/// `faultline report` derives the same phases from these readings in a recording.
fn add_phase_readings(tracker: &Tracker, evidence: &PhaseEvidence, output: &mut SourceOutput) {
    for phase in Phase::ALL {
        output.flag(&v::PHASE, [phase.name()], Some(phase) == tracker.phase());
        output.seconds(
            &v::PHASE_SECONDS,
            [phase.name()],
            Some(tracker.time_in(phase)),
        );
    }
    output.flag(&v::KEPT_UP, [], tracker.kept_up());
    output.flag(&v::STALLED, [], tracker.stalled());
    output.seconds(&v::SLOT_SECONDS, [], tracker.slot_time());
    if evidence.process != Process::None {
        let stopped = u64::from(evidence.process == Process::Stopped);
        output.integer(&PHASE_EVIDENCE, ["stopped"], stopped);
        output.integer(&PHASE_EVIDENCE, ["slot"], evidence.slot);
        output.integer(&PHASE_EVIDENCE, ["tip"], evidence.tip);
    }
}

/// Drops the details that only the datapoint `validator-new` has, so the label does not depend on
/// the version's source.
fn display_version(version: &str) -> String {
    Version::parse(version).map_or_else(|_| version.to_owned(), |version| version.to_string())
}

/// If no capacity is configured, the series `configured` have the default of the version.
fn add_program_cache_readings(
    version: Option<&str>,
    configured: Option<u64>,
    output: &mut SourceOutput,
) {
    let default_capacity = || Some(Version::parse(version?).ok()?.program_cache_capacity());
    let capacity = configured.or_else(default_capacity);
    output.integer(&v::CACHE_CAPACITY, ["configured"], capacity);
    let shrink_target = capacity.map(shrink_target);
    output.integer(&v::CACHE_SHRINK_TARGET, ["configured"], shrink_target);
}

/// By reported version, else by program; `None` for non-validators.
pub fn client(target: &Target, version: Option<&str>) -> Option<String> {
    let program = target.validator.as_ref()?.program;
    let reported = version.and_then(|version| Version::parse(version).ok()?.client);
    let by_program = match program {
        Program::AgaveValidator | Program::TestValidator => "agave",
        Program::SolanaValidator => "solana-labs",
        Program::JitoValidator => "jito",
        Program::Fdctl => "frankendancer",
    };
    Some(
        reported
            .as_ref()
            .map_or(by_program, ValidatorClient::name)
            .to_owned(),
    )
}

#[cfg(test)]
mod tests;
