use super::*;
use promql_parser::parser::parse;

fn wrong(expression: &str) -> String {
    label_errors(&parse(expression).unwrap()).join("\n")
}

fn labels_of(expression: &str) -> Vec<String> {
    result_labels(&parse(expression).unwrap())
        .unwrap()
        .into_iter()
        .collect()
}

#[test]
fn operands_with_target_labels_are_reported() {
    for expression in [
        "max by (job, instance) (rate(a[5m]) / on (job, instance) rate(b[5m]))",
        "max by (job, instance) (a / b)",
        "max by (job, instance) (a + on (job) timestamp(a))",
        "max by (job, instance) (a{x=\"1\"} / a{x=\"2\"})",
        "max by (job, instance) (a > on (job, instance) max by (job, instance) (b))",
        "max by (job, instance) (a) and on (job, instance) b",
        "max by (job, instance) (a) unless on (job, instance) last_over_time(b[6h])",
        "max by (job, instance) (max by (job, instance) (a) or b)",
        "max by (job, instance) (a - ignoring (kind) b)",
        "max_over_time((a / b)[5m:15s])",
        "max by (job, instance) (sum without (x) (a) - max by (job, instance) (b))",
        "max by (job, instance) (a * on (job, instance) group_left (version) max by (job, instance) (c))",
    ] {
        assert!(
            wrong(expression).contains("an operand has the labels"),
            "{expression}"
        );
    }
}

#[test]
fn an_ambiguous_vector_match_is_reported() {
    for expression in [
        "max by (job, instance) (a) / on (job, instance) max by (job, instance, level) (b)",
        "max by (job, instance, kind) (a) - ignoring (kind) max by (job, instance, kind) (b)",
        "max by (job, instance) (a) * on (job, instance) group_left (version) max by (job, instance, version) (b)",
        "instance_level:x:ratio / on (job, instance) instance:y:max",
    ] {
        assert!(
            wrong(expression).contains("not aggregated by the labels that are matched"),
            "{expression}"
        );
    }
}

#[test]
fn vector_matches_that_never_match_are_reported() {
    let found = wrong("max by (job, instance) (a) / max by (job, instance, level) (b)");
    assert!(found.contains("no series match"), "{found}");
}

#[test]
fn a_query_result_with_target_labels_is_reported() {
    for expression in [
        "a",
        "rate(a[5m])",
        "a == 0",
        "topk(8, a)",
        "max without (x) (a)",
        "last_over_time(a[2m]) > 1",
    ] {
        assert!(wrong(expression).contains("the result has"), "{expression}");
    }
}

#[test]
fn a_sum_over_doubled_targets_is_found() {
    for expression in [
        "sum(a)",
        "count by (version) (a)",
        "avg by (hardware) (rate(a[5m]))",
        "quantile(0.5, a)",
    ] {
        assert!(wrong(expression).contains("twice"), "{expression}");
    }
    assert_eq!(
        wrong("sum by (job, instance) (max by (job, instance, x) (a))"),
        ""
    );
}

#[test]
fn aggregated_operands_and_scalars_are_accepted() {
    for expression in [
        "max by (job, instance) (a) / on (job, instance) max by (job, instance) (b)",
        "max by (job, instance) (a) / max by (instance, job) (b)",
        "max by (job, instance) (a{x=\"1\"} + timestamp(a{x=\"1\"}))",
        "max by (job, instance) (sum without (x) (rate(a[5m])))",
        "absent(a{job=\"x\"})",
        "max by (job, instance) (time() - a > 600)",
        "1 - min by (job, instance) (a) * 2",
        "max by (job, instance, level) (a) and on (job, instance) instance:x:ratio > 0.5",
        "max by (job, instance, level) (a) * on (job, instance) group_left () max by (job, instance) (b)",
        "max by (job, instance) (a) * on (job, instance) group_left (version) topk by (job, instance) (1, max by (job, instance, version) (b))",
        "max by (run) (max_over_time((max by (job, instance) (a) * on (job, instance) group_left (run) topk by (job, instance) (1, max by (job, instance, run) (b)))[5m:15s]) - min_over_time((max by (job, instance) (a) * on (job, instance) group_left (run) topk by (job, instance) (1, max by (job, instance, run) (b)))[5m:15s]))",
        "last_over_time(instance:x:ratio[2m]) - instance:y:ratio",
        "max by (job, instance, kind) (a) - on (job, instance) group_left () max by (job, instance) (b)",
        "1 + 2 > bool 1",
        "vector(1)",
        "histogram_quantile(0.9, max by (job, instance, le) (rate(a_bucket[5m])))",
    ] {
        assert_eq!(wrong(expression), "", "{expression}");
    }
}

#[test]
fn the_labels_of_a_result_are_known() {
    let left = "max by (job, instance, x, le) (a)";
    for (expression, expected) in [
        (format!("histogram_quantile(0.9, {left})"), "instance job x"),
        (format!("sum without (x, le) ({left})"), "instance job"),
        (
            format!("{left} / on (job, instance, x, le) {left}"),
            "instance job le x",
        ),
        (format!("topk(3, {left})"), "instance job le x"),
        (format!("count_values(\"v\", {left})"), "v"),
        (
            format!("label_replace({left}, \"y\", \"$1\", \"x\", \"(.*)\")"),
            "instance job le x y",
        ),
        ("max by (x) (a) or max by (y) (b)".to_owned(), "x y"),
        ("sum(max by (x) (a))".to_owned(), ""),
        ("absent(a{job=\"x\", y=~\"z\"})".to_owned(), "job"),
        ("instance_level:x:ratio".to_owned(), "instance job level"),
    ] {
        assert_eq!(labels_of(&expression).join(" "), expected, "{expression}");
    }
}

#[test]
fn the_name_of_a_recording_rule_states_its_labels() {
    let labels: Vec<String> = labels_of_record("instance_level:agave_x:ratio")
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(labels, ["instance", "job", "level"]);
    assert_eq!(
        (
            labels_of_record("fleet:x:sum"),
            labels_of_record("agave_up")
        ),
        (None, None)
    );
}
