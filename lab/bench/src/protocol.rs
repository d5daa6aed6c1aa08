#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http,
    /// A new connection for each request.
    HttpNew,
    Http2,
    WebSocket,
}

impl Protocol {
    pub(crate) const ALL: [(&'static str, Protocol); 4] = [
        ("http", Protocol::Http),
        ("http-new", Protocol::HttpNew),
        ("http2", Protocol::Http2),
        ("websocket", Protocol::WebSocket),
    ];

    pub(crate) fn name(self) -> &'static str {
        Protocol::ALL
            .iter()
            .find(|(_, protocol)| *protocol == self)
            .map_or("", |(name, _)| name)
    }

    pub(crate) fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, protocol)| *protocol)
    }
}
