//! JSON-RPC 2.0, as both servers of the validator speak it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Excerpt};

const METHOD_NOT_FOUND: i64 = -32601;

/// One response object.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct Response<T = Value> {
    /// `None` when the request could not be read.
    #[serde(default)]
    pub(crate) id: Option<Value>,
    // `"result": null` is an answer; a missing result is not.
    #[serde(default = "missing", deserialize_with = "present")]
    result: Option<T>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ErrorObject {
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: Option<Value>,
}

fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn missing<T>() -> Option<T> {
    None
}

impl<T> Response<T> {
    /// Whether this answers the request with this id.
    pub(crate) fn answers(&self, id: u64) -> bool {
        self.id.as_ref().and_then(Value::as_u64) == Some(id)
    }

    /// The result, or the error object.
    pub(crate) fn outcome(self) -> Result<Result<T, ErrorObject>, Error> {
        match (self.error, self.result) {
            (Some(error), _) => Ok(Err(error)),
            (None, Some(result)) => Ok(Ok(result)),
            (None, None) => Err(Error::Garbage {
                why: "neither result nor error".into(),
                text: Excerpt::of(b""),
            }),
        }
    }
}

impl ErrorObject {
    pub(crate) fn into_error(self, method: &'static str) -> Error {
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

/// Reads a body; anything that is not the expected JSON is garbage.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Garbage {
        why: error.to_string(),
        text: Excerpt::of(body),
    })
}

/// Reads a result as the type its method promises.
pub(crate) fn shape<T: DeserializeOwned>(method: &'static str, result: Value) -> Result<T, Error> {
    T::deserialize(&result).map_err(|error| Error::Shape {
        method,
        why: error.to_string(),
        text: Excerpt::of(result.to_string().as_bytes()),
    })
}
