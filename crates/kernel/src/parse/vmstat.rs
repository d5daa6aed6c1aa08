//! `/proc/vmstat` (proc_vmstat(5)).

use crate::ParseError;
use crate::text::fill_until;

/// Counters of the host since its start. `None` where the kernel does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vmstat {
    /// Page faults, major ones included.
    pub pgfault: Option<u64>,
    /// Page faults that needed the disk.
    pub pgmajfault: Option<u64>,
    /// Pages swapped in.
    pub pswpin: Option<u64>,
    /// Pages swapped out.
    pub pswpout: Option<u64>,
    /// Processes OOM-killed, in the host or in a cgroup. Since Linux 4.13.
    pub oom_kill: Option<u64>,
    /// Pages of anonymous memory that came back soon after their eviction. Since Linux 5.9.
    pub workingset_refault_anon: Option<u64>,
    /// Pages of files that came back soon after their eviction. Since Linux 5.9.
    pub workingset_refault_file: Option<u64>,
    /// Pages looked at by the background reclaimer.
    pub pgscan_kswapd: Option<u64>,
    /// Pages looked at by allocating tasks.
    pub pgscan_direct: Option<u64>,
    /// Pages freed by the background reclaimer.
    pub pgsteal_kswapd: Option<u64>,
    /// Pages freed by allocating tasks.
    pub pgsteal_direct: Option<u64>,
}

/// # Errors
/// A known line with something else where a number must be.
pub fn parse(text: &[u8]) -> Result<Vmstat, ParseError> {
    fill_until(text, b' ', 11, |stat: &mut Vmstat, key| {
        Some(match key {
            b"pgfault" => &mut stat.pgfault,
            b"pgmajfault" => &mut stat.pgmajfault,
            b"pswpin" => &mut stat.pswpin,
            b"pswpout" => &mut stat.pswpout,
            b"oom_kill" => &mut stat.oom_kill,
            b"workingset_refault_anon" => &mut stat.workingset_refault_anon,
            b"workingset_refault_file" => &mut stat.workingset_refault_file,
            b"pgscan_kswapd" => &mut stat.pgscan_kswapd,
            b"pgscan_direct" => &mut stat.pgscan_direct,
            b"pgsteal_kswapd" => &mut stat.pgsteal_kswapd,
            b"pgsteal_direct" => &mut stat.pgsteal_direct,
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_counters_are_read() {
        let stat = parse(include_bytes!("../../tests/text/linux-6.18/vmstat")).unwrap();
        assert_eq!((stat.pgfault, stat.pgmajfault), (Some(2_032_474), Some(1248)));
        assert_eq!((stat.pswpin, stat.oom_kill), (Some(0), Some(0)));
        assert_eq!(stat.workingset_refault_file, Some(185_150));
    }

    #[test]
    fn every_field_is_found_though_the_rest_of_the_text_is_not_looked_at() {
        let stat = parse(include_bytes!("../../tests/text/linux-6.18/vmstat")).unwrap();
        let all = [stat.pgfault, stat.pgmajfault, stat.pswpin, stat.pswpout, stat.oom_kill];
        let reclaim = [stat.pgscan_kswapd, stat.pgscan_direct, stat.pgsteal_kswapd, stat.pgsteal_direct];
        let refaults = [stat.workingset_refault_anon, stat.workingset_refault_file];
        assert!(all.iter().chain(&reclaim).chain(&refaults).all(Option::is_some), "{stat:?}");
    }

    #[test]
    fn a_kernel_before_4_13_counts_no_kills_and_that_is_not_zero() {
        assert_eq!(parse(b"pgfault 5\npgmajfault 1\n").unwrap().oom_kill, None);
    }
}
