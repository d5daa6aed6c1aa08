use crate::forward::Precision;
use faultline_core::config::Credentials;
use hyper::{
    Method,
    header::{CONTENT_ENCODING, HeaderMap, ORIGIN},
};
use percent_encoding::percent_decode_str;
use ring::digest;
use std::borrow::Cow;
use subtle::{Choice, ConstantTimeEq};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Route {
    Push,
    Ping,
    Health,
    WrongMethod,
    Unknown,
}

/// The senders' URL may have a path prefix, so only the last segment counts.
pub fn route(method: &Method, path: &str) -> Route {
    let get_only = |route| {
        if matches!(*method, Method::GET | Method::HEAD) {
            route
        } else {
            Route::WrongMethod
        }
    };
    match path.rsplit_once('/').map_or("", |(_, last)| last) {
        "write" if *method == Method::POST => Route::Push,
        "write" => Route::WrongMethod,
        "ping" => get_only(Route::Ping),
        "health" => get_only(Route::Health),
        _ => Route::Unknown,
    }
}

/// True for requests of browser pages: only browsers send these headers.
pub fn is_from_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
        || headers
            .get("sec-fetch-site")
            .is_some_and(|site| site != "none")
}

#[derive(Clone, Copy, PartialEq)]
pub enum ContentCoding {
    Plain,
    Gzip,
}

pub fn content_coding(headers: &HeaderMap) -> Option<ContentCoding> {
    let Some(value) = headers.get(CONTENT_ENCODING) else {
        return Some(ContentCoding::Plain);
    };
    match value.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Some(ContentCoding::Plain),
        "gzip" | "x-gzip" => Some(ContentCoding::Gzip),
        _ => None,
    }
}

pub struct Query<'q>(pub &'q str);

impl<'q> Query<'q> {
    /// The first of several parameters with the same name counts.
    fn value(&self, name: &str) -> Option<&'q str> {
        self.0
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// Constant-time, so that the duration does not reveal which part is wrong.
    pub fn matches_credentials(&self, required: &Credentials) -> bool {
        let parts = matches_value(self.value("db"), &required.db)
            & matches_value(self.value("u"), &required.user)
            & matches_value(self.value("p"), &required.password);
        parts.into()
    }

    pub fn precision(&self) -> Option<Precision> {
        Precision::parse(&unescaped(self.value("precision").unwrap_or_default()))
    }
}

/// Accepts raw values, as from Agave, and percent-encoded ones. Compares digests, which takes
/// equally long for any two values.
fn matches_value(given: Option<&str>, required: &str) -> Choice {
    let digest = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    let (given, required) = (given.unwrap_or_default(), digest(required));
    let is_equal = |text: &str| digest(text).as_ref().ct_eq(required.as_ref());
    is_equal(given) | is_equal(&unescaped(given))
}

fn unescaped(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_ending_in_write_accepts_pushes() {
        assert_eq!(route(&Method::POST, "/write"), Route::Push);
        assert_eq!(route(&Method::POST, "/some/prefix/write"), Route::Push);
        assert_eq!(route(&Method::POST, "/overwrite"), Route::Unknown);
        assert_eq!(route(&Method::GET, "/write"), Route::WrongMethod);
        assert_eq!(route(&Method::HEAD, "/ping"), Route::Ping);
        assert_eq!(route(&Method::GET, "/x/health"), Route::Health);
        assert_eq!(route(&Method::POST, "/ping"), Route::WrongMethod);
        assert_eq!(route(&Method::POST, "*"), Route::Unknown);
    }

    #[test]
    fn credentials_match_raw_or_escaped_only_if_all_three_match() {
        let wanted = Credentials {
            db: "d".into(),
            user: "u".into(),
            password: "a+b%é".into(),
        };
        let matches_credentials = |query: &str| Query(query).matches_credentials(&wanted);
        assert!(matches_credentials("db=d&u=u&p=a+b%25%C3%A9&precision=n"));
        assert!(matches_credentials("precision=n&p=a%2Bb%25%c3%a9&u=u&db=d"));
        assert!(matches_credentials("db=d&u=u&p=a%2Bb%%C3%A9"));
        for bad in [
            "",
            "db=d&u=u",
            "db=d&u=u&p=a+b",
            "db=x&u=u&p=a+b%25%C3%A9",
            "db=d&u=x&p=a+b%25%C3%A9",
        ] {
            assert!(!matches_credentials(bad), "{bad}");
        }
        assert!(
            !matches_credentials("db=d&u=u&p=wrong&p=a+b%25%C3%A9"),
            "the first counts"
        );
    }

    #[test]
    fn a_password_with_a_percent_sign_matches_unescaped() {
        let wanted = Credentials {
            db: "d".into(),
            user: "u".into(),
            password: "a%41".into(),
        };
        assert!(Query("db=d&u=u&p=a%41").matches_credentials(&wanted));
    }

    #[test]
    fn a_missing_precision_is_nanoseconds_and_an_unknown_one_is_none() {
        assert_eq!(Query("db=d").precision(), Some(Precision::Nanoseconds));
        assert_eq!(
            Query("precision=ms").precision(),
            Some(Precision::Milliseconds)
        );
        assert_eq!(
            Query("precision=%C2%B5").precision(),
            Some(Precision::Microseconds)
        );
        assert_eq!(Query("precision=day").precision(), None);
    }
}
