//! Settings in TOML: read key by key, with every mistake and its line instead of the first one only.

mod table;
mod unique;
mod values;

pub use table::Table;
pub use unique::{Unique, distinct};
pub use values::{choice, flag, number, several, size, text, time, wanted, whole, within};

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// Most mistakes of the language that are looked at: the rest comes of them.
const MOST_OF_SYNTAX: usize = 20;
/// Characters of a line that are shown.
const LONGEST_SHOWN: usize = 120;

/// One thing wrong with settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, if it is to be named.
    pub file: Option<PathBuf>,
    /// Its line, from 1; `None` for the command line and for what is missing.
    pub line: Option<usize>,
    /// What is wrong, where, and what to do.
    pub what: String,
}

impl Mistake {
    /// Of no line of a file.
    pub fn new(what: impl Into<String>) -> Self {
        Mistake {
            file: None,
            line: None,
            what: what.into(),
        }
    }

    /// Whether the value of `key`, such as `metrics.listen`, is what is wrong, or the key itself is written wrongly.
    pub fn is_about(&self, key: &str) -> bool {
        let named = self
            .what
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with(':'));
        let meant = key.rsplit_once('.').is_some_and(|(table, leaf)| {
            let hint = format!("{}; did you mean {leaf}?", table::UNKNOWN);
            self.what
                .strip_prefix(table)
                .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(&hint))
        });
        named || meant
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: {}", file.display(), self.what),
            (Some(file), None) => write!(f, "{}: {}", file.display(), self.what),
            (None, Some(line)) => write!(f, "line {line}: {}", self.what),
            (None, None) => f.write_str(&self.what),
        }
    }
}

/// Reads a text with `sections`, which takes the keys that it knows and finishes the table. Where the text is no TOML, only what
/// the parser can tell; `None` then.
pub fn read<T>(
    text: &str,
    file: Option<&Path>,
    sections: impl FnOnce(Table<'_>, &mut Mistakes<'_>) -> T,
) -> (Option<T>, Vec<Mistake>) {
    read_lines(text, (file, true), sections)
}

/// [`read`], but no mistake of the language repeats its line: there may be a key in it, as addresses of nodes have them.
pub fn read_secret<T>(
    text: &str,
    file: Option<&Path>,
    sections: impl FnOnce(Table<'_>, &mut Mistakes<'_>) -> T,
) -> (Option<T>, Vec<Mistake>) {
    read_lines(text, (file, false), sections)
}

fn read_lines<T>(
    text: &str,
    (file, shown): (Option<&Path>, bool),
    sections: impl FnOnce(Table<'_>, &mut Mistakes<'_>) -> T,
) -> (Option<T>, Vec<Mistake>) {
    let (top, errors) = DeTable::parse_recoverable(text);
    let mut m = Mistakes {
        file,
        text,
        found: Vec::new(),
    };
    m.syntax(&errors, shown);
    if !m.is_empty() {
        return (None, m.in_order());
    }
    let read = sections(Table::top(top.get_ref()), &mut m);
    (Some(read), m.in_order())
}

/// The mistakes of one text.
#[derive(Debug)]
pub struct Mistakes<'a> {
    file: Option<&'a Path>,
    text: &'a str,
    found: Vec<Mistake>,
}

impl Mistakes<'_> {
    /// At a line, if it is known.
    pub fn push(&mut self, line: Option<usize>, what: impl Into<String>) {
        self.found.push(Mistake {
            file: self.file.map(Path::to_owned),
            line,
            what: what.into(),
        });
    }

    /// The line of a byte offset.
    pub fn line(&self, offset: usize) -> Option<usize> {
        Some(
            self.text
                .get(..offset)
                .map_or(1, |before| before.matches('\n').count() + 1),
        )
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// In the order of the file; those without a line first.
    fn in_order(mut self) -> Vec<Mistake> {
        self.found.sort_by_key(|mistake| mistake.line);
        self.found
    }

    /// Mistakes of the language, one a line, with the line. Where something is never closed, whatever follows looks wrong: then
    /// only the first is told. Whether the line is `shown` as well.
    fn syntax(&mut self, errors: &[toml::de::Error], shown: bool) {
        let unclosed = errors
            .iter()
            .any(|error| error.message().contains("unclosed"));
        let mut reported = BTreeSet::new();
        let mut errors: Vec<_> = errors.iter().collect();
        errors.sort_by_key(|error| error.span().map(|span| span.start));
        for error in errors
            .iter()
            .take(if unclosed { 1 } else { MOST_OF_SYNTAX })
        {
            let line = error.span().and_then(|span| self.line(span.start));
            if !reported.insert(line) {
                continue;
            }
            let written = line
                .and_then(|line| self.text.lines().nth(line.checked_sub(1)?))
                .unwrap_or_default()
                .trim();
            let written: String = written.chars().take(LONGEST_SHOWN).collect();
            let written = if shown {
                format!(": `{written}`")
            } else {
                String::new()
            };
            let before = if unclosed {
                "; a bracket, brace or quote before it may lack its end"
            } else {
                ""
            };
            self.push(line, format!("{}{written}{before}", error.message()));
        }
    }
}
