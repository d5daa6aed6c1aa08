use hyper::Uri;

#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    scheme: &'static str,
    pub uses_tls: bool,
    /// An IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    pub authority: String,
    /// May contain an API key.
    pub path_and_query: String,
}

impl Endpoint {
    /// Error texts do not contain `path_and_query`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let hint = "write it as in http://127.0.0.1:8899 or https://node.example/?api-key=KEY";
        Self::parse_with_schemes(text, ["http", "https"], hint)
    }

    pub fn parse_websocket(text: &str) -> Result<Self, String> {
        Self::parse_with_schemes(
            text,
            ["ws", "wss"],
            "write it as in ws://127.0.0.1:8900 or wss://node.example/?api-key=KEY",
        )
    }

    /// The port is the HTTP port plus one if the URL names it, else the default port.
    pub fn default_websocket(&self) -> Self {
        let mut websocket = self.clone();
        websocket.scheme = if self.uses_tls { "wss" } else { "ws" };
        let name = self.authority.strip_suffix(&format!(":{}", self.port));
        if let Some((name, port)) = name.zip(self.port.checked_add(1)) {
            websocket.authority = format!("{name}:{port}");
            websocket.port = port;
        }
        websocket
    }

    fn parse_with_schemes(
        text: &str,
        [plain, tls]: [&'static str; 2],
        hint: &str,
    ) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|_| format!("this is no address of a node; {hint}"))?;
        let scheme = [plain, tls]
            .into_iter()
            .find(|scheme| uri.scheme_str() == Some(scheme))
            .ok_or_else(|| {
                format!(
                    "the address of the node must begin with {plain}:// or {tls}://; {hint}. In a plan, ws:// and wss:// need transport = \"websocket\", and http:// and https:// another transport"
                )
            })?;
        let authority = uri
            .authority()
            .ok_or_else(|| format!("the address of the node has no host; {hint}"))?;
        if authority.as_str().contains('@') {
            return Err("user and password in the address of a node are not supported".to_owned());
        }
        let uses_tls = scheme == tls;
        let port = authority.port_u16();
        if port.is_none() && authority != authority.host() {
            return Err(format!("the address of the node has no valid port; {hint}"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        // HTTP requires a path before a query.
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let path_and_query = format!("/{}", target.strip_prefix('/').unwrap_or(target));
        Ok(Self {
            scheme,
            uses_tls,
            host,
            port: port.unwrap_or(if uses_tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path_and_query,
        })
    }

    pub fn full_url(&self) -> String {
        format!(
            "{}://{}{}",
            self.scheme, self.authority, self.path_and_query
        )
    }

    pub fn redacted_url(&self) -> String {
        let redacted_path = if self.path_and_query == "/" {
            ""
        } else {
            "/..."
        };
        format!("{}://{}{redacted_path}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_address_is_parsed_and_possible_keys_are_hidden() {
        let node = Endpoint::parse("https://node.example/v1?api-key=secret").unwrap();
        assert_eq!(
            (node.uses_tls, node.host.as_str(), node.port),
            (true, "node.example", 443)
        );
        assert_eq!(
            (node.path_and_query.as_str(), node.redacted_url().as_str()),
            ("/v1?api-key=secret", "https://node.example/...")
        );
        let without = Endpoint::parse("https://node.example?api-key=secret").unwrap();
        assert_eq!(
            (
                without.path_and_query.as_str(),
                without.redacted_url().as_str()
            ),
            ("/?api-key=secret", "https://node.example/...")
        );
        let local = Endpoint::parse("http://[::1]:8899").unwrap();
        assert_eq!(local.path_and_query, "/");
        assert_eq!(
            (
                local.host.as_str(),
                local.port,
                local.redacted_url().as_str()
            ),
            ("::1", 8899, "http://[::1]:8899")
        );
    }

    #[test]
    fn the_default_websocket_port_is_one_above_rpc() {
        let usual = |text: &str| Endpoint::parse(text).unwrap().default_websocket();
        let named = usual("http://[::1]:8899/x");
        assert_eq!(
            (
                named.port,
                named.authority.as_str(),
                named.path_and_query.as_str()
            ),
            (8900, "[::1]:8900", "/x")
        );
        assert_eq!(named.redacted_url(), "ws://[::1]:8900/...");
        let unnamed = usual("https://node.example/?key=1");
        assert_eq!(
            (unnamed.port, unnamed.uses_tls, unnamed.authority.as_str()),
            (443, true, "node.example")
        );
        let named = Endpoint::parse_websocket("wss://node.example/").unwrap();
        assert_eq!(
            (named.uses_tls, named.redacted_url(), unnamed.redacted_url()),
            (
                true,
                "wss://node.example".to_owned(),
                "wss://node.example/...".to_owned()
            )
        );
        assert!(
            Endpoint::parse_websocket("http://node.example/")
                .unwrap_err()
                .contains("ws://")
        );
    }

    #[test]
    fn an_invalid_endpoint_is_refused_without_repeating_a_key() {
        for bad in [
            "",
            "node:1",
            "ftp://node",
            "http://me:secret@node",
            "http://node:99999",
            "http://[::1]:x",
            "http://node:",
            "http://",
            "secret key",
            "127.0.0.1:8899",
        ] {
            let refused = Endpoint::parse(bad).unwrap_err();
            assert!(!refused.contains("secret"), "{bad}: {refused}");
        }
    }
}
