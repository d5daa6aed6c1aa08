//! Removes secrets from arguments and settings. In doubt it hides too much.

use itertools::Itertools;
use std::iter;

pub const HIDDEN: &str = "***";

/// A name that contains one of these has a secret value, as has one that ends with `key`.
const SECRET_NAME_PARTS: [&str; 17] = [
    "api-key",
    "api.key",
    "api_key",
    "apikey",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "dsn",
    "jwt",
    "mnemonic",
    "pass",
    "privkey",
    "pwd",
    "secret",
    "seed",
    "token",
];

/// A name whose last words are one of these has a public value, or the path of a secret.
const PUBLIC_NAME_ENDS: [&str; 14] = [
    "account-index-exclude-key",
    "account-index-include-key",
    "auth_hashtable_size",
    "authority",
    "authorized-voter",
    "authorized_default",
    "bypass_disable",
    "dir",
    "directory",
    "file",
    "folder",
    "passthrough",
    "path",
    "pubkey",
];

/// Authorization schemes, which precede the secret.
const AUTH_SCHEMES: [&str; 5] = ["basic", "bearer", "digest", "negotiate", "token"];

const MAX_PAIRS_PER_WORD: usize = 32;

/// A part of a URL path with letters, digits and at least this length is a key, not a word.
const MIN_PATH_KEY_LENGTH: usize = 16;

/// Minimum length of a 64-byte key in base 58; a public key has at most 44.
const MIN_PRIVATE_KEY_LENGTH: usize = 80;

/// Redacts arguments. Keeps their number and order.
pub fn arguments<S: AsRef<str>>(arguments: &[S]) -> Vec<String> {
    redact_words(arguments.iter().map(AsRef::as_ref), line).collect()
}

/// Redacts a line of text. The first word that ends hidden ends the line, because a secret may
/// contain spaces. Whitespace between words becomes one space.
pub fn line(text: &str) -> String {
    // In a keypair file, `]` follows the last number.
    let is_key_list = |list: &str| {
        let numbers = list
            .split(',')
            .take_while(|number| number.trim().parse::<u8>().is_ok());
        numbers.count() > 30
    };
    // `user:pass word@host`.
    let is_spaced_url = |url: &str| {
        url.split_whitespace()
            .skip(1)
            .any(|word| word.contains('@'))
    };
    if text.split('[').any(is_key_list) || text.split("://").skip(1).any(is_spaced_url) {
        return HIDDEN.to_owned();
    }
    redact_words(text.split_whitespace(), redact_word)
        .take_while_inclusive(|word| !word.ends_with(HIDDEN))
        .join(" ")
}

fn redact_words<'a>(
    words: impl Iterator<Item = &'a str>,
    redact: fn(&str) -> String,
) -> impl Iterator<Item = String> {
    let words = iter::repeat_n("", 2).chain(words).tuple_windows();
    words.map(move |(header, name, word)| {
        // The secret follows `Authorization: Basic`, `--auth Basic`, `password =`, or an option
        // without `=`.
        let scheme = bare(name).to_ascii_lowercase();
        let is_value = name.starts_with('-') && !name.contains('=')
            || name.ends_with([':', '='])
            || word.starts_with([':', '='])
            || scheme == "bearer";
        let has_scheme = header.starts_with('-') && AUTH_SCHEMES.contains(&scheme.as_str());
        let is_secret = is_value && is_secret_name(name)
            || (header.ends_with(':') || has_scheme) && is_secret_name(header);
        if is_secret && !word.starts_with("--") {
            HIDDEN.to_owned()
        } else {
            redact(word)
        }
    })
}

fn redact_word(word: &str) -> String {
    let (mut shown, mut rest) = (String::new(), word);
    for _ in 0..MAX_PAIRS_PER_WORD {
        if is_private_key(bare(rest)) {
            return shown + HIDDEN;
        }
        if let Some(pairs) = redact_metrics_config(rest) {
            return shown + &pairs;
        }
        let scheme = rest.find("://");
        // A name ends at `=` or `:`, as in `--token=x` and `"x-token":"y"`, except at `://`.
        let end = rest
            .find(['=', ':'])
            .filter(|end| scheme.is_none_or(|scheme| *end < scheme));
        let Some((name, value)) = end.and_then(|end| rest.split_at_checked(end + 1)) else {
            return shown + &redact_url(rest);
        };
        // `user:password@host`, a URL without its scheme.
        if name.ends_with(':') && value.contains('@') {
            return shown + HIDDEN;
        }
        shown += name;
        if is_secret_name(name) && !value.is_empty() {
            return shown + HIDDEN;
        }
        rest = value;
    }
    shown + HIDDEN
}

/// Returns the URL with user, password, query values and keys in its path replaced.
fn redact_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (server, rest) = rest.split_at_checked(end).unwrap_or_default();
    let server = match (server.rsplit_once('@'), server.split_once(';')) {
        (Some((_, host)), _) => format!("{HIDDEN}@{host}"),
        (None, Some((host, _))) => format!("{host};{HIDDEN}"),
        (None, None) => server.to_owned(),
    };
    let end = rest.find(['?', '#', ';']).unwrap_or(rest.len());
    let (path, query) = rest.split_at_checked(end).unwrap_or_default();
    // In `https://a,https://user:password@b`, the second server is a part of the first path.
    let is_secret = |part: &str| part.contains('@') || is_key_in_path(part);
    let path = path
        .split('/')
        .map(|part| if is_secret(part) { HIDDEN } else { part })
        .join("/");
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None if pair.is_empty() => String::new(),
        None => HIDDEN.to_owned(),
    };
    let (mark, pairs) = query.split_at_checked(1).unwrap_or_default();
    let pairs = pairs.split('&').map(hide).join("&");
    format!("{scheme}://{server}{path}{mark}{pairs}")
}

/// Redacts user and password of `host=...,db=...,u=...,p=...`, in any order. `None` for other
/// words.
fn redact_metrics_config(word: &str) -> Option<String> {
    let is_start = |at: &usize| {
        word.get(..*at)
            .is_some_and(|before| !before.ends_with(char::is_alphanumeric))
    };
    let starts = ["host=", "db=", "u=", "p="]
        .into_iter()
        .filter_map(|key| word.match_indices(key).map(|(at, _)| at).find(is_start));
    let (before, pairs) = word.split_at_checked(starts.min()?)?;
    let hide = |pair: &str| match pair.split_once('=') {
        Some((key @ ("host" | "db"), value)) => format!("{key}={}", redact_word(value)),
        Some((key, _)) => format!("{key}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    };
    pairs
        .contains(',')
        .then(|| redact_word(before) + &pairs.split(',').map(hide).join(","))
}

fn is_secret_name(name: &str) -> bool {
    let name = bare(name).to_ascii_lowercase();
    let singular = name.trim_end_matches('s');
    let is_public = |end: &&str| {
        singular
            .strip_suffix(*end)
            .is_some_and(|before| !before.ends_with(char::is_alphanumeric))
    };
    !PUBLIC_NAME_ENDS.iter().any(is_public)
        && (singular.ends_with("key") || SECRET_NAME_PARTS.iter().any(|part| name.contains(part)))
}

/// 64 bytes in base 58.
fn is_private_key(word: &str) -> bool {
    word.len() >= MIN_PRIVATE_KEY_LENGTH && word.chars().all(|c| c.is_ascii_alphanumeric())
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

fn is_key_in_path(part: &str) -> bool {
    let is_key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // `eyJ` begins a JSON Web Token.
    part.starts_with("eyJ")
        || part.len() >= MIN_PATH_KEY_LENGTH
            && part.chars().all(is_key_char)
            && part.contains(char::is_numeric)
            && part.contains(char::is_alphabetic)
}

#[cfg(test)]
mod tests;
