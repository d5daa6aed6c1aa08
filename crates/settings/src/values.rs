use std::{fmt, ops::RangeInclusive, time::Duration};

use faultline_text::{parse_size, parse_time};
use toml::de::{DeInteger, DeValue};

use crate::ConfigErrors;

pub const EMPTY_ERROR: &str = "is empty; leave the key out instead";

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Error for a value instead of a table. Shows no string: a string may be a password.
pub fn not_a_table(value: &DeValue<'_>) -> String {
    let found = match value {
        DeValue::String(_) => "a string".to_owned(),
        other => describe(other),
    };
    format!("a table is wanted, not {found}")
}

pub fn mismatch(expected: &str, found: &DeValue<'_>) -> String {
    format!("{expected} is wanted, not {}", describe(found))
}

fn string<'v>(value: &'v DeValue<'_>, what: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| mismatch(what, value))
}

/// A string that is not empty and has no NUL.
pub fn text(value: &DeValue<'_>) -> Result<String, String> {
    match string(value, "a string")? {
        "" => Err(EMPTY_ERROR.to_owned()),
        text if text.contains('\0') => Err(format!("{text:?} has a NUL, which no program accepts")),
        text => Ok(text.to_owned()),
    }
}

pub fn array<T>(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let items = value
        .as_array()
        .ok_or_else(|| mismatch("an array", value))?;
    items.iter().map(|item| read(item.get_ref())).collect()
}

pub fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value
        .as_bool()
        .ok_or_else(|| mismatch("true or false", value))
}

pub fn whole_number(value: &DeValue<'_>) -> Result<u64, String> {
    whole_number_within(value, 0..=u64::MAX)
        .map_err(|_| mismatch("a whole number from 0 on", value))
}

pub fn whole_number_within<T: TryFrom<u64> + PartialOrd + fmt::Display>(
    value: &DeValue<'_>,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let range_mismatch = || {
        mismatch(
            &format!("a whole number from {} to {}", range.start(), range.end()),
            value,
        )
    };
    let DeValue::Integer(written) = value else {
        return Err(range_mismatch());
    };
    let number = integer(written).and_then(|number| u64::try_from(number).ok());
    let number = number.and_then(|number| T::try_from(number).ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(range_mismatch)
}

fn integer(written: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(&written.as_str().replace('_', ""), written.radix()).ok()
}

/// A finite number from 0 on.
pub fn number(value: &DeValue<'_>) -> Result<f64, String> {
    let number = match value {
        DeValue::Integer(number) => integer(number).map(|number| number as f64),
        DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
        other => return Err(mismatch("a number", other)),
    };
    number
        .filter(|n| n.is_finite() && *n >= 0.0)
        .ok_or_else(|| mismatch("a number from 0 on", value))
}

pub fn time(value: &DeValue<'_>) -> Result<Duration, String> {
    parse_time(string(value, "a time with its unit, such as \"12h\",")?)
}

pub fn size(value: &DeValue<'_>) -> Result<u64, String> {
    parse_size(string(value, "a size with its unit, such as \"512G\",")?)
}

pub fn choice<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Result<T, String> {
    let entry = words.iter().find(|(word, _)| value.as_str() == Some(word));
    entry.map(|(_, choice)| *choice).ok_or_else(|| {
        let allowed: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        mismatch(&format!("one of {}", allowed.join(", ")), value)
    })
}

#[derive(Debug)]
pub struct Unique<K>(Vec<(K, Option<usize>)>);

impl<K> Default for Unique<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Unique<K> {
    /// If an earlier entry has the same key, reports both lines and returns false. `what` names the
    /// entry.
    pub fn insert(
        &mut self,
        key: K,
        line: Option<usize>,
        what: impl fmt::Display,
        errors: &ConfigErrors<'_>,
    ) -> bool {
        let Some((_, first)) = self.0.iter().find(|(known, _)| *known == key) else {
            self.0.push((key, line));
            return true;
        };
        let lines = match (first, line) {
            (Some(first), Some(line)) if *first != line => {
                format!(", in lines {first} and {line}")
            }
            _ => String::new(),
        };
        errors.push(
            line,
            format!("{what} is given twice{lines}: remove or change one"),
        );
        false
    }
}

/// An array without equal items. An error names the positions of two equal items.
pub fn distinct<T: PartialEq>(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let values = array(value, read)?;
    let items = value.as_array().into_iter().flat_map(|items| items.iter());
    let items: Vec<_> = items.map(|item| item.get_ref()).collect();
    for (index, value) in values.iter().enumerate() {
        let Some(first) = values.iter().position(|other| other == value) else {
            continue;
        };
        if let (Some(earlier), Some(later)) = (items.get(first), items.get(index))
            && first < index
        {
            return Err(format!(
                "item {}, {}, is the same as item {}, {}: keep one",
                index + 1,
                describe(later),
                first + 1,
                describe(earlier),
            ));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
