#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Http,
    /// For each request.
    HttpNewConnection,
    Http2,
    WebSocket,
}

impl Protocol {
    pub const ALL: [(&'static str, Protocol); 4] = [
        ("http", Protocol::Http),
        ("http-new", Protocol::HttpNewConnection),
        ("http2", Protocol::Http2),
        ("websocket", Protocol::WebSocket),
    ];

    pub fn name(self) -> &'static str {
        name_of(&Protocol::ALL, self)
    }

    pub fn named(name: &str) -> Option<Protocol> {
        named(&Protocol::ALL, name)
    }
}

pub fn named<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter()
        .find(|(other, _)| *other == name)
        .map(|(_, value)| *value)
}

/// Empty if `value` is not among `all`.
pub fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    all.iter()
        .find(|(_, other)| *other == value)
        .map_or("", |(name, _)| name)
}
