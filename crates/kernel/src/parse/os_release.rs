use crate::{ParseError, text::lines};

/// `PRETTY_NAME`, else `NAME`, such as `Debian GNU/Linux 12 (bookworm)`. Never fails; the return
/// type is that of every parser.
pub fn parse(text: &[u8]) -> Result<Option<String>, ParseError> {
    let value = |key: &[u8]| {
        let mut lines = lines(text);
        let value = lines.find_map(|line| line.text.trim_ascii().strip_prefix(key))?;
        let plain = unquoted(value.trim_ascii());
        (!plain.is_empty()).then(|| String::from_utf8_lossy(plain).into_owned())
    };
    Ok(value(b"PRETTY_NAME=").or_else(|| value(b"NAME=")))
}

fn unquoted(value: &[u8]) -> &[u8] {
    let between = |quote: &[u8]| value.strip_prefix(quote)?.strip_suffix(quote);
    between(b"\"").or_else(|| between(b"'")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_name_takes_precedence_over_name() {
        let text = b"NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(
            parse(text).unwrap().as_deref(),
            Some("Debian GNU/Linux 12 (bookworm)")
        );
        assert_eq!(
            parse(b"NAME=Alpine\nID=alpine\n").unwrap().as_deref(),
            Some("Alpine")
        );
        assert_eq!(parse(b"PRETTY_NAME=\"\"\n"), Ok(None));
    }
}
