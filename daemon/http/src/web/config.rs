//! The web config file in the format of Prometheus' exporters (exporter-toolkit). Unsupported keys
//! are errors: ignoring them could silently remove a protection.

use super::{
    WebError,
    auth::{Users, bcrypt_cost},
    tls::{ClientCertificates, TlsFiles, read},
};
use hyper::header::{HeaderName, HeaderValue};
use rustls::{
    SupportedProtocolVersion,
    version::{TLS12, TLS13},
};
use serde::{Deserialize, de::IgnoredAny};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub struct WebConfig {
    pub path: PathBuf,
    pub tls: Option<TlsFiles>,
    pub users: Option<Users>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// Maximum bcrypt cost. A check of a higher cost takes ten seconds or more, longer than Prometheus
/// waits by default.
const MAX_COST: u32 = 16;

/// bcrypt's own minimum: a check of a lower cost always fails.
const MIN_COST: u32 = 4;

const SETTABLE_HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
];

/// The oldest first.
const TLS_VERSIONS: [(&str, &SupportedProtocolVersion); 2] = [("TLS12", &TLS12), ("TLS13", &TLS13)];

/// Keys of the format that are not supported, with the remedy.
const UNSUPPORTED_KEYS: [(&str, &str); 8] = [
    ("rate_limit", "remove it"),
    ("cert", "put it into a file and name it in cert_file"),
    ("key", "put it into a file and name it in key_file"),
    (
        "client_ca",
        "put it into a file and name it in client_ca_file",
    ),
    (
        "client_allowed_sans",
        "sign the certificates of allowed clients with a separate CA (client_ca_file)",
    ),
    ("cipher_suites", LIBRARY_DECIDES),
    ("curve_preferences", LIBRARY_DECIDES),
    ("prefer_server_cipher_suites", LIBRARY_DECIDES),
];
const LIBRARY_DECIDES: &str = "the TLS library offers only what is considered safe; remove it";

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    tls_server_config: Option<Tls>,
    http_server_config: Option<Http>,
    basic_auth_users: Option<OptionalTexts>,
    #[serde(flatten)]
    other_keys: OtherKeys,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tls {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: Option<String>,
    client_ca_file: Option<PathBuf>,
    min_version: Option<String>,
    max_version: Option<String>,
    #[serde(flatten)]
    other_keys: OtherKeys,
}

/// `http2` allows HTTP/2 without requiring it. The server uses HTTP/1.1 with either value.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Http {
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: Option<OptionalTexts>,
    #[serde(flatten)]
    other_keys: OtherKeys,
}

/// Headers or password hashes by name. An empty header is ignored; an empty hash is an error.
type OptionalTexts = BTreeMap<String, Option<String>>;

type OtherKeys = BTreeMap<String, IgnoredAny>;

impl WebConfig {
    /// Relative paths in the file start at its folder.
    ///
    /// # Errors
    /// The first error; [`WebConfig::read`] returns all.
    pub fn load(path: &Path) -> Result<Self, WebError> {
        let (config, errors) = Self::read(path);
        errors.into_iter().next().map_or(Ok(config), Err)
    }

    /// Returns every error, or a single one if the file cannot be read or parsed. The result omits
    /// invalid parts.
    pub fn read(path: &Path) -> (Self, Vec<WebError>) {
        let mut reader = ConfigReader {
            path: path.to_owned(),
            errors: Vec::new(),
        };
        let options = serde_saphyr::options! { with_snippet: false };
        let file = read(path).and_then(|bytes| {
            let read = serde_saphyr::from_slice_with_options::<Option<File>>(&bytes, options);
            read.map_err(|error| WebError::Yaml {
                path: path.to_owned(),
                what: error.to_string(),
            })
        });
        let file = file
            .map_err(|error| reader.errors.push(error))
            .ok()
            .flatten()
            .unwrap_or_default();
        (reader.check_file(file), reader.errors)
    }

    pub fn protects(&self) -> bool {
        self.tls.is_some() || self.users.is_some()
    }
}

struct ConfigReader {
    path: PathBuf,
    errors: Vec<WebError>,
}

impl ConfigReader {
    fn add_error(&mut self, key: &str, what: impl Into<String>) {
        self.errors.push(WebError::Key {
            path: self.path.clone(),
            key: key.to_owned(),
            what: what.into(),
        });
    }

    fn reject_other_keys(&mut self, prefix: &str, others: OtherKeys, known: &str) {
        for key in others.into_keys() {
            let message = match UNSUPPORTED_KEYS.iter().find(|(name, _)| *name == key) {
                Some((_, advice)) => format!("is not supported: {advice}"),
                None => format!("unknown key; known here: {known}"),
            };
            self.add_error(&format!("{prefix}{key}"), message);
        }
    }

    fn check_file(&mut self, file: File) -> WebConfig {
        let tls = file.tls_server_config.and_then(|tls| self.tls(tls));
        let http = file.http_server_config.unwrap_or_default();
        let headers = self.headers(http.headers.unwrap_or_default());
        let users = self.users(file.basic_auth_users.unwrap_or_default());
        self.reject_other_keys("http_server_config.", http.other_keys, "http2, headers");
        self.reject_other_keys(
            "",
            file.other_keys,
            "tls_server_config, http_server_config, basic_auth_users",
        );
        WebConfig {
            path: self.path.clone(),
            tls,
            users,
            headers,
        }
    }

    fn tls(&mut self, tls: Tls) -> Option<TlsFiles> {
        let known =
            "cert_file, key_file, client_auth_type, client_ca_file, min_version, max_version";
        self.reject_other_keys("tls_server_config.", tls.other_keys, known);
        let versions = self.versions(tls.min_version, tls.max_version);
        let client_certificates =
            self.client_certificates(tls.client_auth_type.as_deref(), tls.client_ca_file);
        let (Some(cert), Some(key)) = (tls.cert_file, tls.key_file) else {
            self.add_error(
                "tls_server_config",
                "cert_file and key_file are both needed",
            );
            return None;
        };
        Some(TlsFiles {
            config_file: self.path.clone(),
            cert: self.relative_to_config(&cert),
            key: self.relative_to_config(&key),
            client_certificates: client_certificates?,
            protocol_versions: versions?,
        })
    }

    fn versions(
        &mut self,
        min: Option<String>,
        max: Option<String>,
    ) -> Option<Vec<&'static SupportedProtocolVersion>> {
        let min = self.version("min_version", min.as_deref().unwrap_or("TLS12"));
        let max = self.version("max_version", max.as_deref().unwrap_or("TLS13"));
        let (min, max) = (min?, max?);
        if min > max {
            self.add_error("tls_server_config.min_version", "is above max_version");
            return None;
        }
        let versions = TLS_VERSIONS.get(min..=max).unwrap_or_default();
        Some(versions.iter().map(|(_, version)| *version).collect())
    }

    /// The index in [`TLS_VERSIONS`].
    fn version(&mut self, key: &str, text: &str) -> Option<usize> {
        let index = TLS_VERSIONS.iter().position(|(name, _)| *name == text);
        if index.is_none() {
            let message = match text {
                "TLS10" | "TLS11" => format!("{text} is no longer safe: write TLS12 or TLS13"),
                other => format!("{other:?} is neither TLS12 nor TLS13"),
            };
            self.add_error(&format!("tls_server_config.{key}"), message);
        }
        index
    }

    fn relative_to_config(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    fn client_certificates(
        &mut self,
        kind: Option<&str>,
        ca: Option<PathBuf>,
    ) -> Option<ClientCertificates> {
        let key = "tls_server_config.client_auth_type";
        let ca = ca.map(|file| self.relative_to_config(&file));
        match (kind.unwrap_or("NoClientCert"), ca) {
            ("NoClientCert" | "", None) => return Some(ClientCertificates::NotRequested),
            ("NoClientCert" | "", Some(_)) => self.add_error(
                "tls_server_config.client_ca_file",
                "has no effect without client_auth_type: set it to RequireAndVerifyClientCert, or remove client_ca_file",
            ),
            ("RequireAndVerifyClientCert", Some(ca)) => return Some(ClientCertificates::Required(ca)),
            ("VerifyClientCertIfGiven", Some(ca)) => return Some(ClientCertificates::IfGiven(ca)),
            (kind @ ("RequireAndVerifyClientCert" | "VerifyClientCertIfGiven"), None) => {
                self.add_error(key, format!("{kind} needs client_ca_file"));
            }
            (kind @ ("RequestClientCert" | "RequireAnyClientCert"), _) => self.add_error(
                key,
                format!(
                    "{kind} is not supported, because it accepts unverified certificates: write \
                     RequireAndVerifyClientCert"
                ),
            ),
            (other, _) => self.add_error(
                key,
                format!("{other:?} is none of NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert"),
            ),
        }
        None
    }

    fn users(&mut self, users: OptionalTexts) -> Option<Users> {
        let errors_before = self.errors.len();
        let users: BTreeMap<_, _> = users
            .into_iter()
            .map(|(user, hash)| (user, hash.unwrap_or_default()))
            .collect();
        for (user, hash) in &users {
            // The value may be a plain password: it is not repeated.
            let message = if bcrypt_cost(hash) < MIN_COST {
                "is not a bcrypt hash: make one with `htpasswd -nBC 10 \"\"`"
            } else if bcrypt_cost(hash) > MAX_COST {
                "has a bcrypt cost above 16, whose check takes longer than a scraper waits: make one with `htpasswd -nBC 10 \"\"`"
            } else if user.contains(':') {
                "has a colon, which ends the name in a request: choose another name"
            } else {
                continue;
            };
            self.add_error(&format!("basic_auth_users.{user}"), message);
        }
        if users.is_empty() || self.errors.len() > errors_before {
            return None;
        }
        Users::new(users)
            .map_err(|error| self.errors.push(error))
            .ok()
    }

    fn headers(&mut self, headers: OptionalTexts) -> Vec<(HeaderName, HeaderValue)> {
        let mut valid_headers = Vec::new();
        let given = headers
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
        for (name, value) in given {
            let key = format!("http_server_config.headers.{name}");
            if !SETTABLE_HEADERS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&name))
            {
                self.add_error(
                    &key,
                    format!("cannot be set; these can: {}", SETTABLE_HEADERS.join(", ")),
                );
                continue;
            }
            match (name.parse(), value.parse()) {
                (Ok(name), Ok(value)) => valid_headers.push((name, value)),
                _ => self.add_error(&key, "contains characters that a header cannot have"),
            }
        }
        valid_headers
    }
}

#[cfg(test)]
mod tests;
