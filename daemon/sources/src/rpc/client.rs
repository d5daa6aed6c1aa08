use faultline_agave::{
    Error, Excerpt,
    rpc::{Answer, RequestBatch},
};
use faultline_core::connector::Connector;
use faultline_metrics::{Problem, ProblemKind};
use faultline_net::{ConnectError, unrequested_content_encoding};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, StatusCode, Uri,
    body::{Body, Bytes, Incoming},
    header::CONTENT_TYPE,
};
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use itertools::Itertools;
use std::time::Duration;

const MAX_ANSWER_BYTES: usize = 1 << 20;
const MAX_ERROR_BODY_BYTES: usize = 4096;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Below the default request timeout: the connector's own error, which names the addresses, comes
/// first.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

pub enum Failure {
    Refused,
    Timeout(Duration),
    Status(StatusCode, Excerpt),
    TooLong(usize),
    /// A content coding that was not requested.
    Encoded(String),
    Transport(String),
    AnswerError(Error),
}

#[derive(Clone, Copy)]
pub enum Readiness {
    /// JSON-RPC need not be open yet, or it is unknown whether the start is over.
    Starting,
    /// The admin socket reports that the start is over.
    Started,
    /// The followed process's JSON-RPC has responded before.
    RespondedBefore,
}

impl Failure {
    pub fn problem(&self, server: &str, readiness: Readiness) -> Problem {
        let what = match self {
            Self::Refused => match readiness {
                Readiness::Starting => {
                    return Problem::absent_data(format!(
                        "{server} refuses connections: JSON-RPC is not open yet (it opens at the end of the validator's start), or it listens at another address"
                    ));
                }
                Readiness::Started => format!(
                    "no process listens at {server}, although the validator has started; set rpc.url"
                ),
                Readiness::RespondedBefore => {
                    return Problem::new(ProblemKind::Gone, format!("{server} has closed"));
                }
            },
            Self::Timeout(timeout) => {
                format!("{server}: no answer within {} s", timeout.as_secs_f64())
            }
            Self::Status(code, text) => {
                let what = format!("{server} answers {code}: `{text}`");
                if matches!(code.as_u16(), 401 | 403 | 407) {
                    return Problem::new(ProblemKind::Forbidden, what);
                }
                what
            }
            Self::TooLong(limit) => format!("{server}: an answer of more than {limit} bytes"),
            Self::Encoded(coding) => {
                format!("{server}: the answer is encoded with {coding}, which was not asked for")
            }
            Self::Transport(why) => format!("{server}: {why}"),
            Self::AnswerError(error @ Error::NotJsonRpc { .. }) => {
                format!("{server}: {error}; set rpc.url to the validator's JSON-RPC")
            }
            Self::AnswerError(error) => format!("{server}: {error}"),
        };
        Problem::broken(what)
    }
}

/// Keeps one connection. Clones share it.
#[derive(Clone)]
pub struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    max_bytes: usize,
}

impl Client {
    pub(super) fn new() -> Self {
        Self::with_limit(MAX_ANSWER_BYTES)
    }

    pub(crate) fn with_limit(limit: usize) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(1);
        Self {
            http: builder.build(Connector {
                timeout: CONNECT_TIMEOUT,
            }),
            max_bytes: limit,
        }
    }

    /// `timeout` covers connect, send and read.
    pub(super) async fn post(
        &self,
        url: &Uri,
        batch: &RequestBatch,
        timeout: Duration,
    ) -> Result<Vec<Result<Answer, Error>>, Failure> {
        batch
            .read(&self.send(url, batch.body().to_owned(), timeout).await?)
            .map_err(Failure::AnswerError)
    }

    pub async fn send(
        &self,
        url: &Uri,
        request_body: String,
        timeout: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let mut refusal = None;
        let exchange = self.exchange(url, request_body, &mut refusal);
        let answer = tokio::time::timeout(timeout, exchange).await;
        answer.unwrap_or_else(|_| {
            Err(refusal.map_or(Failure::Timeout(timeout), |status| {
                Failure::Status(status, Excerpt::of(""))
            }))
        })
    }

    /// Sets `refusal` before it reads an error's body.
    async fn exchange(
        &self,
        url: &Uri,
        request_body: String,
        refusal: &mut Option<StatusCode>,
    ) -> Result<Vec<u8>, Failure> {
        let request = Request::post(url.clone()).header(CONTENT_TYPE, "application/json");
        let request = request
            .body(Full::from(request_body))
            .map_err(|error| Failure::Transport(error.to_string()))?;
        let response = self
            .http
            .request(request)
            .await
            .map_err(|error| transport_failure(&error))?;
        let status = response.status();
        if let Some(coding) =
            unrequested_content_encoding(response.headers()).filter(|_| status.is_success())
        {
            return Err(Failure::Encoded(coding));
        }
        let mut bytes = Vec::new();
        if status.is_success() {
            read(response.into_body(), self.max_bytes, &mut bytes).await?;
            return Ok(bytes);
        }
        *refusal = Some(status);
        let _ = read(response.into_body(), MAX_ERROR_BODY_BYTES, &mut bytes).await;
        Err(Failure::Status(status, Excerpt::of(bytes.trim_ascii())))
    }
}

/// Copies all chunks into one buffer. A server may send each byte as a chunk, and kept chunks would
/// then take far more memory than `limit`.
async fn read(mut body: Incoming, limit: usize, bytes: &mut Vec<u8>) -> Result<(), Failure> {
    let announced_bytes = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    bytes.reserve_exact(announced_bytes.min(limit));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| transport_failure(&error))?;
        let part = frame.into_data().unwrap_or_default();
        let free = limit - bytes.len();
        bytes.extend(part.iter().take(free));
        if part.len() > free {
            return Err(Failure::TooLong(limit));
        }
    }
    Ok(())
}

/// `Refused`, or the messages of the error and of its causes. Its own is only "client error".
fn transport_failure(error: &(dyn std::error::Error + 'static)) -> Failure {
    let chain = || std::iter::successors(Some(error), |error| error.source());
    let refused = |error: &(dyn std::error::Error + 'static)| {
        error
            .downcast_ref::<ConnectError>()
            .is_some_and(ConnectError::is_refused)
    };
    if chain().any(refused) {
        return Failure::Refused;
    }
    Failure::Transport(chain().join(": "))
}
