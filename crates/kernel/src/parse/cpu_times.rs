//! `/proc/stat`: what all processors together did since the machine's start.

use crate::ParseError;
use crate::text::{lines, number, words};

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
    let line = lines(text).find(|line| line.text.starts_with(b"cpu "));
    let line = line.ok_or_else(|| ParseError::new(1, text, "expected a cpu line"))?;
    times(line.text).ok_or_else(|| line.error("expected clock ticks"))
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`; `user` and `nice` hold the guests.
fn times(line: &[u8]) -> Option<CpuTimes> {
    let mut words = words(line).skip(1);
    let mut next = || words.next().and_then(number);
    let (user, nice, system, _idle, _iowait) = (next()?, next()?, next()?, next()?, next()?);
    let (irq, softirq, stolen_ticks) = (next()?, next()?, next()?);
    let busy = [user, nice, system, irq, softirq].into_iter().try_fold(0, u64::checked_add);
    Some(CpuTimes { busy_ticks: busy?, stolen_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_was_idle_or_stolen_is_not_busy() {
        let text = b"cpu  100 10 50 9000 700 3 2 7 60 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 1062191376\n";
        assert_eq!(parse(text), Ok(CpuTimes { busy_ticks: 165, stolen_ticks: 7 }));
        assert_eq!(parse(b"btime 1\n").unwrap_err().what, "expected a cpu line");
        assert_eq!(parse(b"cpu  1 2 3\n").unwrap_err().what, "expected clock ticks");
        assert!(parse(format!("cpu  {} 1 1 1 1 1 1 1\n", u64::MAX).as_bytes()).is_err());
    }
}
