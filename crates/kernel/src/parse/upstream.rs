//! Prepares input for procfs-core, which rejects a whole text if one line is unknown or missing. It
//! gets only the wanted lines, after placeholder lines for its required keys.

use procfs::FromRead;

use crate::ParseError;
use crate::text::{Line, amount, count, lines, words};

/// Placeholder lines for procfs-core's required keys. [`unless_placeholder`] treats their values as
/// absent.
macro_rules! absent {
    ($($key:literal)*) => { concat!($($key, ": 18446744073709551615\n"),*) };
}
pub(super) use absent;

/// A struct of wanted lines, and its `parse`. Of each line: field, procfs-core's field, key. After
/// `requires`: the keys that procfs-core requires.
macro_rules! number_fields {
    (
        $(#[$about:meta])*
        $name:ident of $upstream:ty, requires $($required:literal)*;
        $($(#[$doc:meta])* $field:ident: $found:ident $key:literal,)*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<u64>,)*
        }

        const WANTED: WantedLines = WantedLines {
            separator: b':',
            keys: &[$($key.as_bytes()),*],
            required_lines: absent!($($required)*),
            value: "expected a number",
        };

        pub fn parse(text: &[u8]) -> Result<$name, ParseError> {
            let found = WANTED.read::<$upstream>(text)?;
            Ok($name { $($field: unless_placeholder(found.$found),)* })
        }
    };
}
pub(super) use number_fields;

/// `None` for a placeholder.
pub(super) fn unless_placeholder(value: impl Into<Option<u64>>) -> Option<u64> {
    value.into().filter(|value| *value != u64::MAX)
}

/// The lines of a file that are passed to procfs-core.
pub(super) struct WantedLines {
    pub(super) separator: u8,
    pub(super) keys: &'static [&'static [u8]],
    /// Lines that procfs-core requires but the text may lack; the text's lines override them.
    pub(super) required_lines: &'static str,
    /// Error message for an unreadable value.
    pub(super) value: &'static str,
}

impl WantedLines {
    /// Fails on the first line that is not a key and a value or that `T` refuses, and on an empty
    /// text.
    pub(super) fn read<T: FromRead>(&self, text: &[u8]) -> Result<T, ParseError> {
        let mut input = self.required_lines.as_bytes().to_vec();
        let mut empty = true;
        for line in lines(text) {
            empty = false;
            if self.accepts(line)? {
                push(&mut input, line);
            }
        }
        let incomplete = || ParseError::new(1, text, "expected lines of keys and values");
        if empty {
            return Err(incomplete());
        }
        T::from_read(&input[..])
            .map_err(|_| self.failing_line::<T>(text).unwrap_or_else(incomplete))
    }

    fn accepts(&self, line: Line<'_>) -> Result<bool, ParseError> {
        let (key, value) = line
            .split_at_byte(self.separator)
            .ok_or_else(|| line.error("expected a key and a value"))?;
        if !self.keys.contains(&key) {
            return Ok(false);
        }
        // procfs-core takes the first word without its last byte as key, and panics inside a
        // character.
        let has_blank =
            self.separator == b' ' || value.starts_with(b" ") || value.starts_with(b"\t");
        // procfs-core multiplies a value with a unit, which may overflow.
        let fits = !value.contains(&b'B') || amount(value).is_some();
        if has_blank && fits && line.text.is_ascii() {
            let underflowed =
                amount(value) == Some(None) || words(value).any(|word| count(word) == Some(None));
            Ok(!underflowed)
        } else {
            Err(line.error(self.value))
        }
    }

    /// procfs-core's errors have no line number, so each line is tried alone.
    fn failing_line<T: FromRead>(&self, text: &[u8]) -> Option<ParseError> {
        let refused = |line: &Line<'_>| {
            let mut input = self.required_lines.as_bytes().to_vec();
            push(&mut input, *line);
            self.accepts(*line) == Ok(true) && T::from_read(&input[..]).is_err()
        };
        lines(text).find(refused).map(|line| line.error(self.value))
    }
}

fn push(input: &mut Vec<u8>, line: Line<'_>) {
    input.extend_from_slice(line.text);
    input.push(b'\n');
}
