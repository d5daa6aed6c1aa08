use super::*;

fn found(expression: &str) -> UsedNames {
    used_names(&parse(expression).unwrap())
}

fn names(expression: &str) -> Vec<String> {
    let selected = found(expression).metrics;
    selected.into_iter().map(|selected| selected.name).collect()
}

#[test]
fn functions_numbers_durations_and_label_lists_are_not_metrics() {
    let expression = "sum by (pool) (rate(a_total{x=\"b_total\"}[5m] offset 1h)) / on (job) group_left (c) d > 1e3 - -Inf";
    assert_eq!(names(expression), ["a_total", "d"]);
    assert_eq!(
        names("histogram_quantile(0.95, sum without (path) (rate(h_bucket[5m])))"),
        ["h_bucket"]
    );
    assert_eq!(
        names("sum(a) by (b) unless on (job, instance) c"),
        ["a", "c"]
    );
    assert_eq!(names("sum without (x) (a) # b\n + c"), ["a", "c"]);
}

#[test]
fn labels_are_parsed_from_the_braces() {
    let selected = found(r#"a{b="c{d}",e=~"\"f"} + g{h!="i"}"#).metrics;
    let labels: Vec<(String, Vec<String>)> = selected
        .into_iter()
        .map(|one| (one.name, one.labels))
        .collect();
    let expected = |name: &str, labels: &[&str]| {
        (
            name.to_owned(),
            labels.iter().map(|label| (*label).to_owned()).collect(),
        )
    };
    assert_eq!(labels, [expected("a", &["b", "e"]), expected("g", &["h"])]);
}

#[test]
fn invalid_promql_is_reported() {
    let names = KnownMetrics::from_catalog();
    for broken in [
        "agave_up ==",
        "rate(agave_up)",
        "sum by job (agave_up)",
        "agave_up{job=\"x}",
    ] {
        assert!(
            names
                .expression_errors(broken)
                .join("")
                .starts_with("not valid PromQL"),
            "{broken}"
        );
    }
}

#[test]
fn an_unknown_metric_in_a_query_is_reported() {
    let names = KnownMetrics::from_catalog();
    assert_eq!(
        names.expression_errors("agave_upp == 0"),
        ["there is no metric agave_upp"]
    );
    assert_eq!(
        names.expression_errors("rate(node_vmstat_oom_kill[5m])"),
        ["there is no metric node_vmstat_oom_kill"]
    );
    assert!(
        names
            .expression_errors("agave_up == 0 and on (job) up{job=\"faultline\"}")
            .is_empty()
    );
}

#[test]
fn an_unknown_label_of_a_metric_is_reported() {
    let names = KnownMetrics::from_catalog();
    let wrong =
        names.expression_errors("agave_process_page_faults_total{kind=\"major\", instance=\"x\"}");
    assert_eq!(wrong, ["agave_process_page_faults_total has no label kind"]);
}

#[test]
fn grouping_or_matching_by_an_unknown_label_is_reported() {
    let names = KnownMetrics::from_catalog();
    let wrong = names.expression_errors(
        "sum by (pol) (agave_thread_pool_threads) / on (job) group_left (kind) agave_up",
    );
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(
        names
            .expression_errors(
                "sum by (pool, instance) (agave_thread_pool_threads) * on (job) agave_up"
            )
            .is_empty()
    );
    assert!(
        names
            .expression_errors("sum by (pool) (agave_up + on (pool) agave_thread_pool_threads)")
            .is_empty()
    );
}

#[test]
fn a_histogram_may_be_queried_only_by_its_three_series() {
    let names = KnownMetrics::from_catalog();
    for known in [
        "agave_replay_slot_seconds_bucket{le=\"1\"}",
        "agave_replay_slot_seconds_sum",
        "agave_replay_slot_seconds_count{part=\"total\"}",
    ] {
        assert!(names.expression_errors(known).is_empty(), "{known}");
    }
    assert_eq!(
        names.expression_errors("agave_replay_slot_seconds").len(),
        1
    );
    assert_eq!(names.expression_errors("agave_up_count").len(), 1);
}

#[test]
fn a_recording_rules_metric_is_known_after_its_definition() {
    let mut names = KnownMetrics::from_catalog();
    assert_eq!(
        names
            .expression_errors("instance:x:rate5m{y=\"z\"} > 1")
            .len(),
        1
    );
    names.add_with_unknown_labels(["instance:x:rate5m".to_owned()].into_iter());
    assert!(
        names
            .expression_errors("instance:x:rate5m{y=\"z\"} > 1")
            .is_empty()
    );
}

#[test]
fn a_text_may_name_a_metric_prefix_but_no_unknown_metric() {
    let names = KnownMetrics::from_catalog();
    assert_eq!(
        names.unknown_metrics("`agave_up` of the agave_ series, `agave_upp`"),
        ["agave_upp"]
    );
}

#[test]
fn parsing_a_truncated_expression_terminates() {
    let whole = "sum by (a) (rate(b{c=\"d\\\"\"}[5m])) / é";
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let _ = KnownMetrics::from_catalog().expression_errors(&whole[..end]);
    }
}
