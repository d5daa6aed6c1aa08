#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Http,
    /// HTTP/1.1 with a new connection for each request.
    HttpNewConnection,
    Http2,
    WebSocket,
}

impl Named for Protocol {
    const ALL: &'static [(&'static str, Self)] = &[
        ("http", Self::Http),
        ("http-new", Self::HttpNewConnection),
        ("http2", Self::Http2),
        ("websocket", Self::WebSocket),
    ];
}

pub trait Named: Copy + PartialEq + 'static {
    const ALL: &'static [(&'static str, Self)];

    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find_map(|(other, value)| (*other == name).then_some(*value))
    }

    fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, other)| *other == self)
            .map_or("", |(name, _)| name)
    }
}
