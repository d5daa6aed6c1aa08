//! Pure parsers of the kernel's files. All return [`Parsed`], also those that never fail. They use
//! procfs-core where it follows these rules:
//!
//! * Unknown keys are skipped, a missing key is `None`, and a known key with a value that
//!   is not a number is an error.
//! * A counter that the kernel has decremented below zero has underflowed and is `None`. Where the
//!   result has no `None`, its line is left out. If it is the only number of a file, it is an error.
//! * Memory is in bytes, whatever unit the file uses.

pub mod cgroup;
pub mod cpu;
pub mod diskstats;
pub mod interrupts;
pub mod locks;
pub mod memory;
pub mod mountinfo;
pub mod network;
pub mod pid;
pub mod pid_stat;
pub mod pid_status;
pub mod pressure;

use crate::{
    ParseError, Parsed,
    text::{count_or_underflow, fill_by_key, lines, signed, single_value, words},
};

/// A file with one number, such as `oom_score` or `memory.current`. Rejects numbers near 2^64,
/// which are underflowed counters.
pub fn number(text: &[u8]) -> Parsed<u64> {
    single_value(text, |text| count_or_underflow(text)?)
}

pub fn signed_number(text: &[u8]) -> Parsed<i64> {
    single_value(text, signed)
}

/// A sysfs file with the selected word in brackets: `always [madvise] never`. A list of one word
/// may have no brackets.
pub fn selected_word(text: &[u8]) -> Parsed<String> {
    let text = text.trim_ascii();
    let all: Vec<&[u8]> = words(text).collect();
    let mut in_brackets = all
        .iter()
        .filter_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    let word = match (in_brackets.next(), &all[..]) {
        (Some(word), _) | (None, &[word]) => word,
        _ => return Err(ParseError::new(1, text, "expected one word in brackets")),
    };
    Ok(String::from_utf8_lossy(word).into_owned())
}

/// `btime` of `/proc/stat`: Unix seconds by the wall clock.
pub fn boot_time(text: &[u8]) -> Parsed<u64> {
    let time: Option<u64> = fill_by_key(text, b' ', |time, key| (key == b"btime").then_some(time))?;
    time.ok_or_else(|| ParseError::new(1, text, "expected a btime line"))
}

/// `PRETTY_NAME` of `os-release`, else `NAME`, such as `Debian GNU/Linux 12 (bookworm)`.
pub fn os_name(text: &[u8]) -> Parsed<Option<String>> {
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
mod tests;
