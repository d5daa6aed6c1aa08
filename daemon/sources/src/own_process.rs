//! The daemon's own resource use, every 5 s.

use crate::{
    Registry,
    discovery::own_pid,
    tick::{SampleContext, Sampler, SourceOutput},
};
use faultline_kernel::{HostRoot, ProcessFiles, ReadError, Result};
use faultline_metrics::{Reading, Source, metrics::daemon as d};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(5);

type ExtraReadings = Box<dyn Fn(&mut Vec<Reading>) + Send>;

struct DaemonSampler {
    files: Result<ProcessFiles>,
    version: &'static str,
    is_demo: bool,
    extra_readings: ExtraReadings,
    buffer: Vec<u8>,
}

impl Sampler for DaemonSampler {
    fn interval(&self) -> Option<Duration> {
        Some(INTERVAL)
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput {
            up: true,
            ..SourceOutput::default()
        };
        output.integer(&d::BUILD_INFO, [self.version], 1);
        if self.is_demo {
            output.flag(&d::DEMO, [], true);
        }
        (self.extra_readings)(&mut output.readings);
        let files = match &mut self.files {
            Ok(files) => files,
            Err(error) => {
                output.add_problem(error);
                return output;
            }
        };
        let hertz = context.host.clock_ticks_per_second as f64;
        output.real(&d::SELF_START_TIME, [], context.start_time(files.id()));
        if let Some(stat) = output.value_or_problem(files.stat(&mut self.buffer)) {
            let cpu = stat
                .utime_ticks
                .zip(stat.stime_ticks)
                .map(|(user, system)| user.saturating_add(system) as f64 / hertz);
            output.real(&d::SELF_CPU, [], cpu);
            output.integer(&d::SELF_VIRTUAL, [], stat.vsize);
        }
        let resident = files.status(&mut self.buffer).map(|status| status.vm_rss);
        output.try_integer(&d::SELF_RESIDENT, [], resident);
        output.try_integer(&d::SELF_OPEN_FDS, [], files.open_fds());
        output.try_integer(&d::SELF_MAX_FDS, [], files.max_fds(&mut self.buffer));
        output
    }
}

/// `extra_readings` adds readings of other parts of the daemon.
pub fn register(
    registry: &mut Registry,
    root: &HostRoot,
    version: &'static str,
    is_demo: bool,
    extra_readings: impl Fn(&mut Vec<Reading>) + Send + 'static,
) {
    let own_pid = own_pid(root).ok_or_else(|| ReadError::Absent {
        path: root.procfs.join("self").into(),
        why: "the daemon is outside of this pid namespace",
    });
    registry.add_sampler(
        Source::Daemon,
        DaemonSampler {
            files: own_pid.and_then(|pid| ProcessFiles::open(root, pid)),
            version,
            is_demo,
            extra_readings: Box::new(extra_readings),
            buffer: Vec::new(),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::ProcessState;
    use faultline_metrics::{Problem, Stamp};
    use faultline_testkit::host::FakeHost;

    #[test]
    fn in_another_pid_namespace_the_link_self_gives_the_daemons_pid() {
        let host = host_with_process(77);
        std::os::unix::fs::symlink("77", host.path("proc/self")).unwrap();
        let output = sample(&host);
        let bytes = output
            .readings
            .iter()
            .find(|reading| std::ptr::eq(reading.metric, &d::SELF_VIRTUAL));
        assert_eq!(
            bytes.and_then(|reading| reading.value.number()),
            Some(4096.0)
        );
    }

    #[test]
    fn a_process_of_a_sibling_pid_namespace_is_not_the_daemon() {
        let host = host_with_process(std::process::id());
        let output = sample(&host);
        assert_eq!(output.readings.len(), 1, "{:?}", output.readings);
        let problem = output.problems.first().map(Problem::to_string);
        let problem = problem.unwrap_or_default();
        assert!(problem.starts_with("absent: "), "{problem}");
    }

    fn host_with_process(pid: u32) -> FakeHost {
        let host = FakeHost::empty().unwrap();
        let (zeros, rest) = ("0 ".repeat(15), "0 ".repeat(29));
        let stat = format!("{pid} (faultlined) S 1 {zeros}1 0 100 4096 {rest}\n");
        host.write(&format!("proc/{pid}/stat"), stat).unwrap();
        host
    }

    fn sample(host: &FakeHost) -> SourceOutput {
        let (mut registry, root) = (Registry::default(), HostRoot::below(host.root()));
        register(&mut registry, &root, "1.0", false, |_| ());
        let units = crate::tests::host_constants();
        registry.samplers.remove(0).1.sample(&SampleContext {
            now: Stamp::default(),
            target: None,
            root: &root,
            host: &units,
            boot_time: &Ok(0),
            process_state: &ProcessState::default(),
        })
    }
}
