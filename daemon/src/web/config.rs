//! The web config file, in the format that Prometheus' exporters share (exporter-toolkit). What is not supported is
//! refused by name: a protection that is silently left out protects nobody.

mod yaml;

use super::auth::{Users, cost};
use super::error::WebError;
use super::tls::{ClientCertificates, TlsFiles};
use hyper::header::{HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use yaml::{Key, Node};

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

impl WebConfig {
    /// Reads the file. Files it names are relative to its folder.
    ///
    /// # Errors
    /// The first mistake; [`WebConfig::read`] has all of them.
    pub(super) fn load(path: &Path) -> Result<WebConfig, WebError> {
        let (config, mistakes) = Self::read(path);
        mistakes.into_iter().next().map_or(Ok(config), Err)
    }

    /// Reads the file, with every mistake in it. What is wrong is left out of the result.
    pub(super) fn read(path: &Path) -> (WebConfig, Vec<WebError>) {
        let nothing = WebConfig { path: path.to_owned(), tls: None, users: None, headers: Vec::new() };
        let path = || path.to_owned();
        let text = match std::fs::read_to_string(path()) {
            Ok(text) => text,
            Err(source) => return (nothing, vec![WebError::Read { path: path(), source }]),
        };
        match Node::parse(&text) {
            Ok(Node::Empty) => (nothing, Vec::new()),
            Ok(Node::Table(entries)) => {
                let mut read = Reader { path: path(), mistakes: Vec::new() };
                let config = read.file(Fields::new("", entries));
                (config, read.mistakes)
            }
            Ok(other) => {
                let what = format!("it begins with {}, not with a key", other.kind());
                (nothing, vec![WebError::Yaml { path: path(), what }])
            }
            Err(what) => (nothing, vec![WebError::Yaml { path: path(), what }]),
        }
    }

    /// Whether it keeps anybody out or anything secret.
    pub(super) fn protects(&self) -> bool {
        self.tls.is_some() || self.users.is_some()
    }
}

/// The keys of one table. They are taken one by one; [`Reader::finish`] tells those that nothing took.
struct Fields {
    /// The table's own key, with a point behind it; empty at the top.
    prefix: String,
    left: Vec<(Key, Node)>,
    known: Vec<&'static str>,
}

impl Fields {
    fn new(name: &str, left: Vec<(Key, Node)>) -> Self {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
        Fields { prefix, left, known: Vec::new() }
    }

    fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(one, node)| one.name == key && !matches!(node, Node::Empty))
    }

    /// A key and its value, unless it is empty.
    fn take(&mut self, key: &'static str) -> Option<(Key, Node)> {
        self.known.push(key);
        let at = self.left.iter().position(|(one, _)| one.name == key)?;
        Some(self.left.swap_remove(at)).filter(|(_, node)| !matches!(node, Node::Empty))
    }
}

struct Reader {
    path: PathBuf,
    mistakes: Vec<WebError>,
}

impl Reader {
    fn wrong(&mut self, key: &str, what: impl Into<String>) {
        let path = self.path.clone();
        self.mistakes.push(WebError::Key { path, line: None, key: key.to_owned(), what: what.into() });
    }

    fn wrong_at(&mut self, line: u64, key: &str, what: impl Into<String>) {
        let path = self.path.clone();
        self.mistakes.push(WebError::Key { path, line: Some(line), key: key.to_owned(), what: what.into() });
    }

    fn text(&mut self, fields: &mut Fields, key: &'static str) -> Option<String> {
        match fields.take(key)? {
            (_, Node::Text(text)) => Some(text),
            (at, other) => {
                let name = format!("{}{key}", fields.prefix);
                self.wrong_at(at.line, &name, format!("a text is wanted, not {}", other.kind()));
                None
            }
        }
    }

    fn table(&mut self, fields: &mut Fields, key: &'static str) -> Option<Fields> {
        let (at, node) = fields.take(key)?;
        let name = format!("{}{key}", fields.prefix);
        match node {
            Node::Table(entries) => Some(Fields::new(&name, entries)),
            other => {
                self.wrong_at(at.line, &name, format!("a table is wanted, not {}", other.kind()));
                None
            }
        }
    }

    /// The texts of a table whose keys are names.
    fn texts(&mut self, fields: Fields) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (key, node) in fields.left {
            match node {
                Node::Text(text) => drop(texts.insert(key.name, text)),
                // An empty header is not sent, and an empty hash is none.
                Node::Empty => drop(texts.insert(key.name, String::new())),
                // A value may be a secret: it is not repeated.
                other => {
                    let name = format!("{}{}", fields.prefix, key.name);
                    self.wrong_at(key.line, &name, format!("a text is wanted, not {}", other.kind()));
                }
            }
        }
        texts
    }

    fn finish(&mut self, mut fields: Fields) {
        fields.left.sort_by_key(|(key, _)| key.line);
        for (key, _) in fields.left {
            let name = format!("{}{}", fields.prefix, key.name);
            self.wrong_at(key.line, &name, format!("unknown key; known here: {}", fields.known.join(", ")));
        }
    }

    fn refuse(&mut self, fields: &mut Fields, key: &'static str, what: &str) {
        if let Some((at, _)) = fields.take(key) {
            self.wrong_at(at.line, &format!("{}{key}", fields.prefix), what);
        }
    }

    fn file(&mut self, mut top: Fields) -> WebConfig {
        let tls = self.table(&mut top, "tls_server_config").and_then(|tls| self.tls(tls));
        let headers = self.table(&mut top, "http_server_config").map(|http| self.http(http)).unwrap_or_default();
        let users = self.table(&mut top, "basic_auth_users").map(|users| self.texts(users)).unwrap_or_default();
        let users = self.users(users);
        self.refuse(&mut top, "rate_limit", "is not supported: remove it");
        self.finish(top);
        WebConfig { path: self.path.clone(), tls, users, headers }
    }

    fn tls(&mut self, mut tls: Fields) -> Option<TlsFiles> {
        let own = "is not supported: the TLS library offers only what is considered safe; remove it";
        for (key, what) in [
            ("cert", "is not supported: put it into a file and name it in cert_file"),
            ("key", "is not supported: put it into a file and name it in key_file"),
            ("client_ca", "is not supported: put it into a file and name it in client_ca_file"),
            (
                "client_allowed_sans",
                "is not supported: sign the clients that may look with a CA of their own (client_ca_file)",
            ),
            ("cipher_suites", own),
            ("curve_preferences", own),
            ("prefer_server_cipher_suites", own),
        ] {
            self.refuse(&mut tls, key, what);
        }
        let (given_cert, given_key) = (tls.has("cert_file"), tls.has("key_file"));
        let (cert, key) = (self.text(&mut tls, "cert_file"), self.text(&mut tls, "key_file"));
        if !(given_cert && given_key) {
            self.wrong("tls_server_config", "cert_file and key_file are both needed");
        }
        let versions = self.versions(&mut tls);
        let clients = self.clients(&mut tls);
        self.finish(tls);
        Some(TlsFiles {
            config: self.path.clone(),
            cert: self.beside(&cert?),
            key: self.beside(&key?),
            clients: clients?,
            versions: versions?,
        })
    }

    /// `None` if something is wrong with them.
    fn versions(&mut self, tls: &mut Fields) -> Option<Vec<&'static rustls::SupportedProtocolVersion>> {
        let (least, most) = (self.version(tls, "min_version"), self.version(tls, "max_version"));
        match (least?, most?) {
            (Some(Version::Tls13), Some(Version::Tls12)) => {
                self.wrong("tls_server_config.min_version", "is above max_version");
                None
            }
            (_, Some(Version::Tls12)) => Some(vec![&rustls::version::TLS12]),
            (Some(Version::Tls13), _) => Some(vec![&rustls::version::TLS13]),
            _ => Some(vec![&rustls::version::TLS12, &rustls::version::TLS13]),
        }
    }

    fn beside(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    /// `Some(None)` if it is not given, `None` if it is wrong.
    fn version(&mut self, tls: &mut Fields, key: &'static str) -> Option<Option<Version>> {
        let given = tls.has(key);
        let text = match self.text(tls, key) {
            Some(text) => text,
            None if given => return None,
            None => return Some(None),
        };
        let what = match text.as_str() {
            "TLS12" => return Some(Some(Version::Tls12)),
            "TLS13" => return Some(Some(Version::Tls13)),
            "TLS10" | "TLS11" => format!("{text} is no longer safe: write TLS12 or TLS13"),
            _ => format!("{text:?} is neither TLS12 nor TLS13"),
        };
        self.wrong(&format!("tls_server_config.{key}"), what);
        None
    }

    fn clients(&mut self, tls: &mut Fields) -> Option<ClientCertificates> {
        let key = "tls_server_config.client_auth_type";
        let (given_kind, given_ca) = (tls.has("client_auth_type"), tls.has("client_ca_file"));
        let (kind, ca) = (self.text(tls, "client_auth_type"), self.text(tls, "client_ca_file"));
        if (given_kind && kind.is_none()) || (given_ca && ca.is_none()) {
            return None;
        }
        let ca = ca.map(|file| self.beside(&file));
        match (kind.as_deref().unwrap_or("NoClientCert"), ca) {
            ("NoClientCert" | "", None) => return Some(ClientCertificates::NotAsked),
            ("NoClientCert" | "", Some(_)) => self.wrong(
                "tls_server_config.client_ca_file",
                "has no effect without client_auth_type: set it to RequireAndVerifyClientCert, or remove client_ca_file",
            ),
            ("RequireAndVerifyClientCert", Some(ca)) => return Some(ClientCertificates::Required(ca)),
            ("VerifyClientCertIfGiven", Some(ca)) => return Some(ClientCertificates::IfGiven(ca)),
            (kind @ ("RequireAndVerifyClientCert" | "VerifyClientCertIfGiven"), None) => {
                self.wrong(key, format!("{kind} needs client_ca_file"));
            }
            (kind @ ("RequestClientCert" | "RequireAnyClientCert"), _) => self.wrong(
                key,
                format!(
                    "{kind} is not supported, because it accepts unverified certificates: write \
                     RequireAndVerifyClientCert"
                ),
            ),
            (other, _) => self.wrong(
                key,
                format!("{other:?} is none of NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert"),
            ),
        }
        None
    }

    fn users(&mut self, users: BTreeMap<String, String>) -> Option<Users> {
        let before = self.mistakes.len();
        for (user, hash) in &users {
            // The value may be a password that somebody forgot to hash: it is not repeated.
            let what = if hash.parse::<bcrypt::HashParts>().is_err() {
                "is no bcrypt hash: make one with `htpasswd -nBC 10 \"\"`"
            } else if cost(hash) > DEAREST {
                "is of a cost that no scraper waits for: make one with `htpasswd -nBC 10 \"\"`"
            } else {
                continue;
            };
            self.wrong(&format!("basic_auth_users.{user}"), what);
        }
        if users.is_empty() || self.mistakes.len() > before {
            return None;
        }
        Users::new(users).map_err(|error| self.mistakes.push(error)).ok()
    }

    /// `http2` is a permission, not a demand: HTTP/1.1 is spoken either way.
    fn http(&mut self, mut http: Fields) -> Vec<(HeaderName, HeaderValue)> {
        if let Some((at, other)) = http.take("http2").filter(|(_, node)| !matches!(node, Node::Flag)) {
            let what = format!("true or false is wanted, not {}", other.kind());
            self.wrong_at(at.line, "http_server_config.http2", what);
        }
        let headers = self.table(&mut http, "headers").map(|headers| self.texts(headers)).unwrap_or_default();
        self.finish(http);
        let mut read = Vec::new();
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            let key = format!("http_server_config.headers.{name}");
            if !HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                self.wrong(&key, format!("cannot be set; known are {}", HEADERS.join(", ")));
                continue;
            }
            match (name.parse(), value.parse()) {
                (Ok(name), Ok(value)) => read.push((name, value)),
                _ => self.wrong(&key, "holds characters that a header cannot carry"),
            }
        }
        read
    }
}

#[derive(Clone, Copy)]
enum Version {
    Tls12,
    Tls13,
}

#[cfg(test)]
mod tests;
