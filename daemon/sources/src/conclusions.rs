//! Derives state from all sources: the validator's identity, its slots, its distance to the tip and
//! its phase. Only this source combines JSON-RPC, the admin socket, the datapoints and the log.

mod consensus;
mod slots;

use super::admin::AdminFacts;
use super::distance::DistanceEvidence;
use super::rpc::{self, RpcFacts, identity_of};
use super::votes;
use crate::discovery::Target;
use crate::tick::{Poll, SampleContext, SourceOutput};
use faultline_core::config;
use faultline_core::hub::Latest;
use faultline_datapoints::tail;
use faultline_datapoints::validator::intake::{Intake, PushFacts};
use faultline_datapoints::validator::phase::{from_log_progress, from_start_progress};
use faultline_datapoints::validator::senders::Assumption;

use consensus::ConsensusState;
use faultline_agave::consensus::{Consensus, Protocol};
use faultline_agave::identify::{HEALTH_DISTANCE, Program, startup_host_id};
use faultline_agave::version::{Version, shrink_target};
use faultline_kernel::parse::pid_stat::State;
use faultline_kernel::{HostRoot, ProcessId};
use faultline_metrics::metrics::recorded::PHASE_EVIDENCE;
use faultline_metrics::metrics::{process as p, validator as v};
use faultline_metrics::{Reading, ReadingList, Source, Stamp, Text};
use faultline_phase::{Evidence, Phase, Process, Rules, Stage, Tracker, phase_name};
use slots::SlotTracker;
use std::sync::Arc;
use std::time::Duration;

/// Lifetime of a reported start stage: some stages report nothing for a while.
const STAGE_MAX_AGE: Duration = Duration::from_secs(60);

pub struct Conclusions {
    latest_config: Latest<config::Config>,
    config: Arc<config::Config>,
    inputs: Inputs,
    tracker: Tracker,
    slot_time: Latest<Duration>,
    slots: SlotTracker,
    consensus: ConsensusState,
    followed: Option<ProcessId>,
    followed_at: Stamp,
    /// The followed process if it is a validator; a wrapper is not.
    validator: Option<ProcessId>,
}

/// The latest results of the other sources.
pub struct Inputs {
    pub intake: Intake,
    pub rpc: rpc::Handle,
    pub votes: votes::Handle,
    pub admin: Latest<AdminFacts>,
    pub log: Option<tail::StatusHandle>,
}

/// The pollers' facts about the current process.
struct SourceFacts {
    rpc: Option<Arc<RpcFacts>>,
    admin: Option<Arc<AdminFacts>>,
    datapoints: PushFacts,
    /// Maximum distance at which the validator reports itself healthy.
    health_distance: u64,
}

impl SourceFacts {
    fn distance_evidence(&self, now: Stamp) -> DistanceEvidence {
        let rpc = self.rpc.as_deref();
        DistanceEvidence::new(now, rpc, self.datapoints.slots, self.health_distance)
    }
}

impl Conclusions {
    pub fn new(
        latest_config: Latest<config::Config>,
        inputs: Inputs,
        slot_time: Latest<Duration>,
    ) -> Self {
        let config = latest_config.get().unwrap_or_default();
        let tracker = Tracker::new(rules(&config));
        let (slots, consensus, followed, followed_at, validator) = Default::default();
        Conclusions {
            latest_config,
            config,
            inputs,
            tracker,
            slot_time,
            slots,
            consensus,
            followed,
            followed_at,
            validator,
        }
    }

    fn reconfigure(&mut self) {
        if let Some(config) = self
            .latest_config
            .get()
            .filter(|config| !Arc::ptr_eq(config, &self.config))
        {
            self.tracker.configure(rules(&config));
            self.config = config;
        }
    }

    fn publish_slot_time(&self) {
        let slot_time = self.tracker.slot_time();
        if slot_time != self.slot_time.get().map(|time| *time) {
            self.slot_time.set(slot_time.map(Arc::new));
        }
    }

    /// Resets the state for a new process. The intake holds pushes until the process is a
    /// validator.
    fn follow(&mut self, context: &SampleContext<'_>) {
        let process = context.target.map(|target| target.process);
        if process != self.followed {
            self.followed = process;
            self.followed_at = context.now;
            self.slots = SlotTracker::default();
            self.consensus = ConsensusState::default();
            if process.is_some() {
                self.tracker.restart();
            }
            if context
                .target
                .is_some_and(|target| target.validator.is_none())
            {
                self.inputs.intake.wait();
            }
        }
        let is_validator = |target: &&Target| target.validator.is_some();
        let validator = context.target.filter(is_validator).and(process);
        if validator == self.validator {
            return;
        }
        self.validator = validator;
        if let Some(process) = validator {
            self.inputs.intake.restart(startup_id(context.root));
            self.inputs.intake.follows(process);
        } else {
            self.inputs.intake.gone();
        }
    }

    fn source_facts(&self, target: Option<&Target>) -> SourceFacts {
        let validator = target.and_then(|target| target.validator.as_ref());
        SourceFacts {
            rpc: self
                .inputs
                .rpc
                .facts()
                .filter(|facts| Some(facts.process) == self.followed),
            admin: self
                .inputs
                .admin
                .get()
                .filter(|facts| Some(facts.process) == self.followed),
            datapoints: self.inputs.intake.facts(),
            health_distance: validator
                .map_or(HEALTH_DISTANCE, |validator| validator.health_distance),
        }
    }

    fn identify(&self, context: &SampleContext<'_>, target: &Target, source_facts: &SourceFacts) {
        let requested = identity_of(
            target.process,
            source_facts.rpc.as_deref(),
            source_facts.admin.as_deref(),
        );
        let program = target.validator.as_ref().map(|validator| validator.program);
        if program == Some(Program::TestValidator)
            && let Some(id) = startup_id(context.root)
        {
            // solana-test-validator pushes under its start-up host id until its end.
            self.inputs.intake.add_host_id(&id, context.now);
        }
        match (requested, self.config.target.identity) {
            (Some(identity), _) => self
                .inputs
                .intake
                .set_reported_identity(&identity.to_string(), context.now),
            (None, Some(identity)) => {
                self.inputs
                    .intake
                    .set_configured_identity(&identity.to_string(), context.now);
            }
            (None, None) => {}
        }
        let has_rpc = self.config.rpc.url.is_some()
            || target
                .validator
                .as_ref()
                .is_some_and(|v| v.rpc_port.is_some());
        let has_rpc_poller = (self.config.rpc.enabled && has_rpc)
            || source_facts.admin.as_ref().is_some_and(|facts| facts.up);
        if !has_rpc_poller {
            log_assumption(self.inputs.intake.assume_identity(context.now));
        }
        if let Some(facts) = &source_facts.rpc
            && let (Some(info), Some(at)) = (facts.epoch_info, facts.slot_at)
        {
            self.inputs
                .intake
                .set_rpc_slots(info.absolute_slot, facts.max_shred, at);
        }
    }

    fn consensus(
        &mut self,
        now: Stamp,
        process: ProcessId,
        source_facts: &SourceFacts,
        output: &mut SourceOutput,
    ) -> Option<Consensus> {
        let votes = self.inputs.votes.migration(process, now);
        let consensus = self.consensus.update(now, source_facts, &votes);
        self.inputs.votes.set_consensus(process, consensus);
        let proven = consensus.as_ref();
        proven.inspect(|consensus| consensus::readings(consensus, output));
        if proven.is_some_and(|consensus| consensus.protocol == Protocol::Alpenglow) {
            let balance = self.inputs.votes.vote_balance(process, now);
            let slot_time = self.tracker.slot_time();
            consensus::admission_shortfall(now, source_facts, balance.zip(slot_time), output);
        }
        consensus
    }

    fn evidence(&self, context: &SampleContext<'_>, source_facts: &SourceFacts) -> Evidence {
        let progress = source_facts
            .admin
            .as_ref()
            .and_then(|facts| facts.progress.as_ref());
        let rpc_is_up = source_facts.rpc.as_ref().is_some_and(|facts| facts.up);
        let has_answered = source_facts
            .rpc
            .as_ref()
            .is_some_and(|facts| facts.slot_at.is_some());
        let running = rpc_is_up || progress.is_some_and(|progress| progress.name() == "Running");
        let start = progress.and_then(from_start_progress);
        // The log reports a start, but not its end.
        let start = start.or_else(|| {
            self.log_phase()
                .filter(|_| progress.is_none() && !has_answered)
        });
        let is_recent = |at: Stamp| context.now.since(at) < STAGE_MAX_AGE;
        let stage = start
            .map(Stage::Reported)
            .or(running.then_some(Stage::Running))
            .filter(|_| self.last_reported_at(source_facts).is_some_and(is_recent));
        let process = if context.target.is_none() {
            Process::None
        } else if is_stopped(context) {
            Process::Stopped
        } else {
            Process::Alive
        };
        Evidence {
            process,
            stage,
            ..Evidence::default()
        }
    }

    /// Time of the last report by this process from any source.
    fn last_reported_at(&self, source_facts: &SourceFacts) -> Option<Stamp> {
        let line = self
            .inputs
            .log
            .as_ref()
            .and_then(|log| log.snapshot().last_line);
        let admin = source_facts
            .admin
            .as_ref()
            .filter(|facts| facts.progress.is_some())
            .map(|facts| facts.at);
        let rpc = source_facts.rpc.as_ref().and_then(|facts| facts.slot_at);
        let line = line.filter(|at| *at >= self.followed_at);
        source_facts
            .datapoints
            .last_push
            .max(line)
            .max(admin)
            .max(rpc)
    }

    fn log_phase(&self) -> Option<Phase> {
        let newest = self.inputs.log.as_ref()?.snapshot().progress?;
        from_log_progress(newest.progress).filter(|_| newest.at >= self.followed_at)
    }

    fn info(
        &self,
        context: &SampleContext<'_>,
        target: &Target,
        source_facts: &SourceFacts,
        version: Option<&str>,
    ) -> Reading {
        let text = |text: Option<&str>| Text::from(text.unwrap_or_default().to_owned());
        let labels = &self.config.labels;
        let configured = self.config.target.identity.map(|key| key.to_string());
        let identity = source_facts.datapoints.identity.clone().or(configured);
        let cluster = self.inputs.votes.cluster(target.process);
        let exe = target.exe.as_ref().map(|exe| faultline_text::path(exe));
        Reading::whole(
            &p::TARGET_INFO,
            [
                text(exe.as_deref()),
                text(Some(&target.comm)),
                text(version.map(display_version).as_deref()),
                text(client(target, version).as_deref()),
                text(labels.cluster.as_deref().or(cluster.as_deref())),
                text(identity.as_deref()),
                context
                    .process_state
                    .cgroup
                    .get()
                    .map_or("".into(), |path| Text::Shared(Arc::clone(path))),
                text(labels.experiment.as_deref()),
                text(labels.arm.as_deref()),
                text(labels.run.as_deref()),
            ],
            1,
        )
    }
}

impl Poll for Conclusions {
    fn source(&self) -> Source {
        Source::Conclusions
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput {
            up: true,
            ..SourceOutput::with_capacity(48)
        };
        self.reconfigure();
        self.follow(context);
        let source_facts = self.source_facts(context.target);
        let mut evidence = self.evidence(context, &source_facts);
        output.readings.flag(&p::UP, [], context.target.is_some());
        if let Some(target) = context.target {
            let version = source_facts
                .rpc
                .as_ref()
                .and_then(|facts| facts.version.as_ref().map(|v| v.solana_core.clone()));
            let version = version.or_else(|| source_facts.datapoints.version.clone());
            output
                .readings
                .push(self.info(context, target, &source_facts, version.as_deref()));
            if target.validator.is_some() {
                self.identify(context, target, &source_facts);
                cache_capacity(
                    version.as_deref(),
                    self.config.target.program_cache_entries,
                    &mut output,
                );
                let consensus =
                    self.consensus(context.now, target.process, &source_facts, &mut output);
                let protocol = consensus.map(|consensus| consensus.protocol);
                self.slots.sample(
                    (context.now, protocol),
                    &source_facts,
                    &mut output,
                    &mut evidence,
                );
            }
        }
        let is_not_validator = context
            .target
            .is_some_and(|target| target.validator.is_none());
        if !is_not_validator {
            let before = self.tracker.phase();
            self.tracker.tick(context.now.uptime, &evidence);
            let after = self.tracker.phase();
            if after != before {
                tracing::info!(from = phase_name(before), to = phase_name(after), "phase");
            }
            self.publish_slot_time();
            phase_readings(&self.tracker, &evidence, &mut output);
        }
        output
    }
}

fn log_assumption(assumption: Option<Assumption>) {
    match assumption {
        Some(Assumption::Sole(identity)) => tracing::warn!(
            identity,
            "the validator does not report its identity; the only sender of pushes is assumed to be it"
        ),
        Some(Assumption::Revised { from, to }) => tracing::warn!(
            from,
            to,
            "the sender that was assumed to be the validator is silent; the one that pushes in its place is assumed to be it"
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
        interval: config.sampling.interval,
    }
}

/// True if a signal stopped the process or its cgroup is frozen.
fn is_stopped(context: &SampleContext<'_>) -> bool {
    let state = context.process_state.state.get();
    context.process_state.frozen.get() == Some(true)
        || matches!(state, Some(State::Stopped | State::TracingStop))
}

/// Exports the phase, the time in each phase, and the evidence, from which a report derives the
/// same phases.
fn phase_readings(tracker: &Tracker, evidence: &Evidence, output: &mut SourceOutput) {
    let readings = &mut output.readings;
    for phase in Phase::ALL {
        let (name, seconds) = (phase.name(), tracker.time_in(phase).as_secs_f64());
        let is_on = Some(phase) == tracker.phase();
        readings.flag(&v::PHASE, [name.into()], is_on);
        readings.real(&v::PHASE_SECONDS, [name.into()], seconds);
    }
    for (metric, flag) in [
        (&v::KEPT_UP, tracker.kept_up()),
        (&v::STALLED, tracker.stalled()),
    ] {
        readings.flag(metric, [], flag);
    }
    let slot_time = tracker.slot_time();
    readings.real(
        &v::SLOT_SECONDS,
        [],
        slot_time.map(|time| time.as_secs_f64()),
    );
    if evidence.process != Process::None {
        let stopped = u64::from(evidence.process == Process::Stopped);
        output.whole(&PHASE_EVIDENCE, ["stopped"], Some(stopped));
        output.whole(&PHASE_EVIDENCE, ["slot"], evidence.slot);
        output.whole(&PHASE_EVIDENCE, ["tip"], evidence.tip);
    }
}

/// The version without the details that only `validator-new` has. So one validator has one label
/// value.
fn display_version(version: &str) -> String {
    Version::parse(version).map_or_else(|_| version.to_owned(), |version| version.to_string())
}

fn cache_capacity(version: Option<&str>, configured: Option<u64>, output: &mut SourceOutput) {
    let stock_capacity = version
        .and_then(|version| Version::parse(version).ok())
        .map(|version| version.program_cache_capacity());
    let Some(cache_capacity) = configured.or(stock_capacity) else {
        return;
    };
    output.whole(&v::CACHE_CAPACITY, ["configured"], Some(cache_capacity));
    output.whole(
        &v::CACHE_SHRINK_TARGET,
        ["configured"],
        Some(shrink_target(cache_capacity)),
    );
}

/// The client by reported version, else by program; `None` for non-validators.
pub fn client(target: &Target, version: Option<&str>) -> Option<String> {
    let program = target.validator.as_ref()?.program;
    let reported_client = version
        .and_then(|version| Version::parse(version).ok())
        .and_then(|version| version.client);
    let by_program = match program {
        Program::AgaveValidator | Program::TestValidator => "agave",
        Program::SolanaValidator => "solana-labs",
        Program::JitoValidator => "jito",
        Program::Fdctl => "frankendancer",
    };
    Some(reported_client.map_or(by_program.to_owned(), |client| client.name().to_owned()))
}

/// The host id of a validator before it has read its identity.
fn startup_id(root: &HostRoot) -> Option<String> {
    let name = root.read_proc("sys/kernel/hostname", |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    });
    name.ok().map(|name| startup_host_id(&name))
}
