use procfs::process::LimitValue;

use crate::{
    ParseError,
    text::{lines, rows, words},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessLimit {
    /// Without `Max`, such as `open files`.
    pub name: String,
    /// `None` is unlimited.
    pub soft: Option<u64>,
    /// `None` is unlimited.
    pub hard: Option<u64>,
}

pub fn parse_all(text: &[u8]) -> Result<Vec<ProcessLimit>, ParseError> {
    rows(text, 1, "expected a limit", |line| {
        process_limit(line).map(Some)
    })
}

/// The soft limit of open files; `None` is unlimited.
pub fn parse(text: &[u8]) -> Result<Option<u64>, ParseError> {
    let line = lines(text)
        .find(|line| line.text.starts_with(b"Max open files"))
        .ok_or_else(|| ParseError::new(1, text, "expected a line of open files"))?;
    let limit = process_limit(line.text).ok_or_else(|| line.error("expected two limits"))?;
    Ok(limit.soft)
}

fn process_limit(line: &[u8]) -> Option<ProcessLimit> {
    let all: Vec<&[u8]> = words(line.strip_prefix(b"Max ")?).collect();
    // The name ends where a number or "unlimited" begins.
    let at = all.iter().position(|word| limit(word).is_some())?;
    let (name, limits) = all.split_at_checked(at)?;
    let mut limits = limits.iter().map(|word| limit(word));
    Some(ProcessLimit {
        name: String::from_utf8_lossy(&name.join(&b' ')).into_owned(),
        soft: limits.next()??,
        hard: limits.next()??,
    })
}

/// The outer `None` is an invalid text, the inner one unlimited.
fn limit(word: &[u8]) -> Option<Option<u64>> {
    match str::from_utf8(word).ok()?.parse().ok()? {
        LimitValue::Unlimited => Some(None),
        LimitValue::Value(value) => Some(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_captured_limit_of_open_files_is_found_among_the_others() {
        let limit = parse(include_bytes!("../../tests/text/linux-6.18/pid_limits")).unwrap();
        assert_eq!(limit, Some(20000));
    }

    #[test]
    fn an_unlimited_process_limit_is_none() {
        let text =
            b"Max open files            unlimited            unlimited            files     \n";
        assert_eq!(parse(text), Ok(None));
        assert!(parse(b"Max open files            1024\n").is_err());
        assert!(parse(b"Max cpu time 1 2\n").is_err());
    }

    #[test]
    fn every_captured_limit_has_its_name() {
        let limits = parse_all(include_bytes!("../../tests/text/linux-6.18/pid_limits")).unwrap();
        assert_eq!(limits.len(), 16);
        let core = ProcessLimit {
            name: "core file size".to_owned(),
            soft: Some(0),
            hard: None,
        };
        assert!(limits.contains(&core), "{limits:?}");
        assert_eq!(parse_all(b"Limit\nMax cpu time 1\n").unwrap_err().line, 2);
    }
}
