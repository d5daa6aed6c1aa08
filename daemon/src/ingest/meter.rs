use crate::auth_failures::AuthFailures;
use crate::socket::Peer;
use faultline_catalog::Reading;
use faultline_catalog::metrics::daemon::{INGEST_BYTES, INGEST_CONNECTIONS, INGEST_REQUESTS};
use hyper::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Taken,
    Bad,
    Unauthorized,
    FromAPage,
    AnotherUser,
    UnknownPath,
    NotPost,
    Late,
    TooLarge,
    UnknownCoding,
    /// The body broke off: nobody receives a response.
    Cut,
}

impl Code {
    const ALL: [Code; 11] = [
        Code::Taken,
        Code::Bad,
        Code::Unauthorized,
        Code::FromAPage,
        Code::AnotherUser,
        Code::UnknownPath,
        Code::NotPost,
        Code::Late,
        Code::TooLarge,
        Code::UnknownCoding,
        Code::Cut,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Code::Taken => "204",
            Code::Bad => "400",
            Code::Unauthorized => "401",
            Code::FromAPage => "403",
            Code::AnotherUser => "user",
            Code::UnknownPath => "404",
            Code::NotPost => "405",
            Code::Late => "408",
            Code::TooLarge => "413",
            Code::UnknownCoding => "415",
            Code::Cut => "cut",
        }
    }

    pub(super) const fn status(self) -> StatusCode {
        match self {
            Code::Taken => StatusCode::NO_CONTENT,
            Code::Bad | Code::Cut => StatusCode::BAD_REQUEST,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::FromAPage | Code::AnotherUser => StatusCode::FORBIDDEN,
            Code::UnknownPath => StatusCode::NOT_FOUND,
            Code::NotPost => StatusCode::METHOD_NOT_ALLOWED,
            Code::Late => StatusCode::REQUEST_TIMEOUT,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnknownCoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// Response text. Agave logs it: short, for the operator.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Code::Taken | Code::Cut => "",
            Code::Bad => "neither plain nor gzip line protocol in a known precision\n",
            Code::Unauthorized => {
                "faultlined expects another db, u or p: compare SOLANA_METRICS_CONFIG with [ingest]\n"
            }
            Code::FromAPage => "faultlined does not accept pushes from web pages\n",
            Code::AnotherUser => {
                "faultlined takes pushes of the validator's user only: see [ingest] allow_users\n"
            }
            Code::UnknownPath => "faultlined takes POST /write\n",
            Code::NotPost => "faultlined takes POST here\n",
            Code::Late => "the body took too long\n",
            Code::TooLarge => "the body is too large\n",
            Code::UnknownCoding => "Content-Encoding: gzip or none\n",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    auth_failures: AuthFailures,
    requests: [AtomicU64; Code::ALL.len()],
    bytes: AtomicU64,
    connections: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        let (requests, bytes, connections) = Default::default();
        Counts {
            auth_failures: AuthFailures::new("ingest"),
            requests,
            bytes,
            connections,
        }
    }
}

impl Meter {
    /// Probes (`/ping`, `/health`) do not count as requests.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        for code in Code::ALL {
            out.push(Reading::counter(
                &INGEST_REQUESTS,
                [code.name().into()],
                self.requests(code),
            ));
        }
        out.push(Reading::counter(
            &INGEST_BYTES,
            [],
            self.0.bytes.load(Ordering::Relaxed),
        ));
        out.push(Reading::whole(
            &INGEST_CONNECTIONS,
            [],
            self.0.connections.load(Ordering::Relaxed),
        ));
        out.push(self.0.auth_failures.reading());
    }

    pub(super) fn unauthorized(&self, peer: Peer, now: Duration) {
        self.0.auth_failures.note(peer, now);
    }

    pub(super) fn requests(&self, code: Code) -> u64 {
        self.0.requests[code as usize].load(Ordering::Relaxed)
    }

    pub(super) fn request(&self, code: Code) {
        self.0.requests[code as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn connection(&self) -> OpenConnection {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
pub(super) struct OpenConnection(Arc<Counts>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
