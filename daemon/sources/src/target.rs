//! Reports the search for the process. A separate thread searches.

use super::Registry;
use crate::{
    discovery::TargetHandle,
    tick::{BuildContext, Poll, SampleContext, SourceOutput},
};
use faultline_metrics::{Source, Stamp};

struct Target {
    following: TargetHandle,
    last_reported: Option<Stamp>,
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

pub fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    registry.sampler(Target {
        following: context.following.clone(),
        last_reported: None,
    });
}
