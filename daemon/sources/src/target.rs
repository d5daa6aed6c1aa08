//! The source that reports the search for the validator. A separate thread searches.

use crate::{
    Registry,
    discovery::TargetHandle,
    tick::{BuildContext, SampleContext, Sampler, SourceOutput},
};
use faultline_metrics::{Source, Stamp};

struct SearchSampler {
    target_handle: TargetHandle,
    last_reported: Option<Stamp>,
}

impl Sampler for SearchSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut readings = Vec::new();
        self.target_handle.add_readings(&mut readings);
        let report = self.target_handle.report();
        let last_reported = std::mem::replace(&mut self.last_reported, report.updated_at);
        SourceOutput {
            readings,
            problems: report.problems,
            up: context.target.is_some(),
            repeats_problems: last_reported == report.updated_at,
            ..SourceOutput::default()
        }
    }
}

pub fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    registry.add_sampler(
        Source::Target,
        SearchSampler {
            target_handle: context.target_handle.clone(),
            last_reported: None,
        },
    );
}
