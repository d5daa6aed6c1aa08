use faultline_settings::{mismatch, whole_number_within};
use std::net::SocketAddr;
use toml::de::DeValue;

pub fn address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    parse_address(
        value
            .as_str()
            .ok_or_else(|| mismatch("an address such as \"127.0.0.1:9912\"", value))?,
    )
}

/// A user id, or a name in `/etc/passwd`.
pub fn user_id(value: &DeValue<'_>) -> Result<u32, String> {
    if matches!(value, DeValue::Integer(_)) {
        return whole_number_within(value, 0..=u32::MAX - 1);
    }
    let name = value
        .as_str()
        .ok_or_else(|| mismatch("a user such as \"sol\" or 1000", value))?;
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = passwd.lines().map(|line| line.split(':'));
    let id = users.find_map(|mut user| (user.next()? == name).then(|| user.nth(1))?);
    id.and_then(|id| id.parse().ok()).ok_or_else(|| {
        format!(
            "/etc/passwd gives no id of user {name:?}: write the number that `id -u` prints for it"
        )
    })
}

pub fn checked_label(name: &str, value: &str) -> Result<(String, String), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
        return Err(format!(
            "{name:?} is not a valid label name: use 1 to 64 letters, digits, _, - and ."
        ));
    }
    if value.is_empty() || value.len() > 200 || value.chars().any(char::is_control) {
        return Err(format!(
            "{value:?} is not a valid value of label {name}: use 1 to 200 bytes without control characters"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

pub fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not NAME=VALUE, as in \"arm=512G\""))?;
    checked_label(name, value)
}

pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not ADDRESS:PORT with a numeric address, as in \"127.0.0.1:9912\"")
    })
}
