//! Checks of a dashboard's queries, legends and links, after replacing variables as Grafana does.

use crate::rules::expression::{all_matchers, for_each, result_labels};
use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{Expr, parse},
};
use std::time::Duration;

pub const DATA_SOURCE_VARIABLE: &str = "${datasource}";

/// Four scrapes of the longest supported interval, 60 s.
const MIN_WINDOW: Duration = Duration::from_secs(4 * 60);

/// Variables that stand for a duration, with an example. `$earlier` is our variable for `offset`.
/// `$__interval` can be as short as a scrape interval, so its example is below `MIN_WINDOW`, and a
/// window of this length is an error.
const DURATIONS: [(&str, &str); 4] = [
    ("$__rate_interval", "5m"),
    ("$__range", "5m"),
    ("$__interval", "15s"),
    ("$earlier", "5m"),
];

/// Replaces `${name:format}` by `$name`, then each variable of `DURATIONS` by its example value.
pub fn replace_variables(expression: &str) -> String {
    let mut text = String::new();
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, after) = after.split_once('}').unwrap_or((after, ""));
        let name = inside.split(':').next().unwrap_or_default();
        text.push_str(&format!("{before}${name}"));
        rest = after;
    }
    text.push_str(rest);
    DURATIONS.iter().fold(text, |text, (variable, value)| {
        text.replace(variable, value)
    })
}

/// Wrong operators before variables, and windows that are too short. Grafana escapes the values of
/// a variable only if it `is_multiple`: a user can choose several.
pub fn variable_errors(expression: &str, is_multiple: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let Ok(parsed) = parse(&replace_variables(expression)) else {
        return wrong;
    };
    for_each(&parsed, |part| {
        let (selector, range) = match part {
            Expr::VectorSelector(selector) => (selector, None),
            Expr::MatrixSelector(matrix) => (&matrix.vs, Some(matrix.range)),
            _ => return,
        };
        wrong.extend(
            all_matchers(&selector.matchers)
                .filter_map(|matcher| wrong_operator(matcher, &is_multiple)),
        );
        if range.is_some_and(|range| range < MIN_WINDOW) {
            wrong.push(format!(
                "a window below four scrapes of 60 s; write [$__rate_interval]: {part}"
            ));
        }
    });
    wrong
}

fn wrong_operator(matcher: &Matcher, is_multiple: impl Fn(&str) -> bool) -> Option<String> {
    let (_, variable) = matcher.value.split_once('$')?;
    let label = &matcher.name;
    let (is_regex, used, right) = match matcher.op {
        MatchOp::Equal => (false, "=", "=~"),
        MatchOp::NotEqual => (false, "!=", "!~"),
        MatchOp::Re(_) => (true, "=~", "="),
        MatchOp::NotRe(_) => (true, "!~", "!="),
    };
    let reason = match (is_regex, is_multiple(variable)) {
        (true, false) => "Grafana does not escape a single value",
        (false, true) => "Grafana makes a regular expression of several values",
        _ => return None,
    };
    Some(format!(
        "{label}{used}\"${variable}\": {reason}; write {label}{right}\"${variable}\""
    ))
}

pub fn legend_errors(legend: &str, expression: &str) -> Vec<String> {
    let shown = legend
        .split("{{")
        .skip(1)
        .filter_map(|after| after.split("}}").next());
    let labels = result_labels(expression);
    shown
        .filter(|label| labels.as_ref().is_some_and(|all| !all.contains(*label)))
        .map(|label| format!("its result has no label {label} for the legend"))
        .collect()
}

/// Variables `${...}` in a link without percent-encoding. `&`, `#` or `+` in a value changes the address.
pub fn unencoded(url: &str) -> Vec<&str> {
    url.split("${")
        .skip(1)
        .filter_map(|after| after.split('}').next())
        .filter(|inside| {
            let format = inside.split_once(':').map(|(_, format)| format);
            !matches!(format, Some("percentencode" | "queryparam"))
                && !["__url_time_range", "__all_variables"].contains(inside)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(expression: &str) -> String {
        variable_errors(expression, |name| name == "job").join("\n")
    }

    #[test]
    fn variables_of_grafana_become_promql() {
        assert_eq!(
            replace_variables("rate(a{b=~\"${job:regex}\"}[${__rate_interval}]) offset $earlier"),
            "rate(a{b=~\"$job\"}[5m]) offset 5m"
        );
    }

    #[test]
    fn a_single_value_is_compared_and_a_list_is_a_regular_expression() {
        assert_eq!(
            wrong("a{job=~\"$job\", instance=\"$instance\", x=~\"y.*\"}"),
            ""
        );
        assert!(wrong("a{instance=~\"$instance\"}").contains("write instance=\"$instance\""));
        assert!(wrong("rate(a{instance!~\"${instance}\"}[5m])").contains("does not escape"));
        assert!(wrong("a{job=\"$job\"}").contains("write job=~\"$job\""));
    }

    #[test]
    fn a_rate_window_is_long_enough_for_slow_scrapes() {
        assert!(wrong("rate(a[1m])").contains("$__rate_interval"));
        assert!(wrong("max_over_time(rate(a[2m])[1h:15s])").contains("$__rate_interval"));
        assert_eq!(
            wrong("rate(a[$__rate_interval]) + rate(a[5m]) + deriv(a[$__range])"),
            ""
        );
    }

    #[test]
    fn a_value_in_a_dashboard_link_is_percent_encoded() {
        let url = "/d/x?${__url_time_range}&${datasource:queryparam}&${__all_variables}&var-x=";
        assert_eq!(
            unencoded(&format!("{url}${{__value.text:percentencode}}")),
            [""; 0]
        );
        assert_eq!(
            unencoded(&format!("{url}${{__value.text}}")),
            ["__value.text"]
        );
        assert_eq!(
            unencoded("/d/x?var-x=${__field.labels.instance:raw}"),
            ["__field.labels.instance:raw"]
        );
    }
}
