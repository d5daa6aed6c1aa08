//! The datapoints of the validator, from pushes or from its log.

use super::Registry;
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_datapoints::forward;
use faultline_datapoints::ingest::{Listener, Meter};
use faultline_datapoints::validator::intake::Intake;
use faultline_metrics::{Problem, Source};

struct Datapoints {
    intake: Intake,
    meter: Option<Meter>,
    forward: Option<forward::Handle>,
}

impl Poll for Datapoints {
    fn source(&self) -> Source {
        Source::Datapoints
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        // Problems of pushes are states, so every tick reports them.
        let mut output = SourceOutput {
            up: self.intake.has_recent_push(context.now),
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

pub(super) fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    listener: Option<Listener<Intake>>,
    forward: Option<forward::Handle>,
) {
    if context.config.ingest.enabled || context.config.log.is_some() {
        registry.sampler(Datapoints {
            intake: intake.clone(),
            meter: listener.as_ref().map(Listener::meter),
            forward,
        });
    }
    if let Some(listener) = listener {
        registry.on_start(|stage| {
            stage.task("ingest", |stop| listener.run(stop));
            Ok(())
        });
    }
}
