//! What the HTTP clients of daemon and lab share: a TCP connection by host name, and headers of responses.

mod connect;
mod headers;

pub use connect::{ConnectError, connect, connect_any};
pub use headers::{retry_after, unrequested_coding};
