//! `cpu.stat` of a cgroup, v2 and v1.

use std::time::Duration;

use crate::{ParseError, text::fill};

/// `None` without the CPU controller, or if the kernel does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStat {
    pub throttled: Option<Duration>,
    /// v2 only.
    pub usage: Option<Duration>,
}

/// v2 has `throttled_usec`, v1 `throttled_time` in nanoseconds.
pub fn parse(text: &[u8]) -> Result<CpuStat, ParseError> {
    let [micros, nanos, usage] = fill(text, b' ', |values: &mut [Option<u64>; 3], key| {
        let [micros, nanos, usage] = values;
        Some(match key {
            b"throttled_usec" => micros,
            b"throttled_time" => nanos,
            b"usage_usec" => usage,
            _ => return None,
        })
    })?;
    let throttled = micros.map(Duration::from_micros);
    Ok(CpuStat {
        throttled: throttled.or(nanos.map(Duration::from_nanos)),
        usage: usage.map(Duration::from_micros),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_of_v2_and_nanoseconds_of_v1_become_durations() {
        let v2 = parse(
            b"usage_usec 30\nuser_usec 20\nnr_periods 4\nnr_throttled 2\nthrottled_usec 1500\n",
        )
        .unwrap();
        assert_eq!(v2.throttled, Some(Duration::from_micros(1500)));
        assert_eq!(v2.usage, Some(Duration::from_micros(30)));
        let v1 = parse(b"nr_periods 4\nnr_throttled 2\nthrottled_time 1500\n").unwrap();
        assert_eq!(v1.throttled, Some(Duration::from_nanos(1500)));
    }

    #[test]
    fn without_the_cpu_controller_throttling_is_unknown() {
        let stat =
            parse(b"usage_usec 30124526\nuser_usec 18761800\nsystem_usec 11362725\nnice_usec 0\n")
                .unwrap();
        assert_eq!(stat.throttled, None);
    }
}
