//! Ways to a node: what is spoken, and whether connections are kept.

/// A way to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// HTTP/1.1 over a connection that is kept.
    Http,
    /// HTTP/1.1, a new connection for each request.
    HttpNew,
    /// HTTP/2 over a connection that is kept.
    Http2,
    /// A WebSocket that is kept.
    WebSocket,
}

impl Way {
    /// All, by their names.
    pub(crate) const ALL: [(&'static str, Way); 4] = [
        ("http", Way::Http),
        ("http-new", Way::HttpNew),
        ("http2", Way::Http2),
        ("websocket", Way::WebSocket),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        Way::ALL
            .iter()
            .find(|(_, way)| *way == self)
            .map_or("", |(name, _)| name)
    }

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Way> {
        Way::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, way)| *way)
    }
}
