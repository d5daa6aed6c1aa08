//! The daemon's own resource use, every few ticks.

use crate::auth_failures::AuthFailures;
use crate::sinks::prometheus::DroppedSeries;
use crate::tick::{Finding, Look, Poll};
use faultline_catalog::metrics::daemon as d;
use faultline_catalog::{Reading, Source};
use faultline_kernel::{HostRoot, ProcessFiles, ReadError};
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

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding {
            up: true,
            ..Finding::default()
        };
        finding.readings.push(Reading::whole(
            &d::BUILD_INFO,
            [env!("CARGO_PKG_VERSION").into()],
            1,
        ));
        if self.demo {
            finding.readings.push(Reading::flag(&d::DEMO, [], true));
        }
        if let Some((auth_failures, dropped)) = &self.pages {
            finding.readings.push(auth_failures.reading());
            dropped.readings(&mut finding.readings);
        }
        let files = match &mut self.files {
            Ok(files) => files,
            Err(error) => {
                finding.problem(error);
                return finding;
            }
        };
        let hertz = look.host.clock_ticks_per_second as f64;
        let start = look.start_time(files.id());
        finding
            .readings
            .extend(start.map(|start| Reading::real(&d::SELF_START_TIME, [], start)));
        if let Some(stat) = finding.take(files.stat(&mut self.buffer)) {
            let cpu = stat.utime_ticks.zip(stat.stime_ticks);
            let cpu = cpu.map(|(user, system)| user.saturating_add(system) as f64 / hertz);
            finding
                .readings
                .extend(cpu.map(|cpu| Reading::real(&d::SELF_CPU, [], cpu)));
            finding.whole(&d::SELF_VIRTUAL, [], stat.vsize);
        }
        let resident = finding
            .take(files.status(&mut self.buffer))
            .and_then(|status| status.vm_rss);
        finding.whole(&d::SELF_RESIDENT, [], resident);
        let open = finding.take(files.open_fds());
        finding.whole(&d::SELF_OPEN_FDS, [], open);
        let most = finding
            .take(files.max_fds(&mut self.buffer))
            .and_then(|limit| limit.soft);
        finding.whole(&d::SELF_MAX_FDS, [], most);
        finding
    }
}
