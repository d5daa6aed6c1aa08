//! Files with one number, such as `oom_score` or `memory.current`.

use crate::{
    ParseError,
    text::{count, signed, single_value},
};

/// Rejects numbers near 2^64, which are underflowed counters.
pub fn parse(text: &[u8]) -> Result<u64, ParseError> {
    single_value(text, |text| count(text)?)
}

pub fn parse_signed(text: &[u8]) -> Result<i64, ParseError> {
    single_value(text, signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_number_file_may_end_with_only_a_newline() {
        assert_eq!(parse(b"65530\n"), Ok(65530));
        assert_eq!(parse_signed(b"-1000\n"), Ok(-1000));
        assert!(parse(b"").is_err());
        assert!(parse(b"-1\n").is_err());
        assert!(
            parse(b"18446744073709547520\n").is_err(),
            "counted below zero"
        );
        assert!(parse(b"1 2\n").is_err());
    }
}
