//! JSON-RPC over HTTP, with retries. Answers are limited in size and time.

use crate::http::{self, CONNECT_TIMEOUT};
use anyhow::{Context, Result};
use faultline_common::{clock, output::say};
use faultline_net::{retry_after, unrequested_content_encoding};
use faultline_text::{clean, without_address};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    io::Read,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread::{scope, sleep},
    time::Duration,
};
use ureq::{Agent, Timeout, config::Config, http::Uri};

/// The largest blocks of mainnet are a tenth of this.
const MAX_ANSWER_BYTES: u64 = 128 << 20;
/// Limit for the rest of an answer that has begun.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);
/// JSON-RPC codes of temporary refusals. 429 and -32429: too many requests, from providers.
/// -32005: the node is behind. -32603: internal error.
const RETRYABLE_CODES: [i64; 4] = [429, -32429, -32005, -32603];
/// Waits between tries double up to this. A longer `Retry-After` of a node is an error.
const MAX_WAIT: Duration = Duration::from_secs(60);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longer waits for a node are reported.
const NOTICE_AFTER: Duration = Duration::from_millis(1500);
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    #[error("the node answers {code}: {message}")]
    Refused { code: i64, message: String },
    #[error("{0}")]
    Failed(String),
}

impl RpcError {
    fn with_tries(self, tries: u32) -> Self {
        match self {
            Self::Failed(what) if tries > 1 => {
                Self::Failed(format!("{what} (tried {tries} times)"))
            }
            other => other,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    pub max_tries: u32,
    /// Wait before the second try. Each further wait is twice as long.
    pub first_wait: Duration,
    /// Time until an answer begins.
    pub answer_timeout: Duration,
}

/// A client of one node. Messages contain only host and port: the URL may contain a key.
#[derive(Debug)]
pub struct Rpc {
    agent: Agent,
    url: String,
    host: String,
    retry_policy: RetryPolicy,
    requests: AtomicU64,
    bytes: AtomicU64,
    last_notice: Mutex<Option<Duration>>,
}

#[derive(Deserialize)]
struct Envelope<T> {
    id: Option<Value>,
    result: Option<T>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    #[serde(default)]
    message: String,
}

enum Attempt<T> {
    Answer(T),
    /// Worth another try, after the delay that the node requires, if any.
    Retry(RpcError, Option<Duration>),
    GiveUp(RpcError),
}

impl Rpc {
    /// Sends nothing. Fails if the address is not HTTP, or certificates cannot be read.
    pub fn new(url: &str, ca_file: Option<&Path>, retry_policy: RetryPolicy) -> Result<Self> {
        let (host, port) =
            address(url).context("the address of the node must begin with http:// or https://")?;
        let mut config = Config::builder()
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT.min(retry_policy.answer_timeout)))
            .timeout_send_request(Some(retry_policy.answer_timeout))
            .timeout_send_body(Some(retry_policy.answer_timeout))
            .timeout_recv_response(Some(retry_policy.answer_timeout))
            .timeout_recv_body(Some(BODY_TIMEOUT))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("faultline/", env!("CARGO_PKG_VERSION")));
        if http::is_loopback(&host) {
            config = config.proxy(None);
        }
        if url.starts_with("https:") {
            config = config.tls_config(http::tls_config(ca_file)?);
        }
        Ok(Self {
            agent: http::agent(config.build()),
            url: url.to_owned(),
            host: format!("{host}:{port}"),
            retry_policy,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            last_notice: Mutex::default(),
        })
    }

    /// Requests sent, and bytes read after decompression.
    pub fn requests_and_bytes(&self) -> (u64, u64) {
        (
            self.requests.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }

    pub fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Option<T>, RpcError> {
        self.call_until(method, params, || false)
    }

    /// [`Rpc::call`], but fails with the last error once `stop` returns true. `stop` is polled only
    /// in the pauses between tries.
    pub fn call_until<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
        mut stop: impl FnMut() -> bool,
    ) -> Result<Option<T>, RpcError> {
        let tries = self.retry_policy.max_tries.max(1);
        for later_tries in (0..tries).rev() {
            let begun = clock::uptime();
            match self.try_with_notice(method, params, later_tries) {
                Attempt::Answer(answer) => return Ok(answer),
                Attempt::GiveUp(error) => return Err(error),
                Attempt::Retry(error, _) if later_tries == 0 => return Err(error.with_tries(tries)),
                Attempt::Retry(error, retry_after) => {
                    match pause(retry_after, self.backoff(tries - 1 - later_tries)) {
                        Ok(pause) => {
                            self.give_notice_of_pause(
                                &error,
                                pause,
                                later_tries,
                                clock::uptime().saturating_sub(begun),
                            );
                            if sleep_unless_stopped(pause, &mut stop) {
                                return Err(error);
                            }
                        }
                        Err(retry_after) => {
                            let delay = faultline_text::duration(retry_after);
                            return Err(RpcError::Failed(format!(
                                "{error}, and wants no request for {delay}"
                            )));
                        }
                    }
                }
            }
        }
        Err(RpcError::Failed("no request was sent".to_owned()))
    }

    /// Whether a body was read: status 408, 429 and 5xx do not count. Until then, slow tries and
    /// short pauses are reported, too.
    fn has_answered(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    fn try_with_notice<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
        later_tries: u32,
    ) -> Attempt<Option<T>> {
        if self.has_answered() {
            return self.try_once(method, params);
        }
        let (done, ended) = channel::<()>();
        scope(|scope| {
            let watch = move || {
                if ended.recv_timeout(NOTICE_AFTER) == Err(RecvTimeoutError::Timeout) {
                    let longest = self.retry_policy.answer_timeout * (later_tries + 1)
                        + self.backoff_left(later_tries);
                    self.give_notice(&format!(
                        "{method} at {}: no answer yet; giving up within {}",
                        self.host,
                        faultline_text::duration(longest)
                    ));
                }
            };
            let _watch = std::thread::Builder::new().spawn_scoped(scope, watch);
            let tried = self.try_once(method, params);
            drop(done);
            tried
        })
    }

    fn give_notice_of_pause(
        &self,
        error: &RpcError,
        pause: Duration,
        later_tries: u32,
        took: Duration,
    ) {
        if !self.has_answered() || pause >= NOTICE_AFTER {
            let rest = pause + self.backoff_left(later_tries - 1) + took * later_tries;
            self.give_notice(&format!(
                "{error}; next try in {}, giving up in {}",
                faultline_text::duration(pause),
                faultline_text::duration(rest)
            ));
        }
    }

    /// Sum of the last `count` waits between tries, if the node requires no delay.
    fn backoff_left(&self, count: u32) -> Duration {
        let waits = self.retry_policy.max_tries.saturating_sub(1);
        (waits.saturating_sub(count)..waits)
            .map(|tries_before| self.backoff(tries_before))
            .sum()
    }

    fn backoff(&self, tries_before: u32) -> Duration {
        MAX_WAIT.min(
            self.retry_policy
                .first_wait
                .saturating_mul(2_u32.saturating_pow(tries_before)),
        )
    }

    fn give_notice(&self, words: &str) {
        let now = clock::uptime();
        let is_due = self.last_notice.lock().is_ok_and(|mut last| {
            let is_due = last.is_none_or(|last| now.saturating_sub(last) >= NOTICE_INTERVAL);
            if is_due {
                *last = Some(now);
            }
            is_due
        });
        if is_due {
            say(words);
        }
    }

    fn try_once<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Attempt<Option<T>> {
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let body =
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let failed = |what: String| RpcError::Failed(format!("{method} at {}: {what}", self.host));
        let sent = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .send(body);
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                return Attempt::Retry(
                    failed(describe_error(&error, self.retry_policy.answer_timeout)),
                    None,
                );
            }
        };
        let status = response.status().as_u16();
        let by_status = || failed(format!("the node answers with HTTP status {status}"));
        if matches!(status, 408 | 429 | 500..=599) {
            return Attempt::Retry(by_status(), retry_after(response.headers(), clock::now()));
        }
        // ureq requests gzip, and removes Content-Encoding when it decodes.
        let coding = unrequested_content_encoding(response.headers());
        if let Some(coding) = coding.filter(|_| response.status().is_success()) {
            return Attempt::GiveUp(failed(format!(
                "the answer is encoded with {coding}, which was not requested"
            )));
        }
        let mut text = Vec::new();
        // The limit applies after decompression.
        let body = response.body_mut().as_reader().take(MAX_ANSWER_BYTES + 1);
        if let Err(error) = { body }.read_to_end(&mut text) {
            return Attempt::Retry(failed(format!("the answer breaks off: {error}")), None);
        }
        if text.len() as u64 > MAX_ANSWER_BYTES {
            let most = faultline_text::size(MAX_ANSWER_BYTES);
            return Attempt::GiveUp(failed(format!("an answer of more than {most}")));
        }
        self.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        match serde_json::from_slice::<Envelope<T>>(&text) {
            Ok(envelope) => answer_of(envelope, id, method, &self.url),
            Err(_) if !response.status().is_success() => Attempt::GiveUp(by_status()),
            Err(error) => Attempt::Retry(
                failed(format!(
                    "the answer is not as expected: {}",
                    without_address(&error.to_string(), &self.url)
                )),
                None,
            ),
        }
    }
}

/// Returns whether `stop` ended the pause.
fn sleep_unless_stopped(pause: Duration, stop: &mut impl FnMut() -> bool) -> bool {
    let mut remaining = pause;
    while !remaining.is_zero() {
        if stop() {
            return true;
        }
        let step = remaining.min(STOP_POLL_INTERVAL);
        sleep(step);
        remaining -= step;
    }
    stop()
}

/// The wait before the next try: the delay that the node requires, but at least `min_wait`. The
/// error is a required delay that is too long.
fn pause(retry_after: Option<Duration>, min_wait: Duration) -> Result<Duration, Duration> {
    match retry_after {
        Some(delay) if delay > MAX_WAIT => Err(delay),
        delay => Ok(delay.unwrap_or_default().max(min_wait)),
    }
}

fn answer_of<T>(envelope: Envelope<T>, id: u64, method: &str, url: &str) -> Attempt<Option<T>> {
    if let Some(Refusal { code, message }) = envelope.error {
        let message = message.chars().take(200).collect::<String>();
        let message = clean(&without_address(&message, url));
        let error = RpcError::Refused { code, message };
        return if RETRYABLE_CODES.contains(&code) {
            Attempt::Retry(error, None)
        } else {
            Attempt::GiveUp(error)
        };
    }
    if envelope.id != Some(json!(id)) {
        return Attempt::GiveUp(RpcError::Failed(format!(
            "{method}: the answer is to another request"
        )));
    }
    Attempt::Answer(envelope.result)
}

/// Host and port only: user, password, path and query may contain a key.
fn address(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let default_port = match uri.scheme_str()? {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    Some((clean(uri.host()?), uri.port_u16().unwrap_or(default_port)))
}

fn describe_error(error: &ureq::Error, answer_timeout: Duration) -> String {
    match error {
        ureq::Error::Timeout(stage) => {
            let (missing, limit) = match stage {
                Timeout::Resolve => ("address", CONNECT_TIMEOUT),
                // Only TLS times out here: `http::TcpConnector` returns another error after a
                // timeout of TCP, with the addresses.
                Timeout::Connect => ("TLS connection", CONNECT_TIMEOUT.min(answer_timeout)),
                _ => ("answer", answer_timeout),
            };
            format!("no {missing} within {}", faultline_text::duration(limit))
        }
        // The texts of these errors may contain the address.
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the request failed".to_owned(),
        error => http::reason(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_honoured_but_never_below_the_minimum_wait() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(None, seconds(4)), Ok(seconds(4)));
        assert_eq!(pause(Some(seconds(0)), seconds(4)), Ok(seconds(4)));
        assert_eq!(pause(Some(seconds(30)), seconds(4)), Ok(seconds(30)));
        assert_eq!(
            pause(Some(seconds(3600)), seconds(4)),
            Err(seconds(3600)),
            "an earlier request is refused again"
        );
    }

    #[test]
    fn a_stop_that_is_reported_once_ends_the_pause() {
        let mut polls = 0;
        let mut stop_once = || {
            polls += 1;
            polls == 2
        };
        assert!(sleep_unless_stopped(Duration::from_secs(1), &mut stop_once));
        assert!(!sleep_unless_stopped(Duration::ZERO, &mut || false));
    }

    #[test]
    fn an_incomplete_answer_is_reported_with_its_cause() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::Builder::new().spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{";
            std::io::Write::write_all(&mut client, answer).unwrap();
        });
        let once = RetryPolicy {
            max_tries: 1,
            first_wait: Duration::ZERO,
            answer_timeout: Duration::from_secs(60),
        };
        let rpc = Rpc::new(&url, None, once).unwrap();
        let said = rpc.call::<u64>("getSlot", &json!([])).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("breaks off: "), "{said}");
        server.unwrap().join().unwrap();
    }

    #[test]
    fn a_message_of_the_node_is_shown_without_the_keys_of_the_address() {
        for error in [
            r#"{"code":-32000,"message":"exceeded for /SECpath12/?api-key=SECquery34"}"#,
            r#""exceeded for /SECpath12/?api-key=SECquery34""#,
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let url = format!("http://{address}/SECpath12/?api-key=SECquery34");
            let server = std::thread::Builder::new().spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                assert!(client.read(&mut [0; 4096]).unwrap() > 0);
                let body = format!(r#"{{"id":0,"error":{error}}}"#);
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                std::io::Write::write_all(&mut client, answer.as_bytes()).unwrap();
            });
            let once = RetryPolicy {
                max_tries: 1,
                first_wait: Duration::ZERO,
                answer_timeout: Duration::from_secs(60),
            };
            let rpc = Rpc::new(&url, None, once).unwrap();
            let said = rpc.call::<u64>("getSlot", &json!([])).unwrap_err();
            let said = said.to_string();
            assert!(said.contains("exceeded for /***/?api-key=***"), "{said}");
            server.unwrap().join().unwrap();
        }
    }

    #[test]
    fn a_refused_connection_error_contains_only_host_and_port() {
        let quick = RetryPolicy {
            max_tries: 3,
            first_wait: Duration::from_millis(1),
            answer_timeout: Duration::from_secs(120),
        };
        // Nothing listens on a port that was just given back.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        for secret in [
            "user:SECRET@127.0.0.1:PORT/",
            "127.0.0.1:PORT/SECRET/",
            "127.0.0.1:PORT/?api-key=SECRET",
        ] {
            let url = format!("http://{}", secret.replace("PORT", &port.to_string()));
            let rpc = Rpc::new(&url, None, quick).unwrap();
            let said = rpc
                .call::<u64>("getSlot", &json!([]))
                .unwrap_err()
                .to_string();
            assert!(
                said.contains(&format!("getSlot at 127.0.0.1:{port}: "))
                    && said.contains("refused"),
                "{said}"
            );
            assert!(
                !said.contains("SECRET") && said.ends_with("(tried 3 times)"),
                "{said}"
            );
        }
        assert_eq!(
            address("https://rpc.example.org/SECRET"),
            Some(("rpc.example.org".to_owned(), 443))
        );
        assert_eq!(
            address("http://[::1]?key=SECRET"),
            Some(("[::1]".to_owned(), 80))
        );
        for bad in ["ftp://SECRET", "SECRET", "http://", "https://SECRET SECRET"] {
            let said = Rpc::new(bad, None, quick).unwrap_err().to_string();
            assert!(
                said.contains("http://") && !said.contains("SECRET"),
                "{bad}: {said}"
            );
        }
    }
}
