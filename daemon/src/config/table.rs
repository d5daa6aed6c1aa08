//! Walks a TOML table key by key and collects every mistake with its line, instead of stopping at the first.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line of the file, from 1; `None` for the command line and for things that are missing.
    pub line: Option<usize>,
    /// What is wrong, where, and what to do.
    pub what: String,
}

impl Mistake {
    /// Whether the value of `key`, such as `metrics.listen`, is what is wrong, or the key itself is written wrongly.
    pub(crate) fn is_about(&self, key: &str) -> bool {
        let told = self.what.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        let meant = key.rsplit_once('.').is_some_and(|(table, leaf)| {
            let hint = format!("{UNKNOWN}; did you mean {leaf}?");
            self.what.strip_prefix(table).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(&hint))
        });
        told || meant
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What is said of a key that is not known.
const UNKNOWN: &str = "unknown key";

/// A table being read. Keys are taken one by one; [`Table::finish`] reports what nobody took.
pub struct Table<'a> {
    /// Dotted path of the table, empty at the top.
    path: String,
    text: &'a str,
    entries: &'a DeTable<'a>,
    known: Vec<&'static str>,
    /// Whether every key is known, whatever its name.
    free: bool,
}

type Entry<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Table<'a> {
    /// The file's top.
    pub fn top(text: &'a str, entries: &'a DeTable<'a>) -> Self {
        Table { path: String::new(), text, entries, known: Vec::new(), free: false }
    }

    /// The line of a byte offset.
    fn line(&self, offset: usize) -> usize {
        self.text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
    }

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn entry(&mut self, key: &'static str) -> Option<Entry<'a>> {
        self.known.push(key);
        self.entries.get(key)
    }

    /// Reads `key` with `read`, which says what it wanted where it fails; `None` if the key is missing or wrong.
    pub fn take<T>(
        &mut self,
        key: &'static str,
        mistakes: &mut Vec<Mistake>,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        match read(entry.get_ref()) {
            Ok(value) => Some(value),
            Err(wanted) => {
                let line = Some(self.line(entry.span().start));
                mistakes.push(Mistake { line, what: format!("{}: {wanted}", self.name(key)) });
                None
            }
        }
    }

    /// Reads `key` into `place`, which keeps its default where the key is missing.
    pub fn set<T>(
        &mut self,
        key: &'static str,
        place: &mut T,
        mistakes: &mut Vec<Mistake>,
        read: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) {
        if let Some(value) = self.take(key, mistakes, read) {
            *place = value;
        }
    }

    /// Reads the table `key` with `read`; nothing happens if it is missing.
    pub fn table(
        &mut self,
        key: &'static str,
        mistakes: &mut Vec<Mistake>,
        read: impl FnOnce(&mut Table<'a>, &mut Vec<Mistake>),
    ) {
        let Some(entry) = self.entry(key) else { return };
        let path = self.name(key);
        match entry.get_ref() {
            DeValue::Table(entries) => {
                let mut table = Table { path, text: self.text, entries, known: Vec::new(), free: false };
                read(&mut table, mistakes);
                table.finish(mistakes);
            }
            other => mistakes.push(Mistake {
                line: Some(self.line(entry.span().start)),
                what: format!("{path}: a table [{path}] is wanted, not {}", kind(other)),
            }),
        }
    }

    /// Reads each table of the array `key` (`[[key]]`) with `read`.
    pub fn tables(
        &mut self,
        key: &'static str,
        mistakes: &mut Vec<Mistake>,
        mut read: impl FnMut(&mut Table<'a>, &mut Vec<Mistake>),
    ) {
        let Some(entry) = self.entry(key) else { return };
        let path = self.name(key);
        let wrong = |line| Mistake { line: Some(line), what: format!("{path}: an array of tables is wanted") };
        let DeValue::Array(items) = entry.get_ref() else {
            mistakes.push(wrong(self.line(entry.span().start)));
            return;
        };
        for item in items.iter() {
            let DeValue::Table(entries) = item.get_ref() else {
                mistakes.push(wrong(self.line(item.span().start)));
                continue;
            };
            let mut table = Table { path: path.clone(), text: self.text, entries, known: Vec::new(), free: false };
            read(&mut table, mistakes);
            table.finish(mistakes);
        }
    }

    /// Reads every key of a table whose keys are the operator's own.
    pub fn every<T>(
        &mut self,
        mistakes: &mut Vec<Mistake>,
        read: impl Fn(&str, &DeValue<'a>) -> Result<T, String>,
    ) -> Vec<T> {
        self.free = true;
        let mut values = Vec::new();
        for (key, value) in self.entries.iter() {
            match read(key.get_ref(), value.get_ref()) {
                Ok(value) => values.push(value),
                Err(wanted) => {
                    let line = Some(self.line(key.span().start));
                    mistakes.push(Mistake { line, what: format!("{}: {wanted}", self.name(key.get_ref())) });
                }
            }
        }
        values
    }

    /// Those of `keys` that the table does not have.
    pub fn missing(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| !self.has(key)).collect()
    }

    /// Whether the table has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Reports a mistake about the table as a whole.
    pub fn refuse(&self, what: impl fmt::Display, mistakes: &mut Vec<Mistake>) {
        let line = self.entries.keys().map(|key| self.line(key.span().start)).min();
        mistakes.push(Mistake { line, what: format!("{}: {what}", self.path) });
    }

    /// Reports every key that nobody took.
    pub fn finish(self, mistakes: &mut Vec<Mistake>) {
        for key in self.entries.keys() {
            let text: &str = key.get_ref();
            if self.free || self.known.contains(&text) {
                continue;
            }
            let near = self.known.iter().find(|known| alike(known, text));
            let hint = match near {
                Some(known) => format!("; did you mean {known}?"),
                None => format!("; known here: {}", self.known.join(", ")),
            };
            let line = Some(self.line(key.span().start));
            mistakes.push(Mistake { line, what: format!("{}: {UNKNOWN}{hint}", self.name(text)) });
        }
    }
}

/// Whether a key was probably meant: at most two letters differ, or one begins with the other.
fn alike(known: &str, written: &str) -> bool {
    let prefix = written.len() >= 3 && (known.starts_with(written) || written.starts_with(known));
    prefix || distance(known.as_bytes(), written.as_bytes()) <= 2
}

/// Letters to insert, delete or replace.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn wanted(what: &str, found: &DeValue<'_>) -> String {
    format!("{what} is wanted, not {}", kind(found))
}

/// A string that is not empty.
pub fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some("") => Err("is empty; leave the key out instead".to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err(wanted("a string", value)),
    }
}

/// Several strings.
pub fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let items = value.as_array().ok_or_else(|| wanted("an array of strings", value))?;
    items.iter().map(|item| text(item.get_ref())).collect()
}

/// true or false.
pub fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wanted("true or false", value))
}

/// A whole number from 0 on.
pub fn whole(value: &DeValue<'_>) -> Result<u64, String> {
    let DeValue::Integer(integer) = value else { return Err(wanted("a whole number", value)) };
    u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix())
        .map_err(|_| format!("a whole number from 0 on is wanted, not {}", integer.as_str()))
}

/// A duration such as `"1s"`.
pub fn duration(value: &DeValue<'_>) -> Result<Duration, String> {
    parse_duration(value.as_str().ok_or_else(|| wanted("a duration such as \"1s\"", value))?)
}

/// A socket address such as `"127.0.0.1:9912"`.
pub fn address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    parse_address(value.as_str().ok_or_else(|| wanted("an address such as \"127.0.0.1:9912\"", value))?)
}

/// `100ms`, `1s`, `1.5s`, `2m`, `1h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} has no unit that is known: write ms, s, m or h, as in \"1s\"")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| format!("{text:?} is not a duration"))
}

/// A label of a recording: its name and its value.
pub fn label(name: &str, value: &str) -> Result<(String, String), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(format!("{name:?} is no name of a label: letters, digits, _, - and . are taken, 64 at most"));
    }
    if value.is_empty() || value.len() > 200 || value.chars().any(char::is_control) {
        return Err(format!("{value:?} is no value of the label {name}: one line of 1 to 200 bytes is taken"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `NAME=VALUE`.
pub fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE, as in \"arm=512G\""))?;
    label(name, value)
}

/// `ADDRESS:PORT`.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not ADDRESS:PORT with a numeric address, as in \"127.0.0.1:9912\""))
}
