//! The validator's proof-of-history thread spins on one CPU. Other work on that CPU takes time from
//! its slots.

use super::Target;
use faultline_agave::identify::PohCpu;
use itertools::{Itertools, chain};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity},
};

/// A warning if the daemon may run on the CPU to which the thread is pinned. Without an option,
/// Agave pins the thread to CPU 0 or to the first usable CPU. In another pid namespace the
/// validator's usable CPUs are unknown, so the number counts only as a CPU number.
pub fn cpu_warning(target: &Target, shares_pid_namespace: bool) -> Option<String> {
    let poh_cpu = target.validator.as_ref()?.poh_cpu?;
    let usable = if shares_pid_namespace {
        let pid = Pid::from_raw(i32::try_from(target.process.pid).ok()?)?;
        sched_getaffinity(Some(pid)).ok()?
    } else {
        CpuSet::new()
    };
    let cpus = pinned_cpus(poh_cpu, &usable);
    overlap_warning(&cpus, &sched_getaffinity(None).ok()?)
}

/// Some versions of Agave take `NumberOrIndex` as a CPU number, others as an index into the usable
/// CPUs. The version is unknown here, so both CPUs are returned.
fn pinned_cpus(poh_cpu: PohCpu, usable: &CpuSet) -> Vec<usize> {
    let mut all = (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu));
    let (number, by_index) = match poh_cpu {
        PohCpu::Number(number) => (number, None),
        PohCpu::NumberOrIndex(number) => (number, all.nth(number)),
    };
    let by_number = Some(number).filter(|number| *number < CpuSet::MAX_CPU);
    chain!(by_index, by_number).dedup().collect()
}

fn overlap_warning(pinned: &[usize], allowed: &CpuSet) -> Option<String> {
    let cpus = pinned
        .iter()
        .filter(|cpu| allowed.is_set(**cpu))
        .join(" or ");
    (!cpus.is_empty()).then(|| {
        format!(
            "the daemon may run on CPU {cpus}, to which the validator pins its proof-of-history thread: keep the daemon off \
             that CPU, with CPUAffinity= in its unit or with taskset"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_kernel::ProcessId;
    use rustix::thread::{gettid, sched_setaffinity};

    #[test]
    fn in_another_pid_namespace_no_other_process_decides() {
        // A thread id is valid where the kernel takes a pid.
        let process = ProcessId {
            pid: gettid().as_raw_nonzero().get().try_into().unwrap(),
            start_ticks: 1,
        };
        let mut target = crate::tests::target(process, None);
        let usable = sched_getaffinity(None).unwrap();
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu));
        let cpu = cpus.next_back().unwrap();
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).unwrap();
        let mut warns = |poh_cpu| {
            target.validator.as_mut().unwrap().poh_cpu = Some(poh_cpu);
            [true, false].map(|shares| cpu_warning(&target, shares).is_some())
        };
        assert_eq!(warns(PohCpu::Number(cpu)), [true, true]);
        assert_eq!(warns(PohCpu::NumberOrIndex(0)), [true, cpu == 0]);
    }

    #[test]
    fn no_warning_if_the_daemon_avoids_the_poh_core() {
        let mut allowed = CpuSet::new();
        allowed.set(1);
        assert_eq!(overlap_warning(&[0], &allowed), None);
        assert!(
            overlap_warning(&[0, 1], &allowed).is_some_and(
                |warning| warning.contains("CPU 1,") && warning.contains("CPUAffinity=")
            )
        );
    }

    #[test]
    fn the_poh_cpu_is_a_number_or_by_the_older_option_also_an_index() {
        let mut usable = CpuSet::new();
        (4..8).for_each(|cpu| usable.set(cpu));
        let cpus = |poh_cpu| pinned_cpus(poh_cpu, &usable);
        assert_eq!(
            [0, 5, usize::MAX].map(|number| cpus(PohCpu::Number(number))),
            [vec![0], vec![5], vec![]]
        );
        assert_eq!(
            [0, 3, 6, usize::MAX].map(|number| cpus(PohCpu::NumberOrIndex(number))),
            [vec![4, 0], vec![7, 3], vec![6], vec![]]
        );
        (0..4).for_each(|cpu| usable.set(cpu));
        assert_eq!(pinned_cpus(PohCpu::NumberOrIndex(2), &usable), [2]);
    }
}
