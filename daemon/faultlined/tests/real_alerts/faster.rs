//! Rules with shorter times.

/// Divides all durations of this YAML: `for`, `interval`, `group_wait` and similar keys, ranges,
/// and offsets in expressions.
pub fn faster(text: &str, by: u32) -> String {
    let lines = text.lines().map(|line| {
        let is_comment = line.trim_start().starts_with('#');
        let is_words = ["summary:", "description:", "url:"]
            .iter()
            .any(|key| line.contains(key));
        if is_comment || is_words {
            line.to_owned()
        } else {
            of_line(line, by)
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Divides each number with a unit of time, if no letter or digit precedes or follows them.
fn of_line(line: &str, by: u32) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out += before;
        let digits = from
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(from.len());
        let (number, after) = from.split_at(digits);
        let ends = |unit: &str| {
            !after[unit.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        };
        let ms = [
            ("s", 1_000_u64),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", 86_400_000),
        ]
        .into_iter()
        .find(|(unit, _)| after.starts_with(unit) && ends(unit));
        let alone = !out.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        match (ms, number.parse::<u64>()) {
            (Some((unit, ms)), Ok(number)) if alone => {
                let shorter = number * ms / u64::from(by);
                out += &format!("{shorter}ms");
                rest = &after[unit.len()..];
            }
            _ => {
                out += number;
                rest = after;
            }
        }
    }
    out + rest
}

#[test]
fn rule_acceleration_divides_durations_but_not_numbers_or_names() {
    let text = "for: 2m\nexpr: rate(instance:x:rate5m[5m]) > 1000 unless y offset 1h\ndescription: in 5m\n# 5m\nx[1h:15s] 0.8 2h30\n";
    assert_eq!(
        faster(text, 10),
        "for: 12000ms\nexpr: rate(instance:x:rate5m[30000ms]) > 1000 unless y offset 360000ms\ndescription: in 5m\n# 5m\nx[360000ms:1500ms] 0.8 2h30\n"
    );
}
