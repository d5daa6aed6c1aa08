//! What procfs-core needs to keep what the parsers here promise.
//!
//! It reads a text as a whole: a line that it does not understand spoils all others, and so does the want of one that it
//! insists on. So it is given the wanted lines alone, behind those that it insists on; these say what no kernel does.

use procfs::FromRead;

use crate::ParseError;
use crate::text::{Line, amount, count, lines, words};

/// Lines of keys that procfs-core insists on, for what [`known`] takes for absent.
macro_rules! absent {
    ($($key:literal)*) => { concat!($($key, ": 18446744073709551615\n"),*) };
}
pub(super) use absent;

/// The value of a line that was in the text.
pub(super) fn known(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

/// Lines of a key and a value of which some are wanted.
pub(super) struct Wanted {
    /// What stands between key and value.
    pub(super) separator: u8,
    pub(super) keys: &'static [&'static [u8]],
    /// Lines for procfs-core that the text may lack, or that are not wanted; those of the text override them.
    pub(super) insisted: &'static str,
    /// What the value of a wanted line must be.
    pub(super) value: &'static str,
    /// What the text must have.
    pub(super) text: &'static str,
}

impl Wanted {
    /// # Errors
    /// With the first line that is not a key and a value, or that `T` refuses; without one of these, when `T` refuses the
    /// text, or when it is empty.
    pub(super) fn read<T: FromRead>(&self, text: &[u8]) -> Result<T, ParseError> {
        let mut given = self.insisted.as_bytes().to_vec();
        let mut empty = true;
        for line in lines(text) {
            empty = false;
            if self.accepts(line)? {
                push(&mut given, line);
            }
        }
        let incomplete = || ParseError::new(1, text, self.text);
        if empty {
            return Err(incomplete());
        }
        T::from_read(&given[..]).map_err(|_| self.culprit::<T>(text).unwrap_or_else(incomplete))
    }

    fn accepts(&self, line: Line<'_>) -> Result<bool, ParseError> {
        let (key, value) = line
            .split_at_byte(self.separator)
            .ok_or_else(|| line.error("expected a key and a value"))?;
        if !self.keys.contains(&key) {
            return Ok(false);
        }
        // procfs-core takes the first word without its last byte for the key, and panics inside of a character.
        let has_blank =
            self.separator == b' ' || value.starts_with(b" ") || value.starts_with(b"\t");
        // A value with a unit is multiplied, and overflows.
        let fits = !value.contains(&b'B') || amount(value).is_some();
        if has_blank && fits && line.text.is_ascii() {
            // It stays absent.
            let underflowed =
                amount(value) == Some(None) || words(value).any(|word| count(word) == Some(None));
            Ok(!underflowed)
        } else {
            Err(line.error(self.value))
        }
    }

    /// Its errors do not say where: the line that is refused alone.
    fn culprit<T: FromRead>(&self, text: &[u8]) -> Option<ParseError> {
        let refused = |line: &Line<'_>| {
            let mut given = self.insisted.as_bytes().to_vec();
            push(&mut given, *line);
            self.accepts(*line) == Ok(true) && T::from_read(&given[..]).is_err()
        };
        lines(text).find(refused).map(|line| line.error(self.value))
    }
}

fn push(given: &mut Vec<u8>, line: Line<'_>) {
    given.extend_from_slice(line.text);
    given.push(b'\n');
}
