const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Parses `2025-03-01T12:00:00.123456789Z` with 0 to 9 decimals into Unix nanoseconds. `None` for
/// other texts, invalid dates, and dates beyond 64 bits (the years 1678 to 2262).
pub(super) fn rfc3339_nanos(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (year, month_day) = date.split_once('-')?;
    let (month, day) = month_day.split_once('-')?;
    let (clock, decimals) = time.split_once('.').unwrap_or((time, ""));
    let (hour, minute_second) = clock.split_once(':')?;
    let (minute, second) = minute_second.split_once(':')?;
    let days = days_since_epoch(digits(year, 4)?, digits(month, 2)?, digits(day, 2)?)?;
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days
        .checked_mul(86_400)?
        .checked_add(hour * 3_600 + minute * 60 + second)?;
    seconds
        .checked_mul(NANOS_PER_SECOND)?
        .checked_add(nanos(decimals)?)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

fn nanos(decimals: &str) -> Option<i64> {
    if decimals.is_empty() {
        return Some(0);
    }
    let missing = u32::try_from(9_usize.checked_sub(decimals.len())?).ok()?;
    digits(decimals, decimals.len())?.checked_mul(10_i64.pow(missing))
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month.checked_sub(1)?).ok()?;
    if day < 1 || day > *months.get(before)? {
        return None;
    }
    // Leap days before this year, from year 1; 719 162 days precede 1970.
    let past = year - 1;
    let years = past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    Some(years - 719_162 + months.iter().take(before).sum::<i64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::rfc3339_nanos;

    #[test]
    fn times_agree_with_date_of_coreutils() {
        // date -u -d ... +%s
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2024-12-31T12:00:00Z", 1_735_646_400),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("1969-12-31T23:59:59Z", -1),
        ] {
            assert_eq!(rfc3339_nanos(text), Some(seconds * 1_000_000_000), "{text}");
        }
    }

    #[test]
    fn decimals_are_a_fraction_of_a_second_whatever_their_number() {
        assert_eq!(rfc3339_nanos("1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(rfc3339_nanos("1970-01-01T00:00:00.000000001Z"), Some(1));
        assert_eq!(rfc3339_nanos("1970-01-01T00:00:00.0000000001Z"), None);
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for text in [
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-01-00T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "9999-01-01T00:00:00Z",
            "2023-01-01T00:00:00",
            "+023-01-01T00:00:00Z",
            "",
        ] {
            assert_eq!(rfc3339_nanos(text), None, "{text}");
        }
    }
}
