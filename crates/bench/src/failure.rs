//! Why a request has no good answer. A failure is counted by its kind and never averaged into latencies.

use std::fmt;
use std::time::Duration;

/// One request's failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// No connection: name, TCP or TLS.
    Connect,
    /// The node does not speak HTTP/2.
    NoHttp2,
    /// No complete answer in time.
    Timeout,
    /// The connection ended before the answer did.
    Closed,
    /// The node asked for fewer requests, with the time that it asked for.
    RateLimited(Option<Duration>),
    /// A status other than 200 and 429.
    Http(u16),
    /// An error object of JSON-RPC, by its code.
    Rpc(i64),
    /// An error object that says that the slot was skipped, by its code.
    Skipped(i64),
    /// An answer to another request.
    WrongId,
    /// Neither HTTP nor a JSON-RPC answer of the expected form.
    Malformed,
    /// More bytes than an answer may have.
    TooLarge,
    /// The node does not have what was asked for.
    Missing,
    /// What was read is not what was written, or a write was refused by the chain.
    Wrong,
    /// The WebSocket is of another chain than HTTP.
    OtherChain,
}

impl Failure {
    /// Whether it is how a node fails that does not speak what it was asked in.
    pub(crate) fn is_no_http2(&self) -> bool {
        matches!(self, Failure::NoHttp2 | Failure::Closed | Failure::Timeout)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect => f.write_str("no connection"),
            Failure::NoHttp2 => f.write_str("no HTTP/2"),
            Failure::Timeout => f.write_str("timeout"),
            Failure::Closed => f.write_str("connection closed"),
            Failure::RateLimited(_) => f.write_str("rate limited"),
            Failure::Http(status) => write!(f, "HTTP {status}"),
            Failure::Rpc(code) | Failure::Skipped(code) => write!(f, "JSON-RPC {code}"),
            Failure::WrongId => f.write_str("wrong id"),
            Failure::Malformed => f.write_str("malformed answer"),
            Failure::TooLarge => f.write_str("answer too large"),
            Failure::Missing => f.write_str("no such account or block"),
            Failure::Wrong => f.write_str("not what was written"),
            Failure::OtherChain => f.write_str("WebSocket of another chain"),
        }
    }
}
