//! `/proc/PID/schedstat` and `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst); always of one
//! task, and only in kernels with `CONFIG_SCHED_INFO`.

use std::time::Duration;

use procfs::FromRead;

use crate::ParseError;

/// What the scheduler counted for one task since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU.
    pub on_cpu: Duration,
    /// Time ready to run but waiting for a CPU.
    pub run_queue_delay: Duration,
    /// Times it was given a CPU.
    pub timeslices: u64,
}

/// # Errors
/// Fewer than three numbers.
pub fn parse(text: &[u8]) -> Result<Schedstat, ParseError> {
    let read = procfs::process::Schedstat::from_read(text);
    let stat = read.map_err(|_| ParseError::new(1, text, "expected three numbers"))?;
    Ok(Schedstat {
        on_cpu: Duration::from_nanos(stat.sum_exec_runtime),
        run_queue_delay: Duration::from_nanos(stat.run_delay),
        timeslices: stat.pcount,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait_for_a_cpu() {
        let stat = parse(b"698906 1500 3\n").unwrap();
        assert_eq!(stat.on_cpu, Duration::from_nanos(698_906));
        assert_eq!(
            (stat.run_queue_delay, stat.timeslices),
            (Duration::from_nanos(1500), 3)
        );
        assert!(parse(b"698906 1500\n").is_err());
    }
}
