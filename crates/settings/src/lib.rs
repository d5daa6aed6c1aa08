//! Reads TOML settings key by key, and reports every mistake with its line.

mod table;
mod values;

pub use table::Table;
pub use values::{
    Unique, array, choice, distinct, flag, mismatch, number, size, text, time, whole_number,
    whole_number_within,
};

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};
use toml::de::DeTable;

/// Further syntax errors are mostly consequences of these.
const MAX_SYNTAX_ERRORS: usize = 20;
const MAX_QUOTED_CHARS: usize = 120;

#[derive(Debug, PartialEq)]
pub struct ConfigError {
    pub file: Option<PathBuf>,
    /// From 1. `None` if the error belongs to no line.
    pub line: Option<usize>,
    pub what: String,
}

impl ConfigError {
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            what: what.into(),
        }
    }

    /// True if the error is about the value of `key`, such as `metrics.listen`, or suggests `key`
    /// for an unknown key.
    pub fn is_about(&self, key: &str) -> bool {
        let is_named = self.what.starts_with(&format!("{key}:"));
        let is_suggested = key.rsplit_once('.').is_some_and(|(table_path, leaf)| {
            let hint = format!("{}; did you mean {leaf}?", table::UNKNOWN_KEY_ERROR);
            self.what.starts_with(&format!("{table_path}.")) && self.what.ends_with(&hint)
        });
        is_named || is_suggested
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: {}", file.display(), self.what),
            (Some(file), None) => write!(f, "{}: {}", file.display(), self.what),
            (None, Some(line)) => write!(f, "line {line}: {}", self.what),
            (None, None) => f.write_str(&self.what),
        }
    }
}

/// `read_table` must read the known keys of the whole file, then call [`Table::finish`]. For text
/// that is not TOML, returns `None` and the parser's errors. With `quotes_line`, each of these
/// quotes its line: not for files that may contain secrets.
pub fn read<T>(
    text: &str,
    file: Option<&Path>,
    quotes_line: bool,
    read_table: impl FnOnce(Table<'_>) -> T,
) -> (Option<T>, Vec<ConfigError>) {
    let (root_table, errors) = DeTable::parse_recoverable(text);
    let config_errors = ConfigErrors {
        file,
        text,
        errors: RefCell::default(),
    };
    config_errors.push_syntax_errors(&errors, quotes_line);
    if !config_errors.is_empty() {
        return (None, config_errors.sorted_by_line());
    }
    let settings = read_table(Table::new(
        String::new(),
        0,
        root_table.get_ref(),
        &config_errors,
    ));
    (Some(settings), config_errors.sorted_by_line())
}

#[derive(Debug)]
pub struct ConfigErrors<'a> {
    file: Option<&'a Path>,
    text: &'a str,
    errors: RefCell<Vec<ConfigError>>,
}

impl ConfigErrors<'_> {
    pub fn push(&self, line: Option<usize>, what: impl Into<String>) {
        self.errors.borrow_mut().push(ConfigError {
            file: self.file.map(Path::to_owned),
            line,
            what: what.into(),
        });
    }

    pub(crate) fn push_at(&self, offset: usize, what: impl Into<String>) {
        self.push(Some(self.line_at(offset)), what);
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    pub fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub fn len(&self) -> usize {
        self.errors.borrow().len()
    }

    fn sorted_by_line(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| error.line);
        errors
    }

    /// Reports one syntax error per line. After a token that is not closed, the parser misreads all
    /// text, so only the first error is reported.
    fn push_syntax_errors(&self, errors: &[toml::de::Error], quotes_line: bool) {
        let unclosed = errors
            .iter()
            .any(|error| error.message().contains("unclosed"));
        let mut reported = BTreeSet::new();
        let mut errors: Vec<_> = errors.iter().collect();
        errors.sort_by_key(|error| error.span().map(|span| span.start));
        for error in errors
            .iter()
            .take(if unclosed { 1 } else { MAX_SYNTAX_ERRORS })
        {
            let line = error.span().map(|span| self.line_at(span.start));
            if !reported.insert(line) {
                continue;
            }
            let quoted_line = line.filter(|_| quotes_line).map(|line| {
                let line = self.text.lines().nth(line - 1).unwrap_or_default();
                let line: String = line.trim().chars().take(MAX_QUOTED_CHARS).collect();
                format!(": `{line}`")
            });
            let quoted_line = quoted_line.unwrap_or_default();
            let hint = if unclosed {
                "; an earlier bracket, brace or quote may not be closed"
            } else {
                ""
            };
            self.push(line, format!("{}{quoted_line}{hint}", error.message()));
        }
    }
}
