use crate::ParseError;
use crate::text::lines;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoredSignals(u64);

impl IgnoredSignals {
    pub fn contains(self, signal: i32) -> bool {
        let bit = u32::try_from(signal)
            .ok()
            .and_then(|signal| signal.checked_sub(1));
        bit.and_then(|bit| self.0.checked_shr(bit))
            .is_some_and(|bits| bits & 1 == 1)
    }
}

pub fn parse(text: &[u8]) -> Result<IgnoredSignals, ParseError> {
    for line in lines(text) {
        let Some(value) = line.text.strip_prefix(b"SigIgn:") else {
            continue;
        };
        return str::from_utf8(value.trim_ascii())
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(IgnoredSignals)
            .ok_or_else(|| line.error("expected a hexadecimal number"));
    }
    Err(ParseError::new(1, text, "expected a line SigIgn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_a_signal_and_the_lowest_is_the_first() {
        let set = parse(b"SigBlk:\tf\nSigIgn:\t8000000000001007\nSigCgt:\tf\n").unwrap();
        let ignored: Vec<i32> = (-1..=70).filter(|signal| set.contains(*signal)).collect();
        assert_eq!(ignored, [1, 2, 3, 13, 64]);
    }

    #[test]
    fn a_text_without_the_line_or_its_number_is_an_error() {
        assert!(parse(b"SigCgt:\t0\n").is_err());
        assert_eq!(parse(b"Name:\tx\nSigIgn:\tgh\n").unwrap_err().line, 2);
    }
}
