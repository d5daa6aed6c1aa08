//! What `print-config` prints.

/// Every key with its default, commented; uncommented keys would change nothing either.
pub const TEXT: &str = include_str!("default.toml");
