use std::{fmt::Write as _, os::unix::ffi::OsStrExt, path::Path};

/// Maximum characters that become code points: these take up to eight times as many bytes.
const MAX_ESCAPES: usize = 256;

/// Makes untrusted text safe to show in one line. Replaces characters that are invalid in XML or
/// invisible, or that move the cursor of a terminal or change the direction of text. The first
/// [`MAX_ESCAPES`] become code points, as in `[U+202E]`, and the others `?`. White space becomes a
/// space.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut escapes = 0;
    for character in text.chars() {
        match character {
            character if character.is_whitespace() => clean.push(' '),
            character if is_unsafe_char(character) && escapes == MAX_ESCAPES => clean.push('?'),
            character if is_unsafe_char(character) => {
                escapes += 1;
                write!(clean, "[U+{:04X}]", u32::from(character)).unwrap_or_default()
            }
            character => clean.push(character),
        }
    }
    clean
}

/// Like [`clean`], for a path. A byte that is not UTF-8 becomes its code, such as `\xff`.
pub fn path(path: &Path) -> String {
    let chunks = path.as_os_str().as_bytes().utf8_chunks();
    let shown = chunks.map(|chunk| {
        let bytes = chunk.invalid().iter();
        let bytes: String = bytes.map(|byte| format!("\\x{byte:02x}")).collect();
        clean(chunk.valid()) + &bytes
    });
    shown.collect()
}

/// Quotes a path if it has a character that a shell may interpret.
pub fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text
        .chars()
        .all(|c| c.is_alphanumeric() || "/._-".contains(c))
    {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Replaces what a server's message repeats of the words in path and query of `url`, also words cut
/// at their end: each may be a key.
pub fn without_address(message: &str, url: &str) -> String {
    let target = url.splitn(4, ['/', '?']).nth(3).unwrap_or_default();
    let mut hidden = message.to_owned();
    for chars in (4..=target.len()).rev() {
        for word in target.split(|c: char| !c.is_ascii_alphanumeric()) {
            if let Some(start) = word.get(..chars) {
                hidden = hidden.replace(start, "***");
            }
        }
    }
    hidden
}

pub fn is_unsafe_char(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// [`clean`] text, escaped for text and quoted attributes of XML and HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in clean(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn bidi_and_control_characters_are_shown_by_code_point() {
        assert_eq!(
            clean("a\u{202e}b\nc\u{0}\u{9b}2J"),
            "a[U+202E]b c[U+0000][U+009B]2J"
        );
        assert_eq!(
            clean("aZ 9-ü\u{5d0}\u{627}\u{4e2d}"),
            "aZ 9-ü\u{5d0}\u{627}\u{4e2d}"
        );
    }

    #[test]
    fn escaping_unprintable_characters_hardly_lengthens_a_text() {
        let text = "\0".repeat(100_000);
        assert!(clean(&text).len() < text.len() + 10 * MAX_ESCAPES);
        assert!(clean(&text).ends_with("??"));
    }

    #[test]
    fn a_non_utf_8_path_is_shown_with_byte_escapes() {
        let shown = |bytes| path(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(shown(b"/mnt/l\xffdger/\xc3"), "/mnt/l\\xffdger/\\xc3");
        assert_eq!(
            shown("/mnt/l\u{e4}\u{202e}".as_bytes()),
            "/mnt/l\u{e4}[U+202E]"
        );
    }

    #[test]
    fn a_message_repeats_no_key_of_an_address() {
        let url = "https://node:8899/v2/SECpath-SECpathLONG/?api-key=SECquery%3D&x=1";
        for (message, shown) in [
            (
                "node:8899 exceeded /v2/SECpath-SECpathLONG/?api-key=SECquery=",
                "node:8899 exceeded /v2/***-***/?api-key=***=",
            ),
            ("https: no api-key SECqu", "https: no api-key ***"),
            ("behind by 1000 slots", "behind by 1000 slots"),
        ] {
            assert_eq!(without_address(message, url), shown);
        }
        let shown = without_address("no SECquery", "http://[::1]?key=SECquery");
        assert_eq!(shown, "no ***");
        assert_eq!(without_address("any", "http://node"), "any");
    }

    #[test]
    fn html_special_characters_are_escaped() {
        assert_eq!(
            escaped("<a href='x'>&\"</a>"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;"
        );
    }
}
