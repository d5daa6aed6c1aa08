use std::borrow::Cow;

use memchr::{memchr, memchr2};

use crate::{BadLine, Reason};

/// A datapoint, borrowed from a pushed line ([`Point::parse`]) or a log line
/// ([`LogLine::point`](crate::log::LogLine::point)). The logged form has no `host_id`, and its time
/// is that of the log line.
///
/// Fields are parsed lazily: a malformed field is found only when it is reached.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    name: &'a str,
    tags: &'a str,
    fields: &'a str,
    separator: u8,
    timestamp: Option<i64>,
}

impl<'a> Point<'a> {
    /// Parses one line without its newline.
    pub fn parse(line: &'a [u8]) -> Result<Self, BadLine> {
        let text = std::str::from_utf8(line).map_err(|_| BadLine::new(Reason::NotUtf8, line))?;
        Self::parse_text(text, b',', split_timestamp).map_err(|reason| BadLine::new(reason, line))
    }

    /// Parses `name[,tag=v...] field=v field=v`, the form of the log.
    pub(crate) fn parse_logged(text: &'a str, timestamp: Option<i64>) -> Result<Self, BadLine> {
        let split_fields = |fields: &'a str| (fields.trim_end_matches(' '), timestamp);
        Self::parse_text(text, b' ', split_fields).map_err(|reason| BadLine::new(reason, text))
    }

    fn parse_text(
        text: &'a str,
        separator: u8,
        split_timestamp: impl FnOnce(&'a str) -> (&'a str, Option<i64>),
    ) -> Result<Self, Reason> {
        let (name, tags, rest) = split_name_and_tags(text)?;
        let (fields, timestamp) = split_timestamp(rest);
        if fields.is_empty() {
            return Err(Reason::NoFields);
        }
        Ok(Self {
            name,
            tags,
            fields,
            separator,
            timestamp,
        })
    }

    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Unix nanoseconds of the point's creation (push) or of the log line. `None` if the text has
    /// no timestamp.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    pub fn tags(&self) -> impl Iterator<Item = Result<Tag<'a>, Reason>> + use<'a> {
        let mut rest = self.tags;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let tag;
            (tag, rest) = split_once(rest, b',').unwrap_or((rest, ""));
            let tag = split_once(tag, b'=').filter(|(key, _)| !key.is_empty());
            Some(tag.map_or(Err(Reason::BadTag), |(key, value)| Ok(Tag { key, value })))
        })
    }

    pub fn tag(&self, key: &str) -> Option<&'a str> {
        self.tags()
            .flatten()
            .find(|tag| tag.key == key)
            .map(|tag| tag.value)
    }

    pub fn fields(&self) -> Fields<'a> {
        Fields {
            rest: self.fields,
            separator: self.separator,
            done: false,
        }
    }

    /// The first field with this key; `None` also if the line is malformed before it.
    pub fn field(&self, key: &str) -> Option<Field<'a>> {
        self.fields()
            .map_while(Result::ok)
            .find(|field| field.key == key)
    }

    pub fn check(&self) -> Result<(), BadLine> {
        for tag in self.tags() {
            tag.map_err(|reason| self.bad_line(reason))?;
        }
        for field in self.fields() {
            field
                .and_then(|field| field.value())
                .map_err(|reason| self.bad_line(reason))?;
        }
        Ok(())
    }

    pub fn bad_line(&self, reason: Reason) -> BadLine {
        BadLine::new(
            reason,
            format!(
                "{},{} {}",
                self.name,
                self.tags,
                self.fields.get(..160).unwrap_or(self.fields)
            ),
        )
    }
}

fn split_name_and_tags(text: &str) -> Result<(&str, &str, &str), Reason> {
    let bytes = text.as_bytes();
    let name_end = memchr2(b',', b' ', bytes).ok_or(if text.is_empty() {
        Reason::NoName
    } else {
        Reason::NoFields
    })?;
    let (name, after) = text.split_at_checked(name_end).ok_or(Reason::NoName)?;
    if name.is_empty() || memchr2(b'"', b'=', name.as_bytes()).is_some() {
        return Err(Reason::NoName);
    }
    let (tags, rest) = split_once(after, b' ').ok_or(Reason::NoFields)?;
    Ok((name, tags.strip_prefix(',').unwrap_or(tags), rest))
}

/// `str::split_once` with a faster search.
fn split_once(text: &str, separator: u8) -> Option<(&str, &str)> {
    let end = memchr(separator, text.as_bytes())?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// Splits off the timestamp; `None` if the last word is not an integer.
fn split_timestamp(rest: &str) -> (&str, Option<i64>) {
    let trimmed = rest.trim_end_matches(' ');
    let (fields, last) = trimmed.rsplit_once(' ').unwrap_or(("", trimmed));
    match last.parse() {
        Ok(nanos) => (fields, Some(nanos)),
        Err(_) => (trimmed, None),
    }
}

#[inline]
pub fn name_of(line: &[u8]) -> Option<&[u8]> {
    line.get(..memchr2(b',', b' ', line)?)
        .filter(|name| !name.is_empty())
}

/// Agave always writes `host_id` as the first tag. `None` if another tag is first.
#[inline]
pub fn host_id_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.get(name.len()..)?.strip_prefix(b",host_id=")?;
    value.get(..memchr2(b',', b' ', value)?)
}

#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field<'a> {
    pub key: &'a str,
    raw_value: &'a str,
}

impl<'a> Field<'a> {
    pub fn value(&self) -> Result<Value<'a>, Reason> {
        Value::parse(self.raw_value)
    }

    pub fn raw(&self) -> &'a str {
        self.raw_value
    }
}

/// Ends after the first error, because the start of the next field is unknown then.
#[derive(Debug)]
pub struct Fields<'a> {
    rest: &'a str,
    separator: u8,
    done: bool,
}

impl<'a> Fields<'a> {
    fn parse_next(&mut self) -> Result<Field<'a>, Reason> {
        let end = key_length(self.rest.as_bytes())
            .filter(|length| *length > 0)
            .ok_or(Reason::BadField)?;
        let (key, after) = self.rest.split_at_checked(end).ok_or(Reason::BadField)?;
        let value = after.strip_prefix('=').ok_or(Reason::BadField)?;
        let end = if value.starts_with('"') {
            quoted_end(value.as_bytes()).ok_or(Reason::UnbalancedQuote)?
        } else {
            value
                .bytes()
                .position(|byte| byte == self.separator)
                .unwrap_or(value.len())
        };
        let (raw_value, rest) = value.split_at_checked(end).ok_or(Reason::BadField)?;
        match rest.as_bytes().split_first() {
            None => self.done = true,
            Some((&byte, _)) if byte == self.separator => {
                self.rest = rest.get(1..).ok_or(Reason::BadField)?
            }
            Some(_) => return Err(Reason::BadField),
        }
        Ok(Field { key, raw_value })
    }
}

/// Length of the key at the start of `text`. Keys are too short for `memchr`.
fn key_length(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let mut end = 0;
    // Skips eight bytes at a time while all are above `=`, as letters are.
    while let Some(bytes) = text.get(end..)?.first_chunk() {
        let bytes = u64::from_le_bytes(*bytes);
        if bytes.wrapping_sub(ONES * 0x3e) & !bytes & (ONES * 0x80) != 0 {
            break;
        }
        end += 8;
    }
    let ends_key = |byte: &u8| matches!(byte, b'=' | b' ' | b',' | b'"');
    Some(end + text.get(end..)?.iter().position(ends_key)?)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Reason>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.parse_next();
        self.done |= next.is_err();
        Some(next)
    }
}

/// Length of the string value at the start of `text`, both quotes included. `None` if it is not
/// closed.
pub fn quoted_end(text: &[u8]) -> Option<usize> {
    let mut search_start = 1;
    loop {
        let quote = search_start + memchr(b'"', text.get(search_start..)?)?;
        if text.get(quote - 1) != Some(&b'\\') {
            return Some(quote + 1);
        }
        search_start = quote + 1;
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// `12i`. Agave casts `u64` to `i64`, so a negative number may be a wrapped one.
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(EscapedStr<'a>),
}

impl<'a> Value<'a> {
    /// Parses one value, quotes included. [`Reason::BadValue`] includes integers that do not
    /// fit `i64`.
    pub fn parse(text: &'a str) -> Result<Self, Reason> {
        if let Some(rest) = text.strip_prefix('"') {
            let inner = rest.strip_suffix('"').ok_or(Reason::UnbalancedQuote)?;
            return Ok(Self::Str(EscapedStr(inner)));
        }
        match text {
            "true" => return Ok(Self::Bool(true)),
            "false" => return Ok(Self::Bool(false)),
            _ => {}
        }
        let number = match text.strip_suffix(['i', 'u']) {
            Some(digits) => digits.parse().map(Self::Int).ok(),
            None => text.parse().map(Self::Float).ok(),
        };
        number.ok_or(Reason::BadValue)
    }

    /// Booleans are 0 and 1; `None` for strings.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is an f64, which rounds integers above 2^53"
    )]
    pub fn number(&self) -> Option<f64> {
        match *self {
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Bool(value) => Some(f64::from(u8::from(value))),
            Self::Str(_) => None,
        }
    }
}

/// A string value without its quotes.
#[derive(Debug, Clone, Copy)]
pub struct EscapedStr<'a>(&'a str);

impl<'a> EscapedStr<'a> {
    /// With escapes: `\"` stands for `"`.
    pub fn raw(&self) -> &'a str {
        self.0
    }

    /// Without escapes. Allocates only if a quote was escaped.
    pub fn decode(&self) -> Cow<'a, str> {
        if self.0.contains("\\\"") {
            Cow::Owned(self.0.replace("\\\"", "\""))
        } else {
            Cow::Borrowed(self.0)
        }
    }
}

impl PartialEq for EscapedStr<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.decode() == other.decode()
    }
}
