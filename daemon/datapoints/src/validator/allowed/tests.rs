use super::*;
use faultline_core::config::AllowedDatapoint;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn allowed(name: &str, field: &str, kind: DatapointKind, tags: &[&str]) -> AllowedDatapoint {
    AllowedDatapoint {
        name: name.into(),
        field: field.into(),
        kind,
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
    }
}

/// Name, labels and value of a series.
type Shown = (String, Vec<(String, String)>, f64);

fn series(values: &AllowListSeries) -> Vec<Shown> {
    let mut readings = Vec::new();
    values.add_readings(true, &mut readings);
    let overflow = readings.pop().unwrap();
    assert_eq!(overflow.metric.name, "faultline_datapoint_overflow_total");
    let series = readings.into_iter().map(|reading| {
        let labels = reading
            .label_values
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("/");
        let tags = reading
            .tags
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        (
            format!("{} {labels}", reading.metric.name),
            tags,
            reading.value.number().unwrap(),
        )
    });
    series.collect()
}

fn add(values: &mut AllowListSeries, list: &AllowList, line: &str) -> bool {
    let point = Point::parse(line.as_bytes()).unwrap();
    list.allowed_fields(point.name().as_bytes())
        .is_some_and(|allowed_fields| values.add(list, allowed_fields, &point))
}

/// Values by (is sum, name, field, tag values), and the overflow.
type Model = (BTreeMap<(bool, String, String, Vec<String>), f64>, u64);

/// The simplest implementation: each field of each line is looked up.
fn model(entries: &[AllowedDatapoint], max_series: usize, lines: &[String]) -> Model {
    let (mut all, mut overflow) = (BTreeMap::new(), 0);
    // Fields with the same tags are added together, which decides which series overflow.
    let group = |entry: &&AllowedDatapoint| {
        entries
            .iter()
            .position(|e| (&e.name, &e.tags) == (&entry.name, &entry.tags))
    };
    let mut entries: Vec<&AllowedDatapoint> = entries.iter().collect();
    entries.sort_by_key(group);
    for line in lines {
        let point = Point::parse(line.as_bytes()).unwrap();
        for entry in entries.iter().filter(|entry| entry.name == point.name()) {
            let value = point
                .field(&entry.field)
                .and_then(|field| field.value().ok())
                .and_then(as_number);
            let is_sum = entry.kind == DatapointKind::Delta;
            let Some(value) = value.filter(|value| !is_sum || *value >= 0.0) else {
                continue;
            };
            let tags = entry
                .tags
                .iter()
                .filter_map(|tag| Some(point.tag(tag)?.to_owned()))
                .collect();
            let key = (is_sum, entry.name.clone(), entry.field.clone(), tags);
            if all.len() >= max_series && !all.contains_key(&key) {
                overflow += 1;
                continue;
            }
            let current: &mut f64 = all.entry(key).or_insert(0.0);
            *current = if is_sum { *current + value } else { value };
        }
    }
    (all, overflow)
}

fn entries() -> impl Strategy<Value = Vec<AllowedDatapoint>> {
    let kind = prop_oneof![Just(DatapointKind::Level), Just(DatapointKind::Delta)];
    let entry =
        ("[ab]", "(f|g|gg)", kind, proptest::bool::ANY).prop_map(|(name, field, kind, tagged)| {
            allowed(&name, &field, kind, if tagged { &["t"] } else { &[] })
        });
    // The configuration has each field once.
    proptest::collection::vec(entry, 0..6).prop_map(|entries| {
        let mut seen = std::collections::BTreeSet::new();
        entries
            .into_iter()
            .filter(|entry| {
                seen.insert((
                    entry.name.clone(),
                    entry.field.clone(),
                    entry.kind == DatapointKind::Delta,
                ))
            })
            .collect()
    })
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    let field = "(f|g|gg|h)=(-?[0-9]{1,3}i|[0-9]\\.5|true|\"x, y\"|NaN|bad)";
    let fields = proptest::collection::vec(field, 1..5).prop_map(|fields| fields.join(","));
    let tags = prop_oneof![
        Just(String::new()),
        "[xy]".prop_map(|tag| format!(",t={tag}")),
        Just(",u=z".to_owned())
    ];
    let line = ("[abc]", tags, fields, 0..9_u8)
        .prop_map(|(name, tags, fields, time)| format!("{name},host_id=A{tags} {fields} {time}"));
    proptest::collection::vec(line, 0..40)
}

proptest! {
    #[test]
    fn a_single_pass_matches_the_field_by_field_lookup(
        entries in entries(), lines in lines(), max_series in prop_oneof![0..12_usize, Just(100)], cut in 0..40_usize,
    ) {
        let list = AllowList::new(&Datapoints { allow: entries.clone(), max_series: max_series as u64 });
        // Below the limit, sums that are merged later are the same.
        let (mut values, mut later) = (AllowListSeries::default(), AllowListSeries::default());
        let cut = if max_series < 100 { lines.len() } else { cut.min(lines.len()) };
        for (at, line) in lines.iter().enumerate() {
            add(if at < cut { &mut values } else { &mut later }, &list, line);
        }
        values.merge(max_series, later, true);
        let (expected, overflow) = model(&entries, max_series, &lines);
        let mut readings = Vec::new();
        values.add_readings(true, &mut readings);
        prop_assert_eq!(readings.pop().and_then(|reading| reading.value.number()), Some(overflow as f64));
        let exported: Vec<_> = readings
            .iter()
            .map(|reading| {
                let tags = reading.tags.iter().map(|(_, value)| value.to_string()).collect();
                let is_sum = reading.metric.name.ends_with("_total");
                ((is_sum, reading.label_values[0].to_string(), reading.label_values[1].to_string(), tags), reading.value.number())
            })
            .collect();
        let expected: Vec<_> = expected.into_iter().map(|(key, value)| (key, Some(value))).collect();
        prop_assert_eq!(exported, expected);
    }
}

#[test]
fn a_reloaded_allow_list_continues_the_same_series() {
    let entry = |kind| allowed("a", "f", kind, &["t"]);
    let list = |allow: Vec<AllowedDatapoint>| {
        AllowList::new(&Datapoints {
            allow,
            max_series: 10,
        })
    };
    let (first, second) = (
        list(vec![entry(DatapointKind::Delta)]),
        list(vec![
            allowed("b", "f", DatapointKind::Level, &[]),
            entry(DatapointKind::Delta),
        ]),
    );
    let mut values = AllowListSeries::default();
    for list in [&first, &second, &first, &second] {
        assert!(add(&mut values, list, "a,host_id=A,t=x f=2i 1"));
    }
    assert!(add(&mut values, &second, "b,host_id=A f=3i 1"));
    let sum = (
        "agave_datapoint_sum_total a/f".to_owned(),
        vec![("t".to_owned(), "x".to_owned())],
        8.0,
    );
    assert_eq!(
        series(&values),
        [
            ("agave_datapoint b/f".to_owned(), Vec::new(), 3.0),
            sum.clone()
        ]
    );
    values.forget_gauges();
    assert_eq!(series(&values), [sum]);
    assert!(add(&mut values, &second, "b,host_id=A f=4i 1"));
    assert!(add(&mut values, &second, "a,host_id=A,t=x f=2i 2"));
    assert_eq!(
        series(&values)
            .iter()
            .map(|series| series.2)
            .collect::<Vec<_>>(),
        [4.0, 10.0]
    );
}

#[test]
fn gauges_and_counters_together_stay_within_the_series_limit() {
    let allow = [DatapointKind::Level, DatapointKind::Delta]
        .map(|kind| allowed("a", "f", kind, &[]))
        .into();
    let list = AllowList::new(&Datapoints {
        allow,
        max_series: 1,
    });
    let mut values = AllowListSeries::default();
    assert!(add(&mut values, &list, "a,host_id=A f=2i 1"));
    assert_eq!(series(&values).len(), 1);
}

#[test]
fn a_tag_invalid_as_a_label_is_matched_by_its_sanitized_name() {
    let list = AllowList::new(&Datapoints {
        allow: vec![allowed(
            "a",
            "f",
            DatapointKind::Level,
            &["cf-name", "9", "e\u{301}"],
        )],
        max_series: 10,
    });
    let mut values = AllowListSeries::default();
    assert!(add(
        &mut values,
        &list,
        "a,host_id=A,cf-name=x,9=y,e\u{301}=z f=2i 1"
    ));
    let tags = [("_", "y"), ("cf_name", "x"), ("e_", "z")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(series(&values)[0].1, tags);
}

#[test]
fn tag_values_are_taken_as_they_are_up_to_a_space_or_comma() {
    let list = AllowList::new(&Datapoints {
        allow: vec![allowed("a", "f", DatapointKind::Level, &["t"])],
        max_series: 10,
    });
    let label = |value: &str| {
        let mut values = AllowListSeries::default();
        add(&mut values, &list, &format!("a,host_id=A,t={value} f=1i 2"));
        let (_, mut tags, _) = series(&values).pop()?;
        tags.pop().map(|(_, value)| value)
    };
    for value in [r#"x"y\z"#, r#""q""#, r#"x\"y"#, r"\"] {
        assert_eq!(label(value).as_deref(), Some(value));
    }
    assert_eq!(label(r"x\,y").as_deref(), Some(r"x\"));
    assert_eq!(label(r"x\ y"), None);
}
