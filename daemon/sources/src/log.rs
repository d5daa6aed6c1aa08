//! The state of the log reader. Datapoints in the log go to the intake.

use super::Registry;
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_datapoints::tail::{LogTail, LogTailParts, StatusHandle};
use faultline_datapoints::validator::intake::Intake;
use faultline_metrics::Source;

struct Log(StatusHandle);

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

/// `None` without a configured log.
pub(super) fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
) -> Option<StatusHandle> {
    let parts = LogTailParts {
        intake: intake.clone(),
        clock: context.clock,
    };
    let tail = LogTail::build(context.config.log.as_ref()?, parts);
    let status = tail.status();
    registry.on_start(|stage| tail.start(stage));
    registry.sampler(Log(status.clone()));
    Some(status)
}
