//! Why a request has no good answer. A failure is counted by its kind and never averaged into latencies.

use faultline_text::clean;
use hyper::StatusCode;
use std::fmt;
use std::time::Duration;

/// One request's failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// No connection: in words, with the address and whether it was the name, TCP or TLS.
    Connect(String),
    /// The node does not speak HTTP/2.
    NoHttp2,
    /// No complete answer in time.
    Timeout,
    /// The connection ended before the answer did.
    Closed,
    /// The node asked for fewer requests, with the time that it asked for.
    RateLimited(Option<Duration>),
    /// A status other than 200, 429 and those of the server's own errors.
    Http(u16),
    /// A status from 500 on, with the time after which the node may be asked again, if it names one.
    Server(u16, Option<Duration>),
    /// Not sent in an open loop, since the node wants no requests before a later moment.
    NotSent,
    /// An error object of JSON-RPC: its code and its message.
    Rpc(i64, String),
    /// An error object that says that the slot was skipped, by its code.
    Skipped(i64),
    /// An answer to another request.
    WrongId,
    /// Neither HTTP nor a JSON-RPC answer of the expected form.
    Malformed,
    /// More bytes than an answer may have.
    TooLarge,
    /// A content coding that was not asked for, such as gzip.
    Encoded(String),
    /// The node does not have what was asked for.
    Missing,
    /// What was read is not what was written, or a write was refused by the chain.
    Wrong,
    /// The WebSocket is of another chain than HTTP.
    OtherChain,
    /// The node at this address sends control frames and no answer.
    Flooded(String),
}

/// Characters of a node's own message that are kept.
const LONGEST_MESSAGE: usize = 200;

impl Failure {
    /// Of a status that is no 200, with the time that `Retry-After` names.
    pub(crate) fn of_status(status: StatusCode, retry_after: Option<Duration>) -> Failure {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Failure::RateLimited(retry_after),
            error if error.is_server_error() => Failure::Server(error.as_u16(), retry_after),
            other => Failure::Http(other.as_u16()),
        }
    }

    /// Of an error object of JSON-RPC.
    pub(crate) fn rpc(code: i64, message: &str) -> Failure {
        let message: String = message.chars().take(LONGEST_MESSAGE).collect();
        Failure::Rpc(code, clean(&message))
    }

    /// By what it is counted: without a node's own message.
    pub(crate) fn kind(&self) -> String {
        match self {
            Failure::Rpc(code, _) => Failure::Rpc(*code, String::new()).to_string(),
            other => other.to_string(),
        }
    }

    /// The message of an error object.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::Rpc(_, message) if !message.is_empty() => Some(message),
            _ => None,
        }
    }

    /// Whether the node is to be asked again only after a while; then the time that it asked for.
    pub(crate) fn refusal(&self) -> Option<Option<Duration>> {
        match self {
            Failure::RateLimited(wanted_wait) | Failure::Server(_, wanted_wait) => {
                Some(*wanted_wait)
            }
            Failure::Connect(_) => Some(None),
            _ => None,
        }
    }

    /// Whether the node answered, and refused nothing.
    pub(crate) fn is_answer(&self) -> bool {
        use Failure::{Encoded, Http, Malformed, Missing, Rpc, Skipped, TooLarge, WrongId};
        matches!(
            self,
            Http(_) | Rpc(..) | Skipped(_) | WrongId | Malformed | TooLarge | Encoded(_) | Missing
        )
    }

    /// Whether it is how a node fails that does not speak HTTP/2. With TLS the handshake says so; without, a node of HTTP/1.1 closes
    /// the connection or waits for more.
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
    fn a_node_that_is_slow_over_tls_is_none_without_http_2() {
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
