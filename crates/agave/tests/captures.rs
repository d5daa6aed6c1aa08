//! Compares what this crate reads from real traffic with sums of `sums.awk`. The awk script shares
//! no code with this crate.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use faultline_agave::{
    line::{LineSplitter, Point, Value},
    log::{LogLine, LogSplitter, Progress},
    points::{KnownPoint, ReplaySlot},
};

type Sums = BTreeMap<String, i64>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The sums of one file, as `sums.txt` stores them.
fn expected(file: &str) -> Sums {
    let text = fs::read_to_string(folder().join("sums.txt")).unwrap();
    let rows = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    rows.filter(|row| row[0] == file)
        .map(|row| (row[1].to_owned(), row[2].parse().unwrap()))
        .collect()
}

/// The same sums, computed by this crate from the generic fields.
fn counted(body: &[u8], wanted: &Sums) -> Sums {
    let mut sums: Sums = wanted.keys().map(|key| (key.clone(), 0)).collect();
    let mut splitter = LineSplitter::new();
    let mut take = |line: Result<&[u8], _>| {
        let point = Point::parse(line.unwrap()).unwrap();
        point.check().unwrap();
        *sums.get_mut("lines").unwrap() += 1;
        for field in point.fields().map(Result::unwrap) {
            let key = format!("{}.{}", point.name(), field.key);
            if let (Some(sum), Ok(Value::Int(value))) = (sums.get_mut(&key), field.value()) {
                *sum += value;
            }
        }
    };
    body.chunks(4096)
        .for_each(|chunk| splitter.feed(chunk, &mut take));
    splitter.finish(&mut take);
    sums
}

/// Asserts that a field is declared if a value of some type is read. The point's value must have
/// that type.
fn assert_declared_types(point: &Point<'_>) {
    let name = point.name();
    let parsed = |fields: &str| {
        let line = format!("{name} {fields} 1");
        let point = Point::parse(line.as_bytes()).unwrap();
        KnownPoint::parse(&point).unwrap().unwrap()
    };
    let empty = parsed("undeclared=1i");
    let is_read = |key: &str, value: &str| parsed(&format!("{key}={value}")) != empty;
    for field in point.fields() {
        let field = field.unwrap();
        let is_declared = ["1i", "true", "\"text\""].map(|value| is_read(field.key, value));
        let value = match field.value().unwrap() {
            Value::Int(value) => format!("{value}i"),
            Value::Bool(value) => value.to_string(),
            Value::Str(_) => "\"text\"".to_owned(),
            _ => "1.5".to_owned(),
        };
        assert!(
            !is_declared.contains(&true) || is_read(field.key, &value),
            "{name}.{} is {value}",
            field.key
        );
    }
}

/// Some of the same sums, computed from the typed datapoints.
fn typed(body: &[u8]) -> Sums {
    let mut sums = Sums::new();
    let mut add = |key: &str, value: Option<u64>| {
        *sums.entry(key.to_owned()).or_default() += i64::try_from(value.unwrap()).unwrap();
    };
    let mut splitter = LineSplitter::new();
    splitter.feed(body, |line| {
        let point = Point::parse(line.unwrap()).unwrap();
        let Some(known) = KnownPoint::parse(&point) else {
            return;
        };
        assert!(point.timestamp().is_some());
        assert_declared_types(&point);
        match known.unwrap() {
            KnownPoint::ProgramCache(stats) => {
                add("loaded-programs-cache-stats.misses", stats.misses);
                add("loaded-programs-cache-stats.evictions", stats.evictions);
                add("loaded-programs-cache-stats.reloads", stats.reloads);
            }
            KnownPoint::ReplaySlot(ReplaySlot {
                total_transactions,
                program_cache_us,
                jit_compile_us,
                ..
            }) => {
                add("replay-slot-stats.total_transactions", total_transactions);
                add("replay-slot-stats.program_cache_us", program_cache_us);
                add(
                    "replay-slot-stats.execute_details_create_executor_jit_compile_us",
                    jit_compile_us,
                );
            }
            KnownPoint::SetRoot(root) => add("bank-forks_set_root.tx_count", root.tx_count),
            KnownPoint::CostTracker(costs) => add(
                "cost_tracker_stats.transaction_count",
                costs.transaction_count,
            ),
            KnownPoint::BankFrozen(bank) => add("bank_frozen.slot", bank.slot),
            KnownPoint::AgentStats(agent) => add("metrics.points_written", agent.points_written),
            _ => {}
        }
    });
    sums
}

fn agrees_with_the_witness(file: &str, body: &[u8]) {
    let expected = expected(file);
    assert!(expected.len() > 10, "{file} has no kept sums");
    assert_eq!(counted(body, &expected), expected, "{file}");
    let typed = typed(body);
    assert_eq!(typed.len(), 10, "{file}");
    for (key, sum) in typed {
        assert_eq!(Some(&sum), expected.get(&key), "{file} {key}");
    }
}

#[test]
fn sums_over_the_excerpts_agree_with_an_independent_count() {
    for file in ["follower.lp", "leader.lp"] {
        agrees_with_the_witness(
            file,
            &fs::read(folder().join("fixtures").join(file)).unwrap(),
        );
    }
}

#[test]
fn sums_over_whole_captures_agree_with_an_independent_count() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/agave/captures");
    let Ok(entries) = fs::read_dir(&captures) else {
        eprintln!("no captures beside the checkout; the excerpts are checked by another test");
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if expected(name).is_empty() {
            continue; // a capture newer than the kept sums
        }
        let file = fs::File::open(&path).unwrap();
        let mut body = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(file)
            .unwrap()
            .read_to_end(&mut body)
            .unwrap();
        agrees_with_the_witness(name, &body);
    }
}

#[test]
fn a_real_log_gives_points_and_progress() {
    let log = fs::read(folder().join("fixtures/validator.log")).unwrap();
    let (mut points, mut progress) = (Vec::new(), Vec::new());
    let mut splitter = LogSplitter::new();
    splitter.feed(&log, |record| {
        let line = LogLine::parse(std::str::from_utf8(record.unwrap()).unwrap());
        assert!(line.time_ns.is_some(), "{line:?}");
        progress.extend(line.progress());
        if let Some(point) = line.point() {
            let point = point.unwrap();
            point.check().unwrap();
            points.push(point.name().to_owned());
            if KnownPoint::parse(&point).is_some() {
                assert_declared_types(&point);
            }
        }
    });
    // Counted by `grep -c 'datapoint: ' validator.log`.
    let printed = String::from_utf8(log)
        .unwrap()
        .matches("datapoint: ")
        .count();
    assert_eq!(points.len(), printed);
    assert!(
        points
            .iter()
            .any(|name| name == "loaded-programs-cache-stats"),
        "{points:?}"
    );
    assert_eq!(
        progress,
        [
            Progress::ReplayBegins,
            Progress::Replaying,
            Progress::Replayed
        ]
    );
}
