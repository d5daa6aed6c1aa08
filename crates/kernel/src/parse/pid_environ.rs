//! `/proc/PID/environ` (proc_pid_environ(5)). Values may be secrets: only requested ones leave this
//! module.

use std::collections::BTreeMap;

use crate::ParseError;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    pub variables: BTreeMap<String, Option<String>>,
}

/// Keeps the values for which `wanted` returns true. Skips text other than `NAME=value`, because a
/// program may overwrite its environment. Never fails; the return type is that of every parser.
pub fn parse(text: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Environment, ParseError> {
    let pairs = text.split(|&byte| byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|&byte| byte == b'=')?;
        let (name, value) = entry.split_at_checked(at)?;
        let name = str::from_utf8(name).ok().filter(|name| is_name(name))?;
        let value = wanted(name)
            .then(|| String::from_utf8_lossy(value.get(1..).unwrap_or_default()).into_owned());
        Some((name.to_owned(), value))
    });
    Ok(Environment {
        variables: pairs.collect(),
    })
}

/// Only conventional names, so that fragments of other data do not leave this module.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !name.is_empty() && name.len() <= 128 && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_names_are_kept_and_values_only_on_request() {
        let text = b"RUST_LOG=solana=info\0SOLANA_METRICS_CONFIG=host=x,p=secret\0EMPTY=\0no pair\0two words=x\0=x\0";
        let found = parse(text, |name| name == "RUST_LOG" || name == "EMPTY").unwrap();
        let expected = [
            ("EMPTY".to_owned(), Some(String::new())),
            ("RUST_LOG".to_owned(), Some("solana=info".to_owned())),
            ("SOLANA_METRICS_CONFIG".to_owned(), None),
        ];
        assert_eq!(found.variables, BTreeMap::from(expected));
        assert!(!format!("{found:?}").contains("secret"));
    }
}
