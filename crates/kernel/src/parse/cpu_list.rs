use std::collections::BTreeSet;

use crate::{ParseError, text::number};

const MAX_NUMBER: u32 = 65_535;

/// Ascending and distinct.
pub fn parse(text: &[u8]) -> Result<Vec<u32>, ParseError> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    list(text).ok_or_else(|| ParseError::new(1, text, "expected a list such as 0-3,8"))
}

pub(super) fn list(text: &[u8]) -> Option<Vec<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(|&byte| byte == b',') {
        let mut ends = part.splitn(2, |&byte| byte == b'-').map(bounded);
        let first = ends.next()??;
        let last = ends.next().unwrap_or(Some(first))?;
        all.extend(first..=last);
    }
    Some(all.into_iter().collect())
}

fn bounded(digits: &[u8]) -> Option<u32> {
    let number = u32::try_from(number(digits)?).ok()?;
    (number <= MAX_NUMBER).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_numbers_become_one_ascending_list() {
        assert_eq!(parse(b"0\n"), Ok(vec![0]));
        assert_eq!(parse(b"8,0-2,1\n"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(parse(b"\n"), Ok(vec![]));
        for bad in [&b"0-"[..], b"x", b"1,,2", b"0-99999", b"-1"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
