//! The followed process's cgroup, version 2 or 1, every tick, and its memory headroom. A level is a
//! bound on the memory of the process: its cgroup, each ancestor, its NUMA nodes, or the machine.

mod headroom;

use crate::{
    Registry,
    discovery::{FoundCgroup, TargetHandle},
    host::{SharedMeminfo, minor_faults, pressure},
    tick::{BuildContext, LIMITS_INTERVAL, SampleContext, Sampler, SourceOutput, Throttle},
};
use faultline_kernel::{
    CgroupFiles, CgroupLevels, CgroupLocator, CgroupSample, ErrorKind, HostRoot, Limit,
    ProcessCgroups, ProcessId,
    parse::cgroup::{Device, MemoryStat},
};
use faultline_metrics::{
    AddReadings, Kind, LabelText, Problem, Reading, Source, Stamp, Value, metrics::cgroup as c,
};
use headroom::Headroom;
use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

/// Interval of locating the cgroups of an unmoved process: mounts may change.
const LOCATE_INTERVAL: Duration = Duration::from_secs(30);

struct CgroupSampler {
    target_handle: TargetHandle,
    process: Option<ProcessId>,
    locator: Option<CgroupLocator>,
    /// The open cgroups, and when they were last located.
    located: Option<(Stamp, ProcessCgroups, CgroupFiles)>,
    /// False if the version-2 cgroup is the root, as on some hybrid hosts: its pressure is that of
    /// the whole machine.
    has_own_pressure: bool,
    path: Option<Arc<str>>,
    meminfo: SharedMeminfo,
    headroom: Headroom,
    limits_throttle: Throttle,
    devices: HashMap<Device, LabelText>,
    buffer: Vec<u8>,
    counters: ContinuedCounters,
    counters_cgroup: Option<ProcessCgroups>,
}

impl CgroupSampler {
    /// True if the files changed since the last tick.
    fn locate_cgroups(
        &mut self,
        context: &SampleContext<'_>,
        process: ProcessId,
        output: &mut SourceOutput,
    ) -> bool {
        let locator = self
            .locator
            .get_or_insert_with(|| CgroupLocator::new(context.root, process.pid));
        let is_recent = |(at, ..): &(Stamp, _, _)| context.now.since(*at) < LOCATE_INTERVAL;
        if self.located.as_ref().is_some_and(is_recent) && !locator.has_moved() {
            return false;
        }
        let Some(cgroups) = output.value_or_problem(locator.locate()) else {
            self.located = None;
            return false;
        };
        if cgroups.is_gone()
            && let Some((at, ..)) = &mut self.located
        {
            // The process is exiting: its memory stays in this cgroup until it is released.
            *at = context.now;
            return false;
        }
        self.path = cgroups.path().map(Arc::from);
        // The cgroup itself may have vanished with its process.
        if let Ok(memory) = &cgroups.memory
            && !memory.mount_point.is_dir()
        {
            let message = format!(
                "{}: no cgroup file system is mounted there; see paths.cgroup",
                memory.mount_point.display()
            );
            output.problems.push(Problem::absent_data(message));
            self.located = None;
            return false;
        }
        self.has_own_pressure = cgroups
            .unified
            .as_ref()
            .is_ok_and(|unified| unified.folder != unified.mount_point);
        match &mut self.located {
            Some((at, before, _)) if *before == cgroups => {
                *at = context.now;
                false
            }
            located => {
                let files = CgroupFiles::new(&cgroups);
                *located = Some((context.now, cgroups, files));
                true
            }
        }
    }

    /// Returns the levels that limit memory; `None` without a memory cgroup. `files_changed`: the
    /// open files are not those of the last tick.
    fn sample_files(
        &mut self,
        context: &SampleContext<'_>,
        files_changed: bool,
        output: &mut SourceOutput,
    ) -> Option<CgroupLevels> {
        let (_, cgroups, files) = self.located.as_mut()?;
        let sample = files.sample(self.limits_throttle.is_due(context.now), &mut self.buffer);
        let levels = files.levels(&sample, &mut self.buffer);
        output.up = sample.memory_usage.is_ok() || sample.memory_stat.is_ok();
        let cgroups_differ = files_changed && self.counters_cgroup.as_ref() != Some(cgroups);
        if cgroups_differ {
            self.counters_cgroup = Some(cgroups.clone());
        }
        if files_changed && let (Some(process), Ok(memory)) = (self.process, &cgroups.memory) {
            // The finder needs its OOM kills for the end reason of the process.
            let events = sample.memory_events.as_ref().ok();
            self.target_handle.set_cgroup(FoundCgroup {
                process,
                memory_folder: memory.clone(),
                oom_kills: events.and_then(|events| events.oom_kill),
            });
        }
        let frozen = output.value_or_problem(sample.frozen.clone()).flatten();
        context.process_state.frozen.set(frozen);
        output.flag(&c::FROZEN, [], frozen);
        let io = sample.io.clone();
        add_readings(sample, self.has_own_pressure, output);
        for device in output.value_or_problem(io).unwrap_or_default() {
            let name = self
                .devices
                .entry(device.device)
                .or_insert_with_key(|device| device_name(context.root, device));
            for (direction, bytes) in [("read", device.read_bytes), ("write", device.write_bytes)] {
                let labels = [name.clone(), direction.into()];
                output.readings.integer(&c::IO_BYTES, labels, bytes);
            }
        }
        if cgroups_differ {
            self.counters.rebase(&output.readings);
        }
        self.counters.continue_counts(&mut output.readings);
        output.value_or_problem(levels)
    }
}

fn device_name(root: &HostRoot, device: &Device) -> LabelText {
    let number = device.to_string();
    let name = std::fs::read_link(root.sysfs.join("dev/block").join(&number))
        .ok()
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or(number).into()
}

impl Sampler for CgroupSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::with_capacity(96);
        let process = context.process();
        if self.process != process {
            self.process = process;
            self.locator = None;
            self.located = None;
            self.path = None;
            self.devices.clear();
            self.headroom = Headroom::new(self.meminfo.clone());
            self.limits_throttle = Throttle::every(LIMITS_INTERVAL);
        }
        let Some(process) = process else {
            return output;
        };
        let files_changed = self.locate_cgroups(context, process, &mut output);
        if let Some(path) = &self.path {
            // Set once: this source runs once per tick.
            drop(context.process_state.cgroup.set(Arc::clone(path)));
        }
        let levels = self.sample_files(context, files_changed, &mut output);
        self.headroom
            .add_readings(context, process.pid, levels, &mut output);
        output
    }
}

fn add_readings(sample: CgroupSample, has_own_pressure: bool, output: &mut SourceOutput) {
    if has_own_pressure {
        pressure(&c::PRESSURE, "cpu", sample.cpu_pressure, output);
        pressure(&c::PRESSURE, "memory", sample.memory_pressure, output);
        pressure(&c::PRESSURE, "io", sample.io_pressure, output);
    } else {
        let message = "pressure: the process is in no cgroup of version 2 below the topmost one";
        output.problems.push(Problem::absent_data(message));
    }
    output.try_integer(&c::USAGE, [], sample.memory_usage);
    output.try_integer(&c::PEAK, [], sample.memory_peak);
    let max = output
        .value_or_problem(sample.memory_max)
        .and_then(Limit::bytes);
    output.integer(&c::LIMIT, ["max"], max);
    output.try_integer(&c::LIMIT, ["high"], sample.memory_high.map(Limit::bytes));
    let swap_max = match (sample.swap_max, sample.memory_and_swap_max) {
        (Ok(limit), _) => limit.bytes(),
        // Version 1 limits memory and swap together; the excess over the memory limit is swap's.
        (Err(_), Ok(both)) => both
            .bytes()
            .zip(max)
            .map(|(both, memory)| both.saturating_sub(memory)),
        // On version 1 the file of version 2 is absent: the other error is the reason.
        (Err(v2_error), Err(v1_error)) => {
            let is_absent = v2_error.kind() == ErrorKind::Absent;
            output.add_problem(if is_absent { &v1_error } else { &v2_error });
            None
        }
    };
    output.integer(&c::LIMIT, ["swap_max"], swap_max);
    output.try_integer(&c::SWAP, [], sample.swap_usage);
    if let Some(stat) = output.value_or_problem(sample.memory_stat) {
        add_stat_readings(&stat, output);
    }
    if let Some(events) = output.value_or_problem(sample.memory_events) {
        for (event, count) in named_fields!(
            events: low, high, max, oom, oom_kill
        ) {
            output.integer(&c::EVENTS, [event], count);
        }
    }
    let throttled = output
        .value_or_problem(sample.cpu)
        .and_then(|cpu| cpu.throttled);
    output.seconds(&c::CPU_THROTTLED, [], throttled);
}

fn add_stat_readings(stat: &MemoryStat, output: &mut SourceOutput) {
    for (kind, bytes) in named_fields!(
        stat: anon, file, file_mapped, shmem, kernel, kernel_stack, pagetables, percpu, vmalloc, sock, slab, slab_reclaimable, slab_unreclaimable, unevictable, swapcached
    ) {
        output.integer(&c::STAT, [kind], bytes);
    }
    output.integer(&c::REFAULTS, ["anon"], stat.workingset_refault_anon);
    output.integer(&c::REFAULTS, ["file"], stat.workingset_refault_file);
    let minor_faults = minor_faults(stat.pgfault, stat.pgmajfault);
    output.integer(&c::PAGE_FAULTS, ["major"], stat.pgmajfault);
    output.integer(&c::PAGE_FAULTS, ["minor"], minor_faults);
    for (op, by, pages) in [
        ("scan", "kswapd", stat.pgscan_kswapd),
        ("scan", "direct", stat.pgscan_direct),
        ("steal", "kswapd", stat.pgsteal_kswapd),
        ("steal", "direct", stat.pgsteal_direct),
    ] {
        output.integer(&c::RECLAIM, [op, by], pages);
    }
}

/// Counters that continue when the followed cgroup changes, also with a new process.
/// Excludes what the new cgroup had counted before the change. An exported counter falls only if a
/// cgroup is recreated, or if the new cgroup lacks the series at the change.
#[derive(Default)]
struct ContinuedCounters {
    reported: Vec<Reading>,
    offsets: Vec<Offset>,
}

struct Offset {
    /// The last value reported for the earlier cgroup.
    earlier: Reading,
    /// The new cgroup's value at the change, and at the last tick.
    first_value: Value,
    last_value: Value,
}

impl ContinuedCounters {
    fn rebase(&mut self, readings: &[Reading]) {
        let offset = |earlier: Reading| {
            let first = readings
                .iter()
                .find(|reading| is_same_series(reading, &earlier))?;
            Some(Offset {
                earlier,
                first_value: first.value.clone(),
                last_value: first.value.clone(),
            })
        };
        self.offsets = self.reported.drain(..).filter_map(offset).collect();
    }

    fn continue_counts(&mut self, readings: &mut [Reading]) {
        self.reported.clear();
        let is_counter = |reading: &&mut Reading| reading.metric.kind == Kind::Counter;
        for reading in readings.iter_mut().filter(is_counter) {
            let same_series = |offset: &&mut Offset| is_same_series(reading, &offset.earlier);
            if let Some(offset) = self.offsets.iter_mut().find(same_series) {
                let before = std::mem::replace(&mut offset.last_value, reading.value.clone());
                if before.number() <= reading.value.number() {
                    reading.value =
                        continued_value(&offset.earlier.value, &offset.first_value, &reading.value);
                } else {
                    // A cgroup recreated under its path counts from zero.
                    self.offsets
                        .retain(|offset| !is_same_series(reading, &offset.earlier));
                }
            }
            self.reported.push(reading.clone());
        }
    }
}

fn is_same_series(reading: &Reading, other: &Reading) -> bool {
    reading.metric.name == other.metric.name && *reading.label_values == *other.label_values
}

fn continued_value(before: &Value, first: &Value, now: &Value) -> Value {
    match (before, first, now) {
        (Value::Integer(before), Value::Integer(first), Value::Integer(now)) => {
            Value::Integer(before.saturating_add(now.saturating_sub(*first)))
        }
        _ => {
            let [before, first, now] =
                [before, first, now].map(|value| value.number().unwrap_or(0.0));
            Value::Real(before + (now - first))
        }
    }
}

pub fn register(registry: &mut Registry, context: &BuildContext<'_>, meminfo: &SharedMeminfo) {
    registry.add_sampler(
        Source::Cgroup,
        CgroupSampler {
            target_handle: context.target_handle.clone(),
            process: None,
            locator: None,
            located: None,
            has_own_pressure: false,
            path: None,
            meminfo: meminfo.clone(),
            headroom: Headroom::new(meminfo.clone()),
            limits_throttle: Throttle::every(LIMITS_INTERVAL),
            devices: HashMap::new(),
            buffer: Vec::new(),
            counters: ContinuedCounters::default(),
            counters_cgroup: None,
        },
    );
}
