//! `memory.events` of v2, `memory.oom_control` of v1.

use crate::ParseError;
use crate::text::fill;

/// How often a memory limit mattered. `None` where this kernel or this cgroup version does not count it.
///
/// v2 counts for the cgroup with its descendants (unless mounted with `memory_localevents`); v1 for the cgroup alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEvents {
    /// Reclaims although usage was below `memory.low`.
    pub low: Option<u64>,
    /// Times tasks were slowed down at `memory.high`.
    pub high: Option<u64>,
    /// Times usage was about to pass `memory.max`; `memory.failcnt` of v1.
    pub max: Option<u64>,
    /// Times an allocation was about to fail at the limit.
    pub oom: Option<u64>,
    /// Processes killed. On v1 since Linux 4.13.
    pub oom_kill: Option<u64>,
    /// Times the whole cgroup was killed. Since Linux 5.17.
    pub oom_group_kill: Option<u64>,
}

/// `memory.events` of v2; of v1's `memory.oom_control` it takes `oom_kill`.
///
/// # Errors
/// A known line with something else where a number must be.
pub fn parse(text: &[u8]) -> Result<MemoryEvents, ParseError> {
    fill(text, b' ', |events: &mut MemoryEvents, key| {
        Some(match key {
            b"low" => &mut events.low,
            b"high" => &mut events.high,
            b"max" => &mut events.max,
            b"oom" => &mut events.oom,
            b"oom_kill" => &mut events.oom_kill,
            b"oom_group_kill" => &mut events.oom_group_kill,
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_give_kills() {
        let v2 = parse(b"low 0\nhigh 5\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n").unwrap();
        assert_eq!(
            (v2.high, v2.max, v2.oom, v2.oom_kill),
            (Some(5), Some(17), Some(2), Some(1))
        );
        let v1 = parse(b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n").unwrap();
        assert_eq!((v1.oom_kill, v1.oom), (Some(3), None));
        assert_eq!(
            parse(b"oom_kill_disable 0\nunder_oom 0\n")
                .unwrap()
                .oom_kill,
            None
        );
    }
}
