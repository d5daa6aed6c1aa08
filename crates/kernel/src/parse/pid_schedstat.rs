//! `/proc/PID/schedstat` and `/proc/PID/task/TID/schedstat`
//! (Documentation/scheduler/sched-stats.rst); always of one task, and only with
//! `CONFIG_SCHED_INFO`.

use std::time::Duration;

use crate::{
    ParseError,
    text::{count, words},
};

/// Since the task's start. A counter that underflowed is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedstat {
    pub on_cpu: Option<Duration>,
    pub run_queue_delay: Option<Duration>,
    pub timeslices: Option<u64>,
}

pub fn parse(text: &[u8]) -> Result<Schedstat, ParseError> {
    let mut counters = words(text.trim_ascii_end()).map(count);
    let mut next = || {
        let counter = counters.next().flatten();
        counter.ok_or_else(|| ParseError::new(1, text, "expected three numbers"))
    };
    Ok(Schedstat {
        on_cpu: next()?.map(Duration::from_nanos),
        run_queue_delay: next()?.map(Duration::from_nanos),
        timeslices: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_schedstat_value_is_the_run_queue_delay() {
        let stat = parse(b"698906 1500 3\n").unwrap();
        assert_eq!(stat.on_cpu, Some(Duration::from_nanos(698_906)));
        assert_eq!(
            (stat.run_queue_delay, stat.timeslices),
            (Some(Duration::from_nanos(1500)), Some(3))
        );
        assert!(parse(b"698906 1500\n").is_err());
        let stat = parse(b"698906 -1500 3\n").unwrap();
        assert_eq!((stat.run_queue_delay, stat.timeslices), (None, Some(3)));
    }
}
