use crate::{
    ParseError,
    text::{counters, fill},
};

counters! {
    /// `None` if this kernel or cgroup version does not count it. v2 includes descendants (unless
    /// mounted with `memory_localevents`); v1 does not.
    MemoryEvents {
        low: b"low",
        high: b"high",
        /// `memory.failcnt` of v1.
        max: b"max",
        oom: b"oom",
        /// On v1 since Linux 4.13.
        oom_kill: b"oom_kill",
    }
}

/// Also accepts v1's `memory.oom_control`, which has only `oom_kill`.
pub fn parse(text: &[u8]) -> Result<MemoryEvents, ParseError> {
    fill(text, b' ', MemoryEvents::counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cgroup_versions_report_oom_kills() {
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
