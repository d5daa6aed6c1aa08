/// Every key with its default, commented. Uncommenting a key changes nothing.
pub const TEXT: &str = include_str!("default.toml");
