//! `stat`, `status`, `io`, `oom_score` and the size of `fd` every tick, `limits` every 15 s.

use crate::tick::{CpuTime, Finding, LIMITS_EVERY, Look, Poll, Throttle};
use faultline_catalog::metrics::process as p;
use faultline_catalog::{Reading, Source};
use faultline_kernel::parse::pid_stat::State;
use faultline_kernel::{HostConstants, ProcessFiles, ProcessId, ProcessSample};

#[derive(Debug)]
pub struct Process {
    files: Option<ProcessFiles>,
    limits: Throttle,
    buffer: Vec<u8>,
}

impl Default for Process {
    fn default() -> Self {
        Process {
            files: None,
            limits: Throttle::every(LIMITS_EVERY),
            buffer: Vec::new(),
        }
    }
}

impl Process {
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the files once per process.
    fn files(
        &mut self,
        wanted: ProcessId,
        look: &Look<'_>,
        finding: &mut Finding,
    ) -> Option<&mut ProcessFiles> {
        if self.files.as_ref().is_none_or(|files| files.id() != wanted) {
            self.files = finding
                .take(ProcessFiles::open(look.root, wanted.pid))
                .filter(|files| files.id() == wanted);
        }
        self.files.as_mut()
    }
}

impl Poll for Process {
    fn source(&self) -> Source {
        Source::Process
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::with_room(32);
        let Some(target) = look.target else {
            self.files = None;
            return finding;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let limits = self.limits.is_due(look.now);
        let sample = self.files(target.process, look, &mut finding).map(|files| {
            if limits {
                files.sample(&mut buffer)
            } else {
                files.sample_with_last_limits(&mut buffer)
            }
        });
        self.buffer = buffer;
        if let Some(sample) = sample {
            if let Err(error) = look.boot_time {
                finding.problem(error);
            }
            let start = look.start_time(target.process);
            finding
                .readings
                .extend(start.map(|start| Reading::real(&p::START_TIME, [], start)));
            if let Some(state) = sample.state {
                look.condition.state.set(Some(state));
                read_state(state, &mut finding);
            }
            if let Ok(stat) = &sample.stat {
                let cpu = stat.utime_ticks.zip(stat.stime_ticks);
                look.condition.cpu.set(cpu.map(|(user, system)| CpuTime {
                    user: look.host.ticks(user),
                    system: look.host.ticks(system),
                }));
                look.condition.major_faults.set(stat.majflt);
            }
            read(sample, look.host, &mut finding);
        }
        finding
    }
}

/// One series per state, so that a query can select any; none for an unknown letter.
fn read_state(state: State, finding: &mut Finding) {
    if state.name().is_some() {
        let names = State::NAMED
            .into_iter()
            .filter_map(|other| Some((other.name()?, other == state)));
        finding
            .readings
            .extend(names.map(|(name, is)| Reading::flag(&p::STATE, [name.into()], is)));
    }
}

fn read(sample: ProcessSample, host: &HostConstants, finding: &mut Finding) {
    finding.up = sample.stat.is_ok() && sample.status.is_ok();
    let ticks = |n: u64| n as f64 / host.clock_ticks_per_second as f64;
    // A zombie still has its numbers, but nothing else.
    if let Some(stat) = finding.take(sample.stat) {
        finding.whole(&p::VIRTUAL, [], stat.vsize);
        finding.whole(&p::PAGE_FAULTS, ["major"], stat.majflt);
        finding.whole(&p::PAGE_FAULTS, ["minor"], stat.minflt);
        for (mode, time) in [("user", stat.utime_ticks), ("system", stat.stime_ticks)] {
            finding
                .readings
                .extend(time.map(|n| Reading::real(&p::CPU, [mode.into()], ticks(n))));
        }
        finding.whole(&p::THREADS, [], Some(stat.num_threads));
    }
    if let Some(status) = finding.take(sample.status) {
        finding.whole(&p::RESIDENT, ["anon"], status.rss_anon);
        finding.whole(&p::RESIDENT, ["file"], status.rss_file);
        finding.whole(&p::RESIDENT, ["shmem"], status.rss_shmem);
        finding.whole(&p::SWAP, [], status.vm_swap);
        finding.whole(&p::PAGE_TABLES, [], status.vm_pte);
    }
    if let Some(io) = finding.take(sample.io) {
        finding.whole(&p::IO_BYTES, ["read"], io.read_bytes);
        finding.whole(&p::IO_BYTES, ["write"], io.write_bytes);
    }
    let score = finding.take(sample.oom_score);
    finding.whole(&p::OOM_SCORE, [], score);
    if let Some(adj) = finding.take(sample.oom_score_adj) {
        finding
            .readings
            .push(Reading::real(&p::OOM_SCORE_ADJ, [], adj as f64));
    }
    let open = finding.take(sample.open_fds);
    finding.whole(&p::OPEN_FDS, [], open);
    let max = finding.take(sample.max_fds).and_then(|limit| limit.soft);
    finding.whole(&p::MAX_FDS, [], max);
}
