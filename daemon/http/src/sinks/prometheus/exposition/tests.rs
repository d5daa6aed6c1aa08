use super::*;
use crate::sinks::prometheus::{DroppedSeries, tests::encode};
use faultline_metrics::{Batch, Histogram, LabelText, Source, Stamp, TIME_BOUNDS, metrics};
use proptest::prelude::*;

fn tick(number: u64, batches: Vec<Arc<Batch>>) -> Arc<Tick> {
    Arc::new(Tick {
        number,
        at: Stamp::default(),
        batches,
    })
}

fn batch(readings: Vec<Reading>) -> Arc<Batch> {
    Arc::new(Batch {
        readings,
        ..Batch::empty(Source::Daemon, Stamp::default())
    })
}

/// A series with a value. There are few of each, so that both often stay the same.
fn reading() -> impl Strategy<Value = Reading> {
    let number = prop_oneof![
        Just(Value::Integer(0)),
        Just(Value::Integer(1)),
        Just(Value::Real(0.0)),
        Just(Value::Real(-0.0)),
        Just(Value::Real(f64::NAN)),
        any::<f64>().prop_map(Value::Real),
    ];
    let histogram = prop::collection::vec(0.0..20.0, 0..3).prop_map(|values| {
        let mut histogram = Histogram::new(&TIME_BOUNDS);
        values.iter().for_each(|value| histogram.observe(*value));
        Value::Histogram(Arc::new(histogram))
    });
    let label = || "[ab\"]".prop_map(LabelText::from);
    let tags = prop::collection::btree_map("(name|run|t)", "[xy]", 0..2).prop_map(|tags| {
        let tags = tags.into_iter();
        tags.map(|(name, value)| (LabelText::from(name), LabelText::from(value)))
            .collect::<Vec<_>>()
    });
    prop_oneof![
        number
            .clone()
            .prop_map(|value| Reading::new(&metrics::cgroup::USAGE, [], value)),
        (label(), number.clone()).prop_map(|(pool, value)| Reading::new(
            &metrics::pools::THREADS,
            [pool],
            value
        )),
        (label(), number.clone()).prop_map(|(pool, value)| Reading::new(
            &metrics::pools::RUN_QUEUE,
            [pool],
            value
        )),
        (label(), histogram).prop_map(|(part, value)| Reading::new(
            &metrics::validator::REPLAY_TIME,
            [part],
            value
        )),
        (label(), tags, number).prop_map(|(field, tags, value)| {
            Reading::new(&metrics::validator::DATAPOINT, ["d".into(), field], value).with_tags(tags)
        }),
    ]
}

/// How a batch differs from the batch of the previous tick.
#[derive(Debug, Clone)]
enum Change {
    /// The source was not sampled.
    Same,
    /// The source was sampled, and the values are equal.
    Equal,
    /// One value differs.
    Value(usize, Reading),
    /// The series differ.
    Series(Vec<Reading>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Same),
        Just(Change::Equal),
        (any::<usize>(), reading()).prop_map(|(at, reading)| Change::Value(at, reading)),
        prop::collection::vec(reading(), 0..8).prop_map(Change::Series),
    ]
}

fn changed(last: &Arc<Batch>, change: Change) -> Arc<Batch> {
    match change {
        Change::Same => Arc::clone(last),
        Change::Equal => batch(last.readings.clone()),
        Change::Series(readings) => batch(readings),
        Change::Value(at, other) => {
            let mut readings = last.readings.clone();
            let at = at % readings.len().max(1);
            if let Some(reading) = readings.get_mut(at)
                && matches!(reading.value, Value::Histogram(_))
                    == matches!(other.value, Value::Histogram(_))
            {
                reading.value = other.value;
            }
            batch(readings)
        }
    }
}

proptest! {
    #[test]
    fn an_incrementally_encoded_page_equals_a_fresh_encoding(
        changes in prop::collection::vec(prop::collection::vec((change(), change()), 1..12), 1..4),
    ) {
        let constant_labels = Arc::new(vec![("run", LabelText::from("1"))]);
        for exposition_format in [ExpositionFormat::Classic, ExpositionFormat::OpenMetrics, ExpositionFormat::Protobuf] {
            let mut batches = vec![batch(Vec::new()), batch(Vec::new())];
            let mut last: Option<EncodedExposition> = None;
            for (number, (first, second)) in (1..).zip(changes.iter().flatten().cloned()) {
                batches = vec![changed(&batches[0], first), changed(&batches[1], second)];
                let tick = tick(number, batches.clone());
                let before = last.as_ref().map(|encoded| &encoded.exposition);
                let exposition = Exposition::new(&tick, &constant_labels, before);
                let next = exposition.encode(exposition_format, last.as_ref()).unwrap();
                let anew = encode(&tick, exposition_format, &constant_labels).unwrap();
                prop_assert_eq!(String::from_utf8_lossy(&next.bytes), String::from_utf8_lossy(&anew));
                last = Some(next);
            }
        }
    }
}

fn gauge(tags: &[(&'static str, &'static str)], value: f64) -> Reading {
    let tags = tags
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    Reading::real(
        &metrics::validator::DATAPOINT,
        ["d".into(), "v".into()],
        value,
    )
    .with_tags(tags.collect())
}

#[test]
fn only_changed_metric_families_are_encoded() {
    let readings = |threads| {
        vec![
            Reading::integer(&metrics::cgroup::USAGE, [], 7),
            Reading::integer(&metrics::pools::THREADS, ["a".into()], threads),
        ]
    };
    let constant_labels = Arc::default();
    let first = Exposition::new(&tick(1, vec![batch(readings(1))]), &constant_labels, None);
    let mut encoded = first.encode(ExpositionFormat::Classic, None).unwrap();
    encoded.bytes = encoded.bytes.to_ascii_uppercase().into();
    let second = Exposition::new(
        &tick(2, vec![batch(readings(2))]),
        &constant_labels,
        Some(&first),
    );
    let encoded = second
        .encode(ExpositionFormat::Classic, Some(&encoded))
        .unwrap();
    let text = str::from_utf8(&encoded.bytes).unwrap();
    assert!(
        text.contains("AGAVE_CGROUP_MEMORY_USAGE_BYTES 7\n"),
        "{text}"
    );
    assert!(
        text.contains("agave_thread_pool_threads{pool=\"a\"} 2\n"),
        "{text}"
    );
}

#[test]
fn duplicate_labels_and_series_are_dropped_and_counted() {
    let first = vec![
        gauge(&[], 1.0),
        gauge(&[("name", "x")], 2.0),
        gauge(&[("a", "x")], 3.0),
    ];
    let second = vec![gauge(&[("a", "x")], 4.0), gauge(&[("run", "x")], 5.0)];
    let tick = tick(1, vec![batch(first), batch(second)]);
    let values = |constant_labels: &ConstantLabels, dropped: &DroppedSeries| -> Vec<f64> {
        let exposition = Exposition::new(&tick, &Arc::new(constant_labels.clone()), None);
        dropped.add(&exposition);
        let readings = exposition.families[0].readings(&tick);
        readings
            .filter_map(|reading| reading.value.number())
            .collect()
    };
    let dropped = DroppedSeries::default();
    assert_eq!(values(&Vec::new(), &dropped), [1.0, 3.0, 5.0]);
    assert_eq!(
        values(&vec![("run", LabelText::from("1"))], &dropped),
        [1.0, 3.0]
    );
    let mut readings = Vec::new();
    dropped.add_readings(&mut readings);
    assert_eq!(readings[0].label_values[0].as_str(), "agave_datapoint");
    assert_eq!(readings[0].value.number(), Some(5.0));
}
