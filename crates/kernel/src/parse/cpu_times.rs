//! CPU times of the host since boot, from `/proc/stat`.

use crate::{
    ParseError,
    text::{count, lines, words},
};

/// User and kernel time, and that of guests, in clock ticks (`USER_HZ`), summed over all CPUs.
/// `None` if a part underflowed.
pub fn parse(text: &[u8]) -> Result<Option<u64>, ParseError> {
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
    let [irq, softirq] = [next()?, next()?];
    Ok([user, nice, system, irq, softirq]
        .into_iter()
        .try_fold(0, |sum: u64, part| sum.checked_add(part?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_was_idle_or_stolen_is_not_busy() {
        let text =
            b"cpu  100 10 50 9000 700 3 2 7 60 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 1062191376\n";
        assert_eq!(parse(text), Ok(Some(165)));
        assert_eq!(parse(b"btime 1\n").unwrap_err().what, "expected a cpu line");
        assert_eq!(
            parse(b"cpu  1 2 3\n").unwrap_err().what,
            "expected clock ticks"
        );
        assert_eq!(
            parse(b"cpu  1 1 1 1 -1 1 1 18446744073709547520\n"),
            Ok(Some(5))
        );
        assert_eq!(parse(b"cpu  -1 1 1 1 1 1 1 7\n"), Ok(None));
    }
}
