//! `stat`, `status` and `io` every tick; OOM scores, descriptors and their limit every 5 s.

use crate::{
    Registry,
    tick::{CpuTime, SampleContext, Sampler, SourceOutput, Throttle},
};
use faultline_kernel::{HostConstants, ProcessFiles, ProcessSample, parse::pid_stat::State};
use faultline_metrics::{Source, metrics::process as p};
use std::time::Duration;

const OOM_AND_FD_INTERVAL: Duration = Duration::from_secs(5);

struct ProcessSampler {
    files: Option<ProcessFiles>,
    oom_and_fd_throttle: Throttle,
    buffer: Vec<u8>,
}

impl Sampler for ProcessSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::with_capacity(32);
        let Some(target) = context.target else {
            self.files = None;
            return output;
        };
        let read_oom_and_fds = self.oom_and_fd_throttle.is_due(context.now);
        self.files.take_if(|files| files.id() != target.process);
        if self.files.is_none() {
            self.files = output
                .value_or_problem(ProcessFiles::open(context.root, target.process.pid))
                .filter(|files| files.id() == target.process);
        }
        let buffer = &mut self.buffer;
        if let Some(files) = &mut self.files {
            let sample = files.sample(read_oom_and_fds, buffer);
            if let Err(error) = context.boot_time {
                output.add_problem(error);
            }
            output.real(&p::START_TIME, [], context.start_time(target.process));
            if let Some(state) = sample.state {
                context.process_state.state.set(Some(state));
                add_state_readings(state, &mut output);
            }
            if let Ok(stat) = &sample.stat {
                let cpu = stat
                    .utime_ticks
                    .zip(stat.stime_ticks)
                    .map(|(user, system)| CpuTime {
                        user: context.host.ticks_to_duration(user),
                        system: context.host.ticks_to_duration(system),
                    });
                context.process_state.cpu.set(cpu);
                context.process_state.major_faults.set(stat.majflt);
            }
            add_readings(sample, context.host, &mut output);
        }
        output
    }
}

/// One series for each known state, so that a query can select any. None for an unknown state
/// letter.
fn add_state_readings(state: State, output: &mut SourceOutput) {
    if state.name().is_none() {
        return;
    }
    for named_state in State::NAMED {
        if let Some(name) = named_state.name() {
            output.flag(&p::STATE, [name], named_state == state);
        }
    }
}

fn add_readings(sample: ProcessSample, host: &HostConstants, output: &mut SourceOutput) {
    output.up = sample.stat.is_ok() && sample.status.is_ok();
    let seconds = |ticks: u64| ticks as f64 / host.clock_ticks_per_second as f64;
    if let Some(stat) = output.value_or_problem(sample.stat) {
        output.integer(&p::VIRTUAL, [], stat.vsize);
        output.integer(&p::PAGE_FAULTS, ["major"], stat.majflt);
        output.integer(&p::PAGE_FAULTS, ["minor"], stat.minflt);
        for (mode, ticks) in [("user", stat.utime_ticks), ("system", stat.stime_ticks)] {
            output.real(&p::CPU, [mode], ticks.map(seconds));
        }
        output.integer(&p::THREADS, [], stat.num_threads);
    }
    if let Some(status) = output.value_or_problem(sample.status) {
        output.integer(&p::RESIDENT, ["anon"], status.rss_anon);
        output.integer(&p::RESIDENT, ["file"], status.rss_file);
        output.integer(&p::RESIDENT, ["shmem"], status.rss_shmem);
        output.integer(&p::SWAP, [], status.vm_swap);
        output.integer(&p::PAGE_TABLES, [], status.vm_pte);
    }
    if let Some(io) = output.value_or_problem(sample.io) {
        output.integer(&p::IO_BYTES, ["read"], io.read_bytes);
        output.integer(&p::IO_BYTES, ["write"], io.write_bytes);
    }
    output.try_integer(&p::OOM_SCORE, [], sample.oom_and_fds.oom_score);
    if let Some(adj) = output.value_or_problem(sample.oom_and_fds.oom_score_adj) {
        output.real(&p::OOM_SCORE_ADJ, [], adj as f64);
    }
    output.try_integer(&p::OPEN_FDS, [], sample.oom_and_fds.open_fds);
    output.try_integer(&p::MAX_FDS, [], sample.oom_and_fds.max_fds);
}

pub fn register(registry: &mut Registry) {
    registry.add_sampler(
        Source::Process,
        ProcessSampler {
            files: None,
            oom_and_fd_throttle: Throttle::every(OOM_AND_FD_INTERVAL),
            buffer: Vec::new(),
        },
    );
}
