use std::{borrow::Cow, fmt};

use crate::{ParseError, Parsed};

/// A thread or process name, stored inline: at most 15 bytes. Longer names (kernel workers have up
/// to 63 bytes) are cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Comm {
    bytes: [u8; 15],
    len: u8,
}

impl Comm {
    pub fn new(name: &[u8]) -> Self {
        let mut comm = Self::default();
        for (to, from) in comm.bytes.iter_mut().zip(name) {
            *to = *from;
            comm.len += 1;
        }
        comm
    }

    /// Any bytes but NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.len))
            .unwrap_or(&self.bytes)
    }

    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_str_lossy())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_str_lossy())
    }
}

#[derive(Clone, Copy)]
pub struct Line<'a> {
    pub text: &'a [u8],
    pub number: usize,
}

impl Line<'_> {
    pub fn error(self, expected: &'static str) -> ParseError {
        ParseError::new(self.number, self.text, expected)
    }
}

pub fn split_at_byte(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let position = text.iter().position(|&b| b == separator)?;
    let (key, rest) = text.split_at_checked(position)?;
    Some((key, rest.get(1..)?))
}

/// Skips empty lines, but counts them.
pub fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let ends = memchr::memchr_iter(b'\n', text).chain([text.len()]);
    let mut start = 0;
    let lines = ends.zip(1..).map(move |(end, number)| {
        let text = text.get(start..end).unwrap_or_default();
        start = end + 1;
        Line { text, number }
    });
    lines.filter(|line| !line.text.is_empty())
}

pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b' ' || b == b'\t')
        .filter(|word| !word.is_empty())
}

pub fn number<T: TryFrom<u64>>(digits: &[u8]) -> Option<T> {
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    T::try_from(number).ok()
}

pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(number(digits)?),
        None => number(text),
    }
}

/// The inner `None` is an underflowed counter: the kernel writes it as a negative number, or as one
/// near 2^64.
pub fn count_or_underflow(text: &[u8]) -> Option<Option<u64>> {
    match text.strip_prefix(b"-") {
        Some(digits) => number::<u64>(digits).map(|_| None),
        None => number(text).map(not_underflowed),
    }
}

fn not_underflowed(value: u64) -> Option<u64> {
    (value <= i64::MAX.cast_unsigned()).then_some(value)
}

/// Converts `   123 kB` to bytes, and a number without unit as it is. The inner `None` is an
/// underflowed counter.
pub fn amount(text: &[u8]) -> Option<Option<u64>> {
    let mut words = words(text);
    let value = count_or_underflow(words.next()?)?;
    match (words.next(), words.next()) {
        (None, _) => Some(value),
        (Some(b"kB"), None) => {
            let bytes = value.and_then(|value| value.checked_mul(1024));
            Some(bytes.and_then(not_underflowed))
        }
        _ => None,
    }
}

/// Reads `key value` lines into the fields that `field` names. Other keys are skipped. The field of
/// an underflowed counter is `None`. An empty text is an error, as is a line without `separator`.
pub fn fill_by_key<T: Default>(
    text: &[u8],
    separator: u8,
    field: impl for<'a> Fn(&'a mut T, &[u8]) -> Option<&'a mut Option<u64>>,
) -> Parsed<T> {
    let mut parsed = T::default();
    let mut empty = true;
    for line in lines(text) {
        let Some((key, value)) = split_at_byte(line.text, separator) else {
            return Err(line.error("expected a key and a value"));
        };
        if let Some(field) = field(&mut parsed, key) {
            *field = amount(value).ok_or_else(|| line.error("expected a number"))?;
        }
        empty = false;
    }
    if empty {
        Err(ParseError::new(
            1,
            text,
            "expected lines of keys and values",
        ))
    } else {
        Ok(parsed)
    }
}

/// Declares a struct of counters and sizes. Each line is a field and its keys. A field is `None` if
/// its key is missing or its counter underflowed. With `by` and the byte that ends each key, the
/// struct gets a parser of the file.
macro_rules! counters {
    (
        $(#[$about:meta])*
        $name:ident $(by $separator:literal)? {
            $($(#[$doc:meta])* $field:ident: $($key:literal)|+,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<u64>,)*
        }
        impl $name {
            $(pub fn parse(text: &[u8]) -> Parsed<Self> {
                fill_by_key(text, $separator, Self::counter_mut)
            })?

            fn counter_mut(&mut self, key: &[u8]) -> Option<&mut Option<u64>> {
                match key {
                    $($($key)|+ => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use counters;

/// Parses the lines after the header. Leaves out an inner `None` of `read`.
pub fn rows_after_headings<T>(
    text: &[u8],
    heading_lines: usize,
    expected: &'static str,
    read: impl Fn(&[u8]) -> Option<Option<T>>,
) -> Parsed<Vec<T>> {
    let rows = lines(text).skip(heading_lines);
    let rows = rows.map(|line| read(line.text).ok_or_else(|| line.error(expected)));
    rows.filter_map(Result::transpose).collect()
}

pub fn trimmed_text(text: &[u8]) -> Parsed<String> {
    Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
}

pub fn single_value<T>(text: &[u8], read: impl FnOnce(&[u8]) -> Option<T>) -> Parsed<T> {
    read(text.trim_ascii()).ok_or_else(|| ParseError::new(1, text, "expected one number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_are_skipped_but_counted() {
        let list: Vec<_> = lines(b"a\n\nb\nc")
            .map(|line| (line.number, line.text))
            .collect();
        assert_eq!(list, [(1, &b"a"[..]), (3, b"b"), (4, b"c")]);
        assert_eq!(lines(b"").count() + lines(b"\n\n").count(), 0);
    }

    #[test]
    fn a_number_is_digits_only_and_never_overflows() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number::<u64>(b"18446744073709551616"), None);
        for bad in [&b""[..], b"-1", b"+1", b" 1", b"1 ", b"1.5", b"0x1"] {
            assert_eq!(number::<u64>(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_signed_number_parses_at_both_range_ends() {
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"--1"), None);
    }

    #[test]
    fn kilobytes_are_converted_to_bytes_and_unknown_units_refused() {
        assert_eq!(amount(b"   44 kB"), Some(Some(45056)));
        assert_eq!(amount(b"\t7"), Some(Some(7)));
        for bad in [&b"7 MB"[..], b"--7 kB", b"18446744073709551616 kB", b""] {
            assert_eq!(amount(bad), None);
        }
    }

    #[test]
    fn an_underflowed_kernel_counter_has_no_value() {
        for text in [
            &b"18446744073709547520"[..],
            b"-4096",
            b"18446744073709551612 kB",
            b"-4 kB",
            b"18014398509481980 kB",
        ] {
            assert_eq!(amount(text), Some(None), "{text:?}");
        }
        assert_eq!(
            count_or_underflow(b"9223372036854775807"),
            Some(Some(i64::MAX.cast_unsigned()))
        );
        assert_eq!(count_or_underflow(b"9223372036854775808"), Some(None));
        assert_eq!(count_or_underflow(b"-"), None);
    }

    #[test]
    fn a_name_is_kept_inline_and_cut_at_fifteen_bytes() {
        assert_eq!(Comm::new(b"solReplayStage").to_string(), "solReplayStage");
        assert_eq!(
            Comm::new(b"kworker/u8:2-events_unbound").as_bytes(),
            b"kworker/u8:2-ev"
        );
        assert_eq!(size_of::<Comm>(), 16);
    }
}
