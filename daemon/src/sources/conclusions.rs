//! What follows from the other sources together: who the validator is, its slots and distance to the tip, its phase.
//!
//! Here alone JSON-RPC, the admin socket, the datapoints and the log meet: each tells a part, at its own time.

use super::admin::AdminFacts;
use super::cgroup::LOOK_UP_AGAIN;
use super::rpc::{self, RpcFacts, identity_of};
use super::{Finding, Look, Poll};
use crate::config;
use crate::hub::Latest;
use crate::tail;
use crate::target::Target;
use crate::validator::intake::{Facts, Intake};
use crate::validator::phase::{Evidence, Phase, Tracker, word};
use faultline_agave::identify::{Program, startup_host_id};
use faultline_agave::version::{Version, shrink_target};
use faultline_catalog::metrics::{process as p, validator as v};
use faultline_catalog::{Reading, Source, Stamp, Text};
use faultline_kernel::{HostRoot, ProcessId, locate};
use std::sync::Arc;
use std::time::Duration;

/// Slots from datapoints tell the distance for this long: pushes come every 10 s.
const DATAPOINTS_TELL: Duration = Duration::from_secs(30);

/// What the other sources told last, and what was concluded so far.
pub struct Conclusions {
    live: Latest<config::Config>,
    config: Arc<config::Config>,
    told: Told,
    tracker: Tracker,
    followed: Option<ProcessId>,
    followed_at: Stamp,
    cgroup: Option<String>,
    /// When that was looked up.
    cgroup_at: Stamp,
}

/// Where the other sources leave what they learn.
pub struct Told {
    /// Datapoints.
    pub intake: Intake,
    /// JSON-RPC.
    pub rpc: rpc::Handle,
    /// The admin socket.
    pub admin: Latest<AdminFacts>,
    /// The log, if it is followed.
    pub log: Option<tail::View>,
}

/// What the listening sources know of the process that is followed now.
struct Known {
    rpc: Option<Arc<RpcFacts>>,
    admin: Option<Arc<AdminFacts>>,
    datapoints: Facts,
}

impl Conclusions {
    /// Nothing concluded yet. `live` is the configuration, which may be replaced while the daemon runs.
    pub fn new(live: Latest<config::Config>, told: Told) -> Self {
        let config = live.get().unwrap_or_default();
        let tracker = Tracker::new(config.phase.clone());
        let (followed, followed_at, cgroup, cgroup_at) = Default::default();
        Conclusions { live, config, told, tracker, followed, followed_at, cgroup, cgroup_at }
    }

    /// Takes over a configuration that was loaded anew.
    fn reconfigure(&mut self) {
        if let Some(config) = self.live.get().filter(|config| !Arc::ptr_eq(config, &self.config)) {
            self.tracker.configure(config.phase.clone());
            self.config = config;
        }
    }

    /// Another process is followed: whatever was known was known of the old one.
    fn follow(&mut self, look: &Look<'_>) {
        let process = look.target.map(|target| target.process);
        if process == self.followed {
            return;
        }
        self.followed = process;
        self.followed_at = look.now;
        self.cgroup = None;
        self.find_cgroup(look);
        if look.target.is_some() {
            self.tracker.restart();
            self.told.intake.restart(startup_id(look.root));
        }
    }

    /// Looks where the process is now. One that is ending is nowhere (version 1 says: at the top), and was where it was.
    fn find_cgroup(&mut self, look: &Look<'_>) {
        self.cgroup_at = look.now;
        let now = look.target.and_then(|target| cgroup_path(look.root, target.process.pid));
        let now = now.filter(|path| path != "/" || self.cgroup.is_none());
        self.cgroup = now.or_else(|| self.cgroup.take());
    }

    fn known(&self) -> Known {
        Known {
            rpc: self.told.rpc.facts().filter(|facts| Some(facts.process) == self.followed),
            admin: self.told.admin.get().filter(|facts| Some(facts.process) == self.followed),
            datapoints: self.told.intake.facts(),
        }
    }

    /// Tells the intake whose points count.
    fn identify(&self, look: &Look<'_>, target: &Target, known: &Known) {
        let asked = identity_of(target.process, known.rpc.as_deref(), known.admin.as_deref());
        if let Some(identity) = asked.or_else(|| self.config.target.identity.clone()) {
            self.told.intake.carries(&identity, look.now);
        }
        let program = target.validator.as_ref().map(|validator| validator.program);
        if program == Some(Program::TestValidator)
            && let Some(id) = startup_id(look.root)
        {
            // It pushes under its start-up name for all its life.
            self.told.intake.carries(&id, look.now);
        }
        let has_rpc = self.config.rpc.url.is_some() || target.validator.as_ref().is_some_and(|v| v.rpc_port.is_some());
        let can_be_asked = (self.config.rpc.enabled && has_rpc) || known.admin.as_ref().is_some_and(|facts| facts.up);
        if !can_be_asked && self.told.intake.assume_identity(look.now) {
            tracing::warn!("the validator cannot be asked for its identity; its only sender is taken for it");
        }
        if let Some(slot) = known.rpc.as_ref().and_then(|facts| facts.epoch_info.map(|info| info.absolute_slot)) {
            self.told.intake.rpc_slot(slot, look.now);
        }
    }

    fn evidence(&self, look: &Look<'_>, known: &Known, behind: Option<u64>) -> Evidence {
        let progress = known.admin.as_ref().and_then(|facts| facts.progress.as_ref());
        let answers = known.rpc.as_ref().is_some_and(|facts| facts.up);
        let running = answers || progress.is_some_and(|progress| progress.name() == "Running");
        let start = progress.and_then(Phase::of_start);
        let start = start.or_else(|| self.log_phase().filter(|_| progress.is_none() && !answers));
        // An admin socket that says `Running` every 10 s tells, even if no distance is known.
        let heard = progress.is_some() || self.heard_at(known).is_some_and(|at| look.now.since(at) < DATAPOINTS_TELL);
        Evidence { alive: look.target.is_some(), start, running, behind, heard }
    }

    /// When this process's last push ended or the last line of its log came.
    fn heard_at(&self, known: &Known) -> Option<Stamp> {
        let line = self.told.log.as_ref().and_then(|log| log.status().last_line);
        known.datapoints.last_push.max(line.filter(|at| *at >= self.followed_at))
    }

    /// The phase as this process's log told it.
    fn log_phase(&self) -> Option<Phase> {
        let told = self.told.log.as_ref()?.progress()?;
        Phase::of_log(told.progress).filter(|_| told.at >= self.followed_at)
    }

    fn info(&self, target: &Target, known: &Known, version: Option<&str>) -> Reading {
        let text = |text: Option<&str>| Text::from(text.unwrap_or_default().to_owned());
        let labels = &self.config.labels;
        let identity = known.datapoints.identity.as_deref().or(self.config.target.identity.as_deref());
        let exe = target.exe.as_ref().map(|exe| exe.display().to_string());
        Reading::whole(
            &p::TARGET_INFO,
            [
                text(exe.as_deref()),
                text(Some(&target.comm)),
                text(version.map(short).as_deref()),
                text(client(target, version).as_deref()),
                text(labels.cluster.as_deref()),
                text(identity),
                text(self.cgroup.as_deref()),
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

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding { up: true, ..Finding::with_room(48) };
        self.reconfigure();
        self.follow(look);
        if look.now.since(self.cgroup_at) >= LOOK_UP_AGAIN {
            self.find_cgroup(look);
        }
        let known = self.known();
        finding.readings.push(Reading::flag(&p::UP, [], look.target.is_some()));
        let mut distance = None;
        if let Some(target) = look.target {
            let version = known.rpc.as_ref().and_then(|facts| facts.version.as_ref().map(|v| v.solana_core.clone()));
            let version = version.or_else(|| known.datapoints.version.clone());
            finding.readings.push(self.info(target, &known, version.as_deref()));
            if target.validator.is_some() {
                self.identify(look, target, &known);
                capacity(version.as_deref(), self.config.target.program_cache_entries, &mut finding);
                distance = slots(look.now, &known, &mut finding);
            }
        }
        let is_other = look.target.is_some_and(|target| target.validator.is_none());
        if !is_other {
            let (evidence, before) = (self.evidence(look, &known, distance), self.tracker.phase());
            if self.tracker.tick(look.now, evidence) {
                tracing::info!(from = word(before), to = word(self.tracker.phase()), "phase");
            }
            self.tracker.readings(&mut finding.readings);
        }
        finding
    }
}

/// The newest slots, and how far behind the tip the validator is; one source at one moment tells both ends of it.
fn slots(now: Stamp, known: &Known, finding: &mut Finding) -> Option<u64> {
    let rpc = known.rpc.as_deref();
    let epoch = rpc.and_then(|facts| facts.epoch_info);
    let (told, points) = known.datapoints.slots.unzip();
    let points = points.filter(|_| told.is_some_and(|at| now.since(at) < DATAPOINTS_TELL)).unwrap_or_default();
    for (kind, slot) in [
        ("processed", epoch.map(|info| info.absolute_slot).or(points.frozen)),
        ("confirmed", rpc.and_then(|facts| facts.confirmed)),
        ("finalized", rpc.and_then(|facts| facts.finalized)),
        ("root", points.root),
        ("optimistic", points.optimistic),
        ("shred", rpc.and_then(|facts| facts.max_shred).or(points.shred)),
    ] {
        finding.whole(&v::SLOT, [kind], slot);
    }
    let behind = rpc.and_then(|facts| facts.slots_behind).or_else(|| points.behind());
    finding.whole(&v::SLOTS_BEHIND, [], behind);
    behind
}

/// A version without its details, which JSON-RPC leaves out and `validator-new` tells: one validator, one label.
fn short(version: &str) -> String {
    Version::parse(version).map_or_else(|_| version.to_owned(), |version| version.to_string())
}

/// The program cache's capacity as the version or the configuration says.
fn capacity(version: Option<&str>, configured: Option<u64>, finding: &mut Finding) {
    let stock =
        version.and_then(|version| Version::parse(version).ok()).map(|version| version.program_cache_capacity());
    let Some(capacity) = configured.or(stock) else { return };
    finding.whole(&v::CACHE_CAPACITY, ["configured"], Some(capacity));
    finding.whole(&v::CACHE_SHRINK_TARGET, ["configured"], Some(shrink_target(capacity)));
}

/// Who built it, by the version it tells, else by its program; `None` for what is no validator.
pub(crate) fn client(target: &Target, version: Option<&str>) -> Option<String> {
    let program = target.validator.as_ref()?.program;
    let stated = version.and_then(|version| Version::parse(version).ok()).and_then(|version| version.client);
    let by_program = match program {
        Program::AgaveValidator | Program::TestValidator => "agave",
        Program::SolanaValidator => "solana-labs",
        Program::JitoValidator => "jito",
        Program::Fdctl => "frankendancer",
    };
    Some(stated.map_or(by_program.to_owned(), |client| client.name().to_owned()))
}

/// What a validator on this host calls itself before it has read its identity.
fn startup_id(root: &HostRoot) -> Option<String> {
    let name =
        root.read_proc("sys/kernel/hostname", |text| Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned()));
    name.ok().map(|name| startup_host_id(&name))
}

/// Where the process's memory is accounted, as the kernel writes it.
fn cgroup_path(root: &HostRoot, pid: u32) -> Option<String> {
    let cgroups = locate(root, pid).ok()?;
    cgroups.memory.or(cgroups.unified).ok().map(|folder| folder.path)
}
