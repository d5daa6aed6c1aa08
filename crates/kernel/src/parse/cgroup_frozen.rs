use crate::{ParseError, text::fill};

/// `cgroup.events` of v2, by its own freezer or an ancestor's. `None` before Linux 5.2, which has
/// no v2 freezer.
pub fn parse_v2(text: &[u8]) -> Result<Option<bool>, ParseError> {
    let frozen: Option<u64> = fill(text, b' ', |frozen, key| {
        (key == b"frozen").then_some(frozen)
    })?;
    Ok(frozen.map(|frozen| frozen != 0))
}

/// `freezer.state` of v1, by its own freezer or an ancestor's. `FREEZING` is not frozen yet.
pub fn parse_v1(text: &[u8]) -> Result<Option<bool>, ParseError> {
    match text.trim_ascii() {
        b"FROZEN" => Ok(Some(true)),
        b"THAWED" | b"FREEZING" => Ok(Some(false)),
        _ => Err(ParseError::new(
            1,
            text,
            "expected THAWED, FREEZING or FROZEN",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_freezer_state_is_a_number_since_linux_5_2() {
        assert_eq!(parse_v2(b"populated 1\nfrozen 0\n"), Ok(Some(false)));
        assert_eq!(parse_v2(b"populated 1\nfrozen 1\n"), Ok(Some(true)));
        assert_eq!(parse_v2(b"populated 1\n"), Ok(None));
        assert!(parse_v2(b"frozen yes\n").is_err() && parse_v2(b"").is_err());
    }

    #[test]
    fn v1_freezer_state_is_a_word() {
        assert_eq!(
            [&b"THAWED\n"[..], b"FREEZING\n", b"FROZEN\n"].map(parse_v1),
            [Ok(Some(false)), Ok(Some(false)), Ok(Some(true))]
        );
        assert!(parse_v1(b"").is_err() && parse_v1(b"frozen\n").is_err());
    }
}
