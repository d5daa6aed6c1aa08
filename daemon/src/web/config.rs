//! The web config file, in the format that Prometheus' exporters share (exporter-toolkit). What is not supported is
//! refused by name: a protection that is silently left out protects nobody.

use super::auth::{Users, cost};
use super::error::WebError;
use super::tls::{ClientCertificates, TlsFiles};
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the file asks for.
#[derive(Debug)]
pub(super) struct WebConfig {
    /// The file.
    pub(super) path: PathBuf,
    /// TLS, if asked for.
    pub(super) tls: Option<TlsFiles>,
    /// Who may look; `None`: everyone.
    pub(super) users: Option<Users>,
    /// Headers of every answer.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// A hash of a higher cost takes longer than a request may: ten seconds and more.
const DEAREST: u32 = 16;

/// Headers that the format allows to be set.
const HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tls_server_config: Option<Tls>,
    http_server_config: Option<Http>,
    basic_auth_users: Option<BTreeMap<String, String>>,
    rate_limit: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: Option<String>,
    client_ca_file: Option<PathBuf>,
    min_version: Option<String>,
    max_version: Option<String>,
    cert: Option<IgnoredAny>,
    key: Option<IgnoredAny>,
    client_ca: Option<IgnoredAny>,
    client_allowed_sans: Option<IgnoredAny>,
    cipher_suites: Option<IgnoredAny>,
    curve_preferences: Option<IgnoredAny>,
    prefer_server_cipher_suites: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Http {
    /// A permission, not a demand: HTTP/1.1 is spoken either way.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

impl WebConfig {
    /// Reads the file. Files it names are relative to its folder.
    pub(super) fn load(path: &Path) -> Result<WebConfig, WebError> {
        let text = std::fs::read_to_string(path).map_err(|source| WebError::Read { path: path.to_owned(), source })?;
        let options = serde_saphyr::options! { with_snippet: false };
        let file: Option<File> = serde_saphyr::from_str_with_options(&text, options)
            .map_err(|error| WebError::Yaml { path: path.to_owned(), what: error.to_string() })?;
        let file = file.unwrap_or_default();
        let read = Reader { path };
        read.refuse(&file.rate_limit, "rate_limit", "is not supported: remove it")?;
        Ok(WebConfig {
            path: path.to_owned(),
            tls: file.tls_server_config.map(|tls| read.tls(tls)).transpose()?,
            users: read.users(file.basic_auth_users.unwrap_or_default())?,
            headers: read.headers(file.http_server_config.and_then(|http| http.headers).unwrap_or_default())?,
        })
    }

    /// Whether it keeps anybody out or anything secret.
    pub(super) fn protects(&self) -> bool {
        self.tls.is_some() || self.users.is_some()
    }
}

struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn wrong(&self, key: &str, what: impl Into<String>) -> WebError {
        WebError::Key { path: self.path.to_owned(), key: key.to_owned(), what: what.into() }
    }

    fn refuse<T>(&self, value: &Option<T>, key: &str, what: &str) -> Result<(), WebError> {
        if value.is_some() { Err(self.wrong(key, what)) } else { Ok(()) }
    }

    fn tls(&self, tls: Tls) -> Result<TlsFiles, WebError> {
        let own = "is not supported: the TLS library offers only what is considered safe; remove it";
        self.refuse(
            &tls.cert,
            "tls_server_config.cert",
            "is not supported: put it into a file and name it in cert_file",
        )?;
        self.refuse(&tls.key, "tls_server_config.key", "is not supported: put it into a file and name it in key_file")?;
        let ca = "is not supported: put it into a file and name it in client_ca_file";
        self.refuse(&tls.client_ca, "tls_server_config.client_ca", ca)?;
        let sans = "is not supported: sign the clients that may look with a CA of their own (client_ca_file)";
        self.refuse(&tls.client_allowed_sans, "tls_server_config.client_allowed_sans", sans)?;
        self.refuse(&tls.cipher_suites, "tls_server_config.cipher_suites", own)?;
        self.refuse(&tls.curve_preferences, "tls_server_config.curve_preferences", own)?;
        self.refuse(&tls.prefer_server_cipher_suites, "tls_server_config.prefer_server_cipher_suites", own)?;
        let (Some(cert), Some(key)) = (&tls.cert_file, &tls.key_file) else {
            return Err(self.wrong("tls_server_config", "cert_file and key_file are both needed"));
        };
        let (least, most) =
            (self.version(&tls.min_version, "min_version")?, self.version(&tls.max_version, "max_version")?);
        let versions: Vec<_> = match (least, most) {
            (Some(Version::Tls13), Some(Version::Tls12)) => {
                return Err(self.wrong("tls_server_config.min_version", "is above max_version"));
            }
            (_, Some(Version::Tls12)) => vec![&rustls::version::TLS12],
            (Some(Version::Tls13), _) => vec![&rustls::version::TLS13],
            _ => vec![&rustls::version::TLS12, &rustls::version::TLS13],
        };
        Ok(TlsFiles {
            config: self.path.to_owned(),
            cert: self.beside(cert),
            key: self.beside(key),
            clients: self.clients(&tls)?,
            versions,
        })
    }

    fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    fn version(&self, value: &Option<String>, key: &str) -> Result<Option<Version>, WebError> {
        match value.as_deref() {
            None => Ok(None),
            Some("TLS12") => Ok(Some(Version::Tls12)),
            Some("TLS13") => Ok(Some(Version::Tls13)),
            Some(old @ ("TLS10" | "TLS11")) => Err(self
                .wrong(&format!("tls_server_config.{key}"), format!("{old} is no longer safe: write TLS12 or TLS13"))),
            Some(other) => {
                Err(self.wrong(&format!("tls_server_config.{key}"), format!("{other:?} is neither TLS12 nor TLS13")))
            }
        }
    }

    fn clients(&self, tls: &Tls) -> Result<ClientCertificates, WebError> {
        let key = "tls_server_config.client_auth_type";
        let ca = tls.client_ca_file.as_deref().map(|file| self.beside(file));
        match (tls.client_auth_type.as_deref().unwrap_or("NoClientCert"), ca) {
            ("NoClientCert" | "", None) => Ok(ClientCertificates::NotAsked),
            ("NoClientCert" | "", Some(_)) => Err(self.wrong(
                "tls_server_config.client_ca_file",
                "has no effect without client_auth_type: set it to RequireAndVerifyClientCert, or remove client_ca_file",
            )),
            ("RequireAndVerifyClientCert", Some(ca)) => Ok(ClientCertificates::Required(ca)),
            ("VerifyClientCertIfGiven", Some(ca)) => Ok(ClientCertificates::IfGiven(ca)),
            (kind @ ("RequireAndVerifyClientCert" | "VerifyClientCertIfGiven"), None) => {
                Err(self.wrong(key, format!("{kind} needs client_ca_file")))
            }
            (kind @ ("RequestClientCert" | "RequireAnyClientCert"), _) => Err(self.wrong(
                key,
                format!("{kind} is not supported, since it takes certificates that nobody verifies: write RequireAndVerifyClientCert"),
            )),
            (other, _) => Err(self.wrong(
                key,
                format!("{other:?} is none of NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert"),
            )),
        }
    }

    fn users(&self, users: BTreeMap<String, String>) -> Result<Option<Users>, WebError> {
        for (user, hash) in &users {
            // The value may be a password that somebody forgot to hash: it is not repeated.
            if hash.parse::<bcrypt::HashParts>().is_err() {
                let what = "is no bcrypt hash: make one with `htpasswd -nBC 10 \"\"`";
                return Err(self.wrong(&format!("basic_auth_users.{user}"), what));
            }
            if cost(hash) > DEAREST {
                let what = "is of a cost that no scraper waits for: make one with `htpasswd -nBC 10 \"\"`";
                return Err(self.wrong(&format!("basic_auth_users.{user}"), what));
            }
        }
        if users.is_empty() { Ok(None) } else { Users::new(users).map(Some) }
    }

    fn headers(&self, headers: BTreeMap<String, String>) -> Result<Vec<(HeaderName, HeaderValue)>, WebError> {
        let read = |(name, value): (&String, &String)| {
            let key = format!("http_server_config.headers.{name}");
            if !HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(self.wrong(&key, format!("cannot be set; known are {}", HEADERS.join(", "))));
            }
            match (name.parse(), value.parse()) {
                (Ok(name), Ok(value)) => Ok((name, value)),
                _ => Err(self.wrong(&key, "holds characters that a header cannot carry")),
            }
        };
        headers.iter().filter(|(_, value)| !value.is_empty()).map(read).collect()
    }
}

#[derive(Clone, Copy)]
enum Version {
    Tls12,
    Tls13,
}

#[cfg(test)]
mod tests;
