//! CPU times of the host since boot, from `/proc/stat`.

use crate::ParseError;
use crate::text::{count, lines, words};

/// Clock ticks (`USER_HZ`), summed over all CPUs. `None` if one of them underflowed, as steal time
/// does after a live migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// User and kernel time, and that of guests.
    pub busy_ticks: Option<u64>,
    pub stolen_ticks: Option<u64>,
}

pub fn parse(text: &[u8]) -> Result<CpuTimes, ParseError> {
    let line = lines(text)
        .find(|line| words(line.text).next() == Some(b"cpu"))
        .ok_or_else(|| ParseError::new(1, text, "expected a cpu line"))?;
    let mut ticks = words(line.text).skip(1).map(count);
    let mut next = || {
        let ticks = ticks.next().flatten();
        ticks.ok_or_else(|| line.error("expected clock ticks"))
    };
    // `user` and `nice` include guests.
    let [user, nice, system, _idle, _iowait] = [next()?, next()?, next()?, next()?, next()?];
    let [irq, softirq, stolen_ticks] = [next()?, next()?, next()?];
    let busy_ticks = [user, nice, system, irq, softirq]
        .into_iter()
        .try_fold(0, |sum: u64, part| sum.checked_add(part?));
    Ok(CpuTimes {
        busy_ticks,
        stolen_ticks,
    })
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
                busy_ticks: Some(165),
                stolen_ticks: Some(7)
            })
        );
        assert_eq!(parse(b"btime 1\n").unwrap_err().what, "expected a cpu line");
        assert_eq!(
            parse(b"cpu  1 2 3\n").unwrap_err().what,
            "expected clock ticks"
        );
        let of = |line: &[u8]| parse(line).map(|times| (times.busy_ticks, times.stolen_ticks));
        assert_eq!(
            of(b"cpu  1 1 1 1 -1 1 1 18446744073709547520\n"),
            Ok((Some(5), None))
        );
        assert_eq!(of(b"cpu  -1 1 1 1 1 1 1 7\n"), Ok((None, Some(7))));
    }
}
