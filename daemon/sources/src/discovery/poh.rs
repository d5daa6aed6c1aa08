//! The validator's proof-of-history thread spins on one CPU. Other work on that CPU takes time from
//! its slots.

use super::Target;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

/// A warning if the daemon may run on the thread's CPU. `None` if it may not, and if no CPU is
/// pinned or it is unknown.
pub(super) fn cpu_warning(target: &Target) -> Option<String> {
    let validator = i32::try_from(target.process.pid)
        .ok()
        .and_then(Pid::from_raw)?;
    let cpu = pinned_cpu(
        target.validator.as_ref()?.poh_cpu?,
        &sched_getaffinity(Some(validator)).ok()?,
    )?;
    overlap_warning(cpu, &sched_getaffinity(None).ok()?)
}

/// `number` counts only the CPUs that Agave may use. Agave pins nothing if there are too few.
fn pinned_cpu(number: usize, usable: &CpuSet) -> Option<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| usable.is_set(*cpu))
        .nth(number)
}

fn overlap_warning(cpu: usize, allowed: &CpuSet) -> Option<String> {
    allowed.is_set(cpu).then(|| {
        format!(
            "the daemon may run on CPU {cpu}, to which the validator pins its proof-of-history thread: leave it out, with \
             CPUAffinity= in the daemon's unit or with taskset"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_warning_if_the_daemon_avoids_the_poh_core() {
        let mut allowed = CpuSet::new();
        allowed.set(1);
        assert_eq!(overlap_warning(0, &allowed), None);
        assert!(
            overlap_warning(1, &allowed).is_some_and(
                |warning| warning.contains("CPU 1,") && warning.contains("CPUAffinity=")
            )
        );
    }

    #[test]
    fn the_poh_core_index_counts_within_the_validators_cpus() {
        let mut usable = CpuSet::new();
        (4..8).for_each(|cpu| usable.set(cpu));
        assert_eq!(
            [0, 3, 4, usize::MAX].map(|number| pinned_cpu(number, &usable)),
            [Some(4), Some(7), None, None]
        );
    }
}
