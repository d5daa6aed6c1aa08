//! Requests that change recordings: `POST /mark?name=NAME[&kind=KIND]` marks a moment in the
//! recording. `POST /flight/save?reason=TEXT` saves the flight recording and returns its path.

use super::request_checks::{decode_query_text, query_values};
use faultline_core::rate_limit::RateLimit;
use faultline_recorder::flight;
use hyper::StatusCode;
use parking_lot::Mutex;
use std::time::Duration;

pub const FLIGHT_SAVE_PATH: &str = "/flight/save";

const MAX_KIND_LENGTH: usize = 32;

pub fn mark_kind(query: Option<&str>) -> Result<Option<&str>, String> {
    match query_values(query, "kind").collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [kind] if is_kind(kind) => Ok(Some(kind)),
        _ => Err(format!(
            "The mark's kind is one word of a to z and _, with at most {MAX_KIND_LENGTH} letters."
        )),
    }
}

fn is_kind(kind: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    (1..=MAX_KIND_LENGTH).contains(&kind.len()) && kind.bytes().all(fits)
}

pub fn mark_name(query: Option<&str>) -> Result<String, String> {
    let missing_name = || "Give the mark a name: POST /mark?name=NAME.".to_owned();
    let mut names = query_values(query, "name");
    let value = names.next().ok_or_else(missing_name)?;
    if names.next().is_some() {
        return Err("The query has several names; use one.".to_owned());
    }
    let name = decode_query_text(value, "The mark's name")?;
    Some(name)
        .filter(|name| !name.is_empty())
        .ok_or_else(missing_name)
}

/// Below the connection's response timeout. The save goes on after it.
const MAX_WAIT_FOR_SAVE: Duration = Duration::from_secs(25);

/// Returns the status and the text of the response: the recording's path, or why it is not saved.
/// `limit` counts only saves that start.
pub async fn save_flight_recording(
    flight_recorder: Option<&flight::FlightRecorderHandle>,
    query: Option<&str>,
    limit: &Mutex<RateLimit>,
    now: Duration,
) -> (StatusCode, String) {
    let Some(flight_recorder) = flight_recorder else {
        return (
            StatusCode::CONFLICT,
            "The flight recorder is disabled; see [flight] in the configuration.".to_owned(),
        );
    };
    let reason = match save_reason(query) {
        Ok(reason) => reason,
        Err(why) => return (StatusCode::BAD_REQUEST, why),
    };
    if !limit.lock().try_take(now) {
        let text =
            "The limit is six saves at once, then one every 100 s; it does not apply to SIGUSR1.";
        return (StatusCode::TOO_MANY_REQUESTS, text.to_owned());
    }
    let Some(saved) = flight_recorder.request_save(&reason, flight::SaveOrigin::Http) else {
        limit.lock().refund();
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many saves are queued; try again later.".to_owned(),
        );
    };
    match tokio::time::timeout(MAX_WAIT_FOR_SAVE, saved).await {
        Ok(Ok(Ok(path))) => (StatusCode::OK, path.display().to_string()),
        Ok(Ok(Err(why))) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("The flight recording could not be saved: {why}"),
        ),
        Ok(Err(_)) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The daemon is stopping.".to_owned(),
        ),
        Err(_) => (
            StatusCode::ACCEPTED,
            "The save is still running; the log will show its path.".to_owned(),
        ),
    }
}

fn save_reason(query: Option<&str>) -> Result<String, String> {
    let value = query_values(query, "reason").next().unwrap_or_default();
    decode_query_text(value, "The reason")
}

#[cfg(test)]
mod tests {
    use super::{super::request_checks::MAX_QUERY_TEXT_BYTES, *};

    #[test]
    fn a_mark_name_is_decoded_from_form_or_percent_encoding() {
        for query in [
            "name=load+begins",
            "name=load%20begins",
            "a=b&name=load begins&c",
            "name=%20load+begins+",
        ] {
            assert_eq!(
                mark_name(Some(query)).as_deref(),
                Ok("load begins"),
                "{query}"
            );
        }
    }

    #[test]
    fn a_mark_kind_is_an_optional_short_word() {
        let long = format!("kind={}", "a".repeat(MAX_KIND_LENGTH + 1));
        assert_eq!(mark_kind(None), Ok(None));
        assert_eq!(mark_kind(Some("name=a")), Ok(None));
        assert_eq!(mark_kind(Some("name=a&kind=kept_up")), Ok(Some("kept_up")));
        for query in [
            "kind=",
            "kind=A",
            "kind=a1",
            "kind=a%20b",
            "kind=a&kind=b",
            &long,
        ] {
            assert!(
                mark_kind(Some(query)).unwrap_err().ends_with('.'),
                "{query}"
            );
        }
    }

    #[test]
    fn a_missing_or_invalid_mark_name_is_refused_with_a_remedy() {
        let long = format!("name={}", "a".repeat(MAX_QUERY_TEXT_BYTES + 1));
        for query in [
            "",
            "name",
            "name=",
            "name=+",
            "other=a",
            "name=a&name=b",
            "name=%ff",
            "name=a%0ab",
            "name=%E2%80%AEa",
            &long,
        ] {
            assert!(
                mark_name(Some(query)).unwrap_err().ends_with('.'),
                "{query}"
            );
        }
        assert!(mark_name(None).is_err());
    }

    #[test]
    fn a_save_reason_is_optional_and_decoded_from_form_or_percent_encoding() {
        for (query, expected) in [
            (None, ""),
            (Some("a=b"), ""),
            (Some("reason=slow+disk"), "slow disk"),
            (Some("reason=%2e%2e%2f"), "../"),
        ] {
            assert_eq!(save_reason(query).as_deref(), Ok(expected));
        }
        let long = format!("reason={}", "a".repeat(MAX_QUERY_TEXT_BYTES + 1));
        for query in ["reason=%ff", "reason=a%00", "reason=a%E2%80%AEb", &long] {
            assert!(
                save_reason(Some(query)).unwrap_err().ends_with('.'),
                "{query}"
            );
        }
    }

    #[tokio::test]
    async fn with_flight_off_requests_conflict_and_refusals_use_no_quota() {
        let now = Duration::from_secs(5);
        let limit = Mutex::new(RateLimit::with_burst(1, Duration::from_secs(600)));
        assert_eq!(
            save_flight_recording(None, None, &limit, now).await.0,
            StatusCode::CONFLICT
        );
        let handle = flight::FlightRecorderHandle::default();
        let waiting: Vec<_> = (0..100)
            .map_while(|_| handle.request_save("", flight::SaveOrigin::Signal))
            .collect();
        assert!(waiting.len() < 100);
        for _ in 0..2 {
            assert_eq!(
                save_flight_recording(Some(&handle), None, &limit, now)
                    .await
                    .0,
                StatusCode::SERVICE_UNAVAILABLE
            );
            assert_eq!(
                save_flight_recording(Some(&handle), Some("reason=%ff"), &limit, now)
                    .await
                    .0,
                StatusCode::BAD_REQUEST
            );
        }
        assert!(limit.lock().try_take(now), "it was not used up");
        assert_eq!(
            save_flight_recording(Some(&handle), None, &limit, now)
                .await
                .0,
            StatusCode::TOO_MANY_REQUESTS
        );
    }
}
