use faultline_client::http::is_loopback;
use std::{
    num::NonZeroU16,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};
use ureq::http::Uri;

pub const DEFAULT_URL: &str = "http://127.0.0.1:9912/status";
/// The daemon's socket under the shipped unit. It exists even if the port was changed or needs TLS.
pub const DEFAULT_SOCKET: &str = "/run/faultlined/metrics.sock";

#[derive(Debug, PartialEq)]
pub struct Address {
    /// `http://HOST/status` or `https://...`; for a socket, `http://localhost/status`.
    pub url: String,
    /// Path of the daemon's socket; `None` for a host and port.
    pub socket: Option<PathBuf>,
}

impl Address {
    pub fn of_this_host(socket: &Path) -> Self {
        match UnixStream::connect(socket) {
            Ok(_) => Self::of_socket(socket.to_owned()),
            Err(_) => Self {
                url: DEFAULT_URL.to_owned(),
                socket: None,
            },
        }
    }

    fn of_socket(path: PathBuf) -> Self {
        Self {
            url: "http://localhost/status".to_owned(),
            socket: Some(path),
        }
    }

    /// Parses `HOST:PORT`, an `http` or `https` URL, `unix:PATH`, or a socket's path that begins
    /// with `/`. A URL without a path gets `/status`. A final `/metrics` becomes `/status`. Fails
    /// if it contains a user, because everyone who lists processes sees a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = text
            .strip_prefix("unix://")
            .or_else(|| text.strip_prefix("unix:"));
        let example = "write HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH";
        if path == Some("") {
            return Err(format!("{text:?} names no socket: {example}"));
        }
        if let Some(path) = path.or(Some(text).filter(|text| text.starts_with('/'))) {
            return Ok(Self::of_socket(path.into()));
        }
        let url_text = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        // The part before an @ may be a password.
        let without_user = text.rsplit_once('@').map_or(text, |(_, host)| host);
        let uri: Uri = url_text
            .parse()
            .map_err(|error| format!("{without_user:?} is no address ({error}): {example}"))?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return Err(format!(
                "{without_user:?} is no address of a page: {example}"
            ));
        };
        if authority.as_str().contains('@') {
            return Err("the address contains a user: name the user with --user, and a file with the password with \
                        --password-file"
                .to_owned());
        }
        let port = authority
            .as_str()
            .rsplit_once(':')
            .map(|(_, port)| port)
            .filter(|port| !port.ends_with(']'));
        if port.is_some_and(|port| port.parse::<NonZeroU16>().is_err()) {
            return Err(format!("{text:?} has no valid port: use 1 to 65535"));
        }
        let path_and_query = uri.path_and_query().map_or("/", |target| target.as_str());
        let path_and_query = match path_and_query.strip_suffix("/metrics") {
            Some(before) => format!("{before}/status"),
            None if path_and_query == "/" => "/status".to_owned(),
            None => path_and_query.to_owned(),
        };
        Ok(Self {
            url: format!("{scheme}://{authority}{path_and_query}"),
            socket: None,
        })
    }

    /// Whether a password cannot be read on the network: it is encrypted, or stays on this host.
    pub fn is_safe_for_password(&self) -> bool {
        let uri = self.url.parse::<Uri>().unwrap_or_default();
        self.url.starts_with("https:") || uri.host().is_some_and(is_loopback)
    }

    pub fn shown(&self) -> String {
        match &self.socket {
            Some(socket) => socket.display().to_string(),
            None => self
                .url
                .strip_suffix("/status")
                .unwrap_or(&self.url)
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_accepts_common_address_forms() {
        let url = |text: &str| Address::parse(text).unwrap().url;
        assert_eq!(url("127.0.0.1:9912"), DEFAULT_URL);
        assert_eq!(url("http://127.0.0.1:9912/"), DEFAULT_URL);
        assert_eq!(url(DEFAULT_URL), DEFAULT_URL);
        assert_eq!(url("[::1]:9912"), "http://[::1]:9912/status");
        assert_eq!(
            url("https://node.example.org/faultline/status?a=b"),
            "https://node.example.org/faultline/status?a=b"
        );
        assert_eq!(
            url("https://node.example.org/faultline/metrics"),
            "https://node.example.org/faultline/status"
        );
        assert_eq!(
            Address::parse("unix:f.sock").unwrap().socket.as_deref(),
            Some(Path::new("f.sock"))
        );
        for text in ["unix:/run/f.sock", "unix:///run/f.sock", "/run/f.sock"] {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.socket.clone(), address.shown()),
                (Some("/run/f.sock".into()), "/run/f.sock".to_owned())
            );
        }
        assert_eq!(Address::parse("node:1").unwrap().shown(), "http://node:1");
        let keeps = |text: &str| Address::parse(text).unwrap().is_safe_for_password();
        assert!(
            [
                "https://node:1",
                "localhost:1",
                "127.0.0.1:1",
                "[::1]:1",
                "/run/f.sock"
            ]
            .into_iter()
            .all(keeps)
        );
        assert!(
            ![
                "node:1",
                "http://localhost.example.org:1",
                "http://127.example.org",
                "10.0.0.1:1"
            ]
            .into_iter()
            .any(keeps)
        );
    }

    #[test]
    fn the_local_daemon_is_reached_through_its_socket_if_listening() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("metrics.sock");
        let usual = Address {
            url: DEFAULT_URL.to_owned(),
            socket: None,
        };
        assert_eq!(Address::of_this_host(&socket), usual, "there is none");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(
            Address::of_this_host(&socket).socket.as_deref(),
            Some(&*socket)
        );
        drop(listener);
        assert!(socket.exists());
        assert_eq!(
            Address::of_this_host(&socket),
            usual,
            "nobody listens any more"
        );
    }

    #[test]
    fn an_invalid_address_or_embedded_password_is_refused_with_a_remedy() {
        for text in [
            "",
            "unix:",
            "ftp://a/b",
            "http://",
            "a b",
            "http:///metrics",
        ] {
            let refusal = Address::parse(text).unwrap_err();
            assert!(refusal.contains("unix:PATH"), "{text:?}: {refusal}");
        }
        for text in [
            "node:0",
            "node:65536",
            "[::1]:99999",
            "https://node:/status",
        ] {
            let refusal = Address::parse(text).unwrap_err();
            assert!(refusal.contains("1 to 65535"), "{text:?}: {refusal}");
        }
        let refusal = Address::parse("http://me:secret@node:1").unwrap_err();
        assert!(
            refusal.contains("--password-file") && !refusal.contains("secret"),
            "{refusal}"
        );
        for text in [
            "htp://me:secret@node:1",
            "http://me:secret@",
            "http://me:sec ret@node",
            "ftp://a@me:secret@node",
        ] {
            let refusal = Address::parse(text).unwrap_err();
            assert!(
                !refusal.contains("secret") && !refusal.contains("sec ret"),
                "{refusal}"
            );
        }
    }
}
