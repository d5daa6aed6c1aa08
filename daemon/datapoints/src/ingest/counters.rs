use faultline_core::auth_failures::AuthFailures;
use faultline_metrics::{
    AddReadings, Reading,
    metrics::daemon::{INGEST_BYTES, INGEST_CONNECTIONS, INGEST_REQUESTS},
    named_enum,
};
use hyper::StatusCode;
use parking_lot::Mutex;
use std::sync::Arc;

named_enum! {
    /// The result of a request, with its value of the label `code`.
    pub enum ResultCode {
        Accepted = "204",
        Bad = "400",
        Unauthorized = "401",
        FromBrowser = "403",
        /// Also 403. The sender's user is unknown or not the validator's.
        WrongUser = "user",
        UnknownPath = "404",
        NotPost = "405",
        TimedOut = "408",
        TooLarge = "413",
        UnknownCoding = "415",
        /// The body broke off, so no response is sent.
        Cut = "cut",
    }
}

impl ResultCode {
    /// The HTTP status and the text of the response. Agave writes the text to its log, so it is
    /// short and addresses the operator.
    pub const fn response(self) -> (StatusCode, &'static str) {
        match self {
            Self::Accepted => (StatusCode::NO_CONTENT, ""),
            Self::Bad => (
                StatusCode::BAD_REQUEST,
                "broken gzip, or a precision that is not known\n",
            ),
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "faultlined expects another db, u or p: compare SOLANA_METRICS_CONFIG with [ingest]\n",
            ),
            Self::FromBrowser => (
                StatusCode::FORBIDDEN,
                "faultlined does not accept pushes from web pages\n",
            ),
            Self::WrongUser => (
                StatusCode::FORBIDDEN,
                "faultlined takes pushes of the validator's user only: see [ingest] allow_users\n",
            ),
            Self::UnknownPath => (StatusCode::NOT_FOUND, "faultlined takes POST /write\n"),
            Self::NotPost => (
                StatusCode::METHOD_NOT_ALLOWED,
                "faultlined takes POST here\n",
            ),
            Self::TimedOut => (StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
            Self::UnknownCoding => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Content-Encoding must be gzip, identity or absent\n",
            ),
            // Never sent: the connection is gone.
            Self::Cut => (StatusCode::BAD_REQUEST, ""),
        }
    }
}

#[derive(Clone)]
pub struct IngestCounters {
    pub(super) auth_failures: AuthFailures,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: [u64; ResultCode::ALL.len()],
    bytes: u64,
    open_connections: u64,
}

impl Default for IngestCounters {
    fn default() -> Self {
        Self {
            auth_failures: AuthFailures::new("ingest"),
            counts: Arc::default(),
        }
    }
}

impl IngestCounters {
    pub fn add_readings(&self, out: &mut Vec<Reading>) {
        let counts = self.counts.lock();
        for code in ResultCode::ALL {
            let count = counts.requests[code as usize];
            out.integer(&INGEST_REQUESTS, [code.name().into()], count);
        }
        out.integer(&INGEST_BYTES, [], counts.bytes);
        out.integer(&INGEST_CONNECTIONS, [], counts.open_connections);
        drop(counts);
        out.push(self.auth_failures.reading());
    }

    /// Probes (`/ping`, `/health`) are not counted.
    pub(super) fn count_request(&self, code: ResultCode) {
        self.counts.lock().requests[code as usize] += 1;
    }

    pub(super) fn count_bytes(&self, bytes: usize) {
        self.counts.lock().bytes += bytes as u64;
    }

    pub(super) fn count_connection(&self) -> CountedConnection {
        self.counts.lock().open_connections += 1;
        CountedConnection(Arc::clone(&self.counts))
    }
}

pub struct CountedConnection(Arc<Mutex<Counts>>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.lock().open_connections -= 1;
    }
}
