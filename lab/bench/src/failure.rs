//! Failures are counted by kind, never averaged into latencies.

use faultline_text::clean;
use hyper::StatusCode;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// Names the address and the failed step: name, TCP or TLS.
    Connect(String),
    NoHttp2,
    Timeout,
    Closed,
    /// With the node's requested delay.
    RateLimited(Option<Duration>),
    /// Any status except 200, 429 and 5xx.
    Http(u16),
    /// From 500 on, with the node's requested delay.
    Server(u16, Option<Duration>),
    /// Not sent in an open loop, because the node had requested a delay.
    NotSent,
    Rpc(i64, String),
    Skipped(i64),
    WrongId,
    /// Not the expected HTTP or JSON-RPC.
    Malformed,
    TooLarge,
    /// A content coding that was not requested, such as gzip.
    Encoded(String),
    Missing,
    /// The data read is not the data written, or the chain rejected a write.
    Wrong,
    /// The WebSocket's chain is not that of HTTP.
    OtherChain,
    /// Control frames without an answer.
    Flooded(String),
}

const MAX_MESSAGE_CHARS: usize = 200;

impl Failure {
    pub(crate) fn of_status(status: StatusCode, retry_after: Option<Duration>) -> Failure {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Failure::RateLimited(retry_after),
            error if error.is_server_error() => Failure::Server(error.as_u16(), retry_after),
            other => Failure::Http(other.as_u16()),
        }
    }

    pub(crate) fn rpc(code: i64, message: &str) -> Failure {
        let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
        Failure::Rpc(code, clean(&message))
    }

    /// Without the node's message.
    pub(crate) fn kind(&self) -> String {
        match self {
            Failure::Rpc(code, _) => Failure::Rpc(*code, String::new()).to_string(),
            other => other.to_string(),
        }
    }

    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::Rpc(_, message) if !message.is_empty() => Some(message),
            _ => None,
        }
    }

    /// `Some` if a repetition must wait, with the node's requested delay.
    pub(crate) fn refusal(&self) -> Option<Option<Duration>> {
        match self {
            Failure::RateLimited(retry_delay) | Failure::Server(_, retry_delay) => {
                Some(*retry_delay)
            }
            Failure::Connect(_) => Some(None),
            _ => None,
        }
    }

    pub(crate) fn is_answer(&self) -> bool {
        use Failure::{Encoded, Http, Malformed, Missing, Rpc, Skipped, TooLarge, WrongId};
        matches!(
            self,
            Http(_) | Rpc(..) | Skipped(_) | WrongId | Malformed | TooLarge | Encoded(_) | Missing
        )
    }

    /// Whether the failure means that the node has no HTTP/2. With TLS the handshake shows it;
    /// without TLS an HTTP/1.1 node closes the connection or waits for more.
    pub(crate) fn is_no_http2(&self, tls: bool) -> bool {
        match self {
            Failure::NoHttp2 => true,
            Failure::Closed | Failure::Timeout => !tls,
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(what) => f.write_str(what),
            Failure::NoHttp2 => f.write_str("no HTTP/2"),
            Failure::Timeout => f.write_str("timeout"),
            Failure::Closed => f.write_str("connection closed"),
            Failure::RateLimited(_) => f.write_str("rate limited"),
            Failure::Http(status) | Failure::Server(status, _) => write!(f, "HTTP {status}"),
            Failure::NotSent => f.write_str("not sent before Retry-After was over"),
            Failure::Rpc(code, message) if !message.is_empty() => {
                write!(f, "JSON-RPC {code}: {message}")
            }
            Failure::Rpc(code, _) | Failure::Skipped(code) => write!(f, "JSON-RPC {code}"),
            Failure::WrongId => f.write_str("wrong id"),
            Failure::Malformed => f.write_str("malformed answer"),
            Failure::TooLarge => f.write_str("answer too large"),
            Failure::Encoded(coding) => {
                write!(f, "answer encoded with {coding}, which was not asked for")
            }
            Failure::Missing => f.write_str("no such account or block"),
            Failure::Wrong => f.write_str("not what was written"),
            Failure::OtherChain => f.write_str("WebSocket of another chain"),
            Failure::Flooded(node) => {
                write!(f, "hostile: {node} sends control frames without an answer")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tls_timeout_is_not_reported_as_missing_http_2() {
        let shown = |tls| {
            [
                Failure::NoHttp2,
                Failure::Closed,
                Failure::Timeout,
                Failure::Connect(String::new()),
            ]
            .map(|f| f.is_no_http2(tls))
        };
        assert_eq!(
            (shown(true), shown(false)),
            ([true, false, false, false], [true, true, true, false])
        );
    }
}
