//! As much of a script's language as is needed to find an option in it: comments, lines that belong together, words.

/// Lines that one command or list may go over; what is longer is cut, which finds more, not less.
const LONGEST: usize = 200;

/// The text without comments, in pieces that are one command or one list: lines that end in a backslash, and lists that
/// are opened at a line's end, go on in the next line.
pub(super) fn units(text: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    let (mut goes_on, mut in_list, mut lines) = (false, false, 0);
    for line in text.lines() {
        let code = without_comment(line).trim();
        match units
            .last_mut()
            .filter(|_| (goes_on || in_list) && lines < LONGEST)
        {
            Some(unit) => {
                *unit += " ";
                *unit += code.trim_end_matches('\\');
                lines += 1;
            }
            None => {
                units.push(code.trim_end_matches('\\').to_owned());
                (in_list, lines) = (false, 1);
            }
        }
        goes_on = code.ends_with('\\');
        in_list = if in_list {
            !code.contains([')', ']'])
        } else {
            opens(code)
        };
    }
    units.retain(|unit| !unit.trim().is_empty());
    units
}

/// Whether a list begins here and goes on: `ARGS=(`, `args = [`.
fn opens(code: &str) -> bool {
    let array = code
        .split_once("=(")
        .is_some_and(|(_, rest)| !rest.contains(')'));
    array || code.ends_with(['(', '['])
}

/// A `#` that begins a word, outside of quotes, begins a comment. Quotes end with the line: one in a text of its own then
/// spoils that line only.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped, mut begins) = (None, false, true);
    for (at, c) in line.char_indices() {
        let skip = std::mem::replace(&mut escaped, false);
        match (quote, c) {
            (_, _) if skip => {}
            (Some('\''), '\\') => {}
            (_, '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if begins => return line.get(..at).unwrap_or(line),
            _ => {}
        }
        begins = c.is_whitespace() || c == ';';
    }
    line
}

/// The words of a piece, without what shells and lists put between them.
pub(super) fn words(unit: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | ';' | '(' | ')' | '|' | '&' | '<' | '>' | ',' | '[' | ']'
            )
    };
    unit.split(between).filter(|word| !word.is_empty())
}

/// Whether this option is in the text, as a word of its own: `--x`, `--x=1`, `"--x",`; not in `--x-y`.
pub(super) fn has_option(text: &str, option: &str) -> bool {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(option).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text
            .get(at + option.len()..)
            .and_then(|after| after.chars().next());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_and_lists_over_several_lines_are_one_piece_and_comments_are_none() {
        let script = "#!/bin/sh\n# not this\nexec v \\\n  --a \\\n  --b # nor this\nARGS=(\n  --c\n  # --d\n  'x # y'\n)\n\
                      it's --e\nargs = [\n\"--f\",\n]\nlast\n";
        assert_eq!(
            units(script),
            [
                "exec v  --a  --b",
                "ARGS=( --c  'x # y' )",
                "it's --e",
                "args = [ \"--f\", ]",
                "last"
            ]
        );
    }

    #[test]
    fn options_are_words_of_their_own() {
        for text in [
            "--x",
            "a --x=1",
            "[\"--x\", \"k\"]",
            "(--x)",
            "'--x'",
            "é--x",
        ] {
            assert!(has_option(text, "--x"), "{text}");
        }
        for text in ["--x-y", "--xy", "--no--x", "---x", "x", ""] {
            assert!(!has_option(text, "--x"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_without_comments_loses_an_option(lines in prop::collection::vec("[a-z '\"()\\[\\]\\\\=é]{0,12}", 0..8), at in 0_usize..8) {
            let mut lines = lines;
            let at = at.min(lines.len());
            lines.insert(at, "x --vote-account k".to_owned());
            let found = units(&lines.join("\n"));
            prop_assert!(found.iter().any(|unit| has_option(unit, "--vote-account")), "{found:?}");
        }

        #[test]
        fn whatever_is_written_can_be_cut(text in "(?s).{0,200}") {
            for unit in units(&text) {
                prop_assert!(words(&unit).all(|word| !word.is_empty()));
            }
        }
    }
}
