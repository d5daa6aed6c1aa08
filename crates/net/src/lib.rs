mod connect;
mod headers;

pub use connect::{ConnectError, connect, connect_resolved_blocking};
pub use headers::{retry_after, unrequested_content_encoding};
