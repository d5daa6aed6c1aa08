//! Characters that a reader does not see, or that change what is seen of others.

/// Whether it is a control character, ends a line, or turns the direction of the text around it.
pub(super) fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
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
}
