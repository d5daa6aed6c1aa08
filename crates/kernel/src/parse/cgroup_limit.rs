//! `memory.max`, `memory.high`, `memory.swap.max`, and `memory.limit_in_bytes` of v1.

use crate::{
    ParseError,
    text::{number, single_value},
};

/// v1 writes "no limit" as a number near 8 EiB, which depends on the page size.
const NO_LIMIT_FROM: u64 = 1 << 62;

/// Ordered by strictness: every number is below `Max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    Bytes(u64),
    Max,
}

impl Limit {
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

pub fn parse(text: &[u8]) -> Result<Limit, ParseError> {
    single_value(text, |text| match text {
        b"max" => Some(Limit::Max),
        digits => number(digits).map(|bytes| of_number(Some(bytes))),
    })
}

pub(crate) fn of_number(number: Option<u64>) -> Limit {
    number
        .filter(|bytes| *bytes < NO_LIMIT_FROM)
        .map_or(Limit::Max, Limit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_and_the_huge_numbers_of_v1_mean_no_limit() {
        for text in [
            "max\n",
            "9223372036854771712\n",
            "9223372036854710272\n",
            "18446744073709551615\n",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Limit::Max), "{text}");
        }
        assert_eq!(parse(b"68719476736\n"), Ok(Limit::Bytes(68_719_476_736)));
        assert_eq!(parse(b"0\n"), Ok(Limit::Bytes(0)));
        assert!(parse(b"maximum\n").is_err());
    }

    #[test]
    fn the_strictest_limit_is_the_smallest() {
        assert_eq!(
            [Limit::Max, Limit::Bytes(2), Limit::Bytes(1)].iter().min(),
            Some(&Limit::Bytes(1))
        );
        assert_eq!(Limit::Max.bytes(), None);
    }
}
