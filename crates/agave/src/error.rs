//! What can be wrong with what the validator said.

use std::fmt;

use thiserror::Error;

/// The longest piece of offending text an error carries, in characters.
const EXCERPT_CHARS: usize = 80;

/// The beginning of an offending text: at most 80 characters, lossy UTF-8, control characters escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    /// The beginning of `text`.
    pub fn of(text: &[u8]) -> Self {
        // Four bytes are the most one character takes, so this prefix always holds enough of them.
        let head = text.get(..EXCERPT_CHARS * 4).unwrap_or(text);
        let shown = String::from_utf8_lossy(head)
            .chars()
            .flat_map(char::escape_debug)
            .take(EXCERPT_CHARS)
            .collect::<String>();
        Self(shown.into_boxed_str())
    }

    /// The text as shown.
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

/// Why a line of the line protocol, or a datapoint in a log line, cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Reason {
    /// Longer than the splitter's limit; skipped up to the next newline.
    #[error("line longer than the limit")]
    TooLong,
    /// Not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// Nothing before the first comma or space, or a name with a quote or an equals sign in it.
    #[error("no measurement name")]
    NoName,
    /// A tag without a key or without `=`.
    #[error("malformed tag")]
    BadTag,
    /// No field part. Agave writes such a line for a point whose optional fields are all unset.
    #[error("no fields")]
    NoFields,
    /// A field without a key or without `=`, or text after a closing quote.
    #[error("malformed field")]
    BadField,
    /// A string value without its closing quote.
    #[error("unbalanced quote")]
    UnbalancedQuote,
    /// A field's value is neither an integer, a float, a boolean nor a string, or does not fit 64 bits.
    #[error("unreadable value")]
    BadValue,
}

/// A line that cannot be used, with the beginning of its text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}: `{text}`")]
pub struct BadLine {
    /// What is wrong with it.
    pub reason: Reason,
    pub text: Excerpt,
}

impl BadLine {
    pub(crate) fn new(reason: Reason, text: impl AsRef<[u8]>) -> Self {
        Self {
            reason,
            text: Excerpt::of(text.as_ref()),
        }
    }
}

/// Everything this crate can find wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of the line protocol or of the log.
    #[error(transparent)]
    Line(#[from] BadLine),
    /// An answer is not JSON-RPC at all: an HTML page of a proxy, a cut body.
    #[error("not a JSON-RPC answer ({why}): `{text}`")]
    Garbage {
        /// The JSON reader's complaint, or what is missing.
        why: String,
        /// How the body begins.
        text: Excerpt,
    },
    /// The server refused: JSON-RPC error object.
    #[error("RPC error {code}: {message}")]
    Rpc {
        /// The JSON-RPC error code.
        code: i64,
        /// The server's words, shortened.
        message: Excerpt,
    },
    /// The method does not exist here (-32601): minimal RPC API, or a version without it.
    #[error("method {method} is not offered")]
    NotOffered {
        /// The method asked for.
        method: &'static str,
    },
    /// A batch came back without an answer to this call.
    #[error("no answer to {method}")]
    Unanswered {
        /// The method asked for.
        method: &'static str,
    },
    /// The answer is JSON-RPC, but its result is not what the method returns.
    #[error("unexpected result of {method} ({why}): `{text}`")]
    Shape {
        /// The method asked for.
        method: &'static str,
        /// The JSON reader's complaint.
        why: String,
        /// How the result begins.
        text: Excerpt,
    },
    /// `SOLANA_METRICS_CONFIG` is not what Agave accepts.
    #[error("metrics configuration: {0}")]
    MetricsConfig(#[from] crate::config::ConfigMistake),
    #[error("not a version: `{text}`")]
    Version { text: Excerpt },
}
