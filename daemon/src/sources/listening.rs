//! The tick's view of sources that their own task fills: datapoints, JSON-RPC, admin socket and
//! log.

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

pub struct Datapoints {
    pub intake: Intake,
    pub meter: Option<ingest::Meter>,
    pub forward: Option<forward::Handle>,
}

impl Poll for Datapoints {
    fn source(&self) -> Source {
        Source::Datapoints
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        // Problems of the pushes are a state, reported at every tick.
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

pub struct Rpc {
    pub handle: rpc::Handle,
    /// Arrival of the response that was reported last.
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
    pub facts: Latest<AdminFacts>,
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

pub struct Target {
    pub following: Following,
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
