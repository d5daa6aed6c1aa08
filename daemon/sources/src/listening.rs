//! The tick's view of sources that their own task fills: datapoints, JSON-RPC, admin socket and
//! log.

use super::admin::AdminFacts;
use super::rpc;
use crate::discovery::Following;
use crate::tick::{Poll, SampleContext, SourceOutput};
use faultline_core::hub::Latest;
use faultline_datapoints::forward;
use faultline_datapoints::ingest;
use faultline_datapoints::tail;
use faultline_datapoints::validator::intake::Intake;
use faultline_metrics::{Problem, Source, Stamp};

pub struct Datapoints {
    pub intake: Intake,
    pub meter: Option<ingest::Meter>,
    pub forward: Option<forward::Handle>,
}

impl Poll for Datapoints {
    fn source(&self) -> Source {
        Source::Datapoints
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        // Problems of the pushes are a state, reported at every tick.
        let mut output = SourceOutput {
            up: self.intake.up(context.now),
            repeated: true,
            ..SourceOutput::with_capacity(128)
        };
        self.intake.readings(context.now, &mut output.readings);
        output.problems = self.intake.problems(context.now);
        if let Some(meter) = &self.meter {
            meter.readings(&mut output.readings);
        }
        if let Some(forward) = &self.forward {
            forward.readings(&mut output.readings);
            let problems = forward.problems().into_iter();
            output
                .problems
                .extend(problems.map(|(status, what)| Problem { status, what }));
        }
        output
    }
}

pub struct Rpc {
    pub handle: rpc::Handle,
    /// Arrival of the response that was reported last.
    pub last_reported: Option<Stamp>,
}

impl Poll for Rpc {
    fn source(&self) -> Source {
        Source::Rpc
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.target.map(|target| target.process);
        self.handle.readings(process, &mut output.readings);
        if let Some(facts) = self
            .handle
            .facts()
            .filter(|facts| Some(facts.process) == process)
        {
            output.repeated = self.last_reported.replace(facts.at) == Some(facts.at);
            output.received_at = Some(facts.at);
            output.up = facts.up;
            output.problems.clone_from(&facts.problems);
        }
        output
    }
}

pub struct Admin {
    pub facts: Latest<AdminFacts>,
    pub last_reported: Option<Stamp>,
}

impl Poll for Admin {
    fn source(&self) -> Source {
        Source::AdminRpc
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.target.map(|target| target.process);
        if let Some(facts) = self
            .facts
            .get()
            .filter(|facts| Some(facts.process) == process)
        {
            facts.readings(&mut output.readings);
            output.repeated = self.last_reported.replace(facts.at) == Some(facts.at);
            output.received_at = Some(facts.at);
            output.up = facts.up;
            output.problems.clone_from(&facts.problems);
        }
        output
    }
}

pub struct Log(pub tail::StatusHandle);

impl Poll for Log {
    fn source(&self) -> Source {
        Source::Log
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let status = self.0.snapshot();
        let unanswered = status.unanswered(context.now);
        SourceOutput {
            up: status.up && unanswered.is_none(),
            problems: unanswered.or(status.problem).into_iter().collect(),
            repeated: true,
            ..SourceOutput::default()
        }
    }
}

pub struct Target {
    pub following: Following,
    pub last_reported: Option<Stamp>,
}

impl Poll for Target {
    fn source(&self) -> Source {
        Source::Target
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput {
            up: context.target.is_some(),
            ..SourceOutput::default()
        };
        self.following.readings(&mut output.readings);
        let report = self.following.report();
        output.repeated =
            std::mem::replace(&mut self.last_reported, report.searched_at) == report.searched_at;
        output.problems = report.problems;
        output
    }
}
