use super::Answer;
use crate::address::Address;
use crate::page::Page;
use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;
use faultline_command::{http, tls};
use faultline_net::unrequested_coding;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;
use ureq::config::Config;

/// A daemon's page is far smaller.
const MOST_BYTES: u64 = 16 << 20;
/// Limit of a request, or one interval if that is longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// User, and the file with the password.
    pub(crate) login: Option<(String, PathBuf)>,
    pub(crate) authorities: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Client {
    pub(crate) fn new(
        address: &Address,
        access: &Access,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let config = Config::builder()
            .timeout_global(Some(REQUEST_TIMEOUT.max(interval)))
            // The page is on this host or this network, which a proxy for the web cannot reach.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("faultline/", env!("CARGO_PKG_VERSION")));
        let config = match address.url.starts_with("https:") {
            true => config
                .tls_config(tls::client_config(access.authorities.as_deref())?)
                .build(),
            false => config.build(),
        };
        let agent = match &address.socket {
            Some(path) => http::unix_agent(config, path.clone()),
            None => http::agent(config),
        };
        let authorization = access
            .login
            .as_ref()
            .map(|(user, file)| authorization(user, file))
            .transpose()?;
        Ok(Client {
            agent,
            url: address.url.clone(),
            authorization,
        })
    }

    pub(crate) fn fetch(&self) -> Answer {
        let mut request = self
            .agent
            .get(&self.url)
            .header("Accept", "text/plain;version=0.0.4");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut response = request.call().map_err(|error| http::reason(&error))?;
        match response.status().as_u16() {
            200 => {
                if let Some(coding) = unrequested_coding(response.headers()) {
                    return Err(format!(
                        "the page is encoded with {coding}, which was not asked for"
                    ));
                }
            }
            401 if self.authorization.is_none() => {
                return Err("401: it wants --user and --password-file".to_owned());
            }
            401 => return Err("401: it does not take this user and password".to_owned()),
            403 => {
                return Err(
                    "403: the daemon does not answer to this name: ask by an address, or add it to metrics.hosts"
                        .to_owned(),
                );
            }
            503 => return Err("503: it has no sample yet".to_owned()),
            status @ 300..=399 => {
                return Err(format!(
                    "{status}: the page has moved; name its new address"
                ));
            }
            status => return Err(format!("it answers {status}, and no page")),
        }
        let served_at = date(
            response
                .headers()
                .get("date")
                .and_then(|value| value.to_str().ok()),
        );
        let text = response
            .body_mut()
            .with_config()
            .limit(MOST_BYTES)
            .lossy_utf8(true)
            .read_to_string();
        let page =
            Page::read(&text.map_err(|error| http::reason(&error))?).with_served_at(served_at);
        if page.is_ours() {
            Ok(page)
        } else {
            Err("it answers, but it is no page of faultlined".to_owned())
        }
    }
}

fn date(header: Option<&str>) -> Option<Duration> {
    let time = DateTime::parse_from_rfc2822(header?).ok()?;
    u64::try_from(time.timestamp())
        .ok()
        .map(Duration::from_secs)
}

fn authorization(user: &str, file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--password-file {}", file.display()))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    anyhow::ensure!(
        !user.contains(':'),
        "--user {user:?}: a name cannot hold a colon"
    );
    anyhow::ensure!(
        !password.is_empty() && !password.contains(['\n', '\0']),
        "--password-file {}: one line with the password is wanted",
        file.display()
    );
    Ok(format!(
        "Basic {}",
        STANDARD.encode(format!("{user}:{password}"))
    ))
}
