//! Requests the status on a separate thread, so that keys work while a host does not answer.

use crate::{address::Address, args::TopArgs};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_client::http;
use faultline_common::clock;
use faultline_net::unrequested_content_encoding;
use faultline_status::{JSON_VERSION, Status};
use serde::{Deserialize, de::Error as _};
use serde_json::Value;
use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};
use ureq::{Agent, config::Config};

pub type FetchResult = Result<Box<Status>, String>;

/// When a `Fetcher` is dropped, its thread ends after the current request.
pub struct Fetcher {
    results: Receiver<FetchResult>,
    _stop: Sender<()>,
}

impl Fetcher {
    /// Sends a request at once. Each interval begins with a request.
    pub fn start(client: Client, interval: Duration) -> std::io::Result<Self> {
        let (sender, results) = channel();
        let (stop, stopped) = channel();
        let poll = move || {
            loop {
                let started = clock::uptime();
                if sender.send(client.fetch()).is_err() {
                    return;
                }
                let pause = interval.saturating_sub(clock::uptime().saturating_sub(started));
                if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("fetch".to_owned())
            .spawn(poll)?;
        Ok(Self {
            results,
            _stop: stop,
        })
    }

    pub fn next_result(&self) -> Option<FetchResult> {
        self.results.try_recv().ok()
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAX_ANSWER_BYTES: u64 = 16 << 20;
/// A request may take this long, or one interval if that is longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

pub struct Client {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Client {
    pub fn new(address: &Address, args: &TopArgs) -> Result<Self> {
        let mut config = Config::builder()
            .timeout_global(Some(REQUEST_TIMEOUT.max(args.interval)))
            // The page is usually on this host or network, which a web proxy may not reach.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("faultline/", env!("CARGO_PKG_VERSION")));
        if address.url.starts_with("https:") {
            config = config.tls_config(http::tls_config(args.ca.as_deref())?);
        }
        let config = config.build();
        let agent = match &address.socket {
            Some(path) => http::unix_agent(config, path.clone()),
            None => http::agent(config),
        };
        let authorization = args
            .user
            .as_ref()
            .zip(args.password_file.as_ref())
            .map(|(user, file)| authorization(user, file))
            .transpose()?;
        Ok(Self {
            agent,
            url: address.url.clone(),
            authorization,
        })
    }

    pub fn fetch(&self) -> FetchResult {
        let mut request = self
            .agent
            .get(&self.url)
            .header("Accept", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut response = request.call().map_err(|error| http::reason(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(refusal(status, self.authorization.is_some()));
        }
        if let Some(coding) = unrequested_content_encoding(response.headers()) {
            return Err(format!(
                "the page is encoded with {coding}, which was not requested"
            ));
        }
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER_BYTES)
            .lossy_utf8(true)
            .read_to_string();
        parse_status(&text.map_err(|error| http::reason(&error))?)
    }
}

fn refusal(status: u16, sent_credentials: bool) -> String {
    let reason = match status {
        401 if sent_credentials => "it rejects this user and password",
        401 => "it needs --user and --password-file",
        403 => "it does not answer to this name: use its address, or add the name to metrics.hosts",
        503 => "it has no sample yet",
        300..=399 => "the page has moved; name its new address",
        404 => &format!(
            "it has no page /status. If a proxy is in front of the daemon, let the proxy pass this page; else install faultlined {VERSION}, the release of this faultline"
        ),
        _ => return format!("it answers with HTTP {status}, not with the status of a faultlined"),
    };
    format!("{status}: {reason}")
}

fn parse_status(text: &str) -> FetchResult {
    const FOREIGN: &str = "it answers, but not with the status of a faultlined";
    let json: Value = serde_json::from_str(text).map_err(|_| FOREIGN)?;
    let status = match json["version"].as_u64().ok_or(FOREIGN)? {
        version if version == u64::from(JSON_VERSION) => Status::deserialize(&json),
        version => Err(serde_json::Error::custom(format!("version {version}"))),
    };
    status
        .map(Box::new)
        .map_err(|error| match json["faultlined"].as_str() {
            Some(other) if other != VERSION => format!(
                "its status is not understood ({error}): it comes from faultlined {other:?}, and this is faultline {VERSION:?}; install the newer release for both"
            ),
            _ => format!("its status is not understood ({error})"),
        })
}

fn authorization(user: &str, file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--password-file {}", file.display()))?;
    let password = text.trim_end_matches(['\n', '\r']);
    ensure!(
        !user.contains(':'),
        "--user {user:?}: a name cannot contain a colon"
    );
    ensure!(
        !password.is_empty() && !password.contains(['\n', '\r', '\0']),
        "--password-file {}: one line with the password is wanted",
        file.display()
    );
    Ok(format!(
        "Basic {}",
        STANDARD.encode(format!("{user}:{password}"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_the_only_line_without_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let login = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            authorization("me", file.path())
        };
        let expected = format!("Basic {}", STANDARD.encode("me:secret"));
        for text in ["secret", "secret\n", "secret\r\n"] {
            assert_eq!(login(text).unwrap(), expected, "{text:?}");
        }
        for text in ["", "\r\n", "two\nlines\n"] {
            assert!(login(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_status_of_another_release_is_refused_with_a_remedy() {
        let refused = |text: &str| parse_status(text).unwrap_err();
        for text in [
            "",
            "# HELP agave_up x",
            "<html>",
            "{}",
            "{\"faultlined\": \"1\"}",
        ] {
            assert!(refused(text).contains("not with the status of a faultlined"));
        }
        let versions = format!(
            ": it comes from faultlined \"9.8.7\", and this is faultline {VERSION:?}; install the newer release for both"
        );
        for (text, words) in [
            ("\"version\": 99", "(version 99)"),
            ("\"version\": 1, \"votes\": 7", "(invalid type"),
        ] {
            let refused = refused(&format!("{{\"faultlined\": \"9.8.7\", {text}}}"));
            assert!(
                refused.contains(words) && refused.contains(&versions),
                "{refused}"
            );
        }
        for known in [String::new(), format!("\"faultlined\": {VERSION:?}, ")] {
            let refused = refused(&format!("{{{known}\"version\": 99}}"));
            assert_eq!(refused, "its status is not understood (version 99)");
        }
        let other_release = "{\"faultlined\": \"9.8.7\", \"version\": 1}";
        assert_eq!(parse_status(other_release).unwrap().faultlined, "9.8.7");
    }
}
