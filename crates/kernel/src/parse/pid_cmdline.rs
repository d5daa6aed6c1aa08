use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use crate::ParseError;

/// Program first; empty for kernel threads and zombies. A process may overwrite its arguments.
/// Never fails; the return type is that of every parser.
pub fn parse(text: &[u8]) -> Result<Vec<OsString>, ParseError> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(text
        .split(|&b| b == 0)
        .map(|argument| OsString::from_vec(argument.to_vec()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_at_nul_and_empty_ones_are_kept() {
        assert_eq!(
            parse(b"agave-validator\0--ledger\0\0/l\0").unwrap(),
            ["agave-validator", "--ledger", "", "/l"]
        );
        assert!(parse(b"").unwrap().is_empty());
        assert_eq!(parse(b"overwritten title").unwrap(), ["overwritten title"]);
    }
}
