//! What the tick sees of sources that fill a slot of their own: the datapoints, JSON-RPC, the admin socket, the log.

use super::admin::AdminFacts;
use super::rpc;
use crate::discovery::Following;
use crate::forward;
use crate::hub::Latest;
use crate::ingest;
use crate::tail;
use crate::tick::{Finding, Look, Poll};
use crate::validator::intake::Intake;
use faultline_catalog::{Problem, Source, Stamp};

/// The validator's datapoints, and the listener and the forwarder they pass through.
pub struct Datapoints {
    pub intake: Intake,
    /// Of the listener, if there is one.
    pub meter: Option<ingest::Meter>,
    /// Of the forwarder, if there is one.
    pub forward: Option<forward::Handle>,
}

impl Poll for Datapoints {
    fn source(&self) -> Source {
        Source::Datapoints
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        // What is wrong with the pushes is a state, told at every tick.
        let mut finding = Finding {
            up: self.intake.up(look.now),
            repeated: true,
            ..Finding::with_room(128)
        };
        self.intake.readings(look.now, &mut finding.readings);
        finding.problems = self.intake.problems(look.now);
        if let Some(meter) = &self.meter {
            meter.readings(&mut finding.readings);
        }
        if let Some(forward) = &self.forward {
            forward.readings(&mut finding.readings);
            let problems = forward.problems().into_iter();
            finding
                .problems
                .extend(problems.map(|(status, what)| Problem { status, what }));
        }
        finding
    }
}

/// JSON-RPC.
pub struct Rpc {
    /// What the poller found.
    pub handle: rpc::Handle,
    /// When the answer was heard that was told last.
    pub told: Option<Stamp>,
}

impl Poll for Rpc {
    fn source(&self) -> Source {
        Source::Rpc
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::default();
        let process = look.target.map(|target| target.process);
        self.handle.readings(process, &mut finding.readings);
        if let Some(facts) = self
            .handle
            .facts()
            .filter(|facts| Some(facts.process) == process)
        {
            finding.repeated = self.told.replace(facts.at) == Some(facts.at);
            finding.heard = Some(facts.at);
            finding.up = facts.up;
            finding.problems.clone_from(&facts.problems);
        }
        finding
    }
}

pub struct Admin {
    /// What the poller found.
    pub facts: Latest<AdminFacts>,
    /// When the answer was heard that was told last.
    pub told: Option<Stamp>,
}

impl Poll for Admin {
    fn source(&self) -> Source {
        Source::AdminRpc
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::default();
        let process = look.target.map(|target| target.process);
        if let Some(facts) = self
            .facts
            .get()
            .filter(|facts| Some(facts.process) == process)
        {
            facts.readings(&mut finding.readings);
            finding.repeated = self.told.replace(facts.at) == Some(facts.at);
            finding.heard = Some(facts.at);
            finding.up = facts.up;
            finding.problems.clone_from(&facts.problems);
        }
        finding
    }
}

pub struct Log(pub tail::StatusHandle);

impl Poll for Log {
    fn source(&self) -> Source {
        Source::Log
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let status = self.0.snapshot();
        let unanswered = status.unanswered(look.now);
        Finding {
            up: status.up && unanswered.is_none(),
            problems: unanswered.or(status.problem).into_iter().collect(),
            repeated: true,
            ..Finding::default()
        }
    }
}

/// The search for the process.
pub struct Target {
    /// What the finder found.
    pub following: Following,
    /// When it looked, as told last.
    pub told: Option<Stamp>,
}

impl Poll for Target {
    fn source(&self) -> Source {
        Source::Target
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding {
            up: look.target.is_some(),
            ..Finding::default()
        };
        self.following.readings(&mut finding.readings);
        let report = self.following.report();
        finding.repeated = std::mem::replace(&mut self.told, report.looked_at) == report.looked_at;
        finding.problems = report.problems;
        finding
    }
}
