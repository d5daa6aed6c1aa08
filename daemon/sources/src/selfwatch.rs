//! The daemon's own resource use, every few ticks.

use crate::tick::{Poll, SampleContext, SourceOutput};
use faultline_core::auth_failures::AuthFailures;
use faultline_core::dropped_series::DroppedSeries;
use faultline_kernel::{HostRoot, ProcessFiles, ReadError};
use faultline_metrics::metrics::daemon as d;
use faultline_metrics::{ReadingList, Source};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Selfwatch {
    files: Result<ProcessFiles, ReadError>,
    demo: bool,
    pages: Option<(AuthFailures, DroppedSeries)>,
    buffer: Vec<u8>,
}

impl Selfwatch {
    pub fn new(root: &HostRoot, demo: bool) -> Self {
        let files = ProcessFiles::open(root, std::process::id());
        Selfwatch {
            files,
            demo,
            pages: None,
            buffer: Vec::new(),
        }
    }

    pub fn with(mut self, auth_failures: AuthFailures, dropped: DroppedSeries) -> Self {
        self.pages = Some((auth_failures, dropped));
        self
    }
}

impl Poll for Selfwatch {
    fn source(&self) -> Source {
        Source::Daemon
    }

    fn every(&self) -> Option<Duration> {
        Some(EVERY)
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput {
            up: true,
            ..SourceOutput::default()
        };
        output
            .readings
            .whole(&d::BUILD_INFO, [env!("CARGO_PKG_VERSION").into()], 1);
        if self.demo {
            output.readings.flag(&d::DEMO, [], true);
        }
        if let Some((auth_failures, dropped)) = &self.pages {
            output.readings.push(auth_failures.reading());
            dropped.readings(&mut output.readings);
        }
        let files = match &mut self.files {
            Ok(files) => files,
            Err(error) => {
                output.problem(error);
                return output;
            }
        };
        let hertz = context.host.clock_ticks_per_second as f64;
        let start = context.start_time(files.id());
        output.readings.real(&d::SELF_START_TIME, [], start);
        if let Some(stat) = output.take(files.stat(&mut self.buffer)) {
            let cpu = stat.utime_ticks.zip(stat.stime_ticks);
            let cpu = cpu.map(|(user, system)| user.saturating_add(system) as f64 / hertz);
            output.readings.real(&d::SELF_CPU, [], cpu);
            output.whole(&d::SELF_VIRTUAL, [], stat.vsize);
        }
        let resident = output
            .take(files.status(&mut self.buffer))
            .and_then(|status| status.vm_rss);
        output.whole(&d::SELF_RESIDENT, [], resident);
        let open = output.take(files.open_fds());
        output.whole(&d::SELF_OPEN_FDS, [], open);
        let most = output
            .take(files.max_fds(&mut self.buffer))
            .and_then(|limit| limit.soft);
        output.whole(&d::SELF_MAX_FDS, [], most);
        output
    }
}
