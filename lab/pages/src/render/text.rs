pub use faultline_text::{clean, escaped, number};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DisplayUnit {
    /// Size of this unit in base units.
    pub one: f64,
    pub suffix: &'static str,
}

/// Bytes as KiB to TiB, seconds down to µs, large counts in M, G and T. The page's script has the
/// same rules.
pub fn display_unit(unit: &str, largest: f64) -> DisplayUnit {
    let steps: &[(f64, &'static str)] = match unit {
        "B" => &[
            (1_099_511_627_776.0, "TiB"),
            (1_073_741_824.0, "GiB"),
            (1_048_576.0, "MiB"),
            (1024.0, "KiB"),
            (1.0, "B"),
        ],
        "B/s" => &[
            (1_099_511_627_776.0, "TiB/s"),
            (1_073_741_824.0, "GiB/s"),
            (1_048_576.0, "MiB/s"),
            (1024.0, "KiB/s"),
            (1.0, "B/s"),
        ],
        "s" => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
        _ => &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, "")],
    };
    let fitting = steps.iter().find(|(one, _)| largest >= *one);
    let (one, suffix) = fitting.or(steps.last()).copied().unwrap_or((1.0, ""));
    DisplayUnit { one, suffix }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    Hours,
    Minutes,
    Full,
}

impl Clock {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hours => "h:mm",
            Self::Minutes => "m:ss",
            Self::Full => "h:mm:ss",
        }
    }
}

/// `1:05`, `65:30`, `1:05:30`.
pub fn duration(seconds: f64, clock: Clock) -> String {
    let whole = seconds.abs().round();
    let sign = if seconds < 0.0 && whole > 0.0 {
        "\u{2212}"
    } else {
        ""
    };
    let (hours, minutes, rest) = (
        (whole / 3600.0).floor(),
        (whole / 60.0).floor(),
        whole % 60.0,
    );
    match clock {
        Clock::Hours => format!("{sign}{hours}:{:02}", minutes % 60.0),
        Clock::Minutes => format!("{sign}{minutes}:{rest:02}"),
        Clock::Full => format!("{sign}{hours}:{:02}:{rest:02}", minutes % 60.0),
    }
}

/// Approximate width in multiples of the font size, rather too wide.
pub fn width(text: &str) -> f64 {
    text.chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.36,
            ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' => 0.44,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
            'A'..='Z' => 0.74,
            letter if letter.is_ascii() => 0.64,
            letter if u32::from(letter) < 0x2100 => 0.7,
            _ => 1.1,
        })
        .sum()
}

/// Cuts a text with an ellipsis to a width in font sizes.
pub fn fitted(text: &str, max_width: f64) -> String {
    let text = clean(text);
    if width(&text) <= max_width {
        return text;
    }
    let mut fitting = String::new();
    for letter in text.chars() {
        fitting.push(letter);
        if width(&fitting) > max_width - 0.9 {
            fitting.pop();
            break;
        }
    }
    format!("{}…", fitting.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_in_clock_format() {
        assert_eq!(duration(3660.0, Clock::Hours), "1:01");
        assert_eq!(duration(-90.0, Clock::Minutes), "\u{2212}1:30");
        assert_eq!(duration(-0.2, Clock::Minutes), "0:00");
        assert_eq!(duration(3_690.4, Clock::Full), "1:01:30");
        assert_eq!(duration(172_800.0, Clock::Hours), "48:00");
    }

    #[test]
    fn units_follow_the_largest_value() {
        assert_eq!(display_unit("B", 3e9).suffix, "GiB");
        assert_eq!(display_unit("B", 100.0).suffix, "B");
        assert_eq!(display_unit("s", 0.0004).suffix, "µs");
        assert_eq!(display_unit("s", 0.4).suffix, "ms");
        assert_eq!(
            display_unit("/s", 2.5e6),
            DisplayUnit {
                one: 1e6,
                suffix: "M"
            }
        );
        assert_eq!(
            display_unit("", 90_000.0),
            DisplayUnit {
                one: 1.0,
                suffix: ""
            }
        );
    }

    #[test]
    fn an_overlong_cell_ends_in_an_ellipsis() {
        assert_eq!(fitted("short", 10.0), "short");
        let cut = fitted(&"long ".repeat(20), 10.0);
        assert!(cut.ends_with('…') && width(&cut) <= 10.5, "{cut}");
    }
}
