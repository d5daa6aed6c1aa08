//! Makes a comparable text of JSON, without holding the parsed value in memory.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

pub const COMPARABLE_TEXT_PREFIX: &str = "json ";
/// Limits of a comparable text. The top level is always listed.
const MAX_LISTED_PARTS: usize = 150;
const MAX_LISTED_FIELDS: usize = 40;
const MAX_LISTED_ELEMENTS: usize = 4;
const MAX_LISTED_DEPTH: usize = 5;
/// Limit of a name or value.
const MAX_TEXT_CHARS: usize = 60;

/// The first line is a digest that is equal for equal values, in any order of fields. The other
/// lines describe the first parts of the value. Ignores `ignored_fields` of the outermost object.
pub fn comparable_text(json: &str, ignored_fields: &[&str]) -> String {
    let mut parts = BTreeMap::new();
    let digest = DigestVisitor {
        ignored_fields,
        parts: &mut parts,
        path: Some(String::new()),
        depth: 0,
    }
    .deserialize(&mut serde_json::Deserializer::from_str(json));
    // JSON that is too deep for the parser, or has too large a number, is compared as text.
    let digest = digest.unwrap_or_else(|_| hash(9, json));
    let mut out = format!("{COMPARABLE_TEXT_PREFIX}{digest:x}\n");
    for (path, (digest, description)) in parts {
        out += &format!("{path}\t{digest:x}\t{description}\n");
    }
    out
}

pub fn digest_line(comparable_text: &str) -> &str {
    comparable_text.lines().next().unwrap_or_default()
}

/// Describes how the first part, by path, differs, or the deepest listed part inside it.
pub fn difference(reference: &str, other: &str) -> String {
    // Digest and description by path.
    let parts = |comparable_text| -> BTreeMap<&str, (&str, &str)> {
        str::lines(comparable_text)
            .skip(1)
            .filter_map(|line| {
                let (path, rest) = line.split_once('\t')?;
                Some((path, rest.split_once('\t')?))
            })
            .collect()
    };
    let (a, b) = (parts(reference), parts(other));
    let paths = BTreeSet::from_iter(a.keys().chain(b.keys()).copied());
    let mut differing = paths
        .into_iter()
        .filter(|path| a.get(path).map(|part| part.0) != b.get(path).map(|part| part.0));
    let Some(mut path) = differing.next() else {
        return "the answer differs".to_owned();
    };
    let descriptions = |path| [&a, &b].map(|parts| parts.get(path).map(|part| part.1));
    for deeper in differing {
        let are_both = |kind| {
            descriptions(path)
                .iter()
                .all(|text| text.is_some_and(|text| text.starts_with(kind)))
        };
        let is_inside = deeper
            .strip_prefix(path)
            .is_some_and(|rest| path.is_empty() || rest.starts_with(['.', '[']));
        // `.logsBloom` is between `.logs` and `.logs[0]`, and not inside `.logs`.
        if is_inside && (are_both("an object (") || are_both("an array (")) {
            path = deeper;
        }
    }
    let [expected, actual] = descriptions(path).map(|text| text.unwrap_or("not there"));
    let part_name = match path {
        "" => "the answer",
        // A field whose name is empty.
        "." => "\"\"",
        path => path.strip_prefix('.').unwrap_or(path),
    };
    if actual == expected {
        format!("{part_name} is {actual} in both, and differs in its type or in what is not shown")
    } else {
        format!("{part_name} is {actual} instead of {expected}")
    }
}

fn hash(domain: u8, value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (domain, value).hash(&mut hasher);
    hasher.finish()
}

fn truncated(text: &str) -> String {
    let start: String = text.chars().take(MAX_TEXT_CHARS).collect();
    let dots = if start.len() < text.len() { "..." } else { "" };
    // Tabs and newlines separate the parts of a comparable text.
    faultline_text::clean(&start).replace(['\t', '\n', '\r'], " ") + dots
}

/// Computes the digest of a value while it is parsed.
struct DigestVisitor<'a> {
    ignored_fields: &'a [&'a str],
    /// By path.
    parts: &'a mut BTreeMap<String, (u64, String)>,
    /// `None` if the comparable text does not list this value.
    path: Option<String>,
    depth: usize,
}

impl DigestVisitor<'_> {
    /// Returns the digest. `domain` is the JSON type.
    fn add_part<E>(
        self,
        domain: u8,
        value: impl Hash,
        description: impl FnOnce() -> String,
    ) -> Result<u64, E> {
        let digest = hash(domain, value);
        if let Some(path) = self.path
            && (self.depth <= 1 || self.parts.len() < MAX_LISTED_PARTS)
        {
            self.parts.insert(path, (digest, description()));
        }
        Ok(digest)
    }

    /// The visitor of an element or field.
    fn part(&mut self, is_listed: bool, name: impl FnOnce() -> String) -> DigestVisitor<'_> {
        let is_listed = is_listed && self.depth < MAX_LISTED_DEPTH;
        DigestVisitor {
            ignored_fields: self.ignored_fields,
            path: self
                .path
                .as_ref()
                .filter(|_| is_listed)
                .map(|path| path.clone() + &name()),
            parts: self.parts,
            depth: self.depth + 1,
        }
    }
}

impl<'de> DeserializeSeed<'de> for DigestVisitor<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DigestVisitor<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<u64, E> {
        self.add_part(0, (), || "null".to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<u64, E> {
        self.add_part(1, value, || value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        self.add_part(2, value, || value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        self.add_part(3, value, || value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<u64, E> {
        self.add_part(4, value.to_bits(), || value.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<u64, E> {
        self.add_part(5, value, || truncated(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<u64, A::Error> {
        let (mut hasher, mut count) = (DefaultHasher::new(), 0_usize);
        while let Some(digest) = values
            .next_element_seed(self.part(count < MAX_LISTED_ELEMENTS, || format!("[{count}]")))?
        {
            digest.hash(&mut hasher);
            count += 1;
        }
        self.add_part(6, (hasher.finish(), count), || {
            format!("an array (elements: {count})")
        })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<u64, A::Error> {
        let (mut sum, mut count) = (0_u64, 0_usize);
        while let Some(name) = fields.next_key::<String>()? {
            if self.depth == 0 && self.ignored_fields.contains(&name.as_str()) {
                fields.next_value::<IgnoredAny>()?;
                continue;
            }
            let part = self.part(count < MAX_LISTED_FIELDS, || {
                format!(".{}", truncated(&name))
            });
            let digest = fields.next_value_seed(part)?;
            // A sum does not depend on the order of fields.
            sum = sum.wrapping_add(hash(7, (name, digest)));
            count += 1;
        }
        self.add_part(8, (sum, count), || format!("an object (fields: {count})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_has_the_same_digest_however_it_is_written() {
        let of = |json: &str, ignored_fields: &[&str]| {
            digest_line(&comparable_text(json, ignored_fields)).to_owned()
        };
        let same = |a: &str, b: &str| assert_eq!(of(a, &[]), of(b, &[]), "{a} {b}");
        same(
            r#"{"a":1,"b":[2,{"c":null,"d":"x"}]}"#,
            r#"{ "b": [2, {"d": "\u0078", "c": null}], "a": 1 }"#,
        );
        let (mut there, mut back) = (String::new(), String::new());
        for n in 0..100 {
            there += &format!(r#""k{n}":{n},"#);
            back = format!(r#""k{n}":{n},"#) + &back;
        }
        let object = |fields: &str| format!("{{{}}}", fields.trim_end_matches(','));
        same(&object(&there), &object(&back));
        assert!(
            comparable_text(&format!("[{}]", vec![object(&there); 50].join(",")), &[]).len()
                < 16_384,
            "bounded"
        );
        assert_eq!(
            of(r#"{"a":1,"status":2}"#, &["status"]),
            of(r#"{"status":3,"a":1}"#, &["status"])
        );
        assert_ne!(
            of(r#"{"a":{"status":2}}"#, &["status"]),
            of(r#"{"a":{"status":3}}"#, &["status"])
        );
    }

    #[test]
    fn different_values_have_different_digests() {
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
        let texts: BTreeSet<String> = values
            .iter()
            .map(|value| digest_line(&comparable_text(value, &[])).to_owned())
            .collect();
        assert_eq!(texts.len(), values.len());
    }

    #[test]
    fn the_first_difference_of_two_answers_is_named() {
        let message =
            |a: &str, b: &str| difference(&comparable_text(a, &[]), &comparable_text(b, &[]));
        assert_eq!(
            message(r#"{"a":1,"b":5}"#, r#"{"a":1,"b":6}"#),
            "b is 6 instead of 5"
        );
        assert_eq!(
            message(r#"{"a":1}"#, r#"{"a":1,"b":"x"}"#),
            "b is x instead of not there"
        );
        assert_eq!(
            message(r#"{"t":[1,2]}"#, r#"{"t":[1,3]}"#),
            "t[1] is 3 instead of 2"
        );
        assert_eq!(message("[1,2]", "[1,3]"), "[1] is 3 instead of 2");
        assert_eq!(
            message(
                r#"{"logs":[2],"logsBloom":"0x2"}"#,
                r#"{"logs":[3],"logsBloom":"0x3"}"#
            ),
            "logs[0] is 3 instead of 2"
        );
        assert_eq!(message("7", "8"), "the answer is 8 instead of 7");
        assert_eq!(message(r#"{".":7}"#, r#"{".":8}"#), ". is 8 instead of 7");
        assert_eq!(message(r#"{"":7}"#, r#"{"":8}"#), r#""" is 8 instead of 7"#);
        let type_differs = "a is 7 in both, and differs in its type or in what is not shown";
        assert_eq!(message(r#"{"a":7}"#, r#"{"a":"7"}"#), type_differs);
        let meta = |logs: &str| {
            format!(r#"{{"blockTime":5,"transactions":[{{"meta":{{"logMessages":{logs}}}}},7]}}"#)
        };
        let fields = "the answer is an object (fields: 1) instead of an array (elements: 0)";
        assert_eq!(message("[]", r#"{"a":7}"#), fields);
        let logs = "transactions[0].meta.logMessages is null instead of an array (elements: 1)";
        assert_eq!(message(&meta(r#"["x"]"#), &meta("null")), logs);
        let long = |last: u8| format!("[{}{last}]", "0,".repeat(100));
        assert_eq!(
            message(&long(1), &long(2)),
            "the answer is an array (elements: 101) in both, and differs in its type or in what is not shown"
        );
    }

    #[test]
    fn too_deeply_nested_json_is_compared_as_text() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert_eq!(
            comparable_text(&deep(500), &[]),
            comparable_text(&deep(500), &[])
        );
        assert_ne!(
            comparable_text(&deep(500), &[]),
            comparable_text(&deep(501), &[])
        );
    }
}
