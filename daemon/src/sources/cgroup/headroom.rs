use super::super::host::Memory;
use crate::tick::{Finding, LIMITS_EVERY, Look, Throttle};
use faultline_catalog::metrics::memory as m;
use faultline_catalog::{Metric, Reading, Status, Text, Value};
use faultline_kernel::headroom::binding;
use faultline_kernel::parse::meminfo::Meminfo;
use faultline_kernel::{CgroupLevels, Level, LevelMemory, Limit, NumaFiles, ReadError};

#[derive(Debug)]
pub(super) struct Headroom {
    meminfo: Memory,
    settings: Throttle,
    /// An error, kept until the next read, makes the level unknown.
    numa: Result<Option<NumaFiles>, ReadError>,
    strict_overcommit: bool,
    oomd_running: bool,
    buffer: Vec<u8>,
}

impl Headroom {
    pub(super) fn new(meminfo: Memory) -> Self {
        Headroom {
            meminfo,
            settings: Throttle::every(LIMITS_EVERY),
            numa: Ok(None),
            strict_overcommit: false,
            oomd_running: false,
            buffer: Vec::new(),
        }
    }

    /// Without `cgroups`, or while a level is unreadable, no level binds.
    pub(super) fn read(
        &mut self,
        look: &Look<'_>,
        pid: u32,
        cgroups: Option<CgroupLevels>,
        finding: &mut Finding,
    ) {
        let is_found = cgroups.is_some();
        let cgroups = cgroups.unwrap_or_default();
        for error in &cgroups.errors {
            finding.problem(error);
        }
        if finding
            .problems
            .iter()
            .any(|problem| problem.status == Status::Gone)
        {
            return;
        }
        if self.settings.is_due(look.now) {
            self.read_settings(look, pid, finding);
        }
        let meminfo = finding.take(self.meminfo.at(look));
        let machine = meminfo
            .as_ref()
            .and_then(|meminfo| LevelMemory::of_machine(meminfo, cgroups.protected));
        let numa = match &mut self.numa {
            Ok(Some(files)) => files.sample(&mut self.buffer).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error.clone()),
        };
        let numa = finding.take(numa);
        let is_complete =
            is_found && cgroups.errors.is_empty() && machine.is_some() && numa.is_some();
        let mut levels = cgroups.limits;
        levels.extend(numa.flatten());
        levels.extend(machine);
        for level in &levels {
            write_level(level, cgroups.own_unreclaimable, finding);
        }
        for high in &cgroups.high {
            add(&m::HIGH_HEADROOM, high, Some(high.headroom()), finding);
            if levels.iter().all(|level| level.level != high.level) {
                finding.readings.push(info(high));
            }
        }
        if is_complete {
            write_binding(&levels, finding);
        }
        if let Some(meminfo) = meminfo {
            self.write_machine(&meminfo, cgroups.swap, finding);
        }
    }

    fn read_settings(&mut self, look: &Look<'_>, pid: u32, finding: &mut Finding) {
        self.numa = NumaFiles::open(look.root, pid, look.host.page_size);
        self.strict_overcommit = finding.take(look.root.has_strict_overcommit()) == Some(true);
        self.oomd_running = look.root.runs_systemd_oomd();
    }

    fn write_machine(&self, meminfo: &Meminfo, limit: Option<Limit>, finding: &mut Finding) {
        let swap = meminfo.swap_free.zip(limit);
        let swap = swap.and_then(|(free, limit)| limit.min(Limit::Bytes(free)).bytes());
        finding.whole(&m::SWAP_HEADROOM, [], swap);
        if self.strict_overcommit {
            let committed = meminfo.commit_limit.zip(meminfo.committed);
            let left = committed.map(|(limit, used)| limit.saturating_sub(used));
            finding.whole(&m::COMMIT_HEADROOM, [], left);
        }
        finding
            .readings
            .push(Reading::flag(&m::OOMD, [], self.oomd_running));
    }
}

fn write_level(level: &LevelMemory, own: Option<u64>, finding: &mut Finding) {
    add(&m::HEADROOM, level, Some(level.headroom()), finding);
    add(&m::LEVEL_LIMIT, level, Some(level.limit), finding);
    add(
        &m::LEVEL_UNRECLAIMABLE,
        level,
        Some(level.unreclaimable),
        finding,
    );
    add(&m::LEVEL_DIRTY, level, level.dirty, finding);
    // The validator's own swap is part of memory with swap.
    if !matches!(level.level, Level::Cgroup(0) | Level::MemoryAndSwap(_)) {
        let others = own.map(|own| level.unreclaimable.saturating_sub(own));
        add(&m::LEVEL_OTHERS, level, others, finding);
    }
    finding.readings.push(info(level));
}

fn info(level: &LevelMemory) -> Reading {
    let labels = [label(level), Text::Shared(level.path.clone())];
    Reading::new(&m::LEVEL_INFO, labels, Value::Whole(1))
}

fn write_binding(levels: &[LevelMemory], finding: &mut Finding) {
    let Some(binding) = binding(levels) else {
        return;
    };
    for level in levels {
        let binds = u64::from(level.level == binding.level);
        add(&m::BINDING, level, Some(binds), finding);
    }
    finding.whole(&m::EFFECTIVE_LIMIT, [], Some(binding.limit));
    finding.whole(&m::UNRECLAIMABLE, [], Some(binding.unreclaimable));
}

fn add(metric: &'static Metric, level: &LevelMemory, value: Option<u64>, finding: &mut Finding) {
    let reading = value.map(|value| Reading::whole(metric, [label(level)], value));
    finding.readings.extend(reading);
}

fn label(level: &LevelMemory) -> Text {
    level.level.to_string().into()
}
