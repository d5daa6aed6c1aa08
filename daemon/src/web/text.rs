//! Characters that a reader does not see, or that change what is seen of others.

/// Whether it is a control character, ends a line, or turns the direction of the text around it.
pub(crate) fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Text from elsewhere, fit for a terminal: on one line, and each character that hides or turns others replaced.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if hides(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_all_scripts_are_seen_and_what_turns_them_around_is_not() {
        assert!(!"aZ 9-ü\u{5d0}\u{627}\u{4e2d}".contains(hides));
        for c in ['\0', '\n', '\u{85}', '\u{200f}', '\u{2028}', '\u{202e}', '\u{2067}', '\u{feff}'] {
            assert!(hides(c), "{c:?}");
        }
    }

    #[test]
    fn what_would_steer_a_terminal_is_replaced_and_the_rest_is_kept() {
        assert_eq!(
            plain("a\u{1b}[2Jb\u{202e}c\r\n/mnt/ledger ü"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}/mnt/ledger ü"
        );
    }
}
