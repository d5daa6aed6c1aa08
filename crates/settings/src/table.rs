use crate::{
    ConfigErrors,
    values::{EMPTY_ERROR, mismatch, not_a_table},
};
use std::fmt;
use strsim::levenshtein;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

pub const UNKNOWN_KEY_ERROR: &str = "unknown key";

const EMPTY_REQUIRED_ERROR: &str = "is empty, and is needed";

/// A TOML table whose keys are read one by one. [`Table::finish`] reports the keys that were not
/// read.
#[derive(Debug)]
pub struct Table<'a> {
    /// Such as `metrics.tls`; empty for the whole file.
    key_path: String,
    offset: usize,
    entries: &'a DeTable<'a>,
    errors: &'a ConfigErrors<'a>,
    known: Vec<&'static str>,
    missing_required: Vec<(&'static str, String)>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(
        key_path: String,
        offset: usize,
        entries: &'a DeTable<'a>,
        errors: &'a ConfigErrors<'a>,
    ) -> Self {
        Table {
            key_path,
            offset,
            entries,
            errors,
            known: Vec::new(),
            missing_required: Vec::new(),
        }
    }

    /// Line of the table itself if it is empty. Always `Some`, the type that [`ConfigErrors::push`]
    /// takes.
    pub fn first_key_line(&self) -> Option<usize> {
        let first_key = self.entries.keys().map(|key| key.span().start).min();
        Some(self.errors.line_at(first_key.unwrap_or(self.offset)))
    }

    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.entries
            .get_key_value(key)
            .map(|(key, _)| self.errors.line_at(key.span().start))
    }

    pub fn errors(&self) -> &'a ConfigErrors<'a> {
        self.errors
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    pub fn missing(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| !self.has(key)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn full_key(&self, key: &str) -> String {
        if self.key_path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.key_path)
        }
    }

    pub fn entry(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.entries.get(key)
    }

    /// Reports the error of `read`. `None` if the key is missing or its value is wrong.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        let read = read(entry.get_ref()).map_err(|what| {
            let what = format!("{}: {what}", self.full_key(key));
            self.errors.push_at(entry.span().start, what);
        });
        read.ok()
    }

    pub fn read_required<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(key) {
            self.report_missing(key, format!("{} is missing", self.full_key(key)));
        }
        self.read(key, |value| match read(value) {
            Err(what) if what == EMPTY_ERROR => Err(EMPTY_REQUIRED_ERROR.to_owned()),
            read => read,
        })
    }

    /// Makes [`Table::finish`] report `key`, unless an unknown key is probably its misspelling.
    pub fn report_missing(&mut self, key: &'static str, what: impl Into<String>) {
        self.missing_required.push((key, what.into()));
    }

    /// Does not change `target` if the key is missing or wrong.
    pub fn read_into<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) {
        if let Some(value) = self.read(key, read) {
            *target = value;
        }
    }

    pub fn table(&mut self, key: &'static str, read: impl FnOnce(&mut Self)) {
        let Some(entry) = self.entry(key) else { return };
        self.read_table(key, entry, read);
    }

    pub fn tables(&mut self, key: &'static str, mut read: impl FnMut(&mut Self)) {
        let Some(entry) = self.entry(key) else { return };
        let DeValue::Array(items) = entry.get_ref() else {
            let what = mismatch("an array of tables", entry.get_ref());
            return self.errors.push_at(
                entry.span().start,
                format!("{}: {what}", self.full_key(key)),
            );
        };
        for item in items.iter() {
            self.read_table(key, item, &mut read);
        }
    }

    fn read_table(&self, key: &str, entry: &'a Spanned<DeValue<'a>>, read: impl FnOnce(&mut Self)) {
        if let Some(entries) = self.entries_of(key, entry) {
            let mut table =
                Table::new(self.full_key(key), entry.span().start, entries, self.errors);
            read(&mut table);
            table.finish();
        }
    }

    fn entries_of(&self, key: &str, entry: &'a Spanned<DeValue<'a>>) -> Option<&'a DeTable<'a>> {
        match entry.get_ref() {
            DeValue::Table(entries) => Some(entries),
            other => {
                let what = format!("{}: {}", self.full_key(key), not_a_table(other));
                self.errors.push_at(entry.span().start, what);
                None
            }
        }
    }

    /// Reads the table `key`, whose keys the user chooses, in the order of the file.
    pub fn read_entries<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&str, &DeValue<'a>) -> Result<T, String>,
    ) -> Vec<T> {
        let entry = self.entry(key);
        let entries = entry.and_then(|entry| self.entries_of(key, entry));
        let mut entries: Vec<_> = entries.into_iter().flatten().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut values = Vec::new();
        for (entry_key, value) in entries {
            let name = entry_key.get_ref();
            match read(name, value.get_ref()) {
                Ok(value) => values.push(value),
                Err(what) => self.errors.push_at(
                    entry_key.span().start,
                    format!("{}.{name}: {what}", self.full_key(key)),
                ),
            }
        }
        values
    }

    pub fn report(&self, what: impl fmt::Display) {
        let path = match self.key_path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        };
        self.errors
            .push(self.first_key_line(), format!("{path}{what}"));
    }

    pub fn finish(mut self) {
        for key in self.entries.keys() {
            let written: &str = key.get_ref();
            if self.known.contains(&written) {
                continue;
            }
            let candidates = self
                .known
                .iter()
                .filter(|known| is_misspelling(known, written));
            let suggestion = candidates
                .min_by_key(|known| levenshtein(known, written))
                .copied();
            self.missing_required
                .retain(|(missing, _)| suggestion != Some(missing));
            let hint = match suggestion {
                Some(known) => format!("; did you mean {known}?"),
                None => format!("; known here: {}", self.known.join(", ")),
            };
            let what = format!("{}: {UNKNOWN_KEY_ERROR}{hint}", self.full_key(written));
            self.errors.push_at(key.span().start, what);
        }
        let line = self.first_key_line().filter(|_| !self.key_path.is_empty());
        for (_, what) in self.missing_required {
            self.errors.push(line, what);
        }
    }
}

/// True if at most two edits separate the keys, or if `written` has at least three characters and
/// one key is a prefix of the other.
fn is_misspelling(known: &str, written: &str) -> bool {
    let prefix = written.len() >= 3 && (known.starts_with(written) || written.starts_with(known));
    prefix || (written.len() <= 64 && levenshtein(known, written) <= 2)
}
