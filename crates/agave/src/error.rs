use std::fmt;

use thiserror::Error;

const EXCERPT_CHARS: usize = 80;

/// The beginning of an offending text in lossy UTF-8, escaped as in a Rust literal and then cut to
/// 80 characters.
#[derive(PartialEq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    pub fn of(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        let head = text.get(..EXCERPT_CHARS * 4).unwrap_or(text);
        let shown = String::from_utf8_lossy(head)
            .chars()
            .flat_map(char::escape_debug)
            .take(EXCERPT_CHARS)
            .collect::<String>();
        Self(shown.into_boxed_str())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a line is not a datapoint.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum Reason {
    /// Skipped up to the next newline.
    #[error("line longer than the limit")]
    TooLong,
    #[error("not UTF-8")]
    NotUtf8,
    /// No text before the first comma or space, or a quote or an equals sign in the name.
    #[error("no measurement name")]
    NoName,
    #[error("malformed tag")]
    BadTag,
    /// Agave writes such a line for a point whose optional fields are all unset.
    #[error("no fields")]
    NoFields,
    /// A field without a key or without `=`, or text after a closing quote.
    #[error("malformed field")]
    BadField,
    #[error("unbalanced quote")]
    UnbalancedQuote,
    /// The value is not an `i64`, float, boolean or string.
    #[error("unreadable value")]
    BadValue,
}

#[derive(Debug, PartialEq, Error)]
#[error("{reason}: `{text}`")]
pub struct BadLine {
    pub reason: Reason,
    pub text: Excerpt,
}

impl BadLine {
    pub(crate) fn new(reason: Reason, text: impl AsRef<[u8]>) -> Self {
        Self {
            reason,
            text: Excerpt::of(text),
        }
    }
}

#[derive(Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Line(#[from] BadLine),
    /// Not JSON-RPC, for example a proxy's HTML page or a truncated body.
    #[error("not a JSON-RPC answer ({why}): `{text}`")]
    NotJsonRpc { why: String, text: Excerpt },
    #[error("RPC error {code}: {message}")]
    Rpc { code: i64, message: Excerpt },
    /// Error -32601: minimal RPC API, or a version without the method.
    #[error("method {method} is not offered")]
    NotOffered { method: &'static str },
    #[error("no answer to {method}")]
    MissingAnswer { method: &'static str },
    #[error("unexpected result of {method} ({why}): `{text}`")]
    UnexpectedResult {
        method: &'static str,
        why: String,
        text: Excerpt,
    },
    #[error("metrics configuration: {0}")]
    SolanaMetricsConfig(#[from] crate::config::SolanaMetricsConfigError),
    #[error("not a version: `{text}`")]
    Version { text: Excerpt },
}
