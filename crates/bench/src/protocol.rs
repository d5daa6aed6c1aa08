//! Ways to a node: what is spoken, and whether connections are kept.

/// A way to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// HTTP/1.1 over a connection that is kept.
    Http,
    /// HTTP/1.1, a new connection for each request.
    HttpNew,
    /// HTTP/2 over a connection that is kept.
    Http2,
    /// A WebSocket that is kept.
    WebSocket,
}

impl Protocol {
    /// All, by their names.
    pub(crate) const ALL: [(&'static str, Protocol); 4] = [
        ("http", Protocol::Http),
        ("http-new", Protocol::HttpNew),
        ("http2", Protocol::Http2),
        ("websocket", Protocol::WebSocket),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        Protocol::ALL
            .iter()
            .find(|(_, protocol)| *protocol == self)
            .map_or("", |(name, _)| name)
    }

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, protocol)| *protocol)
    }
}
