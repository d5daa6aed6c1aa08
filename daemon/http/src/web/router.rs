use super::{
    WebState,
    auth::{AuthResult, Users},
    health::check_health,
    landing,
    recording_requests::{FLIGHT_SAVE_PATH, mark_kind, mark_name, save_flight_recording},
    request_checks::{self, AllowedHosts},
    scrape::ExpositionCache,
};
use crate::sinks::prometheus::{accepts_gzip, exposition_format};
use faultline_core::{rate_limit::RateLimit, socket::Peer};
use faultline_status::Status;
use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use parking_lot::Mutex;
use std::time::Duration;

/// Each response is complete in memory before its first byte is sent.
pub type Response = hyper::Response<Full<Bytes>>;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JSON: &str = "application/json";
const GZIP: &str = "gzip";
const VARY: &str = "Accept, Accept-Encoding";
const BASIC_AUTH_CHALLENGE: &str = "Basic realm=\"faultline\", charset=\"UTF-8\"";
/// Allows only inline styles: no script and no external content, even after an injection.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Debug)]
pub struct Router {
    pub state: WebState,
    users: Option<Users>,
    configured_headers: Vec<(HeaderName, HeaderValue)>,
    /// `None` with TLS or passwords.
    allowed_hosts: Option<AllowedHosts>,
    expositions: ExpositionCache,
    native_histograms: bool,
    /// Marks and saves are limited: any client may request them, and each takes disk space.
    mark_limit: Mutex<RateLimit>,
    save_limit: Mutex<RateLimit>,
}

impl Router {
    pub fn new(
        state: WebState,
        users: Option<Users>,
        headers: Vec<(HeaderName, HeaderValue)>,
        allowed_hosts: Option<AllowedHosts>,
        native_histograms: bool,
    ) -> Self {
        Self {
            expositions: ExpositionCache::new(
                state.constant_labels.clone(),
                state.dropped_series.clone(),
            ),
            state,
            users,
            configured_headers: headers,
            allowed_hosts,
            native_histograms,
            mark_limit: Mutex::new(RateLimit::with_burst(60, Duration::from_secs(1))),
            save_limit: Mutex::new(RateLimit::with_burst(6, Duration::from_secs(100))),
        }
    }

    /// Never fails. hyper omits the body of a response to HEAD. Unix sockets accept any host
    /// name, because no browser uses them.
    pub async fn respond(&self, request: Request<()>, peer: Peer) -> Response {
        let host_error = self
            .allowed_hosts
            .as_ref()
            .filter(|_| !peer.is_unix())
            .and_then(|allowed_hosts| allowed_hosts.host_error(&request));
        let response = if let Some(why) = host_error {
            text_response(StatusCode::FORBIDDEN, why)
        } else if let Some(rejection) = self.reject_unauthenticated(&request, peer).await {
            rejection
        } else if request.uri().path() == FLIGHT_SAVE_PATH {
            self.save_flight_recording(&request).await
        } else {
            self.route(&request, peer)
        };
        let response = with_header(response, header::CACHE_CONTROL, "no-store");
        let mut response = with_header(response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        for (name, value) in &self.configured_headers {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }

    /// `None` if the request is authenticated or needs no password.
    async fn reject_unauthenticated(&self, request: &Request<()>, peer: Peer) -> Option<Response> {
        let (users, now) = (self.users.as_ref()?, self.state.clock.now().uptime);
        let auth_result = users
            .authenticate(
                header_text(request.headers(), header::AUTHORIZATION).as_deref(),
                peer,
                now,
            )
            .await;
        let rejection = match auth_result {
            AuthResult::Admitted => return None,
            AuthResult::NoCredentials => return Some(unauthorized_response()),
            AuthResult::WrongCredentials => unauthorized_response(),
            AuthResult::TooManyAttempts(wait) => too_many_attempts_response(wait),
        };
        self.state.auth_failures.record_failure(peer, now);
        Some(rejection)
    }

    fn route(&self, request: &Request<()>, peer: Peer) -> Response {
        match request.uri().path() {
            "/mark" => check_post(request).unwrap_or_else(|| self.mark(request.uri().query())),
            "/metrics" | "/healthz" | "/readyz" | "/status" | "/status.svg" | "/"
                if !matches!(*request.method(), Method::GET | Method::HEAD) =>
            {
                wrong_method_response("Only GET and HEAD are answered here.", "GET, HEAD")
            }
            "/metrics" => self.metrics(request.headers(), peer),
            "/healthz" => self.healthz(),
            "/readyz" => self.readyz(),
            "/status" => self.status(),
            "/status.svg" => self.status_svg(),
            "/" => self.landing(),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "There is no such page; see /, /status, /status.svg, /metrics, /healthz and /readyz; POST /mark sets a mark, POST /flight/save saves the flight recording.",
            ),
        }
    }

    /// Responds when the recording is saved, or after a timeout.
    async fn save_flight_recording(&self, request: &Request<()>) -> Response {
        if let Some(response) = check_post(request) {
            return response;
        }
        let (status, text) = save_flight_recording(
            self.state.flight_recorder.as_ref(),
            request.uri().query(),
            &self.save_limit,
            self.state.clock.now().uptime,
        )
        .await;
        text_response(status, text)
    }

    fn mark(&self, query: Option<&str>) -> Response {
        let Some(recorder) = &self.state.recorder else {
            return text_response(
                StatusCode::NOT_FOUND,
                "Nothing is recorded; start faultlined with --record, or set flight.folder.",
            );
        };
        let (name, kind) = match (mark_name(query), mark_kind(query)) {
            (Ok(name), Ok(kind)) => (name, kind),
            (Err(why), _) | (_, Err(why)) => return text_response(StatusCode::BAD_REQUEST, why),
        };
        let now = self.state.clock.now();
        if !self.mark_limit.lock().try_take(now.uptime) {
            return text_response(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many marks: the limit is 60 at once, then one a second.",
            );
        }
        if recorder.mark(now, name, kind) {
            text_response(StatusCode::OK, "marked")
        } else {
            text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many marks wait to be written; try again.",
            )
        }
    }

    fn metrics(&self, headers: &HeaderMap, peer: Peer) -> Response {
        // Compression costs more CPU than a copy within the host.
        let use_gzip = !peer.is_same_host()
            && accepts_gzip(header_text(headers, header::ACCEPT_ENCODING).as_deref());
        let Some(tick) = self.state.newest_tick.get() else {
            return no_tick_response();
        };
        let exposition_format = exposition_format(
            header_text(headers, header::ACCEPT).as_deref(),
            self.native_histograms,
        );
        let (body, is_compressed) = match self.expositions.get(&tick, exposition_format, use_gzip) {
            Ok(encoded) => encoded,
            Err(error) => {
                tracing::error!(?exposition_format, %error, "the metrics could not be encoded");
                return text_response(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The metrics could not be encoded.",
                );
            }
        };
        let response = response(StatusCode::OK, exposition_format.content_type(), body);
        let response = with_header(response, header::VARY, VARY);
        if is_compressed {
            with_header(response, header::CONTENT_ENCODING, GZIP)
        } else {
            response
        }
    }

    fn healthz(&self) -> Response {
        match self.stale_reason() {
            None => text_response(StatusCode::OK, "ok"),
            Some(stale) => text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not healthy: {stale}"),
            ),
        }
    }

    fn stale_reason(&self) -> Option<String> {
        let newest = self.state.newest_tick.get().map(|tick| tick.at);
        check_health(newest, self.state.clock.now(), self.state.tick_interval).err()
    }

    fn newest_status(&self) -> Option<Status> {
        let tick = self.state.newest_tick.get()?;
        let trends = self.state.history.trends().answer_inputs();
        let status_config = self.state.status_config.get().unwrap_or_default();
        Some(Status::of(
            &tick,
            self.state.clock.now(),
            self.stale_reason(),
            trends,
            &status_config,
        ))
    }

    fn status(&self) -> Response {
        let Some(mut status) = self.newest_status() else {
            return no_tick_response();
        };
        status.last_minute = self.state.history.last_minute();
        match serde_json::to_vec(&status) {
            Ok(json) => response(StatusCode::OK, JSON, json),
            Err(error) => {
                tracing::error!(%error, "the status could not be encoded");
                text_response(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The status could not be encoded.",
                )
            }
        }
    }

    /// Ready after the first tick, which includes one search for the validator. The validator need
    /// not be found, because the daemon repeats the search.
    fn readyz(&self) -> Response {
        match self.state.newest_tick.get() {
            Some(_) => text_response(StatusCode::OK, "ready"),
            None => text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: the first tick is not done",
            ),
        }
    }

    fn status_svg(&self) -> Response {
        let Some(status) = self.newest_status() else {
            return no_tick_response();
        };
        with_header(
            response(StatusCode::OK, SVG, landing::status_svg(&status)),
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'",
        )
    }

    fn landing(&self) -> Response {
        let view = landing::View {
            status: self.newest_status(),
            stale_reason: self.stale_reason(),
            tick_interval: self.state.tick_interval,
            history: &self.state.history,
            page_info: &self.state.page_info,
        };
        let response = response(StatusCode::OK, HTML, landing::page(&view));
        with_header(
            response,
            header::CONTENT_SECURITY_POLICY,
            CONTENT_SECURITY_POLICY,
        )
    }
}

fn no_tick_response() -> Response {
    text_response(
        StatusCode::SERVICE_UNAVAILABLE,
        "No tick yet: the first one comes after the first search for the validator.",
    )
}

/// Rejects requests that are not POST, or that a browser sends for a page of another site.
fn check_post(request: &Request<()>) -> Option<Response> {
    if request.method() != Method::POST {
        return Some(wrong_method_response("Only POST is answered here.", "POST"));
    }
    request_checks::is_cross_origin(request).then(|| {
        text_response(
            StatusCode::FORBIDDEN,
            "A page of another site may not send this request.",
        )
    })
}

fn wrong_method_response(text: &str, allowed: &'static str) -> Response {
    let response = text_response(StatusCode::METHOD_NOT_ALLOWED, text);
    with_header(response, header::ALLOW, allowed)
}

/// Joins the ASCII values of a repeated header; `None` without any.
fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .map(str::to_owned)
        .reduce(|all, text| all + "," + &text)
}

fn unauthorized_response() -> Response {
    let response = text_response(
        StatusCode::UNAUTHORIZED,
        "A user and a password are needed; they are missing or wrong.",
    );
    with_header(response, header::WWW_AUTHENTICATE, BASIC_AUTH_CHALLENGE)
}

fn too_many_attempts_response(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let text = format!("Too many wrong passwords; try again in {seconds} s.");
    let mut response = text_response(StatusCode::TOO_MANY_REQUESTS, text);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, seconds.into());
    response
}

fn text_response(status: StatusCode, text: impl Into<String>) -> Response {
    response(status, TEXT, text.into() + "\n")
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    with_header(response, header::CONTENT_TYPE, content_type)
}

fn with_header(mut response: Response, name: HeaderName, value: &'static str) -> Response {
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}
