//! Properties of any text, not only of the captured text.

use faultline_agave::{
    BadLine, admin, config, identify,
    line::{LineSplitter, Point, Value, host_id_of, name_of},
    log::{LogLine, LogSplitter},
    points::KnownPoint,
    rpc, threads, version,
};
use proptest::{collection::vec, prelude::*};

type Found = Vec<Result<Vec<u8>, BadLine>>;

fn keep(found: &mut Found) -> impl FnMut(Result<&[u8], BadLine>) + '_ {
    |line| found.push(line.map(<[u8]>::to_vec))
}

fn split(body: &[u8], cuts: &[usize], max_line: usize) -> Found {
    let mut splitter = LineSplitter::with_max_line(max_line);
    let mut found = Found::new();
    let mut rest = body;
    for &cut in cuts {
        let (chunk, later) = rest.split_at(cut.min(rest.len()));
        splitter.feed(chunk, keep(&mut found));
        rest = later;
    }
    splitter.feed(rest, keep(&mut found));
    splitter.finish(keep(&mut found));
    found
}

/// Random bytes, most of them special in the grammar.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"=\"".to_vec()),
        Just(b"\\\"".to_vec()),
        Just(b"a,host_id=B x=1i 1\n".to_vec()),
        Just(b",host_id=".to_vec()),
        Just(b"name".to_vec()),
        Just(b" ".to_vec()),
        Just(b"    ".to_vec()),
        Just(b"datapoint: a m=\"".to_vec()),
        Just(b"[2025-03-01T12:00:00Z INFO  t] ".to_vec()),
        vec(any::<u8>(), 0..6),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[derive(Debug, Clone)]
enum Written {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
}

impl Written {
    /// The text as Agave's `add_field_*` would write it.
    fn text(&self) -> String {
        match self {
            Self::Int(value) => format!("{value}i"),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Str(value) => format!("\"{}\"", value.replace('"', "\\\"")),
        }
    }

    fn equals(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Self::Int(a), Value::Int(b)) => a == b,
            (Self::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Str(a), Value::Str(b)) => *a == b.decode(),
            _ => false,
        }
    }
}

fn written() -> impl Strategy<Value = Written> {
    // Left out: a string that ends in a backslash cannot be read back, and a carriage return at the
    // end of a line would be part of the line break.
    let text =
        "[a-z \\\\\",=\n\u{e9}]{0,12}".prop_map(|text| text.trim_end_matches('\\').to_owned());
    prop_oneof![
        any::<i64>().prop_map(Written::Int),
        any::<f64>().prop_map(Written::Float),
        any::<bool>().prop_map(Written::Bool),
        text.prop_map(Written::Str),
    ]
}

fn fields() -> impl Strategy<Value = Vec<(String, Written)>> {
    vec(("[a-zA-Z0-9_.-]{1,12}", written()), 1..8)
}

fn join(fields: &[(String, Written)], separator: &str) -> String {
    fields
        .iter()
        .map(|(key, value)| format!("{key}={}", value.text()))
        .collect::<Vec<_>>()
        .join(separator)
}

fn same(point: &Point<'_>, fields: &[(String, Written)]) -> Result<(), TestCaseError> {
    let read: Vec<_> = point
        .fields()
        .collect::<Result<_, _>>()
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(read.len(), fields.len());
    for (field, (key, value)) in read.iter().zip(fields) {
        prop_assert_eq!(field.key, key.as_str());
        prop_assert!(
            field.value().is_ok_and(|read| value.equals(&read)),
            "{:?} {:?}",
            value,
            field
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_chunking_gives_the_same_lines(body in soup(), cuts in vec(0..12_usize, 0..80), max in 1..120_usize) {
        prop_assert_eq!(split(&body, &cuts, max), split(&body, &[], max));
        prop_assert_eq!(split(&body, &vec![1; body.len()], max), split(&body, &[], max));
    }

    #[test]
    fn any_chunking_gives_the_same_log_records(body in soup(), cut in 0..200_usize) {
        let (mut whole, mut parts) = (Found::new(), Found::new());
        let mut splitter = LogSplitter::with_max_line(100);
        splitter.feed(&body, keep(&mut whole));
        splitter.finish(keep(&mut whole));
        let (a, b) = body.split_at(cut.min(body.len()));
        splitter.feed(a, keep(&mut parts));
        splitter.feed(b, keep(&mut parts));
        splitter.finish(keep(&mut parts));
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn parsing_any_bytes_never_panics(bytes in soup()) {
        for line in split(&bytes, &[], 64).into_iter().flatten() {
            let _ = name_of(&line).and_then(|name| host_id_of(&line, name));
            if let Ok(point) = Point::parse(&line) {
                let _ = (point.check().is_ok(), KnownPoint::parse(&point).is_some());
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = LogLine::parse(&text);
        let _ = (line.progress(), line.frozen_bank(), line.replay_timings());
        let _ = line.point().map(|point| point.map(|point| point.check()));
        drop(version::Version::parse(&text).map(|version| (version.agave_number(), version.to_string())));
        let _ = config::SolanaMetricsConfig::parse(&text).is_ok();
        let _ = (text.parse::<faultline_agave::PublicKey>(), identify::identify("agave-validator", &[&*text, &*text]));
        prop_assert!(!threads::pool_name(&bytes).is_empty());
        prop_assert!(!threads::pool_name(&bytes).chars().any(char::is_control));
        for method in admin::Method::ALL {
            drop(method.read(1, &bytes));
        }
        drop(rpc::RequestBatch::new([rpc::Call::Health]).read(&bytes));
    }

    #[test]
    fn a_point_written_as_agave_does_is_read_back_equal(
        name in "[a-zA-Z0-9_.-]{1,20}", host in "[1-9A-HJ-NP-Za-km-z]{1,44}", fields in fields(), time in 0..i64::MAX,
    ) {
        let body = format!("{name},host_id={host},id=3 {} {time}\nnext,host_id=A x=1i 1\n", join(&fields, ","));
        let lines = split(body.as_bytes(), &[5, 7], 64 * 1024);
        prop_assert_eq!(lines.len(), 2);
        let line = lines[0].as_ref().unwrap();
        prop_assert_eq!(name_of(line), Some(name.as_bytes()));
        prop_assert_eq!(host_id_of(line, name.as_bytes()), Some(host.as_bytes()));
        let point = Point::parse(line).unwrap();
        prop_assert_eq!((point.name(), point.tag("host_id"), point.tag("id")), (&*name, Some(&*host), Some("3")));
        prop_assert_eq!(point.timestamp(), Some(time));
        same(&point, &fields)?;
    }

    #[test]
    fn logged_and_pushed_datapoints_parse_equally(name in "[a-z_-]{1,12}", fields in fields()) {
        let message = format!("datapoint: {name} {}", join(&fields, " ")).replace('\n', "\n    ");
        let log = format!("[2025-03-01T12:00:00Z INFO  solana_metrics::metrics] {message}\n");
        let mut records = Found::new();
        let mut splitter = LogSplitter::new();
        splitter.feed(log.as_bytes(), keep(&mut records));
        prop_assert_eq!(records.len(), 1);
        let text = String::from_utf8(records.remove(0).unwrap()).unwrap();
        let point = LogLine::parse(&text).point().unwrap().unwrap();
        prop_assert_eq!((point.name(), point.timestamp()), (&*name, Some(1_740_830_400_000_000_000)));
        same(&point, &fields)?;
    }

    #[test]
    fn typed_values_are_equal_in_logged_and_pushed_form(misses in any::<i64>(), hits in 0..i64::MAX, level in 0..2000_i64) {
        let wire = format!("loaded-programs-cache-stats,host_id=A hits={hits}i,misses={misses}i,water_level={level}i 5");
        let log = format!("x: datapoint: loaded-programs-cache-stats hits={hits}i misses={misses}i water_level={level}i");
        let pushed = KnownPoint::parse(&Point::parse(wire.as_bytes()).unwrap()).unwrap().unwrap();
        let logged = KnownPoint::parse(&LogLine::parse(&log).point().unwrap().unwrap()).unwrap().unwrap();
        prop_assert_eq!(&pushed, &logged);
        let KnownPoint::ProgramCache(stats) = pushed else { panic!("{pushed:?}") };
        prop_assert_eq!(stats.misses, u64::try_from(misses).ok());
    }
}
