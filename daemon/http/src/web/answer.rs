use super::WebState;
use super::auth::{Users, Verdict};
use super::flight_save;
use super::health::health;
use super::landing;
use super::mark;
use super::request_checks::{self, AllowedHosts};
use super::scrape::Pages;
use crate::sinks::prometheus::{accepts_gzip, dialect};
use faultline_core::clock::Clock;
use faultline_core::rate_limit::RateLimit;
use faultline_core::socket::Peer;
use faultline_status::Status;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use std::time::Duration;

/// Every response is complete in memory before its first byte is sent.
pub(super) type Body = Full<Bytes>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
/// Allows only the page's own style: no script and no external content, even after an injection.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

#[derive(Debug)]
pub(super) struct Site {
    state: WebState,
    users: Option<Users>,
    headers: Vec<(HeaderName, HeaderValue)>,
    names: Option<AllowedHosts>,
    pages: Pages,
    native_histograms: bool,
    /// Limits marks and saves: any client may request them, and each takes disk space.
    marks: Mutex<RateLimit>,
    saves: Mutex<RateLimit>,
}

impl Site {
    pub(super) fn new(
        state: WebState,
        users: Option<Users>,
        headers: Vec<(HeaderName, HeaderValue)>,
        names: Option<AllowedHosts>,
        native_histograms: bool,
    ) -> Self {
        Site {
            pages: Pages::new(state.constant.clone(), state.dropped_series.clone()),
            state,
            users,
            headers,
            names,
            native_histograms,
            marks: Mutex::new(RateLimit::new(60, Duration::from_secs(1))),
            saves: Mutex::new(RateLimit::new(6, Duration::from_secs(100))),
        }
    }

    pub(super) fn clock(&self) -> Clock {
        self.state.clock
    }

    /// Never fails. The server sends only the head for HEAD. File system sockets accept any host
    /// name, because no browser uses them.
    pub(super) async fn answer(&self, request: Request<()>, peer: Peer) -> Response<Body> {
        let unknown = self
            .names
            .as_ref()
            .filter(|_| !peer.is_local())
            .and_then(|names| names.refuse(&request));
        let denied = match unknown {
            Some(why) => Some(sentence(StatusCode::FORBIDDEN, why)),
            None => self.deny(&request, peer).await,
        };
        let mut answer = match denied {
            Some(answer) => answer,
            None if request.uri().path() == flight_save::PATH => self.save_flight(&request).await,
            None => self.route(&request, peer),
        };
        let headers = answer.headers_mut();
        headers
            .entry(header::CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        headers
            .entry(header::X_CONTENT_TYPE_OPTIONS)
            .or_insert(HeaderValue::from_static("nosniff"));
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        answer
    }

    async fn deny(&self, request: &Request<()>, peer: Peer) -> Option<Response<Body>> {
        let (users, now) = (self.users.as_ref()?, self.state.clock.now().uptime);
        let verdict = users
            .judge(
                text_of(request.headers(), header::AUTHORIZATION).as_deref(),
                peer,
                now,
            )
            .await;
        if matches!(verdict, Verdict::Wrong | Verdict::TooMany(_)) {
            self.state.auth_failures.note(peer, now);
        }
        match verdict {
            Verdict::Admitted => None,
            Verdict::NotGiven | Verdict::Wrong => Some(unauthorized()),
            Verdict::TooMany(wait) => Some(too_many(wait)),
        }
    }

    fn route(&self, request: &Request<()>, peer: Peer) -> Response<Body> {
        let path = request.uri().path();
        match path {
            "/mark" => return refused(request).unwrap_or_else(|| self.mark(request.uri().query())),
            "/metrics" | "/healthz" | "/readyz" | "/status" | "/" => {}
            _ => {
                return sentence(
                    StatusCode::NOT_FOUND,
                    "There is no such page; see /, /status, /metrics, /healthz and /readyz; POST /mark sets a mark, POST /flight/save saves the flight recording.",
                );
            }
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return wrong_method("Only GET and HEAD are answered here.", "GET, HEAD");
        }
        match path {
            "/metrics" => self.metrics(request.headers(), peer),
            "/healthz" => self.healthz(),
            "/readyz" => self.readyz(),
            "/status" => self.status(),
            _ => self.landing(),
        }
    }

    /// Answers once the recording is saved.
    async fn save_flight(&self, request: &Request<()>) -> Response<Body> {
        if let Some(answer) = refused(request) {
            return answer;
        }
        let (flight, now) = (self.state.flight.as_ref(), self.state.clock.now().uptime);
        let (status, text) =
            flight_save::save(flight, request.uri().query(), &self.saves, now).await;
        sentence(status, text)
    }

    fn mark(&self, query: Option<&str>) -> Response<Body> {
        let Some(recorder) = &self.state.recorder else {
            return sentence(
                StatusCode::NOT_FOUND,
                "Nothing is recorded; start faultlined with --record.",
            );
        };
        let name = match mark::name(query) {
            Ok(name) => name,
            Err(why) => return sentence(StatusCode::BAD_REQUEST, why),
        };
        let kind = match mark::kind(query) {
            Ok(kind) => kind,
            Err(why) => return sentence(StatusCode::BAD_REQUEST, why),
        };
        let now = self.state.clock.now();
        if !self.marks.lock().allows(now.uptime) {
            return sentence(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many marks: the limit is 60 at once, then one a second.",
            );
        }
        if recorder.mark(now, name, kind) {
            sentence(StatusCode::OK, "marked")
        } else {
            sentence(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many marks wait to be written; try again.",
            )
        }
    }

    fn metrics(&self, headers: &HeaderMap, peer: Peer) -> Response<Body> {
        // Compression costs more CPU than a copy within the host.
        let gzip = !peer.is_same_host()
            && accepts_gzip(text_of(headers, header::ACCEPT_ENCODING).as_deref());
        let Some(tick) = self.state.ticks.get() else {
            return no_sample();
        };
        let dialect = dialect(
            text_of(headers, header::ACCEPT).as_deref(),
            self.native_histograms,
        );
        let (page, compressed) = match self.pages.get(&tick, dialect, gzip) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(?dialect, %error, "the page could not be encoded");
                return sentence(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The page could not be encoded.",
                );
            }
        };
        let mut answer = whole(
            StatusCode::OK,
            HeaderValue::from_static(dialect.content_type()),
            page,
        );
        let headers = answer.headers_mut();
        headers.insert(
            header::VARY,
            HeaderValue::from_static("Accept, Accept-Encoding"),
        );
        if compressed {
            headers.insert(header::CONTENT_ENCODING, GZIP);
        }
        answer
    }

    fn healthz(&self) -> Response<Body> {
        match self.stale() {
            None => sentence(StatusCode::OK, "ok"),
            Some(stale) => sentence(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not healthy: {stale}"),
            ),
        }
    }

    fn stale(&self) -> Option<String> {
        let newest = self.state.ticks.get().map(|tick| tick.at);
        let health = health(newest, self.state.clock.now(), self.state.interval);
        health.err().map(|stale| stale.to_string())
    }

    /// That of the newest tick; `None` before the first.
    fn newest_status(&self) -> Option<Status> {
        let tick = self.state.ticks.get()?;
        Some(Status::of(&tick, self.state.clock.now(), self.stale()))
    }

    fn status(&self) -> Response<Body> {
        let Some(status) = self.newest_status() else {
            return no_sample();
        };
        match serde_json::to_vec(&status) {
            Ok(json) => whole(StatusCode::OK, JSON, Bytes::from(json)),
            Err(error) => {
                tracing::error!(%error, "the status could not be encoded");
                sentence(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The status could not be encoded.",
                )
            }
        }
    }

    /// Ready after the first tick, which includes one search for the validator. It need not be
    /// found: the daemon exists to wait for it.
    fn readyz(&self) -> Response<Body> {
        match self.state.ticks.get() {
            Some(_) => sentence(StatusCode::OK, "ready"),
            None => sentence(
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: the first tick is not done",
            ),
        }
    }

    fn landing(&self) -> Response<Body> {
        let view = landing::View {
            status: self.newest_status(),
            stale: self.stale(),
            interval: self.state.interval,
            plots: self.state.history.series(),
            info: &self.state.page,
        };
        let mut answer = whole(StatusCode::OK, HTML, Bytes::from(landing::page(&view)));
        answer
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, POLICY);
        answer
    }
}

fn no_sample() -> Response<Body> {
    sentence(
        StatusCode::SERVICE_UNAVAILABLE,
        "No sample yet: the first one comes after the first search for the validator.",
    )
}

/// Rejects requests from pages of other sites, which a browser would send.
fn refused(request: &Request<()>) -> Option<Response<Body>> {
    if request.method() != Method::POST {
        return Some(wrong_method("Only POST is answered here.", "POST"));
    }
    request_checks::is_foreign(request).then(|| {
        sentence(
            StatusCode::FORBIDDEN,
            "Pages of other sites may not ask for this.",
        )
    })
}

fn wrong_method(text: &str, allowed: &'static str) -> Response<Body> {
    let mut answer = sentence(StatusCode::METHOD_NOT_ALLOWED, text);
    answer
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Joins repeated headers into one list; `None` if missing or not ASCII.
fn text_of(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values: Vec<&str> = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn unauthorized() -> Response<Body> {
    let mut answer = sentence(
        StatusCode::UNAUTHORIZED,
        "User and password are needed, and these are not right.",
    );
    answer.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static("Basic realm=\"faultline\", charset=\"UTF-8\""),
    );
    answer
}

/// After too many wrong passwords, credentials are not checked before `wait` is over.
fn too_many(wait: Duration) -> Response<Body> {
    let seconds = wait.as_secs() + 1;
    let text = format!("Too many wrong passwords; try again in {seconds} s.");
    let mut answer = sentence(StatusCode::TOO_MANY_REQUESTS, text);
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    answer
}

fn sentence(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut text = text.into();
    text.push('\n');
    whole(status, TEXT, Bytes::from(text))
}

fn whole(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Body> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}
