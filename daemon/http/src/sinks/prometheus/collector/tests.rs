mod protobuf;

use super::*;
use crate::sinks::prometheus::{ExpositionFormat, tests::encode};
use faultline_metrics::{Batch, LabelText, Source, Stamp, TIME_BOUNDS, Tick, metrics};
use faultline_testkit::expose;
use std::sync::Arc;

fn tick(readings: Vec<Reading>) -> Arc<Tick> {
    let batch = Batch {
        readings,
        ..Batch::empty(Source::Daemon, Stamp::default())
    };
    Arc::new(Tick {
        number: 1,
        at: Stamp::default(),
        batches: vec![Arc::new(batch)],
    })
}

fn histogram(metric: &'static Metric, label: &'static str, values: &[f64]) -> Reading {
    let mut histogram = Histogram::new(&TIME_BOUNDS);
    values.iter().for_each(|value| histogram.observe(*value));
    Reading::new(
        metric,
        [label.into()],
        Value::Histogram(Arc::new(histogram)),
    )
}

fn some_of_each() -> Arc<Tick> {
    tick(vec![
        Reading::integer(&metrics::process::PAGE_FAULTS, ["major".into()], 12),
        Reading::integer(&metrics::process::PAGE_FAULTS, ["minor".into()], 0),
        Reading::real(&metrics::pools::RUN_QUEUE, ["solPohTickProd".into()], 0.25),
        Reading::integer(&metrics::cgroup::USAGE, [], u64::MAX),
        Reading::integer(
            &metrics::pools::THREADS,
            [LabelText::from("a\"b\\c\nd".to_owned())],
            1,
        ),
        Reading::real(&metrics::process::OOM_SCORE_ADJ, [], -500.5),
        Reading::integer(&metrics::daemon::BUILD_INFO, ["0.1".into()], 1),
        histogram(
            &metrics::validator::REPLAY_TIME,
            "total",
            &[0.0, 0.3, 0.31, 0.4, 7.5, 99.0],
        ),
        histogram(&metrics::validator::REPLAY_TIME, "load", &[]),
    ])
}

fn text_of(tick: &Arc<Tick>, constant_labels: &ConstantLabels) -> String {
    String::from_utf8(encode(tick, ExpositionFormat::OpenMetrics, constant_labels).unwrap())
        .unwrap()
}

#[test]
fn a_metric_family_omits_its_kind_suffix_while_samples_keep_catalog_names() {
    let page = text_of(&some_of_each(), &vec![]);
    for expected in [
        "# TYPE agave_process_page_faults counter\nagave_process_page_faults_total{type=\"major\"} 12\n",
        "# TYPE faultline_build info\nfaultline_build_info{version=\"0.1\"} 1\n",
        "# TYPE agave_thread_pool_run_queue_seconds counter\n# UNIT agave_thread_pool_run_queue_seconds seconds\n\
         agave_thread_pool_run_queue_seconds_total{pool=\"solPohTickProd\"} 0.25\n",
        "# UNIT agave_cgroup_memory_usage_bytes bytes\nagave_cgroup_memory_usage_bytes 18446744073709551615\n",
        "agave_process_oom_score_adj -500.5\n",
        "agave_thread_pool_threads{pool=\"a\\\"b\\\\c\\nd\"} 1\n",
    ] {
        assert!(page.contains(expected), "{expected} is missing in\n{page}");
    }
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn buckets_are_cumulative_and_end_with_infinity() {
    let page = text_of(&some_of_each(), &vec![]);
    for (bound, count) in [
        ("0.25", 1),
        ("0.5", 4),
        ("5.0", 4),
        ("10.0", 5),
        ("+Inf", 6),
    ] {
        let line =
            format!("agave_replay_slot_seconds_bucket{{le=\"{bound}\",part=\"total\"}} {count}\n");
        assert!(page.contains(&line), "{line} is missing in\n{page}");
    }
    assert!(
        page.contains("agave_replay_slot_seconds_count{part=\"total\"} 6\n"),
        "{page}"
    );
}

#[test]
fn the_text_has_the_series_of_the_classic_page_with_their_help() {
    let constant_labels = vec![("cluster", LabelText::from("testnet"))];
    let classic = String::from_utf8(
        encode(&some_of_each(), ExpositionFormat::Classic, &constant_labels).unwrap(),
    )
    .unwrap();
    let classic = expose::parse_text(&classic).unwrap();
    let open = expose::parse_openmetrics(&text_of(&some_of_each(), &constant_labels)).unwrap();
    let sorted = |page: &expose::Page| {
        let mut series: Vec<String> = page
            .samples
            .iter()
            .map(|sample| format!("{sample:?}"))
            .collect();
        series.sort();
        series
    };
    assert_eq!(sorted(&open), sorted(&classic));
    let help = |page: &expose::Page| -> Vec<Option<String>> {
        page.families
            .values()
            .map(|family| family.help.clone())
            .collect()
    };
    assert_eq!(help(&open), help(&classic));
}

#[test]
fn a_metrics_name_is_what_the_crate_makes_of_its_stem() {
    for metric in metrics::exported() {
        let (stem, unit) = name_and_unit(metric);
        let unit = unit
            .map(|unit| format!("_{}", unit.as_str()))
            .unwrap_or_default();
        let suffix = match metric.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram(_) => "",
        };
        assert_eq!(format!("{stem}{unit}{suffix}"), metric.name);
        assert_eq!(
            !unit.is_empty(),
            matches!(metric.unit, Unit::Bytes | Unit::Seconds),
            "{}",
            metric.name
        );
    }
}
