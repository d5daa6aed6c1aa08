//! The validator's proof-of-history thread spins on one CPU; what runs there as well takes time from its slots.

use super::Target;
use rustix::thread::{CpuSet, sched_getaffinity};

/// What to tell if the daemon may run on the CPU of the validator's proof-of-history thread. `None` also for what pins none,
/// or where the system does not say.
pub(super) fn shared(target: &Target) -> Option<String> {
    let allowed = sched_getaffinity(None).ok()?;
    overlap(target.validator.as_ref()?.poh_cpu?, &allowed)
}

fn overlap(cpu: usize, allowed: &CpuSet) -> Option<String> {
    (cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)).then(|| {
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
    fn who_keeps_off_the_cpu_is_told_nothing() {
        let mut allowed = CpuSet::new();
        allowed.set(1);
        assert_eq!(overlap(0, &allowed), None);
        assert_eq!(overlap(usize::MAX, &allowed), None);
        assert!(overlap(1, &allowed).is_some_and(|told| told.contains("CPU 1,") && told.contains("CPUAffinity=")));
    }
}
