//! JSON-RPC 2.0 for the admin socket and the RPC port. Answers may be hostile: values are borrowed
//! from the body or small, and lists are bounded.

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{collections::HashMap, fmt, hash::Hash, marker::PhantomData};

use crate::{Error, Excerpt};

const METHOD_NOT_FOUND: i64 = -32601;
/// serde_json copies strings with escapes and tracks each nesting level. Bodies up to this size
/// need no check.
const MAX_TEXT_BYTES: usize = 64 << 10;
const MAX_DEPTH: usize = 128;
/// Maximum entries of a list; mainnet-beta has 5,000 nodes.
pub const MAX_ENTRIES: usize = 1 << 16;
const MAX_REASON_CHARS: usize = 160;

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Response<'a, T = &'a RawValue> {
    #[serde(default, deserialize_with = "number")]
    pub id: Option<u64>,
    // `"result": null` is valid; a missing result is not.
    #[serde(default = "missing", deserialize_with = "present")]
    result: Option<T>,
    #[serde(default, borrow)]
    error: Option<ErrorObject<'a>>,
}

#[derive(Debug, Deserialize)]
pub struct ErrorObject<'a> {
    pub code: i64,
    #[serde(default)]
    message: String,
    #[serde(default, borrow)]
    pub data: Option<&'a RawValue>,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(|id| id.get().parse().ok())
}

fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn missing<T>() -> Option<T> {
    None
}

impl<'a, T> Response<'a, T> {
    pub fn outcome(self) -> Result<Result<T, ErrorObject<'a>>, Error> {
        match (self.error, self.result) {
            (Some(error), _) => Ok(Err(error)),
            (None, Some(result)) => Ok(Ok(result)),
            (None, None) => Err(Error::NotJsonRpc {
                why: "neither result nor error".into(),
                text: Excerpt::of(b""),
            }),
        }
    }
}

impl ErrorObject<'_> {
    pub fn into_error(self, method: &'static str) -> Error {
        if self.code == METHOD_NOT_FOUND {
            Error::NotOffered { method }
        } else {
            Error::Rpc {
                code: self.code,
                message: Excerpt::of(self.message.as_bytes()),
            }
        }
    }
}

pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    let read = check(body)
        .map_err(serde_json::Error::custom)
        .and_then(|()| serde_json::from_slice(body));
    read.map_err(|error| Error::NotJsonRpc {
        why: reason(&error),
        text: Excerpt::of(body),
    })
}

pub fn parse_result<'a, T: Deserialize<'a>>(
    method: &'static str,
    result: &'a RawValue,
) -> Result<T, Error> {
    serde_json::from_str(result.get()).map_err(|error| Error::UnexpectedResult {
        method,
        why: reason(&error),
        text: Excerpt::of(result.get().as_bytes()),
    })
}

/// The message without control characters and shortened, because it may quote the input.
fn reason(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let shown = words.chars().filter(|c| !c.is_control());
    shown.take(MAX_REASON_CHARS).collect()
}

/// Refuses bodies from which serde_json would copy large strings.
fn check(body: &[u8]) -> Result<(), &'static str> {
    if body.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let (mut depth, mut rest) = (0_usize, body);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_text(after).ok_or("a text is too long")?,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err("lists are nested too deeply");
        }
    }
    Ok(())
}

/// The text after the closing quote. serde_json reports an unterminated string.
fn after_text(text: &[u8]) -> Option<&[u8]> {
    let mut start = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(start..)?) {
        let at = start + found;
        if at > MAX_TEXT_BYTES {
            return None;
        }
        match text.get(at) {
            Some(b'"') => return text.get(at + 1..),
            _ => start = at + 2,
        }
    }
    (text.len() <= MAX_TEXT_BYTES).then_some(&[])
}

pub fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct List<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if list.len() >= MAX {
                    return Err(A::Error::invalid_length(MAX.saturating_add(1), &self));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<T, MAX>(PhantomData))
}

/// Reads one field of an entry: `None` if it is null or has the wrong type. So one bad field does
/// not discard the entry.
pub fn tolerant<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let field = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(field.get()).ok())
}

pub fn map<'de, K, V, D>(deserializer: D) -> Result<HashMap<K, V>, D::Error>
where
    K: Deserialize<'de> + Eq + Hash,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Map<K, V>(PhantomData<(K, V)>);

    impl<'de, K, V> Visitor<'de> for Map<K, V>
    where
        K: Deserialize<'de> + Eq + Hash,
        V: Deserialize<'de>,
    {
        type Value = HashMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object of at most {MAX_ENTRIES} entries")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = HashMap::new();
            while let Some((key, value)) = entries.next_entry()? {
                if map.len() >= MAX_ENTRIES {
                    return Err(A::Error::invalid_length(MAX_ENTRIES + 1, &self));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Map(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn only_overlong_texts_and_deep_nesting_are_refused() {
        let fill = " ".repeat(MAX_TEXT_BYTES);
        let read = |body: String| read::<Value>(body.as_bytes()).map_err(|error| error.to_string());
        let text = |bytes| format!("\"{}\"{fill}", "\\\"".repeat(bytes / 2));
        assert!(read(text(MAX_TEXT_BYTES)).is_ok());
        let long = read(text(MAX_TEXT_BYTES + 2)).unwrap_err();
        assert!(long.contains("too long"), "{long}");
        let nested = |depth| format!("{}{}{fill}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(100)).is_ok());
        let deep = read(nested(MAX_DEPTH + 1)).unwrap_err();
        assert!(deep.contains("too deeply"), "{deep}");
        assert!(read(format!("\"[[[{{\" {fill}")).is_ok(), "in a text");
    }

    #[test]
    fn a_parse_error_quotes_only_part_of_the_body() {
        let body = format!("\"{}\"", "x\u{1b}".repeat(10_000));
        let error = read::<u64>(body.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 500, "{error}");
    }

    #[test]
    fn a_json_list_is_limited_to_65536_entries() {
        #[derive(Debug, Deserialize)]
        struct Numbers(#[serde(deserialize_with = "list::<_, _, MAX_ENTRIES>")] Vec<u8>);
        let of = |entries: usize| format!("[{}0]", "0,".repeat(entries - 1));
        let read = |body: String| read::<Numbers>(body.as_bytes());
        assert_eq!(read(of(MAX_ENTRIES)).unwrap().0.len(), MAX_ENTRIES);
        let error = read(of(MAX_ENTRIES + 1)).unwrap_err().to_string();
        assert!(error.contains("at most 65536 entries"), "{error}");
    }

    proptest! {
        #[test]
        fn json_size_checks_do_not_change_what_parses(text in "[\\[\\]{}\"\\\\:,0a ]{0,40}") {
            let padded = format!("{text}{}", " ".repeat(MAX_TEXT_BYTES));
            prop_assert_eq!(read::<Value>(padded.as_bytes()).is_ok(), serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}
