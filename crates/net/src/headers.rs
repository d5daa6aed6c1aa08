use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, DATE, RETRY_AFTER},
};
use std::time::{Duration, SystemTime};

/// Maximum result in seconds: 136 years. Callers have lower maxima.
const MAX_DELAY_SECONDS: u64 = u32::MAX as u64;
const MAX_CODING_CHARS: usize = 32;

/// Delay that a server asks for, in seconds or as a date (RFC 9110, section 10.2.3). A date counts
/// from the server's own `Date` if there is one; a past date is zero. `None` if the header is
/// missing or invalid.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(MAX_DELAY_SECONDS);
        return Some(Duration::from_secs(seconds.min(MAX_DELAY_SECONDS)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let server_now = headers
        .get(DATE)
        .and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok());
    let delay = date.duration_since(server_now.unwrap_or(now));
    Some(
        delay
            .unwrap_or_default()
            .min(Duration::from_secs(MAX_DELAY_SECONDS)),
    )
}

/// Content codings of a response, such as `gzip`, for a client that requested none; `None` for
/// `identity`. The text is printable ASCII, because messages quote it.
pub fn unrequested_content_encoding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let text: Vec<String> = codings
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    let text: String = text
        .join(", ")
        .chars()
        .filter(|letter| letter.is_ascii_graphic() || *letter == ' ')
        .take(MAX_CODING_CHARS)
        .collect();
    let text = text.trim();
    (!text.is_empty() && !text.eq_ignore_ascii_case("identity")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    /// 2026-11-25 12:00:00 UTC.
    const NOW: Duration = Duration::from_secs(1_795_608_000);

    fn delay(text: &str, server_date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        headers.extend(server_date.map(|date| (DATE, HeaderValue::from_str(date).unwrap())));
        retry_after(&headers, UNIX_EPOCH + NOW).map(|delay| delay.as_secs())
    }

    #[test]
    fn retry_after_seconds_and_every_date_format_are_parsed() {
        assert_eq!(delay("0", None), Some(0));
        assert_eq!(delay(" 120 ", None), Some(120));
        for date in [
            "Wed, 25 Nov 2026 12:01:30 GMT",
            "Wednesday, 25-Nov-26 12:01:30 GMT",
            "Wed Nov 25 12:01:30 2026",
        ] {
            assert_eq!(delay(date, None), Some(90), "{date}");
        }
        assert_eq!(
            delay("Wed, 25 Nov 2026 11:59:59 GMT", None),
            Some(0),
            "it has passed"
        );
        for neither in [
            "",
            "-5",
            "1.5",
            "soon",
            "Wed, 25 Nov 2026",
            "2026-11-25T12:01:30Z",
        ] {
            assert_eq!(delay(neither, None), None, "{neither}");
        }
    }

    #[test]
    fn a_retry_after_date_is_relative_to_the_servers_date_header() {
        let ahead = Some("Wed, 25 Nov 2026 15:00:00 GMT");
        assert_eq!(delay("Wed, 25 Nov 2026 15:00:05 GMT", ahead), Some(5));
        let behind = Some("Wed, 25 Nov 2026 09:00:00 GMT");
        assert_eq!(delay("Wed, 25 Nov 2026 09:00:05 GMT", behind), Some(5));
        assert_eq!(
            delay("Wed, 25 Nov 2026 12:00:05 GMT", Some("garbage")),
            Some(5)
        );
    }

    #[test]
    fn a_huge_retry_delay_does_not_overflow() {
        assert_eq!(
            delay("100000000000000000000", None),
            Some(MAX_DELAY_SECONDS)
        );
        assert_eq!(delay(&u64::MAX.to_string(), None), Some(MAX_DELAY_SECONDS));
        assert_eq!(
            delay("Fri, 31 Dec 9999 23:59:59 GMT", None),
            Some(MAX_DELAY_SECONDS)
        );
    }

    #[test]
    fn a_content_encoding_is_reported_unless_it_is_identity() {
        let named = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_bytes(value).unwrap());
            }
            unrequested_content_encoding(&headers)
        };
        assert_eq!(named(&[]), None);
        assert_eq!(named(&[b"Identity"]), None);
        assert_eq!(named(&[b"gzip"]).as_deref(), Some("gzip"));
        assert_eq!(named(&[b"br", b"gzip"]).as_deref(), Some("br, gzip"));
        assert_eq!(named(&[b"z\xffstd"]).as_deref(), Some("zstd"));
        assert_eq!(
            named(&[&[b'x'; 500]]).map(|coding| coding.len()),
            Some(MAX_CODING_CHARS)
        );
    }

    proptest! {
        #[test]
        fn no_retry_after_header_exceeds_the_maximum_delay(text in "[ -~]{0,40}", date in "[ -~]{0,40}") {
            let delay = delay(&text, Some(&date));
            prop_assert!(delay.is_none_or(|delay| delay <= MAX_DELAY_SECONDS));
        }
    }
}
