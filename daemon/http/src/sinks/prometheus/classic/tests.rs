use super::*;
use crate::sinks::prometheus::{ExpositionFormat, tests::encode};
use faultline_metrics::{Batch, Histogram, LabelText, Source, Stamp, TIME_BOUNDS, Tick, metrics};
use std::sync::Arc;

fn text_of(readings: Vec<Reading>, constant_labels: &ConstantLabels) -> String {
    let batch = Batch {
        readings,
        ..Batch::empty(Source::Daemon, Stamp::default())
    };
    let tick = Arc::new(Tick {
        number: 1,
        at: Stamp::default(),
        batches: vec![Arc::new(batch)],
    });
    String::from_utf8(encode(&tick, ExpositionFormat::Classic, constant_labels).unwrap()).unwrap()
}

fn odd_readings() -> Vec<Reading> {
    let mut histogram = Histogram::new(&TIME_BOUNDS);
    histogram.observe(0.3);
    vec![
        Reading::integer(&metrics::process::PAGE_FAULTS, ["major".into()], 12),
        Reading::integer(&metrics::cgroup::USAGE, [], u64::MAX),
        Reading::integer(
            &metrics::pools::THREADS,
            [LabelText::from("a\"b\\c\nd".to_owned())],
            1,
        ),
        Reading::real(&metrics::process::OOM_SCORE_ADJ, [], -500.0),
        Reading::integer(&metrics::daemon::BUILD_INFO, ["0.1".into()], 1),
        Reading::new(
            &metrics::validator::CACHE_TIME,
            ["replay".into()],
            Value::Histogram(Arc::new(histogram)),
        ),
    ]
}

#[test]
fn classic_text_families_use_sample_names_without_info_type() {
    let page = text_of(odd_readings(), &vec![]);
    assert!(
        page.contains(
            "# TYPE agave_process_page_faults_total counter\nagave_process_page_faults_total{type=\"major\"} 12\n"
        ),
        "{page}"
    );
    assert!(
        page.contains(
            "# TYPE faultline_build_info gauge\nfaultline_build_info{version=\"0.1\"} 1\n"
        ),
        "{page}"
    );
    assert!(
        page.contains("agave_cgroup_memory_usage_bytes 18446744073709551615\n"),
        "{page}"
    );
    assert!(
        page.contains("agave_process_oom_score_adj -500\n"),
        "{page}"
    );
    assert!(
        page.contains(r#"agave_thread_pool_threads{pool="a\"b\\c\nd"} 1"#),
        "{page}"
    );
    assert!(!page.contains("# EOF"));
}

#[test]
fn buckets_are_cumulative_and_their_bounds_contain_a_decimal_point() {
    let page = text_of(odd_readings(), &vec![]);
    assert!(
        page.contains("agave_program_cache_time_seconds_bucket{path=\"replay\",le=\"0.25\"} 0\n"),
        "{page}"
    );
    assert!(
        page.contains("agave_program_cache_time_seconds_bucket{path=\"replay\",le=\"1.0\"} 1\n"),
        "{page}"
    );
    assert!(
        page.contains("agave_program_cache_time_seconds_bucket{path=\"replay\",le=\"+Inf\"} 1\n"),
        "{page}"
    );
    assert!(
        page.contains("agave_program_cache_time_seconds_sum{path=\"replay\"} 0.3\n"),
        "{page}"
    );
}

#[test]
fn constant_labels_go_on_the_validators_series_only() {
    let constant_labels = vec![("cluster", LabelText::from("testnet"))];
    let page = text_of(odd_readings(), &constant_labels);
    assert!(
        page.contains("agave_process_page_faults_total{type=\"major\",cluster=\"testnet\"} 12\n"),
        "{page}"
    );
    assert!(
        page.contains("faultline_build_info{version=\"0.1\"} 1\n"),
        "{page}"
    );
}
