use crate::{
    Registry,
    discovery::TargetHandle,
    tick::{BuildContext, LIMITS_INTERVAL, SampleContext, Sampler, SourceOutput, Throttle},
};
use faultline_kernel::{
    HostFiles, HostRoot, OpenFile, Result,
    parse::{memory::Meminfo, pressure::Pressure},
};
use faultline_metrics::{Metric, Source, Stamp, metrics::host as h};
use parking_lot::Mutex;
use std::sync::Arc;

/// `/proc/meminfo` for all sources. Clones share the open file and the result of the current tick.
#[derive(Clone, Default)]
pub struct SharedMeminfo(Arc<Mutex<CachedMeminfo>>);

#[derive(Default)]
struct CachedMeminfo {
    file: Option<OpenFile>,
    buffer: Vec<u8>,
    last_read: Option<(Stamp, Result<Meminfo>)>,
}

impl SharedMeminfo {
    /// Reads the file at the first call of a tick.
    ///
    /// # Errors
    /// The read failed. All callers of a tick get the same error.
    pub fn read(&self, context: &SampleContext<'_>) -> Result<Meminfo> {
        let CachedMeminfo {
            file,
            buffer,
            last_read,
        } = &mut *self.0.lock();
        if let Some((at, result)) = last_read
            && *at == context.now
        {
            return result.clone();
        }
        let opened = match file.take() {
            Some(file) => Ok(file),
            None => context.root.open_proc_one_piece("meminfo"),
        };
        let meminfo = opened.and_then(|opened| file.insert(opened).parse(buffer, Meminfo::parse));
        *last_read = Some((context.now, meminfo.clone()));
        meminfo
    }
}

pub struct HostSampler {
    files: HostFiles,
    meminfo: SharedMeminfo,
    target_handle: TargetHandle,
    max_map_count_throttle: Throttle,
    buffer: Vec<u8>,
}

impl HostSampler {
    pub fn new(root: &HostRoot, meminfo: SharedMeminfo, target_handle: TargetHandle) -> Self {
        Self {
            files: HostFiles::new(root),
            meminfo,
            target_handle,
            max_map_count_throttle: Throttle::every(LIMITS_INTERVAL),
            buffer: Vec::new(),
        }
    }
}

impl Sampler for HostSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::with_capacity(24);
        let meminfo = self.meminfo.read(context);
        let read_max_map_count = self.max_map_count_throttle.is_due(context.now);
        let sample = self.files.sample(read_max_map_count, &mut self.buffer);
        output.up = meminfo.is_ok();
        if let Some(meminfo) = output.value_or_problem(meminfo) {
            for (kind, bytes) in named_fields!(
                meminfo: total, available, free, cached, dirty, swap_total, swap_free
            ) {
                output.integer(&h::MEMORY, [kind], bytes);
            }
        }
        let vmstat = output.value_or_problem(sample.vmstat);
        let oom_kills = vmstat.as_ref().and_then(|vmstat| vmstat.oom_kill);
        self.target_handle.set_host_oom_kills(oom_kills);
        if let Some(vmstat) = vmstat {
            let minor_faults = minor_faults(vmstat.pgfault, vmstat.pgmajfault);
            output.integer(&h::PAGE_FAULTS, ["major"], vmstat.pgmajfault);
            output.integer(&h::PAGE_FAULTS, ["minor"], minor_faults);
            output.integer(&h::SWAP_PAGES, ["in"], vmstat.pswpin);
            output.integer(&h::SWAP_PAGES, ["out"], vmstat.pswpout);
            output.integer(&h::OOM_KILLS, [], oom_kills);
        }
        // The kernel does not define `full` for the CPU of the machine, and writes 0 (psi.rst).
        let mut cpu_pressure = sample.cpu_pressure;
        if let Ok(Pressure { full, .. }) = &mut cpu_pressure {
            *full = full.filter(|full| !full.is_zero());
        }
        pressure(&h::PRESSURE, "cpu", cpu_pressure, &mut output);
        pressure(&h::PRESSURE, "memory", sample.memory_pressure, &mut output);
        pressure(&h::PRESSURE, "io", sample.io_pressure, &mut output);
        output.try_integer(&h::MAX_MAPS, [], sample.max_map_count);
        output
    }
}

pub fn host_name(root: &HostRoot) -> Option<String> {
    root.read_proc("sys/kernel/hostname", |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    })
    .ok()
}

/// The kernel counts only all faults and the major ones.
pub(super) fn minor_faults(all: Option<u64>, major: Option<u64>) -> Option<u64> {
    Some(all?.saturating_sub(major?))
}

pub(super) fn pressure(
    metric: &'static Metric,
    resource: &'static str,
    result: Result<Pressure>,
    output: &mut SourceOutput,
) {
    if let Some(pressure) = output.value_or_problem(result) {
        output.seconds(metric, [resource, "some"], pressure.some);
        output.seconds(metric, [resource, "full"], pressure.full);
    }
}

pub fn register(registry: &mut Registry, context: &BuildContext<'_>, meminfo: SharedMeminfo) {
    registry.add_sampler(
        Source::Host,
        HostSampler::new(context.root, meminfo, context.target_handle.clone()),
    );
}
