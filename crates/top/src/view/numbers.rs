/// `3`, `0.4`, `12`, `3,214`, `1.2M`.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        ..10.0 if value.fract() == 0.0 => format!("{value}"),
        ..0.05 => "<0.1".to_owned(),
        ..9.95 => format!("{value:.1}"),
        ..1e6 => faultline_text::count(value.round().max(0.0) as u64),
        ..1e9 => format!("{:.1}M", value / 1e6),
        _ => format!("{:.1}G", value / 1e9),
    }
}

/// `62.1 GiB`.
pub(super) fn bytes(value: f64) -> String {
    faultline_text::bytes(value.max(0.0) as u64)
}

/// `0.4 %`, `48 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    format!(
        "{} %",
        number(if percent < 0.995 {
            percent
        } else {
            percent.round()
        })
    )
}

/// `0.4 ms`, `402 ms`, `3.5 s`.
pub(super) fn seconds(value: f64) -> String {
    if value < 1.0 {
        format!("{} ms", number(value * 1e3))
    } else {
        format!("{} s", number(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let shown = [0.0, 3.0, 0.01, 0.44, 9.94, 9.96, 999_999.0, 1.25e6, 2e9].map(number);
        assert_eq!(
            shown,
            [
                "0", "3", "<0.1", "0.4", "9.9", "10", "999,999", "1.2M", "2.0G"
            ]
        );
        assert_eq!(
            [0.0, 0.004, 0.033, 0.48].map(percent),
            ["0 %", "0.4 %", "3 %", "48 %"]
        );
        assert_eq!(
            [0.0004, 0.402, 3.51].map(seconds),
            ["0.4 ms", "402 ms", "3.5 s"]
        );
    }
}
