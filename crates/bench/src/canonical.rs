//! A JSON value by a digest that does not depend on the order of its fields, without the value in memory, and by what its first fields are,
//! for the message if it differs from another.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Begins a record.
pub(crate) const RECORD: &str = "json ";
/// Fields of a value that a record has; of an array, its first elements.
const MOST_PARTS: usize = 32;
/// Letters of a field's name or value.
const LONGEST: usize = 60;

/// A digest of a value, and of its fields what they are: the same for equal values, and a few kilobytes at most. Fields named in
/// `without` do not count.
pub(crate) fn record(json: &str, without: &[&str]) -> String {
    let mut parts = Parts { without: without.iter().copied().collect(), ..Parts::default() };
    let mut reader = serde_json::Deserializer::from_str(json);
    let digest = match reader.deserialize_any(&mut parts) {
        Ok(digest) => digest,
        // Deeper than a reader goes: then it is compared as it is written.
        Err(_) => hash(9, json),
    };
    let mut out = format!("{RECORD}{digest:x}\n");
    for (name, part) in parts.first {
        out += &format!("{}\t{:x}\t{}\n", name, part.digest, part.shown);
    }
    out
}

/// The first difference between two records, in words.
pub(crate) fn difference(reference: &str, other: &str) -> String {
    let parts = |record| -> BTreeMap<&str, (&str, &str)> { str::lines(record).skip(1).filter_map(part).collect() };
    let (a, b) = (parts(reference), parts(other));
    let names: BTreeSet<&&str> = a.keys().chain(b.keys()).collect();
    let unlike = names.into_iter().find(|name| a.get(**name).map(|a| a.0) != b.get(**name).map(|b| b.0));
    let shown = |part: Option<&(&str, &str)>| part.map_or("not there", |(_, shown)| shown).to_owned();
    match unlike {
        None => "it differs beyond its first fields".to_owned(),
        Some(name) => {
            let of = if name.is_empty() { String::new() } else { format!("{name} is ") };
            let (here, there) = (shown(b.get(*name)), shown(a.get(*name)));
            match here == there {
                true => format!("{of}another {here}"),
                false => format!("{of}{here} instead of {there}"),
            }
        }
    }
}

fn part(line: &str) -> Option<(&str, (&str, &str))> {
    let (name, rest) = line.split_once('\t')?;
    Some((name, rest.split_once('\t')?))
}

fn hash(kind: u8, what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, what).hash(&mut hasher);
    hasher.finish()
}

fn short(text: &str) -> String {
    let cut: String = text.chars().take(LONGEST).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    // Tabs and ends of lines separate the parts of a record.
    faultline_text::clean(&cut).replace(['\t', '\n', '\r'], " ") + dots
}

/// A value: its digest and, where that is wanted, what it is.
struct Part<const SHOWN: bool> {
    digest: u64,
    shown: String,
}

impl<const SHOWN: bool> Part<SHOWN> {
    fn new(digest: u64, shown: impl FnOnce() -> String) -> Self {
        Part { digest, shown: if SHOWN { shown() } else { String::new() } }
    }
}

impl<'de, const SHOWN: bool> Deserialize<'de> for Part<SHOWN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Of::<SHOWN>)
    }
}

struct Of<const SHOWN: bool>;

impl<'de, const SHOWN: bool> Visitor<'de> for Of<SHOWN> {
    type Value = Part<SHOWN>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Part::new(hash(0, ()), || "null".to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Part::new(hash(1, value), || value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Part::new(hash(2, value), || value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Part::new(hash(3, value), || value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Part::new(hash(4, value.to_bits()), || value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Part::new(hash(5, value), || short(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let (mut hasher, mut count) = (DefaultHasher::new(), 0_u64);
        while let Some(value) = values.next_element::<Part<false>>()? {
            count += 1;
            value.digest.hash(&mut hasher);
        }
        Ok(Part::new(hash(6, (hasher.finish(), count)), || format!("array of {count}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut sum, mut count) = (0_u64, 0_u64);
        while let Some((name, value)) = fields.next_entry::<String, Part<false>>()? {
            sum = sum.wrapping_add(hash(7, (name, value.digest)));
            count += 1;
        }
        Ok(Part::new(hash(8, (sum, count)), || format!("object of {count} fields")))
    }
}

/// The outermost value, whose first fields are kept: the same ones in whichever order they come.
#[derive(Default)]
struct Parts<'a> {
    without: BTreeSet<&'a str>,
    first: BTreeMap<String, Part<true>>,
}

impl Parts<'_> {
    fn keep(&mut self, name: String, part: Part<true>) {
        self.first.insert(name, part);
        if self.first.len() > MOST_PARTS {
            self.first.pop_last();
        }
    }

    fn alone(&mut self, part: Part<true>) -> u64 {
        let digest = part.digest;
        self.keep(String::new(), part);
        digest
    }
}

impl<'de> Visitor<'de> for &mut Parts<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<u64, E> {
        Of::<true>.visit_unit().map(|part| self.alone(part))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<u64, E> {
        Of::<true>.visit_bool(value).map(|part| self.alone(part))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u64, E> {
        Of::<true>.visit_u64(value).map(|part| self.alone(part))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<u64, E> {
        Of::<true>.visit_i64(value).map(|part| self.alone(part))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<u64, E> {
        Of::<true>.visit_f64(value).map(|part| self.alone(part))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<u64, E> {
        Of::<true>.visit_str(value).map(|part| self.alone(part))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<u64, A::Error> {
        let (mut hasher, mut count) = (DefaultHasher::new(), 0_usize);
        while let Some(value) = values.next_element::<Part<true>>()? {
            value.digest.hash(&mut hasher);
            if count < MOST_PARTS {
                self.keep(format!("[{count:02}]"), value);
            }
            count += 1;
        }
        Ok(hash(6, (hasher.finish(), count)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<u64, A::Error> {
        let mut sum = 0_u64;
        while let Some(name) = fields.next_key::<String>()? {
            if self.without.contains(name.as_str()) {
                fields.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: Part<true> = fields.next_value()?;
            sum = sum.wrapping_add(hash(7, (name.as_str(), value.digest)));
            self.keep(short(&name), value);
        }
        Ok(hash(8, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_has_the_same_record_however_it_is_written() {
        let same = |a: &str, b: &str| assert_eq!(record(a, &[]), record(b, &[]), "{a} {b}");
        same(r#"{"a":1,"b":[2,{"c":null,"d":"x"}]}"#, r#"{ "b": [2, {"d": "\u0078", "c": null}], "a": 1 }"#);
        let (mut there, mut back) = (String::new(), String::new());
        for n in 0..100 {
            there += &format!(r#""k{n}":{n},"#);
            back = format!(r#""k{n}":{n},"#) + &back;
        }
        let object = |fields: &str| format!("{{{}}}", fields.trim_end_matches(','));
        same(&object(&there), &object(&back));
        assert!(record(&object(&there), &[]).len() < 4096, "bounded");
        assert_eq!(record(r#"{"a":1,"status":2}"#, &["status"]), record(r#"{"status":3,"a":1}"#, &["status"]));
        assert_ne!(record(r#"{"a":{"status":2}}"#, &["status"]), record(r#"{"a":{"status":3}}"#, &["status"]));
    }

    #[test]
    fn other_values_have_other_records_and_the_difference_is_named() {
        let values = [
            "0",
            "1",
            "-1",
            "0.5",
            "1.0",
            "true",
            "false",
            "null",
            r#""1""#,
            r#""""#,
            "[]",
            "[1]",
            "[[1]]",
            "[1,2]",
            "[2,1]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"b":1}"#,
            r#"{"a":[]}"#,
            r#"{"a":{}}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{"b":2}}"#,
        ];
        let records: BTreeSet<String> = values.iter().map(|value| record(value, &[])).collect();
        assert_eq!(records.len(), values.len());
        let said = |a: &str, b: &str| difference(&record(a, &[]), &record(b, &[]));
        assert_eq!(said(r#"{"a":1,"b":5}"#, r#"{"a":1,"b":6}"#), "b is 6 instead of 5");
        assert_eq!(said(r#"{"a":1}"#, r#"{"a":1,"b":"x"}"#), "b is x instead of not there");
        assert_eq!(said(r#"{"t":[1,2]}"#, r#"{"t":[1,3]}"#), "t is another array of 2");
        assert_eq!(said("[1,2]", "[1,3]"), "[01] is 3 instead of 2");
        assert_eq!(said("7", "8"), "8 instead of 7");
        let long = |last: u8| format!("[{}{last}]", "0,".repeat(100));
        assert_eq!(said(&long(1), &long(2)), "it differs beyond its first fields");
    }

    #[test]
    fn what_is_too_deep_is_compared_as_it_is_written() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert_eq!(record(&deep(500), &[]), record(&deep(500), &[]));
        assert_ne!(record(&deep(500), &[]), record(&deep(501), &[]));
    }
}
