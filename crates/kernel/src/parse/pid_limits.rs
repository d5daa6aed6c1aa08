//! `/proc/PID/limits` (proc_pid_limits(5)).

use crate::ParseError;
use crate::text::{lines, number, words};

/// How many descriptors a process may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// The limit in force; `None` is unlimited.
    pub soft: Option<u64>,
    /// How far the process may raise it; `None` is unlimited.
    pub hard: Option<u64>,
}

/// # Errors
/// A text without a `Max open files` line, or one with something else where a limit must be.
pub fn parse(text: &[u8]) -> Result<OpenFilesLimit, ParseError> {
    for line in lines(text) {
        if let Some(limits) = line.text.strip_prefix(b"Max open files") {
            let mut limits = words(limits).map(limit);
            let mut next = || limits.next().flatten().ok_or_else(|| line.error("expected two limits"));
            return Ok(OpenFilesLimit { soft: next()?, hard: next()? });
        }
    }
    Err(ParseError::new(1, text, "expected a line of open files"))
}

/// The outer `None` is a text that is no limit, the inner one is unlimited.
fn limit(word: &[u8]) -> Option<Option<u64>> {
    if word == b"unlimited" { Some(None) } else { number(word).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_captured_limit_of_open_files_is_found_among_the_others() {
        let limit = parse(include_bytes!("../../tests/text/linux-6.18/pid_limits")).unwrap();
        assert_eq!(limit, OpenFilesLimit { soft: Some(20000), hard: Some(20000) });
    }

    #[test]
    fn unlimited_is_no_number() {
        let limit = parse(b"Max open files            1024                 unlimited            files     \n").unwrap();
        assert_eq!(limit, OpenFilesLimit { soft: Some(1024), hard: None });
        assert!(parse(b"Max open files            1024\n").is_err());
        assert!(parse(b"Max cpu time 1 2\n").is_err());
    }
}
