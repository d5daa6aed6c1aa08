//! Removes secrets from arguments and settings. In doubt it hides too much.

use itertools::Itertools;

pub const HIDDEN: &str = "***";

/// A name that contains one of these has a secret value.
const SECRET_NAME_PARTS: [&str; 8] = [
    "apikey",
    "credential",
    "mnemonic",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "token",
];

/// A name with one of these as a whole word has a secret value.
const SECRET_WORDS: [&str; 10] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "dsn",
    "jwt",
    "pass",
    "privkey",
    "pwd",
    "seed",
];

/// Authorization schemes, which precede the secret.
const AUTH_SCHEMES: [&str; 4] = ["basic", "bearer", "digest", "token"];

/// Option names that look secret, but whose values are public.
const PUBLIC_NAMES: [&str; 2] = ["account-index-include-key", "account-index-exclude-key"];

/// A name whose last word is one of these is the path of a secret.
const PATH_WORDS: [&str; 5] = ["file", "path", "dir", "directory", "folder"];

const MAX_PAIRS_PER_WORD: usize = 32;

/// A part of a URL path with letters, digits and at least this length is a key, not a word.
const MIN_PATH_KEY_LENGTH: usize = 16;

/// Minimum length of a 64-byte key in base 58; a public key has at most 44.
const MIN_PRIVATE_KEY_LENGTH: usize = 80;

/// Redacts arguments. Keeps their number and order.
pub fn arguments<S: AsRef<str>>(arguments: &[S]) -> Vec<String> {
    redact_words(arguments.iter().map(AsRef::as_ref))
}

/// Redacts a line of text. Whitespace between words becomes one space.
pub fn line(text: &str) -> String {
    redact_words(text.split_whitespace()).join(" ")
}

fn redact_words<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut hide_next = false;
    all.map(|word| {
        let is_option = word.starts_with("--") && word.len() > 2;
        let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if std::mem::take(&mut hide_next) && !is_option {
            // `Authorization: Bearer abc`: the secret follows the scheme.
            hide_next = AUTH_SCHEMES
                .iter()
                .any(|scheme| name.eq_ignore_ascii_case(scheme));
            return HIDDEN.to_owned();
        }
        // The secret follows `Authorization:`, `Bearer`, or an option without `=`.
        hide_next =
            (word.starts_with('-') || word.ends_with(':') || name.eq_ignore_ascii_case("bearer"))
                && !word.contains('=')
                && is_secret_name(name);
        if word.contains(char::is_whitespace) {
            line(word)
        } else {
            redact_word(word)
        }
    })
    .collect()
}

fn redact_word(word: &str) -> String {
    let (mut shown, mut rest) = (String::new(), word);
    for _ in 0..MAX_PAIRS_PER_WORD {
        if is_private_key(rest) {
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
    let (server, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let server = match server.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => server.to_owned(),
    };
    let (path, query) = match rest
        .find(['?', '#'])
        .and_then(|end| rest.split_at_checked(end))
    {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    // In `https://a,https://user:password@b`, the second server is a part of the first path.
    let is_secret = |part: &str| part.contains('@') || is_key_in_path(part);
    let path = path
        .split('/')
        .map(|part| if is_secret(part) { HIDDEN } else { part })
        .join("/");
    let query = query.map(|query| {
        let (mark, pairs) = query.split_at_checked(1).unwrap_or(("?", ""));
        let hide = |pair: &str| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={HIDDEN}"),
            None => HIDDEN.to_owned(),
        };
        format!("{mark}{}", pairs.split('&').map(hide).join("&"))
    });
    format!("{scheme}://{server}{path}{}", query.unwrap_or_default())
}

/// Redacts user and password of `host=...,db=...,u=...,p=...`, also after `SOLANA_METRICS_CONFIG=`.
/// `None` for other words.
fn redact_metrics_config(word: &str) -> Option<String> {
    let (before, pairs) = word.split_at_checked(word.find("host=")?)?;
    if !pairs.contains(',') {
        return None;
    }
    let hide = |pair: &str| match pair.split_once('=') {
        Some((key @ ("host" | "db"), value)) => format!("{key}={}", redact_word(value)),
        Some((key, _)) => format!("{key}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    };
    Some(format!("{before}{}", pairs.split(',').map(hide).join(",")))
}

fn is_secret_name(name: &str) -> bool {
    let name = name
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_ascii_lowercase();
    let parts: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let last = parts.last().copied().unwrap_or_default();
    if PUBLIC_NAMES.contains(&name.as_str()) || PATH_WORDS.contains(&last) {
        return false;
    }
    let joined = parts.concat();
    matches!(last, "key" | "keys")
        || SECRET_NAME_PARTS.iter().any(|word| joined.contains(word))
        || parts.iter().any(|part| SECRET_WORDS.contains(part))
}

/// A private key: 64 bytes in base 58, or the number list of a keypair file.
fn is_private_key(word: &str) -> bool {
    let is_number_list = word.starts_with('[')
        && word.matches(',').count() >= 31
        && word.chars().any(|c| c.is_ascii_digit());
    is_number_list
        || (word.len() >= MIN_PRIVATE_KEY_LENGTH && word.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn is_key_in_path(part: &str) -> bool {
    let is_key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let (digits, letters) = (
        part.chars().any(|c| c.is_ascii_digit()),
        part.chars().any(char::is_alphabetic),
    );
    part.len() >= MIN_PATH_KEY_LENGTH && part.chars().all(is_key_char) && digits && letters
}

#[cfg(test)]
mod tests;
