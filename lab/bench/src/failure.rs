//! Failures of requests, counted by kind and never averaged into latencies.

use faultline_text::{clean, without_address};
use hyper::StatusCode;
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Clone, Error, PartialEq)]
pub enum Failure {
    /// Names the address and the failed step: name resolution, TCP or TLS.
    #[error("{0}")]
    Connect(String),
    #[error("no HTTP/2")]
    NoHttp2,
    #[error("timeout")]
    Timeout,
    #[error("connection closed")]
    Closed,
    /// 429, with the delay of `Retry-After`.
    #[error("rate limited")]
    RateLimited(Option<Duration>),
    /// Any status except 200, 429 and 5xx.
    #[error("HTTP {0}")]
    Http(u16),
    /// 5xx, with the delay of `Retry-After`.
    #[error("HTTP {0}")]
    Server(u16, Option<Duration>),
    /// The request was not sent in an open loop, because the node had requested a delay.
    #[error("not sent, since Retry-After was not over")]
    NotSent,
    #[error("JSON-RPC {0}{separator}{1}", separator = if .1.is_empty() { "" } else { ": " })]
    Rpc(i64, String),
    /// Error code for a slot without a block.
    #[error("JSON-RPC {0}")]
    Skipped(i64),
    #[error("wrong id")]
    WrongId,
    /// The answer is not the expected HTTP or JSON-RPC.
    #[error("malformed answer")]
    Malformed,
    #[error("answer too large")]
    TooLarge,
    /// A content coding that was not requested, such as gzip.
    #[error("answer encoded with {0}, which was not asked for")]
    Encoded(String),
    /// The result is null.
    #[error("no such account or block")]
    Missing,
    #[error("not what was written, or the write was rejected")]
    WrongResult,
    /// The WebSocket's chain is not that of HTTP.
    #[error("WebSocket of another chain")]
    OtherChain,
    #[error("hostile: {0} sends control frames without an answer")]
    Flooded(String),
}

const MAX_MESSAGE_CHARS: usize = 200;

impl Failure {
    pub fn of_status(status: StatusCode, retry_after: Option<Duration>) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimited(retry_after),
            error if error.is_server_error() => Self::Server(error.as_u16(), retry_after),
            other => Self::Http(other.as_u16()),
        }
    }

    pub fn rpc(code: i64, message: &str) -> Self {
        let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
        Self::Rpc(code, clean(&message))
    }

    /// A node may repeat the key of its address in a message.
    pub fn without_address(self, url: &str) -> Self {
        match self {
            Self::Rpc(code, message) => Self::Rpc(code, without_address(&message, url)),
            other => other,
        }
    }

    pub fn kind(&self) -> String {
        match self {
            Self::Rpc(code, _) => format!("JSON-RPC {code}"),
            other => other.to_string(),
        }
    }

    /// After a refusal, the next request must wait.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::RateLimited(_) | Self::Server(..) | Self::Connect(_)
        )
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(retry_after) | Self::Server(_, retry_after) => *retry_after,
            _ => None,
        }
    }

    /// Refusals and lost answers are not answers.
    pub fn is_unexpected_answer(&self) -> bool {
        use Failure::{Encoded, Http, Malformed, Missing, Rpc, Skipped, TooLarge, WrongId};
        matches!(
            self,
            Http(_) | Rpc(..) | Skipped(_) | WrongId | Malformed | TooLarge | Encoded(_) | Missing
        )
    }

    /// With TLS the handshake shows that HTTP/2 is missing; without TLS an HTTP/1.1 node closes the
    /// connection or waits for more.
    pub fn may_be_no_http2(&self, tls: bool) -> bool {
        match self {
            Self::NoHttp2 => true,
            Self::Closed | Self::Timeout => !tls,
            _ => false,
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
            .map(|f| f.may_be_no_http2(tls))
        };
        assert_eq!(
            (shown(true), shown(false)),
            ([true, false, false, false], [true, true, true, false])
        );
    }
}
