use proptest::prelude::*;

use super::*;

const CLASSIC: &str = "\
# HELP requests_total All \\\\ requests,\\nby code.
# TYPE requests_total counter
requests_total{code=\"200\",path=\"/a\\\"b\\\\\\n\"} 3
requests_total{code=\"500\",} 1 1700000000000
# a free comment

# TYPE up gauge
up NaN
# TYPE wait_seconds histogram
wait_seconds_bucket{le=\"0.5\"} 1
wait_seconds_bucket{le=\"+Inf\"} 2
wait_seconds_sum 1.5e0
wait_seconds_count 2
untyped_thing -Inf
";

const OPEN: &str = "\
# TYPE requests counter
# UNIT requests_seconds seconds
# HELP requests All.
requests_total{code=\"200\"} 3 # {trace=\"x\"} 1 1700000000.5
requests_created{code=\"200\"} 1700000000.25
# TYPE build info
build_info{version=\"1\"} 1
# TYPE t_bytes gauge
# UNIT t_bytes bytes
t_bytes 4 1700000000.5
# EOF
";

/// The text of the broken rule.
fn refusal(result: Result<Page>) -> String {
    match result {
        Ok(page) => format!("accepted: {page:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn refused_as_text(page: &str, rule: &str) {
    let refusal = refusal(parse_text(page));
    assert!(refusal.starts_with(rule), "{page:?}: {refusal}");
}

#[track_caller]
fn refused_as_openmetrics(page: &str, rule: &str) {
    let refusal = refusal(parse_openmetrics(page));
    assert!(refusal.starts_with(rule), "{page:?}: {refusal}");
}

#[test]
fn a_classic_page_gives_its_samples_types_and_help() -> Result<()> {
    let page = parse_text(CLASSIC)?;
    assert_eq!(
        page.get("requests_total", &[("code", "200"), ("path", "/a\"b\\\n")]),
        Some(3.0)
    );
    assert_eq!(
        page.get("requests_total", &[("code", "200")]),
        None,
        "get wants all labels"
    );
    assert_eq!(page.matching("requests_total", &[("code", "200")]).len(), 1);
    assert_eq!(page.sum("requests_total"), Some(4.0));
    assert_eq!(page.sum("nothing"), None);
    assert!(page.get("up", &[]).is_some_and(f64::is_nan));
    assert_eq!(page.get("untyped_thing", &[]), Some(f64::NEG_INFINITY));
    assert_eq!(
        page.get("wait_seconds_bucket", &[("le", "+Inf")]),
        Some(2.0)
    );
    assert_eq!(page.kind("wait_seconds"), Some("histogram"));
    assert_eq!(
        page.families["requests_total"].help.as_deref(),
        Some("All \\ requests,\nby code.")
    );
    Ok(())
}

#[test]
fn an_openmetrics_page_gives_its_samples_without_exemplars() -> Result<()> {
    let page = parse_openmetrics(&OPEN.replace("# UNIT requests_seconds seconds\n", ""))?;
    assert_eq!(page.get("requests_total", &[("code", "200")]), Some(3.0));
    assert_eq!(page.get("build_info", &[("version", "1")]), Some(1.0));
    assert_eq!(page.get("t_bytes", &[]), Some(4.0));
    assert_eq!(page.families["t_bytes"].unit.as_deref(), Some("bytes"));
    assert_eq!(page.kind("requests"), Some("counter"));
    Ok(())
}

#[test]
fn an_empty_exposition_is_valid() -> Result<()> {
    assert_eq!(parse_text("")?.samples, []);
    assert_eq!(parse_openmetrics("# EOF\n")?.samples, []);
    Ok(())
}

#[test]
fn an_invalid_exposition_is_refused_in_either_format() {
    refused_as_text("a 1\na 2\n", "a series twice");
    refused_as_text(
        "a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 1\n",
        "a series twice",
    );
    refused_as_text("a 1\n# TYPE a gauge\n", "TYPE, HELP or UNIT after a sample");
    refused_as_text(
        "# TYPE a gauge\n# TYPE a gauge\n",
        "TYPE, HELP or UNIT twice",
    );
    refused_as_text("# HELP a x\n# HELP a x\n", "TYPE, HELP or UNIT twice");
    refused_as_text(
        "a{x=\"1\"} 1\nb 1\na{x=\"2\"} 1\n",
        "lines of a family are not together",
    );
    refused_as_text(
        "# TYPE a gauge\n# TYPE b gauge\na 1\n",
        "lines of a family are not together",
    );
    refused_as_text("# TYPE a gouge\n", "not a type");
    refused_as_text("# TYPE 1a gauge\n", "not a metric name");
    refused_as_text("1a 1\n", "not a metric name");
    refused_as_text("a{1x=\"1\"} 1\n", "not a label name");
    refused_as_text("a{x:y=\"1\"} 1\n", "not a label name");
    refused_as_text("a{x=\"1\",x=\"1\"} 1\n", "a label twice");
    refused_as_text("a{x=\"\\t\"} 1\n", "an escape");
    refused_as_text("a{x=\"1} 1\n", "a label value without its closing quote");
    refused_as_text("a{x=1} 1\n", "a label value without quotes");
    refused_as_text("a{x=\"1\"y=\"1\"} 1\n", "no comma");
    refused_as_text("a one\n", "the value is not a number");
    refused_as_text("a\n", "a series without a value");
    refused_as_text("a 1 2 3\n", "not a value and at most a timestamp");
    refused_as_text("a 1 1.5\n", "not a timestamp");
    refused_as_text("a 1", "the last line has no end");
    refused_as_text("# TYPE a counter\na -1\n", "a count that is negative");
}

#[test]
fn an_inconsistent_histogram_is_refused() {
    let histogram = |buckets: &str| format!("# TYPE h histogram\n{buckets}");
    refused_as_text(&histogram("h 1\n"), "a sample whose name does not fit");
    refused_as_text(
        &histogram("h_bucket{le=\"1\"} 1\n"),
        "a histogram without +Inf",
    );
    refused_as_text(&histogram("h_bucket 1\n"), "a bucket without le");
    refused_as_text(
        &histogram("h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n"),
        "bounds or counts",
    );
    refused_as_text(
        &histogram("h_bucket{le=\"+Inf\"} 1\nh_count 2\n"),
        "the count of a histogram",
    );
}

#[test]
fn openmetrics_has_stricter_rules() {
    refused_as_openmetrics("a 1\n", "no # EOF");
    refused_as_openmetrics("a 1\n# EOF\n# EOF\n", "lines after # EOF");
    refused_as_openmetrics("# EOF\na 1\n", "no # EOF");
    refused_as_openmetrics("a 1# EOF\n", "# EOF is not a line");
    refused_as_openmetrics("a 1\n\n# EOF\n", "an empty line");
    refused_as_openmetrics("# hello\n# EOF\n", "a comment");
    refused_as_openmetrics(
        "# TYPE a counter\na 1\n# EOF\n",
        "a sample whose name does not fit",
    );
    refused_as_openmetrics(
        "# TYPE a gauge\na_total 1\n# EOF\n",
        "a sample whose name does not fit",
    );
    refused_as_openmetrics(
        "# TYPE a_s gauge\n# UNIT a_s bytes\n# EOF\n",
        "the name does not end in its unit",
    );
    refused_as_openmetrics("# TYPE a untyped\n# EOF\n", "not a type");
    refused_as_openmetrics("a{x=\"1\",} 1\n# EOF\n", "a label without a value");
    refused_as_openmetrics("a  1\n# EOF\n", "the value is not a number");
    refused_as_openmetrics(
        "a 1 # {x=\"1\"} 1\n# EOF\n",
        "an exemplar on something else",
    );
    refused_as_openmetrics(OPEN, "lines of a family are not together");
}

proptest! {
    #[test]
    fn no_exposition_text_causes_a_panic(text in "[ -~\n\\\\é]{0,200}") {
        let refused = parse_text(&text).is_err() || parse_openmetrics(&text).is_err();
        prop_assert!(refused || text.ends_with("# EOF\n") || text.ends_with("# EOF"));
    }

    #[test]
    fn a_label_value_survives_escaping(value in "\\PC{0,20}") {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let page = parse_text(&format!("a{{x=\"{escaped}\"}} 1\n"));
        prop_assert_eq!(page.ok().and_then(|page| page.get("a", &[("x", &value)])), Some(1.0));
    }
}
