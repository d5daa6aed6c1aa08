//! sysfs files with the selected word in brackets: `always [madvise] never`.

use crate::{ParseError, text::words};

/// A list of one word may have no brackets.
pub fn parse(text: &[u8]) -> Result<String, ParseError> {
    let text = text.trim_ascii();
    let all: Vec<&[u8]> = words(text).collect();
    let chosen = all
        .iter()
        .find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    let only = if let [word] = all[..] {
        Some(word)
    } else {
        None
    };
    let word = chosen
        .or(only)
        .ok_or_else(|| ParseError::new(1, text, "expected one word in brackets"))?;
    Ok(String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_option_is_in_brackets_or_the_only_one() {
        assert_eq!(parse(b"always [madvise] never\n").as_deref(), Ok("madvise"));
        assert_eq!(parse(b"[none] mq-deadline kyber\n").as_deref(), Ok("none"));
        assert_eq!(parse(b"none\n").as_deref(), Ok("none"));
        assert!(parse(b"always never\n").is_err() && parse(b"\n").is_err());
    }
}
