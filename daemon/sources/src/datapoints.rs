//! The datapoints that the validator pushes or writes to its log, and the state of the log reader.

use crate::{
    Registry,
    host::host_name,
    tick::{BuildContext, SampleContext, Sampler, SourceOutput},
};
use faultline_agave::identify::startup_host_id;
use faultline_datapoints::{
    forward,
    ingest::{IngestCounters, Listener},
    tail::{LogTail, StatusHandle},
    validator::intake::Intake,
};
use faultline_kernel::HostRoot;
use faultline_metrics::Source;

struct DatapointsSampler {
    intake: Intake,
    counters: Option<IngestCounters>,
    forward: Option<forward::Handle>,
}

/// The host id in the datapoints of a validator that has not read its identity yet.
pub fn host_id_before_identity(root: &HostRoot) -> Option<String> {
    host_name(root).map(|name| startup_host_id(&name))
}

/// Tells the intake which process is followed. While a wrapper is followed, pushes stay pending
/// until its validator is found.
pub fn update_followed(intake: &Intake, context: &SampleContext<'_>) {
    let followed = context
        .target
        .map(|target| (target.process, target.validator.is_some()));
    if !intake.set_followed(followed) {
        return;
    }
    match followed {
        Some((process, true)) => {
            intake.follow_validator(host_id_before_identity(context.root));
            // If an earlier run of the daemon received pushes of this process, counts those missed
            // since.
            intake.resume_after_previous_run(process);
        }
        Some((_, false)) => intake.wait_for_validator(),
        None => intake.validator_ended(),
    }
}

impl Sampler for DatapointsSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        // First, so that no gauge outlives its process.
        update_followed(&self.intake, context);
        let mut output = SourceOutput {
            up: self.intake.has_recent_push(context.now),
            repeats_problems: true,
            ..SourceOutput::with_capacity(128)
        };
        self.intake.add_readings(context.now, &mut output.readings);
        output.problems = self.intake.problems(context.now);
        if let Some(counters) = &self.counters {
            counters.add_readings(&mut output.readings);
        }
        if let Some(forward) = &self.forward {
            forward.add_readings(&mut output.readings);
            output.problems.extend(forward.problem());
        }
        output
    }
}

pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    listener: Option<Listener<Intake>>,
    forward: Option<forward::Handle>,
) {
    if context.config.ingest.enabled || context.config.log.is_some() {
        registry.add_sampler(
            Source::Datapoints,
            DatapointsSampler {
                intake: intake.clone(),
                counters: listener.as_ref().map(Listener::counters),
                forward,
            },
        );
    }
    if let Some(listener) = listener {
        registry.on_start(|workers| {
            workers.task("ingest", |stop| listener.run(stop));
            Ok(())
        });
    }
}

struct LogSampler(StatusHandle);

impl Sampler for LogSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let status = self.0.snapshot();
        let timeout_problem = status.poll_timeout_problem(context.now);
        SourceOutput {
            up: status.up && timeout_problem.is_none(),
            problems: timeout_problem.or(status.problem).into_iter().collect(),
            repeats_problems: true,
            ..SourceOutput::default()
        }
    }
}

/// The reader adds the datapoints of the log to `intake`. `None` without a configured log.
pub fn register_validator_log(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
) -> Option<StatusHandle> {
    let tail = LogTail::build(context.config.log.as_ref()?, intake.clone(), context.clock);
    let status = tail.status();
    registry.on_start(|workers| tail.start(workers));
    registry.add_sampler(Source::Log, LogSampler(status.clone()));
    Some(status)
}

#[cfg(test)]
mod tests;
