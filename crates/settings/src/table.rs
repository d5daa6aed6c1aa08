use crate::ConfigErrors;
use crate::values::{EMPTY, kind, not_a_table};
use std::fmt;
use strsim::levenshtein;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) const UNKNOWN: &str = "unknown key";

const NEEDED: &str = "is empty, and is needed";

/// Keys are taken one by one; [`Table::finish`] reports the others.
#[derive(Debug)]
pub struct Table<'a> {
    path: String,
    offset: usize,
    entries: &'a DeTable<'a>,
    errors: &'a ConfigErrors<'a>,
    known: Vec<&'static str>,
    absent: Vec<(&'static str, String)>,
}

impl<'a> Table<'a> {
    pub(crate) fn top(entries: &'a DeTable<'a>, errors: &'a ConfigErrors<'a>) -> Self {
        Table {
            path: String::new(),
            offset: 0,
            entries,
            errors,
            known: Vec::new(),
            absent: Vec::new(),
        }
    }

    pub fn line(&self) -> Option<usize> {
        self.errors.line(
            self.entries
                .keys()
                .map(|key| key.span().start)
                .min()
                .unwrap_or(self.offset),
        )
    }

    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.entries
            .get_key_value(key)
            .and_then(|(key, _)| self.errors.line(key.span().start))
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

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// The value of `key`, which is known from now on.
    pub fn entry(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.entries.get(key)
    }

    /// `read` returns what it wanted on failure; `None` if the key is missing or wrong.
    pub fn take<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        match read(entry.get_ref()) {
            Ok(value) => Some(value),
            Err(wanted) => {
                let line = self.errors.line(entry.span().start);
                self.errors
                    .push(line, format!("{}: {wanted}", self.name(key)));
                None
            }
        }
    }

    pub fn need<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(key) {
            self.lacks(key, format!("{} is missing", self.name(key)));
        }
        self.take(key, |value| {
            read(value).map_err(|what| {
                if what == EMPTY {
                    NEEDED.to_owned()
                } else {
                    what
                }
            })
        })
    }

    /// Reports that `key` is missing, unless it is probably misspelt: then the misspelling is
    /// reported.
    pub fn lacks(&mut self, key: &'static str, what: impl Into<String>) {
        self.absent.push((key, what.into()));
    }

    /// A missing key leaves the default.
    pub fn set<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) {
        if let Some(value) = self.take(key, read) {
            *target = value;
        }
    }

    pub fn table(&mut self, key: &'static str, read: impl FnOnce(&mut Table<'a>)) {
        let Some(entry) = self.entry(key) else { return };
        self.one(key, entry, read);
    }

    pub fn tables(&mut self, key: &'static str, mut read: impl FnMut(&mut Table<'a>)) {
        let Some(entry) = self.entry(key) else { return };
        let DeValue::Array(items) = entry.get_ref() else {
            let line = self.errors.line(entry.span().start);
            self.errors.push(
                line,
                format!(
                    "{}: an array of tables is wanted, not {}",
                    self.name(key),
                    kind(entry.get_ref())
                ),
            );
            return;
        };
        for item in items.iter() {
            self.one(key, item, &mut read);
        }
    }

    fn one(&self, key: &str, entry: &'a Spanned<DeValue<'a>>, read: impl FnOnce(&mut Table<'a>)) {
        let (path, offset) = (self.name(key), entry.span().start);
        match entry.get_ref() {
            DeValue::Table(entries) => {
                let mut table = Table {
                    path,
                    offset,
                    entries,
                    errors: self.errors,
                    known: Vec::new(),
                    absent: Vec::new(),
                };
                read(&mut table);
                table.finish();
            }
            other => {
                let line = self.errors.line(offset);
                self.errors
                    .push(line, format!("{path}: {}", not_a_table(other)));
            }
        }
    }

    /// Reads every key of the table `key`, whose keys are the researcher's own, in the order of the file.
    pub fn every<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&str, &DeValue<'a>) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(entry) = self.entry(key) else {
            return Vec::new();
        };
        let DeValue::Table(entries) = entry.get_ref() else {
            let line = self.errors.line(entry.span().start);
            self.errors.push(
                line,
                format!("{}: {}", self.name(key), not_a_table(entry.get_ref())),
            );
            return Vec::new();
        };
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut values = Vec::new();
        for (name, value) in entries {
            match read(name.get_ref(), value.get_ref()) {
                Ok(value) => values.push(value),
                Err(wanted) => {
                    let line = self.errors.line(name.span().start);
                    self.errors.push(
                        line,
                        format!("{}.{}: {wanted}", self.name(key), name.get_ref()),
                    );
                }
            }
        }
        values
    }

    pub fn refuse(&self, what: impl fmt::Display) {
        let what = if self.path.is_empty() {
            what.to_string()
        } else {
            format!("{}: {what}", self.path)
        };
        self.errors.push(self.line(), what);
    }

    pub fn finish(mut self) {
        for key in self.entries.keys() {
            let text: &str = key.get_ref();
            if self.known.contains(&text) {
                continue;
            }
            let near = self.known.iter().filter(|known| alike(known, text));
            let meant = near.min_by_key(|known| levenshtein(known, text)).copied();
            self.absent.retain(|(absent, _)| meant != Some(absent));
            let hint = match meant {
                Some(known) => format!("; did you mean {known}?"),
                None => format!("; known here: {}", self.known.join(", ")),
            };
            let line = self.errors.line(key.span().start);
            self.errors
                .push(line, format!("{}: {UNKNOWN}{hint}", self.name(text)));
        }
        let line = if self.path.is_empty() {
            None
        } else {
            self.line()
        };
        self.absent
            .into_iter()
            .for_each(|(_, what)| self.errors.push(line, what));
    }
}

/// Whether one is probably a misspelling: at most two letters differ, or one begins with the other.
fn alike(known: &str, written: &str) -> bool {
    let prefix = written.len() >= 3 && (known.starts_with(written) || written.starts_with(known));
    prefix || (written.len() <= 64 && levenshtein(known, written) <= 2)
}
