//! Terminal output. A closed pipe, as with `| head`, is not a failure.
//!
//! Replaces characters of foreign texts (recordings, validators, daemons) that could control the
//! terminal or reverse the text next to them.

use anyhow::{Context, Result};
use faultline_text::{clean, is_unsafe_char};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// Prints to standard output. Ignores a closed pipe.
pub fn print(answer: &str) -> Result<()> {
    let mut out = io::stdout();
    match out
        .write_all(clean_lines(answer).as_bytes())
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error, and ignores errors. Standard output is for results, and for the
/// output of a recorded command.
pub fn say(words: &str) {
    let _ = writeln!(io::stderr(), "faultline: {}", clean_lines(words));
}

/// One line of JSON. Characters that [`print()`] would replace are escaped.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut line = String::new();
    // Characters to escape occur only within strings.
    for character in serde_json::to_string(value)?.chars() {
        if is_unsafe_char(character) || (character.is_whitespace() && character != ' ') {
            character
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| line += &format!("\\u{unit:04x}"))
        } else {
            line.push(character)
        }
    }
    Ok(line + "\n")
}

fn clean_lines(text: &str) -> String {
    Vec::from_iter(text.split('\n').map(clean)).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\u{1b}[2J\u{9b}1m\u{202e}b\u{2028}\u{e0001}\r\tc \u{5d0}ü";

    #[test]
    fn text_output_keeps_lines_and_escapes_terminal_controls() {
        let said = clean_lines(&format!("one\n{EVIL}\n"));
        assert_eq!(
            said,
            "one\na[U+001B][2J[U+009B]1m[U+202E]b [U+E0001]  c \u{5d0}ü\n"
        );
    }

    #[test]
    fn json_output_keeps_all_characters_and_escapes_terminal_controls() {
        let line = json(&[EVIL]).unwrap();
        assert_eq!(serde_json::from_str::<[String; 1]>(&line).unwrap(), [EVIL]);
        assert_eq!(clean_lines(&line), line);
        assert!(
            line.contains("\\u202e") && line.contains("\u{5d0}"),
            "{line}"
        );
    }
}
