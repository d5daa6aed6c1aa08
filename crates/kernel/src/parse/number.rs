//! Files that are one number: `oom_score`, `memory.current`, `sys/vm/max_map_count` and many more.

use crate::ParseError;
use crate::text::{count, signed, sole};

/// A number that is never negative, nor near 2^64, which is one that was counted below zero.
pub fn parse(text: &[u8]) -> Result<u64, ParseError> {
    sole(text, |text| count(text)?)
}

/// A number that may be negative, as `oom_score_adj` is.
pub fn parse_signed(text: &[u8]) -> Result<i64, ParseError> {
    sole(text, signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sole_number_may_have_a_newline_and_nothing_else() {
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
