//! Walks a TOML table key by key and collects every mistake with its line, instead of stopping at the first.

use super::amounts::{parse_size, parse_time};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is said of an empty string; of one that cannot be left out, the other.
const EMPTY: &str = "is empty; leave the key out instead";
const NEEDED: &str = "is empty, and is needed";

/// One thing wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The plan's file.
    pub file: PathBuf,
    /// Its line, from 1; `None` for what is missing.
    pub line: Option<usize>,
    /// What is wrong, where, and what to do.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file.display(), self.what),
            None => write!(f, "{}: {}", self.file.display(), self.what),
        }
    }
}

/// The mistakes of one file.
pub(super) struct Mistakes<'a> {
    file: &'a Path,
    text: &'a str,
    found: Vec<Mistake>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn of(file: &'a Path, text: &'a str) -> Self {
        Mistakes { file, text, found: Vec::new() }
    }

    /// At a line, if it is known.
    pub(super) fn push(&mut self, line: Option<usize>, what: impl Into<String>) {
        self.found.push(Mistake { file: self.file.to_owned(), line, what: what.into() });
    }

    /// The line of a byte offset.
    pub(super) fn line(&self, offset: usize) -> Option<usize> {
        Some(self.text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// In the order of the file; those without a line first.
    pub(super) fn in_order(mut self) -> Vec<Mistake> {
        self.found.sort_by_key(|mistake| mistake.line);
        self.found
    }
}

/// A table being read. Keys are taken one by one; what nobody took is a mistake at the end.
pub(super) struct Table<'a> {
    /// Dotted path of the table, empty at the top.
    path: String,
    /// Where it begins.
    offset: usize,
    entries: &'a DeTable<'a>,
    known: Vec<&'static str>,
    /// Keys that are needed and not there, and what is said of each.
    absent: Vec<(&'static str, String)>,
}

impl<'a> Table<'a> {
    /// The file's top.
    pub(super) fn top(entries: &'a DeTable<'a>) -> Self {
        Table { path: String::new(), offset: 0, entries, known: Vec::new(), absent: Vec::new() }
    }

    /// Its line.
    pub(super) fn line(&self, m: &Mistakes<'_>) -> Option<usize> {
        m.line(self.entries.keys().map(|key| key.span().start).min().unwrap_or(self.offset))
    }

    /// The line of one of its keys.
    pub(super) fn line_of(&self, key: &str, m: &Mistakes<'_>) -> Option<usize> {
        self.entries.get_key_value(key).and_then(|(key, _)| m.line(key.span().start))
    }

    /// Whether the table has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of `key`, which is known from now on.
    pub(super) fn entry(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.entries.get(key)
    }

    /// Reads `key` with `read`, which says what it wanted where it fails; `None` if the key is missing or wrong.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        m: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        match read(entry.get_ref()) {
            Ok(value) => Some(value),
            Err(wanted) => {
                let line = m.line(entry.span().start);
                m.push(line, format!("{}: {wanted}", self.name(key)));
                None
            }
        }
    }

    /// Reads `key`, which must be there.
    pub(super) fn need<T>(
        &mut self,
        key: &'static str,
        m: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(key) {
            self.lacks(key, format!("{} is missing", self.name(key)));
        }
        self.take(key, m, |value| read(value).map_err(|what| if what == EMPTY { NEEDED.to_owned() } else { what }))
    }

    /// Reports that `key` is missing, unless a key that is there was probably meant to be it: that one is told instead.
    pub(super) fn lacks(&mut self, key: &'static str, what: impl Into<String>) {
        self.absent.push((key, what.into()));
    }

    /// Reads `key` into `place`, which keeps its default where the key is missing.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        place: &mut T,
        m: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) {
        if let Some(value) = self.take(key, m, read) {
            *place = value;
        }
    }

    /// Reads the table `key` with `read`; nothing happens if it is missing.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        m: &mut Mistakes<'_>,
        read: impl FnOnce(&mut Table<'a>, &mut Mistakes<'_>),
    ) {
        let Some(entry) = self.entry(key) else { return };
        self.one(key, entry, m, read);
    }

    /// Reads each table of the array `key` (`[[key]]`) with `read`.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        m: &mut Mistakes<'_>,
        mut read: impl FnMut(&mut Table<'a>, &mut Mistakes<'_>),
    ) {
        let Some(entry) = self.entry(key) else { return };
        let DeValue::Array(items) = entry.get_ref() else {
            let line = m.line(entry.span().start);
            m.push(line, format!("{}: an array of tables is wanted, not {}", self.name(key), kind(entry.get_ref())));
            return;
        };
        for item in items.iter() {
            self.one(key, item, m, &mut read);
        }
    }

    fn one(
        &self,
        key: &str,
        entry: &'a Spanned<DeValue<'a>>,
        m: &mut Mistakes<'_>,
        read: impl FnOnce(&mut Table<'a>, &mut Mistakes<'_>),
    ) {
        let (path, offset) = (self.name(key), entry.span().start);
        match entry.get_ref() {
            DeValue::Table(entries) => {
                let mut table = Table { path, offset, entries, known: Vec::new(), absent: Vec::new() };
                read(&mut table, m);
                table.finish(m);
            }
            other => {
                let line = m.line(offset);
                m.push(line, format!("{path}: a table is wanted, not {}", kind(other)));
            }
        }
    }

    /// Reads every key of the table `key`, whose keys are the researcher's own, in the order of the file.
    pub(super) fn every<T>(
        &mut self,
        key: &'static str,
        m: &mut Mistakes<'_>,
        read: impl Fn(&str, &DeValue<'a>) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let DeValue::Table(entries) = entry.get_ref() else {
            let line = m.line(entry.span().start);
            m.push(line, format!("{}: a table is wanted, not {}", self.name(key), kind(entry.get_ref())));
            return Vec::new();
        };
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut values = Vec::new();
        for (name, value) in entries {
            match read(name.get_ref(), value.get_ref()) {
                Ok(value) => values.push(value),
                Err(wanted) => {
                    let line = m.line(name.span().start);
                    m.push(line, format!("{}.{}: {wanted}", self.name(key), name.get_ref()));
                }
            }
        }
        values
    }

    /// Reports a mistake about the table as a whole.
    pub(super) fn refuse(&self, what: impl fmt::Display, m: &mut Mistakes<'_>) {
        let what = if self.path.is_empty() { what.to_string() } else { format!("{}: {what}", self.path) };
        m.push(self.line(m), what);
    }

    /// Reports every key that nobody took, and every one that is missing.
    pub(super) fn finish(mut self, m: &mut Mistakes<'_>) {
        for key in self.entries.keys() {
            let text: &str = key.get_ref();
            if self.known.contains(&text) {
                continue;
            }
            let near = self.known.iter().filter(|known| alike(known, text));
            let meant = near.min_by_key(|known| distance(known.as_bytes(), text.as_bytes())).copied();
            self.absent.retain(|(absent, _)| meant != Some(absent));
            let hint = match meant {
                Some(known) => format!("; did you mean {known}?"),
                None => format!("; known here: {}", self.known.join(", ")),
            };
            let line = m.line(key.span().start);
            m.push(line, format!("{}: unknown key{hint}", self.name(text)));
        }
        let line = if self.path.is_empty() { None } else { self.line(m) };
        self.absent.into_iter().for_each(|(_, what)| m.push(line, what));
    }
}

/// Whether a key was probably meant: at most two letters differ, or one begins with the other.
fn alike(known: &str, written: &str) -> bool {
    let prefix = written.len() >= 3 && (known.starts_with(written) || written.starts_with(known));
    prefix || (written.len() <= 64 && distance(known.as_bytes(), written.as_bytes()) <= 2)
}

/// Letters to insert, delete or replace.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            diagonal = above;
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// What a value is, for people.
fn kind(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {text:?}"),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn wanted(what: &str, found: &DeValue<'_>) -> String {
    format!("{what} is wanted, not {}", kind(found))
}

/// A string that is not empty and has no NUL.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some("") => Err(EMPTY.to_owned()),
        Some(text) if text.contains('\0') => Err(format!("{text:?} has a NUL, which no program takes")),
        Some(text) => Ok(text.to_owned()),
        None => Err(wanted("a string", value)),
    }
}

/// Several values.
pub(super) fn several<T>(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let items = value.as_array().ok_or_else(|| wanted("an array", value))?;
    items.iter().map(|item| read(item.get_ref())).collect()
}

/// true or false.
pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wanted("true or false", value))
}

/// A whole number in a range.
pub(super) fn whole<T: TryFrom<u64> + PartialOrd + fmt::Display>(
    value: &DeValue<'_>,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, String> {
    let wanted = || wanted(&format!("a whole number from {} to {}", range.start(), range.end()), value);
    let DeValue::Integer(integer) = value else { return Err(wanted()) };
    let number = u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok();
    let number = number.and_then(|number| T::try_from(number).ok());
    number.filter(|number| range.contains(number)).ok_or_else(wanted)
}

/// A number, not negative.
pub(super) fn number(value: &DeValue<'_>) -> Result<f64, String> {
    let text = match value {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        other => return Err(wanted("a number", other)),
    };
    let number = text.replace('_', "").parse::<f64>().ok();
    number.filter(|n| n.is_finite() && *n >= 0.0).ok_or_else(|| wanted("a number from 0 on", value))
}

/// A time such as `"12h"`.
pub(super) fn time(value: &DeValue<'_>) -> Result<Duration, String> {
    parse_time(value.as_str().ok_or_else(|| wanted("a time with its unit, such as \"12h\",", value))?)
}

/// Bytes such as `"512G"`.
pub(super) fn size(value: &DeValue<'_>) -> Result<u64, String> {
    parse_size(value.as_str().ok_or_else(|| wanted("a size with its unit, such as \"512G\",", value))?)
}

/// One of several words.
pub(super) fn choice<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Result<T, String> {
    let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
    let all = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    found.map(|(_, meant)| *meant).ok_or_else(|| wanted(&format!("one of {}", all()), value))
}
