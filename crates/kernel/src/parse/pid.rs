//! Small files of a process below `/proc/PID`.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt, time::Duration};

use procfs::process::LimitValue;

use crate::{
    ParseError, Parsed,
    text::{
        count_or_underflow, counters, fill_by_key, lines, rows_after_headings, split_at_byte, words,
    },
};

/// Program first; empty for kernel threads and zombies. A process may overwrite its arguments.
pub fn cmdline(text: &[u8]) -> Parsed<Vec<OsString>> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(text
        .split(|&b| b == 0)
        .map(|argument| OsString::from_vec(argument.to_vec()))
        .collect())
}

#[derive(Debug)]
pub struct Environment {
    /// `None` for a value that is not stored.
    pub variables: BTreeMap<String, Option<String>>,
}

impl Environment {
    /// Omits values unless `keeps_value` accepts their name: they may be secrets. Skips text other
    /// than `NAME=value`, because a program may overwrite its environment.
    pub fn parse(text: &[u8], keeps_value: impl Fn(&str) -> bool) -> Parsed<Self> {
        let pairs = text.split(|&byte| byte == 0).filter_map(|entry| {
            let (name, value) = split_at_byte(entry, b'=')?;
            let name = str::from_utf8(name).ok().filter(|name| is_name(name))?;
            let value = keeps_value(name).then(|| String::from_utf8_lossy(value).into_owned());
            Some((name.to_owned(), value))
        });
        Ok(Self {
            variables: pairs.collect(),
        })
    }
}

/// Only conventional names, so that fragments of other data do not leave this module.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !name.is_empty() && name.len() <= 128 && name.bytes().all(fits)
}

counters! {
    /// Includes all threads, dead ones too. `None` if the kernel does not write the line or the
    /// counter underflowed. Readable by root and by the same user with the same capabilities.
    PidIo by b':' {
        /// Bytes from storage, page faults included.
        read_bytes: b"read_bytes",
        /// Counted when a page is dirtied.
        write_bytes: b"write_bytes",
    }
}

#[derive(Debug, PartialEq)]
pub struct ProcessLimit {
    /// Without `Max`, such as `open files`.
    pub name: String,
    /// `None` is unlimited.
    pub soft: Option<u64>,
    /// `None` is unlimited.
    pub hard: Option<u64>,
}

pub fn limits(text: &[u8]) -> Parsed<Vec<ProcessLimit>> {
    rows_after_headings(text, 1, "expected a limit", |line| {
        process_limit(line).map(Some)
    })
}

/// The soft limit of open files; `None` is unlimited.
pub fn max_open_files(text: &[u8]) -> Parsed<Option<u64>> {
    let line = lines(text)
        .find(|line| line.text.starts_with(b"Max open files"))
        .ok_or_else(|| ParseError::new(1, text, "expected a Max open files line"))?;
    let limit = process_limit(line.text).ok_or_else(|| line.error("expected two limits"))?;
    Ok(limit.soft)
}

fn process_limit(line: &[u8]) -> Option<ProcessLimit> {
    let fields: Vec<&[u8]> = words(line.strip_prefix(b"Max ")?).collect();
    let limit_start = fields.iter().position(|word| limit(word).is_some())?;
    let (name, limits) = fields.split_at_checked(limit_start)?;
    let mut limits = limits.iter().map(|word| limit(word));
    Some(ProcessLimit {
        name: String::from_utf8_lossy(&name.join(&b' ')).into_owned(),
        soft: limits.next()??,
        hard: limits.next()??,
    })
}

/// The outer `None` is an invalid text, the inner one unlimited.
fn limit(word: &[u8]) -> Option<Option<u64>> {
    match str::from_utf8(word).ok()?.parse().ok()? {
        LimitValue::Unlimited => Some(None),
        LimitValue::Value(value) => Some(Some(value)),
    }
}

/// Counters of one task since its start, never of a whole process. They need `CONFIG_SCHED_INFO`.
#[derive(Debug, Clone, Copy)]
pub struct PidSchedstat {
    pub on_cpu: Option<Duration>,
    pub run_queue_delay: Option<Duration>,
    pub timeslices: Option<u64>,
}

impl PidSchedstat {
    /// `/proc/PID/schedstat` or `/proc/PID/task/TID/schedstat`
    /// (Documentation/scheduler/sched-stats.rst).
    pub fn parse(text: &[u8]) -> Parsed<Self> {
        let mut counters = words(text.trim_ascii_end()).map(count_or_underflow);
        let mut next = || {
            let counter = counters.next().flatten();
            counter.ok_or_else(|| ParseError::new(1, text, "expected three numbers"))
        };
        Ok(Self {
            on_cpu: next()?.map(Duration::from_nanos),
            run_queue_delay: next()?.map(Duration::from_nanos),
            timeslices: next()?,
        })
    }
}

#[cfg(test)]
mod tests;
