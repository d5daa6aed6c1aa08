use super::queue::QueuedPush;
use faultline_core::{clock::Clock, config, connector::Connector};
use faultline_net::retry_after;
use http_body_util::BodyExt;
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::CONTENT_ENCODING,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use itertools::Itertools;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, UNIX_EPOCH},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum idle time of a pooled connection: three of Agave's push intervals.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_RESPONSE_BYTES: usize = 4096;
const EXCERPT_CHARS: usize = 200;
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

const QUERY_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a usable URL. The text is not shown: it may contain a password.
    #[error("[forward] url: an address like http://influx.example.org:8086 is wanted")]
    Url,
    #[error(
        "[forward] url: user and password do not belong in the url; give user and password_file"
    )]
    UserInfo,
    #[error(
        "[forward] url is https, but this system has no root certificates ({0}); install ca-certificates or set SSL_CERT_FILE"
    )]
    Roots(String),
}

#[derive(Clone)]
pub enum AttemptResult {
    Sent,
    Refused {
        /// The HTTP status.
        code: u16,
        excerpt: String,
    },
    /// The upstream cannot be reached, or asks to retry later.
    Failed {
        reason: String,
        retry_after: Option<Duration>,
    },
}

pub struct Upstream {
    client: Client<HttpsConnector<Connector>, PushBody>,
    /// Ends in `precision=`: the value is added for each push.
    write_url: String,
    pub origin: String,
    /// The password in all encodings that a response may have, the longest first.
    secrets: Vec<String>,
}

impl Upstream {
    pub fn new(config: &config::Forward) -> Result<Self, Error> {
        let base: Uri = config.url.parse().map_err(|_| Error::Url)?;
        let (scheme, authority) = (
            base.scheme_str().ok_or(Error::Url)?,
            base.authority().ok_or(Error::Url)?,
        );
        if authority.as_str().contains('@') {
            return Err(Error::UserInfo);
        }
        if !matches!(scheme, "http" | "https") || base.query().is_some() {
            return Err(Error::Url);
        }
        let escaped = |text| utf8_percent_encode(text, QUERY_ESCAPES);
        let credentials = &config.credentials;
        let origin = format!("{scheme}://{authority}");
        let write_url = format!(
            "{origin}{}/write?db={}&u={}&p={}&precision=",
            base.path().trim_end_matches('/'),
            escaped(&credentials.db),
            escaped(&credentials.user),
            escaped(&credentials.password)
        );
        write_url.parse::<Uri>().map_err(|_| Error::Url)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(1)
            .build(connector(scheme == "https")?);
        Ok(Self {
            client,
            write_url,
            origin,
            secrets: password_encodings(&credentials.password),
        })
    }

    pub async fn send(&self, queued_push: &Arc<QueuedPush>, timeout: Duration) -> AttemptResult {
        let attempt = async {
            let request = self
                .request(queued_push)
                .map_err(|error| error.to_string())?;
            let response = self
                .client
                .request(request)
                .await
                .map_err(|error| with_causes(&error))?;
            Ok(self.attempt_result(response).await)
        };
        let attempt = tokio::time::timeout(timeout, attempt).await;
        let too_late = |_| Err(format!("no answer within {} s", timeout.as_secs_f64()));
        let failed = |reason| AttemptResult::Failed {
            reason,
            retry_after: None,
        };
        attempt.unwrap_or_else(too_late).unwrap_or_else(failed)
    }

    fn request(
        &self,
        queued_push: &Arc<QueuedPush>,
    ) -> Result<Request<PushBody>, hyper::http::Error> {
        let mut request = Request::post(format!(
            "{}{}",
            self.write_url,
            queued_push.precision.name()
        ));
        if queued_push.is_gzip {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        request.body(PushBody {
            queued_push: Arc::clone(queued_push),
            next_piece: 0,
            remaining_bytes: queued_push.bytes,
        })
    }

    async fn attempt_result(&self, response: Response<Incoming>) -> AttemptResult {
        let status = response.status();
        let now = UNIX_EPOCH + Clock::start().now().unix;
        let retry_after = retry_after(response.headers(), now);
        // The connection is reused only if the body was read to its end.
        let body = read_beginning(response.into_body()).await;
        if status.is_success() {
            return AttemptResult::Sent;
        }
        let excerpt = self.excerpt(&body);
        let retryable = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        if status.is_server_error() || retryable.contains(&status) {
            let reason = format!("it answers {status} {excerpt}");
            return AttemptResult::Failed {
                reason: format!("{}{}", reason.trim_end(), retry_after_note(retry_after)),
                retry_after: retry_after.map(|delay| delay.min(MAX_RETRY_AFTER)),
            };
        }
        AttemptResult::Refused {
            code: status.as_u16(),
            excerpt,
        }
    }

    /// The start of a response for the log, as one line without the password and
    /// without queries that contain one.
    fn excerpt(&self, body: &[u8]) -> String {
        let text = without_queries(&String::from_utf8_lossy(body));
        let text = self
            .secrets
            .iter()
            .fold(text, |text, secret| text.replace(secret, "(hidden)"));
        // A password cut at the end is not recognized.
        let cut_chars = if body.len() < MAX_RESPONSE_BYTES {
            0
        } else {
            self.secrets.first().map_or(0, String::len)
        };
        let chars = text.chars().count().saturating_sub(cut_chars);
        let text: String = text.chars().take(chars).collect();
        text.trim()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(EXCERPT_CHARS)
            .collect()
    }
}

fn password_encodings(password: &str) -> Vec<String> {
    let escaped = utf8_percent_encode(password, QUERY_ESCAPES).to_string();
    let html = |quote: &str| {
        let text = password.replace('&', "&amp;");
        let text = text.replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', "&quot;").replace('\'', quote)
    };
    let json = serde_json::to_string(password)
        .unwrap_or_default()
        .trim_start_matches('"')
        .strip_suffix('"')
        .unwrap_or_default()
        .to_owned();
    let plus = escaped.replace("%20", "+");
    let mut password_encodings = vec![
        password.to_owned(),
        with_lowercase_escapes(&escaped),
        with_lowercase_escapes(&plus),
        escaped,
        plus,
        json,
        html("&#39;"),
        html("&#x27;"),
    ];
    password_encodings.retain(|form| !form.is_empty());
    password_encodings.sort_by_key(|form| std::cmp::Reverse(form.len()));
    password_encodings.dedup();
    password_encodings
}

fn with_lowercase_escapes(escaped: &str) -> String {
    let mut lowercase = String::new();
    let mut rest = escaped;
    while let Some((before, escape)) = rest.split_once('%') {
        let (digits, after) = escape.split_at_checked(2).unwrap_or((escape, ""));
        lowercase += &format!("{before}%{}", digits.to_ascii_lowercase());
        rest = after;
    }
    lowercase + rest
}

/// Hides each query with a `p=`, from its question mark to the next space, quote or angle bracket.
fn without_queries(text: &str) -> String {
    let mut redacted = String::new();
    let mut rest = text;
    while let Some((before, query)) = rest.split_once('?') {
        let end = query
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>'))
            .unwrap_or(query.len());
        let (query, after) = query.split_at(end);
        redacted += before;
        redacted += "?";
        redacted += if query.contains("p=") {
            "(hidden)"
        } else {
            query
        };
        rest = after;
    }
    redacted + rest
}

fn connector(uses_tls: bool) -> Result<HttpsConnector<Connector>, Error> {
    let mut roots = rustls::RootCertStore::empty();
    if uses_tls {
        let loaded = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(loaded.certs);
        if roots.is_empty() {
            let reason = loaded
                .errors
                .first()
                .map_or_else(|| "none were found".to_owned(), ToString::to_string);
            return Err(Error::Roots(reason));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Roots(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(Connector {
            timeout: CONNECT_TIMEOUT,
        }))
}

async fn read_beginning(mut body: Incoming) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < MAX_RESPONSE_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    read
}

fn retry_after_note(retry_after: Option<Duration>) -> String {
    let requested_delay = retry_after.filter(|delay| *delay > MAX_RETRY_AFTER);
    requested_delay.map_or_else(String::new, |requested_delay| {
        let [requested_delay, longest] =
            [requested_delay, MAX_RETRY_AFTER].map(faultline_text::duration);
        format!("; it asks for a pause of {requested_delay}, but is tried again in {longest}")
    })
}

/// An error with its causes: the outermost text alone says "client error".
fn with_causes(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).join(": ")
}

struct PushBody {
    queued_push: Arc<QueuedPush>,
    next_piece: usize,
    remaining_bytes: u64,
}

impl Body for PushBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.queued_push.pieces.get(self.next_piece).cloned();
        self.next_piece += 1;
        let sent = piece.as_ref().map_or(0, Bytes::len) as u64;
        self.remaining_bytes = self.remaining_bytes.saturating_sub(sent);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Precision;
    use faultline_core::config::Credentials;
    use proptest::prelude::*;

    fn config(url: &str) -> config::Forward {
        config::Forward {
            url: url.to_owned(),
            credentials: Credentials {
                db: "d b".into(),
                user: "u&u".into(),
                password: "p=+%é".into(),
            },
            queue_bytes: 1000,
            give_up_after: Duration::from_secs(1),
        }
    }

    #[test]
    fn upstream_credentials_are_escaped_and_the_url_path_kept() {
        let upstream = Upstream::new(&config("http://influx:8086/prefix/"))
            .ok()
            .unwrap();
        assert_eq!(
            upstream.write_url,
            "http://influx:8086/prefix/write?db=d%20b&u=u%26u&p=p%3D%2B%25%C3%A9&precision="
        );
        assert_eq!(upstream.origin, "http://influx:8086");
    }

    #[test]
    fn an_unusable_address_is_refused_without_repeating_it() {
        assert!(matches!(
            Upstream::new(&config("influx")).err(),
            Some(Error::Url)
        ));
        assert!(matches!(
            Upstream::new(&config("ftp://influx")).err(),
            Some(Error::Url)
        ));
        assert!(matches!(
            Upstream::new(&config("http://influx/?db=x")).err(),
            Some(Error::Url)
        ));
        let error = Upstream::new(&config("http://me:secret@influx"))
            .err()
            .unwrap();
        assert!(matches!(error, Error::UserInfo));
        assert!(!format!("{error:?} {error}").contains("secret"));
    }

    #[test]
    fn a_response_excerpt_is_one_short_line_without_the_password() {
        let mut c = config("http://influx");
        c.credentials.password = "hunter2".into();
        let upstream = Upstream::new(&c).ok().unwrap();
        assert_eq!(
            upstream.excerpt(b"no\nhunter2 for \x1b[1myou\n"),
            "no (hidden) for  [1myou"
        );
        assert_eq!(
            upstream
                .excerpt("ü".repeat(1000).as_bytes())
                .chars()
                .count(),
            EXCERPT_CHARS
        );
    }

    #[test]
    fn a_response_excerpt_redacts_the_password_in_every_form() {
        let mut c = config("http://influx");
        c.credentials.password = "p+w=d/ %&\u{e9}'\"x".into();
        let upstream = Upstream::new(&c).ok().unwrap();
        let escaped = "p%2Bw%3Dd%2F%20%25%26%C3%A9%27%22x";
        for problem in [
            c.credentials.password.clone(),
            escaped.to_owned(),
            escaped.to_ascii_lowercase(),
            escaped.replace("%20", "+"),
            "p+w=d/ %&\u{e9}'\\\"x".to_owned(),
            "p+w=d/ %&amp;\u{e9}&#39;&quot;x".to_owned(),
        ] {
            assert_eq!(
                upstream.excerpt(format!("no {problem} here").as_bytes()),
                "no (hidden) here",
                "{problem}"
            );
        }
        let query = format!("no /x/write?db=d&u=u&p={escaped}&precision=n, sorry");
        assert_eq!(
            upstream.excerpt(query.as_bytes()),
            "no /x/write?(hidden) sorry"
        );
        assert_eq!(upstream.excerpt(b"why? because? a=b"), "why? because? a=b");
        // Cut in the middle, and pulled forward by what is hidden before it.
        for filler in 0..escaped.len() {
            let long = format!(
                "{}{}",
                " ".repeat(filler),
                format!("{escaped} ").repeat(200)
            );
            let shown = upstream.excerpt(&long.as_bytes()[..MAX_RESPONSE_BYTES]);
            assert!(!shown.contains("%2B"), "{shown}");
        }
        for spaces in MAX_RESPONSE_BYTES - 3 * escaped.len()..MAX_RESPONSE_BYTES {
            let long = format!("{}{escaped}{}", " ".repeat(spaces), "x".repeat(200));
            let shown = upstream.excerpt(&long.as_bytes()[..MAX_RESPONSE_BYTES]);
            assert!(!shown.contains("p%2"), "{spaces}: {shown}");
        }
    }

    proptest! {
        #[test]
        fn no_upstream_response_leaks_the_password(before in "\\PC{0,300}", password in "[a-zA-Z0-9%&+=/?<> ]{6,30}", after in "\\PC{0,20}") {
            let mut c = config("http://influx");
            c.credentials.password = password.clone();
            let upstream = Upstream::new(&c).ok().unwrap();
            let shown = upstream.excerpt(format!("{before}{password}{after}").as_bytes());
            prop_assert!(!shown.contains(password.trim()), "{shown}");
        }
    }

    #[test]
    fn every_precision_round_trips_through_its_name() {
        use Precision::{Hours, Microseconds, Milliseconds, Minutes, Nanoseconds, Seconds};
        for precision in [
            Nanoseconds,
            Microseconds,
            Milliseconds,
            Seconds,
            Minutes,
            Hours,
        ] {
            assert_eq!(Precision::parse(precision.name()), Some(precision));
        }
        assert_eq!(Precision::parse("fortnight"), None);
    }
}
