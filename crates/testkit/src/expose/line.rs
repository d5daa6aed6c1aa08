//! Parses one line of a page.

use std::collections::BTreeMap;

/// One series with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// With its suffix, such as `_total` or `_bucket`.
    pub name: String,
    /// Label values, unescaped.
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample {
    /// Whether the series has all these labels with these values, among others.
    pub fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels
            .iter()
            .all(|(name, value)| self.labels.get(*name).is_some_and(|own| own == value))
    }
}

/// A broken rule in words.
pub type Broken = &'static str;

/// What differs between the formats within one sample line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Any blanks between parts, a comma before `}`, a timestamp in whole milliseconds.
    Classic,
    /// One space, no comma before `}`, a timestamp in seconds, an exemplar.
    OpenMetrics,
}

/// Parses a sample line. Also returns whether it has an exemplar.
pub fn sample(line: &str, dialect: Dialect) -> Result<(Sample, bool), Broken> {
    let name_end = line
        .find(['{', ' ', '\t'])
        .ok_or("a series without a value")?;
    let (name, rest) = line.split_at(name_end);
    if !is_name(name, true) {
        return Err("not a metric name");
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside, dialect)?,
        None => (BTreeMap::new(), rest),
    };
    let (numbers, exemplar) = match (dialect, rest.split_once(" # ")) {
        (Dialect::OpenMetrics, Some((numbers, exemplar))) => (numbers, Some(exemplar)),
        _ => (rest, None),
    };
    let value = value_and_timestamp(numbers, dialect)?;
    if let Some(exemplar) = exemplar {
        check_exemplar(exemplar)?;
    }
    Ok((
        Sample {
            name: name.to_owned(),
            labels,
            value,
        },
        exemplar.is_some(),
    ))
}

fn value_and_timestamp(text: &str, dialect: Dialect) -> Result<f64, Broken> {
    let parts: Vec<&str> = match dialect {
        Dialect::Classic => text
            .split([' ', '\t'])
            .filter(|part| !part.is_empty())
            .collect(),
        Dialect::OpenMetrics => text
            .strip_prefix(' ')
            .ok_or("no space before the value")?
            .split(' ')
            .collect(),
    };
    let (value, timestamp) = match parts.as_slice() {
        [value] => (value, None),
        [value, timestamp] => (value, Some(timestamp)),
        _ => return Err("not a value and at most a timestamp"),
    };
    let timestamp_holds = timestamp.is_none_or(|timestamp| match dialect {
        Dialect::Classic => timestamp.parse::<i64>().is_ok(),
        Dialect::OpenMetrics => timestamp.parse::<f64>().is_ok_and(f64::is_finite),
    });
    if timestamp_holds {
        value.parse().map_err(|_| "the value is not a number")
    } else {
        Err("not a timestamp")
    }
}

fn check_exemplar(text: &str) -> Result<(), Broken> {
    let inside = text.strip_prefix('{').ok_or("an exemplar without labels")?;
    let (labels, rest) = labels(inside, Dialect::OpenMetrics)?;
    let length: usize = labels
        .iter()
        .map(|(name, value)| name.chars().count() + value.chars().count())
        .sum();
    if length > 128 {
        return Err("an exemplar's labels exceed 128 characters");
    }
    value_and_timestamp(rest, Dialect::OpenMetrics).map(drop)
}

/// Labels up to and with the closing brace, and what follows it.
fn labels(text: &str, dialect: Dialect) -> Result<(BTreeMap<String, String>, &str), Broken> {
    let skip = |text| {
        if dialect == Dialect::Classic {
            str::trim_start(text)
        } else {
            text
        }
    };
    let mut labels = BTreeMap::new();
    let mut rest = skip(text);
    if let Some(after) = rest.strip_prefix('}') {
        return Ok((labels, after));
    }
    loop {
        let (name, after) = rest.split_once('=').ok_or("a label without a value")?;
        let name = if dialect == Dialect::Classic {
            name.trim_end()
        } else {
            name
        };
        if !is_name(name, false) {
            return Err("not a label name");
        }
        let quoted = skip(after)
            .strip_prefix('"')
            .ok_or("a label value without quotes")?;
        let (value, after) = quoted_value(quoted)?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err("a label twice in one series");
        }
        rest = skip(after);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        rest = skip(rest.strip_prefix(',').ok_or("no comma between labels")?);
        if let (Dialect::Classic, Some(after)) = (dialect, rest.strip_prefix('}')) {
            return Ok((labels, after));
        }
    }
}

/// The value up to the closing quote, unescaped, and what follows.
fn quoted_value(text: &str) -> Result<(String, &str), Broken> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(escaped(chars.next().map(|(_, char)| char), true)?),
            other => value.push(other),
        }
    }
    Err("a label value without its closing quote")
}

fn escaped(char: Option<char>, quotes: bool) -> Result<char, Broken> {
    match char {
        Some('\\') => Ok('\\'),
        Some('n') => Ok('\n'),
        Some('"') if quotes => Ok('"'),
        _ => Err("an escape that the format does not know"),
    }
}

/// A HELP text without its escapes; quotes may be escaped in OpenMetrics only.
pub fn help(text: &str, dialect: Dialect) -> Result<String, Broken> {
    let mut help = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        help.push(match char {
            '\\' => escaped(chars.next(), dialect == Dialect::OpenMetrics)?,
            other => other,
        });
    }
    Ok(help)
}

/// A metric name (colons allowed) or a label name.
pub fn is_name(text: &str, colons: bool) -> bool {
    let allowed =
        |char: char| char.is_ascii_alphanumeric() || char == '_' || (colons && char == ':');
    text.chars().all(allowed)
        && text
            .chars()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
}
