//! `/proc/stat`: what all processors together did since the machine's start.

use std::io::Read;

use procfs::{ExplicitSystemInfo, FromRead, FromReadSI, KernelStats, ProcResult};

use super::upstream::Wanted;
use crate::ParseError;

const WANTED: Wanted = Wanted {
    separator: b' ',
    keys: &[b"cpu"],
    insisted: "ctxt 0\nbtime 0\nprocesses 0\n",
    value: "expected clock ticks",
    text: "expected a cpu line",
};

/// Clock ticks (`USER_HZ`), summed over all processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// Programs, guests of this machine included, and the kernel.
    pub busy_ticks: u64,
    /// Other guests of the host that this machine is a guest of.
    pub stolen_ticks: u64,
}

/// # Errors
/// A text without a `cpu` line, or one without its first eight numbers.
pub fn parse(text: &[u8]) -> Result<CpuTimes, ParseError> {
    let total = WANTED.read::<HostStat>(text)?.0.total;
    // `user` and `nice` hold the guests.
    let parts = [
        Some(total.user),
        Some(total.nice),
        Some(total.system),
        total.irq,
        total.softirq,
    ];
    let busy_ticks = parts
        .into_iter()
        .try_fold(0, |sum: u64, part| sum.checked_add(part?));
    let times = busy_ticks
        .zip(total.steal)
        .map(|(busy_ticks, stolen_ticks)| CpuTimes {
            busy_ticks,
            stolen_ticks,
        });
    times.ok_or_else(|| ParseError::new(1, text, WANTED.value))
}

/// The machine's length of a tick, which is asked for, matters to what is not used here.
pub(super) struct HostStat(pub(super) KernelStats);

impl FromRead for HostStat {
    fn from_read<R: Read>(text: R) -> ProcResult<Self> {
        let machine = ExplicitSystemInfo {
            boot_time_secs: 0,
            ticks_per_second: 100,
            page_size: 4096,
            is_little_endian: true,
        };
        KernelStats::from_read(text, &machine).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_was_idle_or_stolen_is_not_busy() {
        let text =
            b"cpu  100 10 50 9000 700 3 2 7 60 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 1062191376\n";
        assert_eq!(
            parse(text),
            Ok(CpuTimes {
                busy_ticks: 165,
                stolen_ticks: 7
            })
        );
        assert_eq!(parse(b"btime 1\n").unwrap_err().what, "expected a cpu line");
        assert_eq!(
            parse(b"cpu  1 2 3\n").unwrap_err().what,
            "expected clock ticks"
        );
        assert!(parse(format!("cpu  {} 1 1 1 1 1 1 1\n", u64::MAX).as_bytes()).is_err());
    }
}
