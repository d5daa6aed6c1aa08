//! JSON-RPC 2.0 for the admin socket and the RPC port. Answers may be hostile, so values are
//! small or borrowed from the body, and lists are bounded.

use serde::{
    Deserialize,
    de::{self, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{collections::HashMap, fmt, marker::PhantomData};

use crate::{Error, Excerpt, PublicKey};

const METHOD_NOT_FOUND: i64 = -32601;
/// Maximum length of a string, because serde_json copies strings with escapes.
const MAX_STRING_BYTES: usize = 64 << 10;
/// Maximum nesting, because serde_json stores each level, in a byte.
const MAX_DEPTH: usize = 128;
/// Only strings of smaller bodies are checked.
const MAX_BYTES_WITH_ANY_DEPTH: usize = 1 << 20;
/// Maximum entries of a list; mainnet-beta has 5,000 nodes.
pub const MAX_ENTRIES: usize = 1 << 16;
const MAX_REASON_CHARS: usize = 160;

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Response<'a, T = &'a RawValue> {
    #[serde(default, deserialize_with = "parse_id")]
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

fn parse_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
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
                text: Excerpt::of(""),
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
                message: Excerpt::of(self.message),
            }
        }
    }
}

pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    // `serde_json::from_slice` checks UTF-8 of each string alone, which takes longer, and does not
    // check ignored strings.
    let read = check_strings_and_depth(body)
        .and_then(|()| str::from_utf8(body).map_err(|_| "it is not UTF-8"))
        .map_err(serde_json::Error::custom)
        .and_then(serde_json::from_str);
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
        text: Excerpt::of(result.get()),
    })
}

/// The message without control characters and shortened, because it may quote the input.
fn reason(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let shown = words.chars().filter(|c| !c.is_control());
    shown.take(MAX_REASON_CHARS).collect()
}

fn check_strings_and_depth(body: &[u8]) -> Result<(), &'static str> {
    if body.len() <= MAX_BYTES_WITH_ANY_DEPTH && !may_have_long_strings(body) {
        return Ok(());
    }
    let (mut depth, mut rest) = (0_usize, body);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after).ok_or("a string is too long")?,
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

fn may_have_long_strings(body: &[u8]) -> bool {
    let mut previous = 0;
    memchr::memchr(b'\\', body).is_some()
        || memchr::memchr_iter(b'"', body)
            .any(|quote| quote - std::mem::replace(&mut previous, quote) > MAX_STRING_BYTES)
}

/// The text after the closing quote; `None` if the string is too long. It is empty for an
/// unterminated string, which serde_json reports.
fn after_string(text: &[u8]) -> Option<&[u8]> {
    let mut start = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(start..).unwrap_or_default()) {
        let offset = start + found;
        if offset > MAX_STRING_BYTES {
            return None;
        }
        match text.get(offset) {
            Some(b'"') => return text.get(offset + 1..),
            _ => start = offset + 2,
        }
    }
    (text.len() <= MAX_STRING_BYTES).then_some(&[])
}

pub fn bounded_list<'de, T: Deserialize<'de>, D: Deserializer<'de>, const MAX: usize>(
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

/// The type of a field for [`tolerant`]: which JSON numbers, strings or lists it accepts.
pub trait TolerantField<'de>: Sized {
    fn from_number(_: u64) -> Option<Self> {
        None
    }

    fn from_text(_: &str) -> Option<Self> {
        None
    }

    /// Must read all entries, even if the result is `None`.
    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

macro_rules! number_fields {
    ($($number:ty)*) => {$(
        impl TolerantField<'_> for $number {
            fn from_number(number: u64) -> Option<Self> {
                number.try_into().ok()
            }
        }
    )*};
}

number_fields!(u8 u16 u32 u64);

impl<'de, T: TolerantField<'de> + Copy + Default, const LENGTH: usize> TolerantField<'de>
    for [T; LENGTH]
{
    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let (mut entries, mut read, mut is_valid) = ([T::default(); LENGTH], 0, true);
        while let Some(Tolerant(entry)) = list.next_element()? {
            match (entries.get_mut(read), entry) {
                (Some(target), Some(entry)) => *target = entry,
                _ => is_valid = false,
            }
            read += 1;
        }
        Ok((is_valid && read == LENGTH).then_some(entries))
    }
}

/// Reads one field of an entry. Null or a wrong type gives `None`, so that a bad field does not
/// discard the entry. A number beyond `f64` or half a surrogate pair makes the whole body invalid.
pub fn tolerant<'de, T: TolerantField<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Tolerant::deserialize(deserializer).map(|Tolerant(value)| value)
}

pub struct Tolerant<T>(pub Option<T>);

impl<'de, T: TolerantField<'de>> Deserialize<'de> for Tolerant<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue<T>(PhantomData<T>);

        impl<'de, T: TolerantField<'de>> Visitor<'de> for AnyValue<T> {
            type Value = Tolerant<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Tolerant(T::from_number(number)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Tolerant(T::from_text(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                T::from_list(list).map(Tolerant)
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Tolerant(None))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Tolerant(None))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                // Proxies in JavaScript write `u64::MAX` as 18446744073709552000.
                let max = (number == u64::MAX as f64).then_some(u64::MAX);
                Ok(Tolerant(max.and_then(T::from_number)))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Tolerant(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Tolerant(None))
            }
        }

        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

pub fn bounded_map<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<HashMap<PublicKey, V>, D::Error> {
    struct Map<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Map<V> {
        type Value = HashMap<PublicKey, V>;

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
        let fill = " ".repeat(MAX_BYTES_WITH_ANY_DEPTH);
        let read = |body: String| read::<Value>(body.as_bytes()).map_err(|error| error.to_string());
        let text = |bytes| format!("\"{}\"{fill}", "\\\"".repeat(bytes / 2));
        assert!(read(text(MAX_STRING_BYTES)).is_ok());
        let long = read(text(MAX_STRING_BYTES + 2)).unwrap_err();
        assert!(long.contains("too long"), "{long}");
        let nested = |depth| format!("{}{}{fill}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(100)).is_ok());
        let deep = read(nested(MAX_DEPTH + 1)).unwrap_err();
        assert!(deep.contains("too deeply"), "{deep}");
        assert!(read(format!("\"[[[{{\" {fill}")).is_ok(), "in a text");
        let cut = read(format!("{fill}\"\\")).unwrap_err();
        assert!(cut.contains("EOF while parsing a string"), "{cut}");
    }

    #[test]
    fn in_a_small_body_only_long_texts_are_refused() {
        let read = |body: String| read::<IgnoredAny>(body.as_bytes());
        for letter in ["a", "\\\"", "\\n"] {
            let text = |bytes| format!("[\"{}\"]", letter.repeat(bytes / letter.len()));
            assert!(read(text(MAX_STRING_BYTES)).is_ok(), "{letter}");
            let error = read(text(MAX_STRING_BYTES + 2)).unwrap_err().to_string();
            assert!(error.contains("too long"), "{error}");
        }
        let deep = MAX_DEPTH + 1;
        assert!(read(format!("{}{}", "[".repeat(deep), "]".repeat(deep))).is_ok());
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
        struct Bytes(#[serde(deserialize_with = "bounded_list::<_, _, MAX_ENTRIES>")] Vec<u8>);
        let of = |entries: usize| format!("[{}0]", "0,".repeat(entries - 1));
        let read = |body: String| read::<Bytes>(body.as_bytes());
        assert_eq!(read(of(MAX_ENTRIES)).unwrap().0.len(), MAX_ENTRIES);
        let error = read(of(MAX_ENTRIES + 1)).unwrap_err().to_string();
        assert!(error.contains("at most 65536 entries"), "{error}");
    }

    #[test]
    fn a_tolerant_field_is_its_value_or_none_and_the_next_one_is_read() {
        fn compare<
            T: for<'a> TolerantField<'a> + for<'a> Deserialize<'a> + PartialEq + fmt::Debug,
        >(
            field: &str,
        ) {
            let (Tolerant(value), next): (Tolerant<T>, u8) =
                read(format!("[{field}, 7]").as_bytes()).unwrap();
            assert_eq!(
                (value, next),
                (serde_json::from_str(field).ok(), 7),
                "{field}"
            );
        }
        let key = format!("{:?}", "1".repeat(32));
        let texts = ["null", "true", r#""a""#, r#""\u0031""#, &key];
        let numbers = [
            "0",
            "-0",
            "255",
            "256",
            "-1",
            "7.0",
            "1e3",
            "18446744073709555000",
        ];
        let lists = ["[]", "[1]", "[1, 2]", "[1, -2]", "[1, 2, 3]"];
        let nested = ["[1, [2, {}]]", "{}", r#"{"a": {"b": [1]}}"#];
        for field in texts.iter().chain(&numbers).chain(&lists).chain(&nested) {
            compare::<u64>(field);
            compare::<u8>(field);
            compare::<[u64; 2]>(field);
            compare::<crate::PublicKey>(field);
        }
    }

    #[test]
    fn the_largest_count_is_read_also_after_a_round_trip_through_f64() {
        let read = |text: &str| read::<Tolerant<u64>>(text.as_bytes()).unwrap().0;
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        assert_eq!(read("18446744073709552000"), Some(u64::MAX));
        assert_eq!(read("1.8446744073709552e19"), Some(u64::MAX));
        assert_eq!(read("1844674407370955200"), Some(1_844_674_407_370_955_200));
    }

    #[test]
    fn a_number_beyond_f64_and_half_a_surrogate_pair_are_no_fields() {
        for field in ["1e400", r#""\ud800""#, r#"{"\ud800": 1}"#] {
            assert!(read::<(Tolerant<u64>, u8)>(format!("[{field}, 7]").as_bytes()).is_err());
        }
    }

    #[test]
    fn a_body_that_is_not_utf_8_is_refused() {
        let error = read::<Value>(b"{\"a\": \"\xff\"}").unwrap_err();
        assert!(error.to_string().contains("not UTF-8"), "{error}");
    }

    proptest! {
        #[test]
        fn json_size_checks_do_not_change_what_parses(text in "[\\[\\]{}\"\\\\:,0a ]{0,40}") {
            let padded = format!("{text}{}", " ".repeat(MAX_STRING_BYTES));
            prop_assert_eq!(read::<Value>(padded.as_bytes()).is_ok(), serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}
