//! Page faults, CPU time and delays of threads, every few ticks. They are summed by pool: threads
//! whose names differ only in a number. Reads the faults of the threads before those of the
//! process, which are then at least the sum.
//!
//! [`ReadDepth`] says what a read updates. `AllThatRan` and `AllWithSwitches` are complete reads.

mod pools;

use crate::{
    Registry,
    discovery::live_stat,
    tick::{BuildContext, CpuTime, SampleContext, Sampler, SourceOutput},
};
use faultline_core::config;
use faultline_kernel::{
    HostConstants, HostRoot, ProcessFiles, ProcessId, ReadDepth, Result, Threads as ThreadReader,
};
use faultline_metrics::{
    AddReadings, LabelText, Problem, Source, Stamp,
    metrics::{daemon as d, pools as pool_metrics, process as p},
};
use pools::{Pool, Pools, ThreadTotals};
use std::{sync::Arc, time::Duration};

/// For files of threads.
const MAX_DESCRIPTORS: usize = 4096;
/// For sockets and files of the process, the cgroup and the host.
const RESERVED_DESCRIPTORS: u64 = 128;

/// If the process has new major faults, a complete read comes earlier to find the pool that had
/// them.
const COMPLETE_INTERVAL: Duration = Duration::from_secs(60);

/// In the order of [`ThreadTotals::faults`].
const FAULT_KINDS: [&str; 2] = ["major", "minor"];

struct ThreadsSampler {
    config: config::Threads,
    max_descriptors: usize,
    followed: Option<FollowedThreads>,
    buffer: Vec<u8>,
}

struct FollowedThreads {
    process: ProcessId,
    /// `None` before the first read and after a failed one. The next read opens it again; the sums
    /// stay.
    reader: Option<ThreadReader>,
    switches_read_at: Option<Stamp>,
    /// The last complete read, and the process's major faults at that time.
    complete_read_at: Option<Stamp>,
    major_faults: Option<u64>,
    /// Whether the kernel counts block I/O delay, at `complete_read_at`.
    delayacct: Result<bool>,
    files: ProcessFiles,
    pools: Pools,
}

impl FollowedThreads {
    fn open(root: &HostRoot, process: ProcessId) -> Result<Self> {
        let files = ProcessFiles::open(root, process.pid)?;
        live_stat(root, process)?;
        Ok(Self {
            process,
            reader: None,
            switches_read_at: None,
            complete_read_at: None,
            major_faults: None,
            delayacct: Ok(false),
            files,
            pools: Pools::default(),
        })
    }

    fn depth(&self, context: &SampleContext<'_>, switches_interval: Duration) -> ReadDepth {
        let is_due = |last: Option<Stamp>, interval| {
            last.is_none_or(|last| context.now.since(last) >= interval)
        };
        if is_due(self.switches_read_at, switches_interval) {
            ReadDepth::AllWithSwitches
        } else if is_due(self.complete_read_at, COMPLETE_INTERVAL)
            || context.process_state.major_faults.get() != self.major_faults
        {
            ReadDepth::AllThatRan
        } else {
            ReadDepth::Active
        }
    }

    fn read(
        &mut self,
        context: &SampleContext<'_>,
        max_descriptors: usize,
        depth: ReadDepth,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => ThreadReader::open(context.root, self.process.pid, max_descriptors)?,
        };
        let (process_cpu, host) = (context.process_state.cpu.get(), context.host);
        self.pools.add(reader.sample(depth)?, process_cpu, host);
        let is_complete = depth != ReadDepth::Active;
        let has_unreported_cpu = !is_complete && self.pools.check_unreported_cpu(process_cpu);
        if has_unreported_cpu {
            // Idle threads have run, or threads have ended.
            self.pools
                .add(reader.sample(ReadDepth::AllCpuTimes)?, process_cpu, host);
        }
        if is_complete || has_unreported_cpu {
            self.pools.update_exited_cpu(process_cpu);
        }
        let stat = self.files.stat(buffer)?;
        if let Some((minor, major)) = stat.minflt.zip(stat.majflt) {
            self.pools.distribute_faults(minor, major, is_complete);
        }
        if depth == ReadDepth::AllWithSwitches {
            self.switches_read_at = Some(context.now);
        }
        if is_complete {
            self.complete_read_at = Some(context.now);
            self.major_faults = stat.majflt;
            self.delayacct = context.root.task_delayacct();
        }
        self.reader = Some(reader);
        Ok(())
    }
}

impl ThreadsSampler {
    /// `descriptor_limit` is the daemon's limit of open files.
    fn new(config: config::Threads, descriptor_limit: u64) -> Self {
        Self {
            config,
            max_descriptors: max_descriptors(descriptor_limit),
            followed: None,
            buffer: Vec::new(),
        }
    }

    fn read(
        &mut self,
        context: &SampleContext<'_>,
        process: ProcessId,
        output: &mut SourceOutput,
    ) -> Result<()> {
        self.followed
            .take_if(|followed| followed.process != process);
        let followed = match &mut self.followed {
            Some(followed) => followed,
            None => self
                .followed
                .insert(FollowedThreads::open(context.root, process)?),
        };
        let depth = followed.depth(context, self.config.switches_interval);
        followed.read(context, self.max_descriptors, depth, &mut self.buffer)?;
        output.up = true;
        Ok(())
    }
}

/// Half of the unreserved descriptors: connections need the others. At 0, thread files are opened
/// for each read.
fn max_descriptors(descriptor_limit: u64) -> usize {
    usize::try_from(descriptor_limit.saturating_sub(RESERVED_DESCRIPTORS) / 2)
        .unwrap_or(usize::MAX)
        .min(MAX_DESCRIPTORS)
}

impl Sampler for ThreadsSampler {
    fn interval(&self) -> Option<Duration> {
        Some(self.config.interval)
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let Some(target) = context.target else {
            self.followed = None;
            return output;
        };
        if let Err(error) = self.read(context, target.process, &mut output) {
            output.add_problem(&error);
            return output;
        }
        if let Some(followed) = &self.followed {
            let is_delay_counted = output.value_or_problem(followed.delayacct.clone());
            add_readings(&followed.pools, context.host, is_delay_counted, &mut output);
        }
        output
    }
}

fn add_readings(
    pools: &Pools,
    host: &HostConstants,
    is_delay_counted: Option<bool>,
    output: &mut SourceOutput,
) {
    let mut all = ThreadTotals::default();
    for pool in &pools.pools {
        all.add(&pool.totals);
        add_pool_readings(pool, output);
    }
    if all.run_queue_delay.is_none() {
        output.problems.push(Problem::absent_data(
            "run-queue delay: this kernel has no schedstat",
        ));
    }
    for (kind, faults) in FAULT_KINDS.into_iter().zip(pools.exited_faults) {
        output.integer(&pool_metrics::PAGE_FAULTS, ["exited", kind], faults);
    }
    if let Some(cpu) = pools.exited_cpu {
        add_cpu_time("exited".into(), cpu, output);
    }
    output.integer(&d::POOLS_FOLDED, [], pools.folded_names);
    output.integer(&p::CONTEXT_SWITCHES, ["voluntary"], all.voluntary_switches);
    output.integer(
        &p::CONTEXT_SWITCHES,
        ["involuntary"],
        all.involuntary_switches,
    );
    block_io_delay(pools, all.blkio_ticks, host, is_delay_counted, output);
}

fn add_pool_readings(pool: &Pool, output: &mut SourceOutput) {
    let (name, totals) = (LabelText::Shared(Arc::clone(&pool.name)), &pool.totals);
    for (kind, faults) in FAULT_KINDS.into_iter().zip(totals.faults) {
        let labels = [name.clone(), kind.into()];
        output
            .readings
            .integer(&pool_metrics::PAGE_FAULTS, labels, faults);
    }
    output
        .readings
        .integer(&pool_metrics::THREADS, [name.clone()], pool.threads);
    add_cpu_time(name.clone(), pool.cpu_by_mode, output);
    let delay = totals.run_queue_delay.map(|delay| delay.as_secs_f64());
    output
        .readings
        .real(&pool_metrics::RUN_QUEUE, [name], delay);
}

fn add_cpu_time(pool: LabelText, cpu: CpuTime, output: &mut SourceOutput) {
    for (mode, time) in [("user", cpu.user), ("system", cpu.system)] {
        let labels = [pool.clone(), mode.into()];
        output
            .readings
            .real(&pool_metrics::CPU, labels, time.as_secs_f64());
    }
}

fn block_io_delay(
    pools: &Pools,
    total_ticks: u64,
    host: &HostConstants,
    is_delay_counted: Option<bool>,
    output: &mut SourceOutput,
) {
    let Some(is_delay_counted) = is_delay_counted else {
        return;
    };
    let missing = if !is_delay_counted {
        "block I/O delay: kernel.task_delayacct is 0; set it to 1 before the validator starts"
    } else if total_ticks == 0 {
        "block I/O delay: 0 for all threads; kernel.task_delayacct was probably 0 when the validator started"
    } else {
        output.seconds(
            &p::BLOCK_IO_DELAY,
            [],
            Some(host.ticks_to_duration(total_ticks)),
        );
        for pool in &pools.pools {
            let delay = host
                .ticks_to_duration(pool.totals.blkio_ticks)
                .as_secs_f64();
            let labels = [LabelText::Shared(Arc::clone(&pool.name))];
            output
                .readings
                .real(&pool_metrics::BLOCK_IO_DELAY, labels, delay);
        }
        return;
    };
    output.problems.push(Problem::absent_data(missing));
}

pub fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    let config = &context.config.threads;
    if config.enabled {
        let descriptor_limit = faultline_core::resource_limits::raise_open_file_limit();
        registry.add_sampler(
            Source::Threads,
            ThreadsSampler::new(config.clone(), descriptor_limit),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::ProcessState;
    use faultline_testkit::host::FakeHost;

    #[test]
    fn an_unknown_setting_of_block_io_delay_is_not_reported_as_0() {
        let host = FakeHost::empty().unwrap();
        let zeros = "0 ".repeat(40);
        for (file, text) in [
            ("stat", format!("77 (x) S 1 {zeros}")),
            ("task/77/stat", format!("77 (x) S 1 {zeros}")),
            ("task/77/schedstat", "5 6 7\n".to_owned()),
            ("task/77/status", "Name:\tx\n".to_owned()),
        ] {
            host.write(&format!("proc/77/{file}"), text).unwrap();
        }
        let root = HostRoot::below(host.root());
        let process = ProcessId {
            pid: 77,
            start_ticks: 0,
        };
        let units = crate::tests::host_constants();
        let mut sampler = ThreadsSampler::new(config::Threads::default(), 0);
        let output = sampler.sample(&SampleContext {
            now: Stamp::default(),
            target: Some(&crate::tests::target(process, None)),
            root: &root,
            host: &units,
            boot_time: &Ok(0),
            process_state: &ProcessState::default(),
        });
        let problems = output.problems.iter();
        let words: Vec<&str> = problems.map(|problem| problem.what.as_str()).collect();
        assert!(
            output.up && words.len() == 1 && words[0].contains("task_delayacct: absent"),
            "{words:?}"
        );
    }

    #[test]
    fn threads_of_a_later_process_with_the_pid_are_not_read() {
        let host = FakeHost::empty().unwrap();
        let stat = format!("77 (x) S 1 {}", "0 ".repeat(40));
        host.write("proc/77/stat", stat).unwrap();
        let earlier = ProcessId {
            pid: 77,
            start_ticks: 5,
        };
        let opened = FollowedThreads::open(&HostRoot::below(host.root()), earlier);
        assert_eq!(
            opened.err().map(|error| error.kind()),
            Some(faultline_kernel::ErrorKind::Gone)
        );
    }

    /// With at most 64 open files, the open thread files once left no descriptor for the other
    /// threads.
    #[test]
    fn with_a_small_descriptor_limit_threads_get_no_descriptors() {
        assert_eq!(
            [64, 128, 1024, u64::MAX].map(max_descriptors),
            [0, 0, 448, MAX_DESCRIPTORS]
        );
    }
}
