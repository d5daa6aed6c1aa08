//! `/proc/pressure/*` and the `*.pressure` files of a cgroup (Documentation/accounting/psi.rst),
//! since Linux 4.20.

use std::time::Duration;

use crate::{
    ParseError, Parsed,
    text::{count_or_underflow, lines, split_at_byte, words},
};

/// Stall time since the start of the host or cgroup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// At least one task waited. `None` if it underflowed.
    pub some: Option<Duration>,
    /// All tasks that had work waited. `None` if it underflowed, and for the CPU before Linux 5.13.
    /// Undefined for the CPU of the host, where newer kernels write 0.
    pub full: Option<Duration>,
}

pub fn parse(text: &[u8]) -> Parsed<Pressure> {
    let (mut some, mut full) = (None, None);
    for line in lines(text) {
        let Some((kind, values)) = split_at_byte(line.text, b' ') else {
            continue;
        };
        let field = match kind {
            b"some" => &mut some,
            b"full" => &mut full,
            _ => continue,
        };
        let total = words(values).find_map(|word| word.strip_prefix(b"total="));
        let total = total.and_then(count_or_underflow);
        *field = Some(total.ok_or_else(|| line.error("expected total= in microseconds"))?);
    }
    let some =
        some.ok_or_else(|| ParseError::new(1, text, "expected a line that begins with some"))?;
    Ok(Pressure {
        some: some.map(Duration::from_micros),
        full: full.flatten().map(Duration::from_micros),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_totals_are_in_microseconds() {
        let pressure = parse(include_bytes!("../../tests/text/linux-6.18/pressure_io")).unwrap();
        assert_eq!(pressure.some, Some(Duration::from_micros(1_766_935)));
        assert_eq!(pressure.full, Some(Duration::from_micros(1_710_178)));
    }

    #[test]
    fn cpu_full_pressure_of_an_older_kernel_is_unknown_not_zero() {
        let pressure = parse(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").unwrap();
        assert_eq!(
            pressure,
            Pressure {
                some: Some(Duration::from_micros(7)),
                full: None
            }
        );
    }

    #[test]
    fn a_line_without_a_total_is_an_error() {
        assert!(parse(b"some avg10=0.00\n").is_err());
        assert!(parse(b"full avg10=0.00 total=1\n").is_err());
        assert!(parse(b"some").is_err() && parse("some\u{e9}".as_bytes()).is_err());
        assert!(parse(b"").is_err());
    }

    #[test]
    fn a_total_below_zero_is_unknown_and_the_other_line_is_kept() {
        let pressure = parse(b"some avg10=0.00 total=-4096\nfull avg10=0.00 total=5\n").unwrap();
        assert_eq!(
            (pressure.some, pressure.full),
            (None, Some(Duration::from_micros(5)))
        );
    }
}
