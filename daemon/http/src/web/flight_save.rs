//! `POST /flight/save?reason=TEXT`: saves the flight recording and returns its path.

use super::request_checks::{query_text, query_values};
use faultline_core::rate_limit::RateLimit;
use faultline_recorder::flight;
use hyper::StatusCode;
use parking_lot::Mutex;
use std::time::Duration;

pub const PATH: &str = "/flight/save";

/// Timeout of the save, below the connection's response timeout.
const SAVE_TIMEOUT: Duration = Duration::from_secs(25);

/// Returns 200 and the recording's path, or 409 if the flight recorder is off. `limit` counts only
/// saves that start.
pub async fn save(
    flight: Option<&flight::Handle>,
    query: Option<&str>,
    limit: &Mutex<RateLimit>,
    now: Duration,
) -> (StatusCode, String) {
    let Some(flight) = flight else {
        return (
            StatusCode::CONFLICT,
            "The flight recorder is disabled; see [flight] in the configuration.".to_owned(),
        );
    };
    let reason = match reason(query) {
        Ok(reason) => reason,
        Err(why) => return (StatusCode::BAD_REQUEST, why),
    };
    if !limit.lock().allows(now) {
        let text =
            "The limit is six requested saves at once, then one each 100 s; SIGUSR1 has no limit.";
        return (StatusCode::TOO_MANY_REQUESTS, text.to_owned());
    }
    let Some(answer) = flight.request_save(&reason, flight::SaveOrigin::Http) else {
        limit.lock().refund();
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many saves are queued; try again later.".to_owned(),
        );
    };
    match tokio::time::timeout(SAVE_TIMEOUT, answer).await {
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

/// Empty without a reason.
fn reason(query: Option<&str>) -> Result<String, String> {
    let value = query_values(query, "reason").next().unwrap_or_default();
    query_text(value, "The reason")
}

#[cfg(test)]
mod tests {
    use super::{super::request_checks::MAX_TEXT_LENGTH, *};

    #[test]
    fn a_save_reason_is_optional_and_decoded_from_form_or_percent_encoding() {
        for (query, expected) in [
            (None, ""),
            (Some("a=b"), ""),
            (Some("reason=slow+disk"), "slow disk"),
            (Some("reason=%2e%2e%2f"), "../"),
        ] {
            assert_eq!(reason(query).as_deref(), Ok(expected));
        }
        let long = format!("reason={}", "a".repeat(MAX_TEXT_LENGTH + 1));
        for query in ["reason=%ff", "reason=a%00", "reason=a%E2%80%AEb", &long] {
            assert!(reason(Some(query)).unwrap_err().ends_with('.'), "{query}");
        }
    }

    #[tokio::test]
    async fn with_flight_off_requests_conflict_and_refusals_use_no_quota() {
        let now = Duration::from_secs(5);
        let limit = Mutex::new(RateLimit::new(1, Duration::from_secs(600)));
        assert_eq!(save(None, None, &limit, now).await.0, StatusCode::CONFLICT);
        let handle = flight::Handle::default();
        let waiting: Vec<_> = (0..100)
            .map_while(|_| handle.request_save("", flight::SaveOrigin::Signal))
            .collect();
        assert!(waiting.len() < 100);
        for _ in 0..2 {
            assert_eq!(
                save(Some(&handle), None, &limit, now).await.0,
                StatusCode::SERVICE_UNAVAILABLE
            );
            assert_eq!(
                save(Some(&handle), Some("reason=%ff"), &limit, now).await.0,
                StatusCode::BAD_REQUEST
            );
        }
        assert!(limit.lock().allows(now), "it was not used up");
        assert_eq!(
            save(Some(&handle), None, &limit, now).await.0,
            StatusCode::TOO_MANY_REQUESTS
        );
    }
}
