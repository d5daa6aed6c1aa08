//! Rejects requests that a page in a browser sends without the user's intent. There are two
//! attacks:
//!
//! - A page points its own host name at this port (DNS rebinding). So only host names that no other
//!   site can have are accepted.
//! - A page sends a form, and the browser adds the password that it has stored for this daemon. So
//!   a POST is rejected if its headers name another origin.

use faultline_text::is_unsafe_char;
use hyper::{
    Request,
    header::{HOST, HeaderMap, ORIGIN},
    http::uri::Authority,
};
use percent_encoding::percent_decode_str;
use std::{
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicBool, Ordering},
};

pub const MAX_QUERY_TEXT_BYTES: usize = 200;

/// Accepted host names besides addresses and `localhost`.
#[derive(Debug)]
pub struct AllowedHosts {
    names: Vec<String>,
    /// Only the first rejection is logged.
    logged: AtomicBool,
}

impl AllowedHosts {
    pub fn new(configured: &[String], host_name: Option<&str>) -> Self {
        let host_name = host_name
            .map(str::to_ascii_lowercase)
            .filter(|name| !name.is_empty());
        Self {
            names: configured.iter().cloned().chain(host_name).collect(),
            logged: AtomicBool::new(false),
        }
    }

    /// Why the host name is rejected; `None` if it is accepted. A request without host name is
    /// accepted: it comes from an old client, not from a browser.
    pub fn host_error(&self, request: &Request<()>) -> Option<String> {
        let given = request
            .headers()
            .get_all(HOST)
            .iter()
            .map(|value| value.to_str().unwrap_or("?"));
        let target = request.uri().authority().map(Authority::as_str);
        let unknown = given.chain(target).find(|host| !self.is_allowed(host))?;
        // The client chooses the name, so it is sanitized for the log and the response.
        let name: String = unknown
            .chars()
            .filter(|c| c.is_ascii_graphic())
            .take(100)
            .collect();
        if !self.logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                name,
                "refused a request with an unknown Host header; if the name is yours, add it to metrics.hosts"
            );
        }
        Some(format!(
            "faultlined runs without TLS and passwords, so it rejects the unknown host name {name}: a web page could point such a name at this port. \
             Use localhost or an IP address, or add the name to metrics.hosts in the daemon's configuration."
        ))
    }

    fn is_allowed(&self, host: &str) -> bool {
        if host.is_empty() {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host();
        if let Some(address) = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.names.contains(&name)
    }
}

pub fn query_values<'q>(
    query: Option<&'q str>,
    key: &'static str,
) -> impl Iterator<Item = &'q str> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(move |pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// Decodes a value of a query. `what` names the value in the error.
pub fn decode_query_text(value: &str, what: &str) -> Result<String, String> {
    let plus = value.replace('+', " ");
    let text = percent_decode_str(&plus)
        .decode_utf8()
        .map_err(|_| format!("{what} is not UTF-8."))?;
    match text.trim() {
        text if text.len() > MAX_QUERY_TEXT_BYTES => Err(format!(
            "{what} is longer than {MAX_QUERY_TEXT_BYTES} bytes."
        )),
        text if text.contains(is_unsafe_char) => Err(format!("{what} has control characters.")),
        text => Ok(text.to_owned()),
    }
}

pub fn is_cross_origin(request: &Request<()>) -> bool {
    let headers = request.headers();
    let site = headers.get_all("sec-fetch-site");
    let is_another_origin = site
        .iter()
        .any(|site| site != "same-origin" && site != "none");
    let origins = headers.get_all(ORIGIN);
    is_another_origin
        || origins.iter().any(|origin| {
            !origin
                .to_str()
                .is_ok_and(|origin| is_same_host(origin, headers))
        })
}

/// True if an origin matches the request's host. Ignores the scheme: TLS may end at a proxy.
fn is_same_host(origin: &str, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter().map(|host| host.to_str());
    let (Some(Ok(host)), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    [("http://", ":80"), ("https://", ":443")]
        .into_iter()
        .any(|(scheme, port)| {
            let name = |host: &str| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
            origin.strip_prefix(scheme).map(name) == Some(name(host))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> AllowedHosts {
        AllowedHosts::new(&["node1.example.org".to_owned()], Some("Node1"))
    }

    #[test]
    fn addresses_localhost_hostname_and_configured_names_are_known_hosts() {
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:9912",
            "10.0.0.5:1",
            "[::1]",
            "[::1]:9912",
            "localhost",
            "LocalHost:9912",
            "localhost.",
            "a.localhost:1",
            "node1",
            "NODE1:9912",
            "node1.example.org",
            "node1.example.org.:80",
        ] {
            assert!(names().is_allowed(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9912",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "[evil.example]",
            "[::1",
            "a@localhost",
            "localhost:1@evil.example",
            "node1.example.org.evil.example",
            "example.org",
            "localhost, evil.example",
            "localhost/evil",
            "?",
            ".",
        ] {
            assert!(!names().is_allowed(host), "{host}");
        }
        assert!(
            !AllowedHosts::new(&[], Some("")).is_allowed("."),
            "a machine without a name"
        );
    }

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        headers
            .iter()
            .fold(Request::post("/"), |request, (name, value)| {
                request.header(*name, *value)
            })
            .body(())
            .unwrap()
    }

    #[test]
    fn an_origin_header_is_same_origin_or_foreign() {
        let foreign = |host: &str, origin: &str| {
            is_cross_origin(&request(&[("host", host), ("origin", origin)]))
        };
        for (host, origin) in [
            ("localhost:9912", "http://localhost:9912"),
            ("localhost:9912", "https://LOCALHOST:9912"),
            ("node1", "http://node1"),
            ("node1:80", "http://node1"),
            ("node1:443", "https://node1"),
            ("[::1]:9912", "http://[::1]:9912"),
        ] {
            assert!(!foreign(host, origin), "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:9912", "http://localhost:9913"),
            ("localhost:9912", "http://evil.example"),
            ("localhost:9912", "null"),
            ("localhost:9912", ""),
            ("localhost:9912", "localhost:9912"),
            ("localhost:9912", "http://localhost:9912/"),
            ("node1:443", "http://node1"),
        ] {
            assert!(foreign(host, origin), "{host} {origin}");
        }
        assert!(
            is_cross_origin(&request(&[("origin", "http://a")])),
            "no host to compare with"
        );
        assert!(is_cross_origin(&request(&[
            ("host", "a"),
            ("host", "b"),
            ("origin", "http://a")
        ])));
        assert!(is_cross_origin(&request(&[
            ("host", "a"),
            ("origin", "http://a"),
            ("origin", "http://b")
        ])));
        assert!(!is_cross_origin(&request(&[("host", "a")])), "no browser");
    }

    proptest! {
        #[test]
        fn host_names_of_other_sites_are_rejected(label in "[a-z0-9.-]{0,20}", host in "\\PC{0,40}") {
            let evil = format!("{label}.example");
            prop_assert!(!names().is_allowed(&evil));
            // Any text gives a result, without a panic.
            let _ = names().is_allowed(&host);
        }
    }
}
