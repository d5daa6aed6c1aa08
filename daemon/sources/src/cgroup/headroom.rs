use crate::{
    host::SharedMeminfo,
    tick::{LIMITS_INTERVAL, SampleContext, SourceOutput, Throttle},
};
use faultline_kernel::{
    CgroupLevels, Level, LevelMemory, Limit, NumaFiles, Result, headroom::binding_level,
    parse::memory::Meminfo,
};
use faultline_metrics::{
    AddReadings, LabelText, Metric, Problem, ProblemKind, Reading, Value, metrics::memory as m,
};

pub struct Headroom {
    meminfo: SharedMeminfo,
    host_state_throttle: Throttle,
    /// `None` if the process may use all NUMA nodes. An error stays until the next read.
    numa: Result<Option<NumaFiles>>,
    is_overcommit_strict: Result<bool>,
    is_oomd_running: Result<bool>,
    buffer: Vec<u8>,
}

impl Headroom {
    pub fn new(meminfo: SharedMeminfo) -> Self {
        Self {
            meminfo,
            host_state_throttle: Throttle::every(LIMITS_INTERVAL),
            numa: Ok(None),
            is_overcommit_strict: Ok(false),
            is_oomd_running: Ok(false),
            buffer: Vec::new(),
        }
    }

    /// The binding level is the level with the least headroom. Without `cgroup_levels`, or while a
    /// level is unreadable, the binding level is unknown.
    pub fn add_readings(
        &mut self,
        context: &SampleContext<'_>,
        pid: u32,
        cgroup_levels: Option<CgroupLevels>,
        output: &mut SourceOutput,
    ) {
        let has_cgroup_levels = cgroup_levels.is_some();
        let cgroup_levels = cgroup_levels.unwrap_or_default();
        for error in &cgroup_levels.errors {
            output.add_problem(error);
        }
        let is_gone = |problem: &Problem| problem.kind == ProblemKind::Gone;
        if output.problems.iter().any(is_gone) {
            return;
        }
        if self.host_state_throttle.is_due(context.now) {
            self.read_host_state(context, pid);
        }
        let meminfo = output.value_or_problem(self.meminfo.read(context));
        let machine = meminfo
            .as_ref()
            .and_then(|meminfo| LevelMemory::of_machine(meminfo, cgroup_levels.protected_bytes));
        let numa = match &mut self.numa {
            Ok(Some(files)) => files.sample(&mut self.buffer).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error.clone()),
        };
        let numa = output.value_or_problem(numa);
        let is_complete = has_cgroup_levels
            && cgroup_levels.errors.is_empty()
            && machine.is_some()
            && numa.is_some();
        let mut levels = cgroup_levels.limits;
        levels.extend(numa.flatten());
        levels.extend(machine);
        for level in &levels {
            add_level(level, cgroup_levels.own_unreclaimable, output);
        }
        for high in &cgroup_levels.high {
            add_reading(&m::HIGH_HEADROOM, high, high.headroom(), output);
            if levels.iter().all(|level| level.id != high.id) {
                output.readings.push(level_info(high));
            }
        }
        if is_complete {
            add_binding_level(&levels, output);
        }
        if let Some(meminfo) = meminfo {
            self.add_machine(&meminfo, cgroup_levels.swap, output);
        }
    }

    fn read_host_state(&mut self, context: &SampleContext<'_>, pid: u32) {
        self.numa = NumaFiles::open(context.root, pid, context.host.page_size);
        self.is_overcommit_strict = context.root.has_strict_overcommit();
        self.is_oomd_running = context.root.runs_systemd_oomd();
    }

    fn add_machine(&self, meminfo: &Meminfo, swap_limit: Option<Limit>, output: &mut SourceOutput) {
        let swap = meminfo
            .swap_free
            .zip(swap_limit)
            .and_then(|(free, limit)| limit.min(Limit::Bytes(free)).bytes());
        output.integer(&m::SWAP_HEADROOM, [], swap);
        if output.value_or_problem(self.is_overcommit_strict.clone()) == Some(true) {
            let commit_headroom = meminfo
                .commit_limit
                .zip(meminfo.committed)
                .map(|(limit, used)| limit.saturating_sub(used));
            output.integer(&m::COMMIT_HEADROOM, [], commit_headroom);
        }
        let is_oomd_running = output.value_or_problem(self.is_oomd_running.clone());
        output.flag(&m::OOMD, [], is_oomd_running);
    }
}

fn add_level(level: &LevelMemory, own_unreclaimable: Option<u64>, output: &mut SourceOutput) {
    add_reading(&m::HEADROOM, level, level.headroom(), output);
    add_reading(&m::LEVEL_LIMIT, level, level.limit, output);
    let unreclaimable = level.unreclaimable;
    add_reading(&m::LEVEL_UNRECLAIMABLE, level, unreclaimable, output);
    add_reading(&m::LEVEL_DIRTY, level, level.dirty, output);
    // `Cgroup(0)` is the process's own cgroup and has no others. Memory with swap includes the
    // validator's own swap, which `own_unreclaimable` lacks.
    if !matches!(level.id, Level::Cgroup(0) | Level::MemoryAndSwap(_)) {
        let others = own_unreclaimable.map(|own| unreclaimable.saturating_sub(own));
        add_reading(&m::LEVEL_OTHERS, level, others, output);
    }
    output.readings.push(level_info(level));
}

fn level_info(level: &LevelMemory) -> Reading {
    let labels = [level_label(level), LabelText::Shared(level.path.clone())];
    Reading::new(&m::LEVEL_INFO, labels, Value::Integer(1))
}

fn add_binding_level(levels: &[LevelMemory], output: &mut SourceOutput) {
    let Some(binding) = binding_level(levels) else {
        return;
    };
    for level in levels {
        let binds = u64::from(level.id == binding.id);
        add_reading(&m::BINDING, level, binds, output);
    }
    output.integer(&m::EFFECTIVE_LIMIT, [], binding.limit);
    output.integer(&m::UNRECLAIMABLE, [], binding.unreclaimable);
}

fn add_reading(
    metric: &'static Metric,
    level: &LevelMemory,
    value: impl Into<Option<u64>>,
    output: &mut SourceOutput,
) {
    output.readings.integer(metric, [level_label(level)], value);
}

fn level_label(level: &LevelMemory) -> LabelText {
    level.id.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::ProcessState;
    use faultline_kernel::HostRoot;
    use faultline_metrics::Stamp;
    use faultline_testkit::host::FakeHost;
    use std::time::Duration;

    #[test]
    fn unreadable_host_state_is_a_problem_until_the_next_read() {
        let host = FakeHost::empty().unwrap();
        let file = "proc/sys/vm/overcommit_memory";
        let oomd = "sys/fs/cgroup/system.slice/systemd-oomd.service/cgroup.procs";
        host.write(file, "x\n").unwrap();
        // A folder cannot be read.
        host.write(&format!("{oomd}/x"), "").unwrap();
        host.write("proc/meminfo", "MemTotal: 9 kB\n").unwrap();
        let root = HostRoot::below(host.root());
        let units = crate::tests::host_constants();
        let mut headroom = Headroom::new(SharedMeminfo::default());
        let mut problems_and_oomd = |seconds| {
            let mut output = SourceOutput::default();
            let context = SampleContext {
                now: Stamp {
                    uptime: Duration::from_secs(seconds),
                    ..Stamp::default()
                },
                target: None,
                root: &root,
                host: &units,
                boot_time: &Ok(0),
                process_state: &ProcessState::default(),
            };
            headroom.add_readings(&context, 77, None, &mut output);
            let problem_count = |file: &str| {
                let problems = output.problems.iter();
                problems.filter(|one| one.what.contains(file)).count()
            };
            let mut readings = output.readings.iter();
            let oomd = readings.find(|reading| std::ptr::eq(reading.metric, &m::OOMD));
            let is_oomd_running = oomd.map(|reading| reading.value.clone());
            (problem_count(file), problem_count("oomd"), is_oomd_running)
        };
        let unreadable = (1, 1, None);
        assert_eq!(
            [0, 1].map(&mut problems_and_oomd),
            [unreadable.clone(), unreadable.clone()]
        );
        host.write(file, "2\n").unwrap();
        std::fs::remove_dir_all(host.root().join(oomd)).unwrap();
        host.write(oomd, "712\n").unwrap();
        let running = (0, 0, Some(Value::Integer(1)));
        assert_eq!(
            [14, 15, 16].map(&mut problems_and_oomd),
            [unreadable, running.clone(), running.clone()]
        );
        host.write(oomd, "").unwrap();
        assert_eq!(problems_and_oomd(30), (0, 0, Some(Value::Integer(0))));
        std::fs::remove_file(host.root().join(oomd)).unwrap();
        assert_eq!(problems_and_oomd(45), (0, 0, Some(Value::Integer(0))));
    }
}
