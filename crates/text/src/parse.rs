use std::time::Duration;

/// A leap year.
const MAX_TIME: Duration = Duration::from_secs(366 * 86_400);

/// Bytes: `512G`, `1.5T`, `1800M`, `512GiB`, all powers of 1024; fractions of a byte are dropped.
/// `0` needs no unit. Fails without a unit, for an ambiguous one (`GB`), without a number, and
/// from 8 EiB on.
pub fn parse_size(text: &str) -> Result<u64, String> {
    reject_negative(text)?;
    let (number, unit) = number_and_unit(text);
    let shift = match unit {
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        "" if text == "0" => 0,
        "" => {
            return Err(format!(
                "{text:?} has no unit: add one, as in \"512G\"; K, M, G and T are powers of 1024"
            ));
        }
        "kB" | "KB" | "MB" | "GB" | "TB" => {
            let letter = unit.get(..1).unwrap_or_default().to_uppercase();
            let both = format!("{number}{letter}");
            return Err(format!(
                "{text:?} could mean powers of 1000 or of 1024; write \"{both}\" or \"{both}iB\" for powers of 1024"
            ));
        }
        _ => {
            return Err(format!(
                "{text:?} has no known unit: write K, M, G or T, as in \"512G\""
            ));
        }
    };
    let bytes = scaled(number, 1 << shift).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes < 1 << 63).ok_or_else(|| {
        format!("{text:?} is not a size below 8 EiB: write it as \"512G\" or \"1.5T\"")
    })
}

/// `1500ms`, `90s`, `30m`, `12h`, `1.5d`; at most a year. Fractions of a millisecond are dropped.
/// `0` needs no unit.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    reject_negative(text)?;
    let (number, unit) = number_and_unit(text);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if text == "0" => 1,
        _ => {
            return Err(format!(
                "{text:?} has no known unit: write ms, s, m, h or d, as in \"12h\""
            ));
        }
    };
    let time = scaled(number, milliseconds)
        .and_then(|ms| u64::try_from(ms).ok())
        .map(Duration::from_millis);
    time.filter(|time| *time <= MAX_TIME)
        .ok_or_else(|| format!("{text:?} is not a time of at most a year: write it as 12h or 90s"))
}

fn reject_negative(text: &str) -> Result<(), String> {
    match text.strip_prefix('-').map(number_and_unit) {
        None | Some(("", _)) => Ok(()),
        Some(_) => Err(format!("{text:?} is negative")),
    }
}

fn number_and_unit(text: &str) -> (&str, &str) {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (number, unit) = text.split_at(text.len() - unit.len());
    (number, unit.trim())
}

/// A decimal number times `factor`, without the remaining fraction. `None` if it is not a number or
/// has so many digits that a product with 2^40 could overflow.
fn scaled(number: &str, factor: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.len() > 17 || fraction.len() > 9 {
        return None;
    }
    let digits = u32::try_from(fraction.len()).ok()?;
    let (whole, fraction) = (whole.parse::<u128>().ok()?, fraction.parse::<u128>().ok()?);
    let scale = 10_u128.pow(digits);
    Some((whole * scale + fraction) * u128::from(factor) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let good = [
            ("512G", 512 << 30),
            ("1.5T", 1536 << 30),
            ("1800M", 1800 << 20),
            ("4K", 4096),
            ("0", 0),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_size("512GiB"), Ok(512 << 30));
        assert_eq!(parse_size("0.5 MiB"), Ok(512 << 10));
    }

    #[test]
    fn ambiguous_sizes_are_refused_with_a_suggestion() {
        assert!(
            parse_size("512GB")
                .unwrap_err()
                .contains("write \"512G\" or \"512GiB\"")
        );
        assert!(parse_size("512").unwrap_err().contains("no unit"));
        for bad in [
            "", "G", ".", "1.G", "-1G", "1e3G", "1,5T", "G512", "9999999T", "1.5.5G", "1P", "٣G",
            "512 gib",
        ] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_negative_amount_is_called_negative() {
        assert_eq!(parse_size("-1G"), Err("\"-1G\" is negative".to_owned()));
        let negative = parse_time("-10s").unwrap_err();
        assert!(negative.contains("\"-10s\" is negative"), "{negative}");
        assert!(parse_time("-x").unwrap_err().contains("no known unit"));
    }

    #[test]
    fn a_size_beyond_128_bits_is_refused() {
        assert!(parse_size("999999999999999999.999999999T").is_err());
    }

    #[test]
    fn durations_require_a_unit() {
        let good = [
            ("12h", 43_200_000),
            ("90s", 90_000),
            ("1.5d", 129_600_000),
            ("250ms", 250),
            ("30m", 1_800_000),
        ];
        for (text, milliseconds) in good {
            assert_eq!(
                parse_time(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for bad in ["", "90", "h", "-1s", "1y", "367d", "1h30m", "1.s"] {
            assert!(parse_time(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_as_an_amount_or_gives_a_message(text in "\\PC{0,30}|[0-9.]{0,22}[KMGTihmsd]{0,3}B?") {
            for refused in [parse_size(&text).err(), parse_time(&text).err()].into_iter().flatten() {
                let quoted = format!("{text:?}");
                prop_assert!(refused.contains(&quoted));
            }
        }

        #[test]
        fn a_formatted_number_parses_to_the_same_value(number in 0_u64..8_000_000, unit in 0_usize..4) {
            let text = format!("{number}{}", ["K", "M", "G", "T"][unit]);
            let bytes = u128::from(number) * 1024_u128.pow(unit as u32 + 1);
            prop_assert_eq!(parse_size(&text).ok().map(u128::from), Some(bytes).filter(|bytes| *bytes < 1 << 63));
        }
    }
}
