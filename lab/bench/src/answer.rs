//! Decodes answers. The decoding time is part of a request's latency.

use crate::{canonical, failure::Failure, protocol::Named};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap};

/// More than Solana's largest account, 10 MiB.
const ACCOUNT_BUFFER_BYTES: usize = (10 << 20) + 1;

const STARKNET_NODE_SPECIFIC_FIELDS: [&str; 2] = ["continuation_token", "status"];

/// Prefix of the comparable text of a skipped slot. No JSON text begins with it.
pub const SKIPPED_PREFIX: &str = "skipped ";

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Encoding {
    Base64,
    Zstd,
    /// `base58`: nodes refuse more than 128 bytes.
    Base58,
    /// `jsonParsed`: base64 if the node has no parser for the program.
    JsonParsed,
}

impl Named for Encoding {
    const ALL: &'static [(&'static str, Self)] = &[
        ("base64", Self::Base64),
        ("base64+zstd", Self::Zstd),
        ("base58", Self::Base58),
        ("jsonParsed", Self::JsonParsed),
    ];
}

/// What an answer must have, and how it is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    Account(Encoding),
    /// Any result. The node's JSON is compared.
    Json,
    /// Any result, not compared.
    Unverified,
    /// Nodes must agree except in these fields. The decoder returns a [`canonical::comparable_text`].
    SameExcept(&'static [&'static str]),
}

impl Expected {
    pub fn for_method(method: &str, must_agree: bool) -> Self {
        if !must_agree {
            Self::Unverified
        } else if method.starts_with("starknet_") {
            Self::SameExcept(&STARKNET_NODE_SPECIFIC_FIELDS)
        } else {
            Self::SameExcept(&[])
        }
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
struct Answer<R> {
    #[serde(default)]
    id: Value,
    /// `Some(None)` is a null result.
    #[serde(default, deserialize_with = "present")]
    result: Option<Option<R>>,
    error: Option<RpcError>,
}

/// Distinguishes null from a missing field.
fn present<'de, D: Deserializer<'de>, R: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<R>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct AccountResult<'a> {
    context: ResultContext,
    #[serde(borrow)]
    value: Option<Account<'a>>,
}

#[derive(Deserialize)]
struct ResultContext {
    slot: u64,
}

#[derive(Deserialize)]
struct Account<'a> {
    #[serde(borrow)]
    data: AccountData<'a>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AccountData<'a> {
    Encoded(#[serde(borrow)] Cow<'a, str>, #[serde(borrow)] Cow<'a, str>),
    Parsed(BTreeMap<String, IgnoredAny>),
}

pub struct Decoder {
    zstd: zstd::bulk::Decompressor<'static>,
    compressed: Vec<u8>,
    bytes: Vec<u8>,
    /// A result and its ignored fields, until [`Decoder::bytes`] makes the comparable text.
    raw_result: Option<(String, &'static [&'static str])>,
    /// The slot of an account's answer.
    slot: Option<u64>,
    /// False for an unverified answer, and for a parsed account, which has no bytes to compare.
    is_comparable: bool,
}

impl Decoder {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            zstd: zstd::bulk::Decompressor::new()?,
            compressed: Vec::new(),
            bytes: Vec::new(),
            raw_result: None,
            slot: None,
            is_comparable: false,
        })
    }

    /// The bytes to compare. Makes the comparable text here, outside the decoding time.
    pub fn bytes(&mut self) -> &[u8] {
        if let Some((result, ignored_fields)) = self.raw_result.take() {
            self.bytes = canonical::comparable_text(&result, ignored_fields).into_bytes();
        }
        &self.bytes
    }

    pub fn comparable_answer(&mut self) -> Option<(Option<u64>, &[u8])> {
        self.is_comparable.then(|| (self.slot, self.bytes()))
    }

    pub fn decode(&mut self, body: &[u8], id: u64, expected: Expected) -> Result<(), Failure> {
        self.bytes.clear();
        self.raw_result = None;
        self.slot = None;
        self.is_comparable = true;
        match expected {
            Expected::Unverified => {
                // A `Value` would need several times the memory of `body`.
                let IgnoredAny = parse_result(body, id)?;
                self.is_comparable = false;
            }
            Expected::Json => {
                let text: &RawValue = parse_result(body, id)?;
                self.bytes.extend_from_slice(text.get().as_bytes());
            }
            Expected::SameExcept(ignored_fields) => match parse_result::<&RawValue>(body, id) {
                // A skipped slot is an answer, on which nodes must agree.
                Err(Failure::Skipped(code)) => {
                    self.bytes = format!("{SKIPPED_PREFIX}{code}").into_bytes();
                }
                result => self.raw_result = Some((result?.get().to_owned(), ignored_fields)),
            },
            Expected::Account(requested) => {
                let result: AccountResult<'_> = parse_result(body, id)?;
                let account = result.value.ok_or(Failure::Missing)?;
                self.slot = Some(result.context.slot);
                self.decode_account(account.data, requested)
                    .ok_or(Failure::Malformed)?;
            }
        }
        Ok(())
    }

    /// `None` if malformed, or not in the requested encoding.
    fn decode_account(&mut self, data: AccountData<'_>, requested: Encoding) -> Option<()> {
        let (text, encoding) = match data {
            AccountData::Encoded(text, name) => (text, Encoding::named(&name)?),
            AccountData::Parsed(fields) => {
                let is_requested = requested == Encoding::JsonParsed && !fields.is_empty();
                self.is_comparable = !is_requested;
                return is_requested.then_some(());
            }
        };
        // An unrequested encoding would be timed as the requested one.
        if encoding != requested
            && (requested, encoding) != (Encoding::JsonParsed, Encoding::Base64)
        {
            return None;
        }
        match encoding {
            Encoding::Base64 => STANDARD.decode_vec(&*text, &mut self.bytes).ok(),
            Encoding::Zstd => {
                self.compressed.clear();
                STANDARD.decode_vec(&*text, &mut self.compressed).ok()?;
                // Nodes do not send the length of the data.
                self.bytes.reserve(ACCOUNT_BUFFER_BYTES);
                self.zstd
                    .decompress_to_buffer(&self.compressed, &mut self.bytes)
                    .ok()
                    .map(drop)
            }
            Encoding::Base58 => {
                self.bytes = bs58::decode(&*text).into_vec().ok()?;
                Some(())
            }
            Encoding::JsonParsed => None,
        }
    }
}

pub fn parse_result<'a, R: Deserialize<'a>>(body: &'a [u8], id: u64) -> Result<R, Failure> {
    let answer: Answer<R> = serde_json::from_slice(body).map_err(|_| Failure::Malformed)?;
    match (answer.error, answer.result) {
        // A rate limiter may answer before it reads the request's id.
        (Some(error), _) if is_rate_limit(&error) => Err(Failure::RateLimited(None)),
        // A node does not know the id of a request that it cannot read.
        (Some(error), _) if answer.id.is_null() => Err(Failure::rpc(error.code, &error.message)),
        _ if answer.id.as_u64() != Some(id) => Err(Failure::WrongId),
        (Some(error), _) if is_skipped_slot(&error) => Err(Failure::Skipped(error.code)),
        (Some(error), _) => Err(Failure::rpc(error.code, &error.message)),
        (None, Some(Some(result))) => Ok(result),
        (None, Some(None)) => Err(Failure::Missing),
        (None, None) => Err(Failure::Malformed),
    }
}

/// Solana has two codes for a slot without a block. One provider uses one of them for a rate
/// limit, so the message is checked too.
fn is_skipped_slot(error: &RpcError) -> bool {
    matches!(error.code, -32007 | -32009) && error.message.to_ascii_lowercase().contains("skipped")
}

/// Providers use 429 or -32429. Some use -32005, which is an unhealthy node for Solana.
fn is_rate_limit(error: &RpcError) -> bool {
    let message = error.message.to_ascii_lowercase();
    match error.code {
        429 | -32429 => true,
        -32005 => message.contains("limit") || message.contains("too many"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slot, and whether there are bytes to compare; and these bytes.
    type Decoded = (Result<(Option<u64>, bool), Failure>, Vec<u8>);

    fn decode(body: &str) -> Decoded {
        decode_as(Encoding::Base64, body)
    }

    fn decode_as(requested: Encoding, body: &str) -> Decoded {
        let mut decoder = Decoder::new().unwrap();
        let decoded = decoder.decode(body.as_bytes(), 7, Expected::Account(requested));
        let decoded = decoded.map(|()| (decoder.slot, decoder.is_comparable));
        (decoded, decoder.bytes)
    }

    fn account(data: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","result":{{"context":{{"slot":5}},"value":{{"data":{data},"space":3}}}},"id":7}}"#
        )
    }

    #[test]
    fn every_encoding_decodes_to_the_same_bytes() {
        let bytes = b"one two three, one two three".repeat(40);
        // A stream's frame does not say how long it is, as those of nodes do not.
        let frame = zstd::stream::encode_all(&bytes[..], 0).unwrap();
        let texts = [
            (STANDARD.encode(&bytes), "base64"),
            (STANDARD.encode(frame), "base64+zstd"),
            (bs58::encode(&bytes).into_string(), "base58"),
        ];
        for (text, name) in texts {
            let requested = Encoding::named(name).unwrap();
            let (decoded, out) = decode_as(requested, &account(&format!(r#"["{text}","{name}"]"#)));
            assert_eq!(
                (decoded, out == bytes),
                (Ok((Some(5), true)), true),
                "{name}"
            );
        }
        let parsed = decode_as(
            Encoding::JsonParsed,
            &account(r#"{"parsed":{"a":1},"program":"stake"}"#),
        )
        .0;
        assert_eq!(parsed, Ok((Some(5), false)));
        let unknown = decode_as(Encoding::JsonParsed, &account(r#"["AAAA","base64"]"#)).0;
        assert_eq!(unknown, Ok((Some(5), true)));
    }

    #[test]
    fn an_unrequested_content_encoding_is_refused() {
        for data in [
            r#"["AAAA","base64"]"#,
            r#"{"parsed":{"a":1}}"#,
            "\"AAAA\"",
            r#"["AAAA"]"#,
            "null",
            "7",
        ] {
            assert_eq!(
                decode_as(Encoding::Zstd, &account(data)).0,
                Err(Failure::Malformed),
                "{data}"
            );
        }
        assert_eq!(
            decode_as(Encoding::JsonParsed, &account("7")).0,
            Err(Failure::Malformed)
        );
    }

    #[test]
    fn equivalent_results_have_equal_canonical_bytes() {
        let bytes_of = |method: &str, result: &str| {
            let mut decoder = Decoder::new().unwrap();
            let body = format!(r#"{{"id":7,"result":{result}}}"#);
            let decoded = decoder.decode(body.as_bytes(), 7, Expected::for_method(method, true));
            decoded.map(|_| {
                decoder
                    .bytes()
                    .split(|byte| *byte == b'\n')
                    .next()
                    .unwrap()
                    .to_vec()
            })
        };
        let bytes = |result: &str| bytes_of("getBlock", result);
        assert_eq!(
            bytes(r#"{"a":1,"b":[2]}"#),
            bytes(r#"{ "b": [ 2 ], "a": 1 }"#)
        );
        assert_ne!(bytes(r#"{"a":1}"#), bytes(r#"{"a":2}"#));
        let starknet = |own: &str| {
            bytes_of(
                "starknet_getEvents",
                &format!(
                    r#"{{"a":{{"status":"{own}"}},"status":"{own}","continuation_token":"{own}"}}"#
                ),
            )
        };
        let accepted = [
            r#"{"a":[1],"status":"ACCEPTED_ON_L2"}"#,
            r#"{"status":"ACCEPTED_ON_L1","a":[1]}"#,
        ];
        let [one, other] = accepted.map(|result| bytes_of("starknet_getBlockWithTxs", result));
        assert_eq!(one, other);
        // A receipt of EVM says so whether its transaction failed.
        let [failed, done] = [r#"{"status":"0x0"}"#, r#"{"status":"0x1"}"#]
            .map(|result| bytes_of("eth_getTransactionReceipt", result));
        assert_ne!(failed, done);
        assert_ne!(starknet("x"), starknet("y"), "only of the result itself");
        assert_eq!(
            bytes("null"),
            Err(Failure::Missing),
            "null is a result: what was asked for is not there"
        );
        assert_eq!(
            bytes(r#"null,"error":{"code":-32000}"#),
            Err(Failure::rpc(-32000, ""))
        );
        assert_eq!(bytes(r#"7,"error":null"#), bytes("7"));
    }

    #[test]
    fn a_skipped_slot_is_a_valid_result_when_comparing_nodes() {
        let skipped = |same: bool, message: &str| {
            let mut decoder = Decoder::new().unwrap();
            let body = format!(r#"{{"id":7,"error":{{"code":-32007,"message":"{message}"}}}}"#);
            let decoded =
                decoder.decode(body.as_bytes(), 7, Expected::for_method("getBlock", same));
            decoded.map(|_| decoder.bytes().to_vec())
        };
        let error_text = "Slot 5 was skipped, or missing due to ledger jump to recent snapshot";
        assert_eq!(skipped(true, error_text), Ok(b"skipped -32007".to_vec()));
        assert_eq!(skipped(false, error_text), Err(Failure::Skipped(-32007)));
        assert_eq!(
            skipped(true, "50/second request"),
            Err(Failure::rpc(-32007, "50/second request"))
        );
    }

    #[test]
    fn an_invalid_response_is_an_error_of_its_kind() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let error = |code: i64, error_text: &str| {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"{error_text}"}}}}"#
            );
            decode(&body).0.unwrap_err()
        };
        assert_eq!(error(-32602, "no"), Failure::rpc(-32602, "no"));
        assert_eq!(
            error(-32005, "Node is behind by 42 slots"),
            Failure::rpc(-32005, "Node is behind by 42 slots")
        );
        assert_eq!(
            error(-32005, "daily request limit exceeded"),
            Failure::RateLimited(None)
        );
        assert_eq!(error(429, "slow down"), Failure::RateLimited(None));
        for id in [r#","id":null"#, ""] {
            let body = format!(r#"{{"error":{{"code":-32700,"message":"Parse error"}}{id}}}"#);
            assert_eq!(
                decode(&body).0,
                Err(Failure::rpc(-32700, "Parse error")),
                "{body}"
            );
        }
        let good = account(r#"["AAAA","base64"]"#);
        assert_eq!(
            decode(&good.replace("\"id\":7", "\"id\":8")).0,
            Err(Failure::WrongId)
        );
        assert_eq!(
            decode(&good.replace("\"id\":7", "\"di\":7")).0,
            Err(Failure::WrongId)
        );
        assert_eq!(
            decode(&account("null").replace(r#"{"data":null,"space":3}"#, "null")).0,
            Err(Failure::Missing)
        );
        let malformed = [
            account(r#"["AA#A","base64"]"#),
            account(r#"["AAAA","base64+zstd"]"#),
            account(r#"["AAAA","x"]"#),
            deep,
        ];
        for body in malformed.iter().map(String::as_str).chain([
            "",
            "{}",
            "null",
            "{\"id\":7}",
            &good[..90],
        ]) {
            let refused = decode(body).0.unwrap_err();
            assert!(
                matches!(refused, Failure::Malformed | Failure::WrongId),
                "{:.60}: {refused}",
                body
            );
        }
    }
}
