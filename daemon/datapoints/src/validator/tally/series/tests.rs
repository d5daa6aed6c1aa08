use super::*;
use std::fs;

fn point(line: &str) -> Point<'_> {
    Point::parse(line.as_bytes()).unwrap()
}

fn add(series: &mut SeriesList, point: &Point<'_>) {
    let mut values = InputValues::default();
    values.reset(point.name());
    faultline_agave::points::KnownPoint::decode(point, |field| values.add(field)).unwrap();
    series.add(point, &values);
}

/// Name, label and value of the series that do not exist from the start.
fn sums(series: &SeriesList) -> Vec<(&'static str, String, f64)> {
    let mut readings = Vec::new();
    series.add_readings(false, &mut readings);
    let label = |reading: &Reading| {
        reading
            .label_values
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let starts_at_zero = |reading: &&Reading| {
        reading
            .metric
            .datapoints
            .iter()
            .all(|of| of.initial.is_some())
    };
    readings
        .iter()
        .filter(|reading| !starts_at_zero(reading))
        .map(|r| (r.metric.name, label(r), r.value.number().unwrap()))
        .collect()
}

#[test]
fn read_cache_times_use_the_unit_in_their_field_name() {
    for line in [
        "accounts_db_store_timings,host_id=A read_only_accounts_cache_load_us=1500000i,read_only_accounts_cache_store_us=250i,read_only_accounts_cache_evict_us=40i 1",
        "accounts_db_store_timings,host_id=A read_only_accounts_cache_load_ns=1500000000i,read_only_accounts_cache_store_ns=250000i,read_only_accounts_cache_evict_us=40i 1",
    ] {
        let mut series = SeriesList::default();
        add(&mut series, &point(line));
        let read_cache =
            |label: &str, seconds| ("agave_read_cache_seconds_total", label.to_owned(), seconds);
        assert_eq!(
            sums(&series),
            [
                read_cache("load", 1.5),
                read_cache("store", 0.000_25),
                read_cache("evict", 0.000_04)
            ]
        );
    }
}

#[test]
fn a_total_is_absent_before_its_datapoint_and_zero_without_repairs() {
    let mut series = SeriesList::default();
    assert!(sums(&series).is_empty());
    // 2.1 does not report how many bytes a flush wrote.
    add(
        &mut series,
        &point(
            "accounts_db-flush_accounts_cache,host_id=A flush_roots_elapsed=1500000i,num_accounts_saved=4i 1",
        ),
    );
    add(
        &mut series,
        &point("blockstore-insert-shreds,host_id=A num_repair=46i,num_recovered_inserted=2i 1"),
    );
    add(
        &mut series,
        &point("net-stats-validator,host_id=A rcvbuf_errors_delta=5i,sndbuf_errors_delta=-1i 1"),
    );
    let expected = [
        ("agave_write_cache_flushes_total", "", 1.0),
        ("agave_write_cache_flush_seconds_total", "", 1.5),
        ("agave_repair_requests_total", "shred", 0.0),
        ("agave_repair_requests_total", "highest_shred", 0.0),
        ("agave_repair_requests_total", "orphan", 0.0),
        ("agave_shreds_repaired_total", "", 46.0),
        ("agave_shreds_recovered_total", "", 2.0),
        ("agave_udp_buffer_errors_total", "receive", 5.0),
    ];
    assert_eq!(
        sums(&series),
        expected.map(|(name, label, value)| (name, label.to_owned(), value))
    );
}

#[test]
fn an_in_memory_index_has_no_disk_lookups() {
    let mut series = SeriesList::default();
    add(
        &mut series,
        &point("accounts_index,host_id=A count=9i,gets_from_mem=7i,gets_missing=2i 1"),
    );
    let in_memory = [
        ("agave_accounts_index_lookups_total", "found", 7.0),
        ("agave_accounts_index_lookups_total", "missing", 2.0),
    ];
    assert_eq!(
        sums(&series),
        in_memory.map(|(name, label, value)| (name, label.to_owned(), value))
    );
    add(
        &mut series,
        &point("accounts_index,host_id=A buckets_scanned=3i,flush_scan_us=1000000i 2"),
    );
    add(
        &mut series,
        &point("accounts_index,host_id=A buckets_scanned=3i,evict_scan_us=500000i 3"),
    );
    let scans = [
        ("agave_accounts_index_bins_scanned_total", 6.0),
        ("agave_accounts_index_scan_seconds_total", 1.5),
    ];
    assert_eq!(
        sums(&series)[2..],
        scans.map(|(name, value)| (name, String::new(), value))
    );
}

#[test]
fn both_field_names_of_flushed_bytes_feed_one_series() {
    let mut series = SeriesList::default();
    add(
        &mut series,
        &point("accounts_db-flush_accounts_cache,host_id=A account_bytes_flushed=4i 1"),
    );
    add(
        &mut series,
        &point("accounts_db-flush_accounts_cache,host_id=A account_bytes_stored=3i 2"),
    );
    let flushed = [
        ("agave_write_cache_flushes_total", 2.0),
        ("agave_write_cache_flushed_bytes_total", 7.0),
    ];
    assert_eq!(
        sums(&series),
        flushed.map(|(name, value)| (name, String::new(), value))
    );
}

#[test]
fn deltas_add_up_and_tallies_can_be_merged() {
    let mut series = SeriesList::default();
    let requests = point(
        "repair_service-my_requests,host_id=A repair-total=9i,shred-count=7i,highest-shred-count=1i,orphan-count=1i 1",
    );
    let loads = point(
        "accounts_db_load_accounts,host_id=A num_loaded_from_write_cache=3i,num_loaded_from_read_cache=2i,num_loaded_from_index_cache=5i,num_loaded_from_index_storage=1i 1",
    );
    (0..3).for_each(|_| add(&mut series, &requests));
    add(&mut series, &loads);
    let other = series.clone();
    series.merge(&other);
    let expected = [
        ("agave_accounts_loaded_total", "write_cache", 16.0),
        ("agave_accounts_loaded_total", "read_cache", 4.0),
        ("agave_accounts_loaded_total", "storage", 2.0),
        ("agave_repair_requests_total", "shred", 42.0),
        ("agave_repair_requests_total", "highest_shred", 6.0),
        ("agave_repair_requests_total", "orphan", 6.0),
    ];
    assert_eq!(
        sums(&series),
        expected.map(|(name, label, value)| (name, label.to_owned(), value))
    );
}

/// `sums.txt` comes from `sums.awk`, which shares no code with this workspace.
#[test]
fn sums_over_real_traffic_agree_with_an_independent_count() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/agave/tests");
    let expected = fs::read_to_string(folder.join("sums.txt")).unwrap();
    let mut compared = 0;
    for file in ["follower.lp", "leader.lp"] {
        let lines = fs::read(folder.join("fixtures").join(file)).unwrap();
        let mut series = SeriesList::default();
        for line in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            add(&mut series, &Point::parse(line).unwrap());
        }
        for row in expected.lines() {
            let [of, field, sum] = row.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let (name, key) = field.split_once('.').unwrap_or_default();
            let datapoint = CATALOG.by_datapoint.get(name.as_bytes());
            let counter = datapoint.and_then(|datapoint| {
                datapoint.inputs.iter().find(|indexed| {
                    matches!(indexed.input.amount, Amount::Field { key: of, factor: 1 } if of == key)
                        && indexed.input.conditions.is_empty()
                        && series.0[indexed.series_index].metric.kind == Kind::Counter
                })
            });
            if let (true, Some(indexed)) = (of == file, counter) {
                let sum = Value::Integer(sum.parse().unwrap());
                assert_eq!(series.0[indexed.series_index].value, Some(sum), "{row}");
                compared += 1;
            }
        }
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn the_last_value_of_a_repeated_field_counts() {
    let mut series = SeriesList::default();
    add(
        &mut series,
        &point("cost_tracker_stats,host_id=A transaction_count=3i,transaction_count=5i 1"),
    );
    let sums = sums(&series);
    assert_eq!(
        sums,
        [("agave_block_transactions_total", "unknown".to_owned(), 5.0)]
    );
}

#[test]
fn a_series_may_require_a_tag_or_text_or_its_absence() {
    let mut series = SeriesList::default();
    for line in [
        "cost_tracker_stats,host_id=A,is_leader=true transaction_count=3i 1",
        "cost_tracker_stats,host_id=A,is_leader=false transaction_count=4i 2",
        "cost_tracker_stats,host_id=A transaction_count=5i 3",
        "cost_tracker_stats,host_id=A,is_leader=true transaction_count=6i 4",
    ] {
        add(&mut series, &point(line));
    }
    let by = |leader: &str, sum| ("agave_block_transactions_total", leader.to_owned(), sum);
    assert_eq!(
        sums(&series),
        [by("true", 9.0), by("false", 4.0), by("unknown", 5.0)]
    );
    let mut series = SeriesList::default();
    for line in [
        "event_handler_sent_vote_count,host_id=A vote=\"Notarize\",count=3i 1",
        "event_handler_sent_vote_count,host_id=A count=4i,vote=\"Skip\",vote=\"Notarize\" 2",
        "event_handler_sent_vote_count,host_id=A vote=\"Skip\",vote=5i,count=5i 3",
    ] {
        add(&mut series, &point(line));
    }
    let sent = |kind: &str, sum| ("agave_votes_sent_total", kind.to_owned(), sum);
    assert_eq!(sums(&series), [sent("notarize", 7.0)]);
}

#[test]
fn impossible_counts_are_ignored_and_gauges_keep_the_newest() {
    let mut series = SeriesList::default();
    for line in [
        "jemalloc_stats,host_id=A active_bytes=7i,dirty_bytes=-1i 1",
        "jemalloc_stats,host_id=A active_bytes=5i 2",
        "blockstore-insert-shreds,host_id=A num_repair=9007199254740993i 3",
    ] {
        add(&mut series, &point(line));
    }
    let mut readings = Vec::new();
    series.add_readings(true, &mut readings);
    let value = |name: &str| {
        let of = |reading: &&Reading| reading.metric.name == name;
        readings
            .iter()
            .filter(of)
            .map(|r| r.value.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(value("agave_heap_bytes"), [Value::Integer(5)]);
    assert_eq!(value("agave_shreds_repaired_total"), [Value::Integer(0)]);
    series.forget_gauges();
    readings.clear();
    series.add_readings(true, &mut readings);
    assert!(readings.iter().all(|r| r.metric.name != "agave_heap_bytes"));
}
