#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Http,
    /// A new connection for each request.
    HttpNew,
    Http2,
    WebSocket,
}

impl Protocol {
    pub const ALL: [(&'static str, Protocol); 4] = [
        ("http", Protocol::Http),
        ("http-new", Protocol::HttpNew),
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
    let named = all.iter().find(|(known, _)| *known == name);
    named.map(|(_, value)| *value)
}

pub fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    let named = all.iter().find(|(_, known)| *known == value);
    named.map_or("", |(name, _)| name)
}
