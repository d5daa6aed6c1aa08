//! Ways to a node that `bench transport` compares.

/// A way to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// HTTP over a connection that is kept.
    Http,
    /// HTTP, a new connection for each request.
    HttpNew,
    /// A WebSocket that is kept.
    WebSocket,
}

impl Way {
    /// All, by their names; the first is the reference.
    pub(crate) const ALL: [(&'static str, Way); 3] =
        [("http", Way::Http), ("http-new", Way::HttpNew), ("websocket", Way::WebSocket)];

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Way> {
        Way::ALL.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
    }
}
