//! Whole expositions, byte for byte. A fake host and captured datapoints give `expected.prom` and
//! `expected.openmetrics`.
//!
//! A case is a folder in `tests/cases`. `host` names the fake host. `points.lp` has the pushes, one
//! every ten seconds, with an empty line between two of them. `config.toml` is the configuration.
//!
//! After an intended change, renew the files with `FAULTLINE_RENEW=1 cargo test -p faultlined
//! --test faultlined golden`, and read the difference.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what cannot go on fails the test"
)]

mod stored;

use crate::support::fake_daemon::{FakeDaemon, PID};
use faultline_core::config::{self, Config};
use faultline_http::sinks::prometheus::{ConstantLabels, Exposition, ExpositionFormat};
use faultline_metrics::{Batch, LabelText, Source, Tick};
use faultline_testkit::{binaries::in_search_path, expose};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

/// Maximum number of series with the default configuration.
const MOST_SERIES: usize = 1500;

const PUSH_EVERY: u64 = 10;

struct Case {
    folder: PathBuf,
    tick: Arc<Tick>,
    constant: ConstantLabels,
}

impl Case {
    fn name(&self) -> String {
        self.folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn page(&self, dialect: ExpositionFormat) -> String {
        String::from_utf8(page(&self.tick, dialect, &self.constant)).unwrap()
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    assert!(folders.len() >= 6, "the cases are missing");
    folders.into_iter().map(case).collect()
}

/// The tick after the last push, and the next tick.
fn case(folder: PathBuf) -> Case {
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let config = config::parse(&text("config.toml")).unwrap();
    let points = text("points.lp");
    let pushes: Vec<&str> = points
        .split("\n\n")
        .filter(|push| !push.is_empty())
        .collect();
    let mut fake = FakeDaemon::new(text("host").trim(), &config);
    if let Some(first) = pushes.first() {
        fake.started = sent_at(first).saturating_sub(Duration::from_secs(PUSH_EVERY));
    }
    fake.find();
    let mut tick = fake.tick();
    for second in 2..=PUSH_EVERY * (pushes.len() as u64 + 1) {
        if second % PUSH_EVERY == 0
            && let Some(push) = pushes.get((second / PUSH_EVERY - 1) as usize)
        {
            fake.push(push);
        }
        tick = fake.tick();
    }
    Case {
        constant: constant_labels(&config),
        folder,
        tick,
    }
}

/// The time of the push's last point, with which a validator ends every push. In whole seconds.
fn sent_at(push: &str) -> Duration {
    let nanos = push
        .trim_end()
        .rsplit(' ')
        .next()
        .and_then(|time| time.parse::<u64>().ok())
        .expect("a timestamp");
    Duration::from_secs(nanos / 1_000_000_000)
}

fn constant_labels(config: &Config) -> ConstantLabels {
    let labels = config.labels.clone();
    let all = [
        ("cluster", labels.cluster),
        ("experiment", labels.experiment),
        ("arm", labels.arm),
        ("run", labels.run),
    ];
    let wanted = all
        .into_iter()
        .filter(|_| config.metrics.constant_labels_everywhere);
    wanted
        .filter_map(|(name, value)| Some((name, LabelText::from(value?))))
        .collect()
}

/// The exposition without the values that differ between runs: durations, and the daemon's own
/// process.
fn normalised(page: &str) -> String {
    let varies = |line: &str| {
        line.starts_with("faultline_source_duration_seconds{") || line.starts_with("process_")
    };
    let line = |line: &str| match line.rsplit_once(' ') {
        Some((series, _)) if varies(line) => format!("{series} 0\n"),
        _ => format!("{line}\n"),
    };
    page.lines().map(line).collect()
}

/// The first lines that differ.
fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let gone = old
        .iter()
        .filter(|line| !new.contains(line))
        .map(|line| format!("- {line}\n"));
    let come = new
        .iter()
        .filter(|line| !old.contains(line))
        .map(|line| format!("+ {line}\n"));
    let lines: String = gone.chain(come).take(40).collect();
    if lines.is_empty() {
        "the same lines in another order or number\n".to_owned()
    } else {
        lines
    }
}

/// The whole exposition of a tick.
pub fn page(tick: &Arc<Tick>, dialect: ExpositionFormat, constant: &ConstantLabels) -> Vec<u8> {
    let exposition = Exposition::new(tick, &Arc::new(constant.clone()), None);
    let page = exposition.encode(dialect, None).unwrap();
    page.bytes.to_vec()
}

#[test]
fn every_case_gives_its_expected_pages() {
    let renew = std::env::var_os("FAULTLINE_RENEW").is_some();
    let mut wrong = String::new();
    for case in cases() {
        for (file, dialect) in [
            ("expected.prom", ExpositionFormat::Classic),
            ("expected.openmetrics", ExpositionFormat::OpenMetrics),
        ] {
            let path = case.folder.join(file);
            let actual = normalised(&case.page(dialect));
            if renew {
                fs::write(&path, &actual).unwrap();
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            if actual != expected {
                wrong += &format!(
                    "{}/{file}:\n{}",
                    case.name(),
                    difference(&expected, &actual)
                );
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong}if this is meant: FAULTLINE_RENEW=1 cargo test -p faultlined --test faultlined golden"
    );
}

#[test]
fn both_formats_of_every_case_parse_strictly_to_equal_samples() {
    for case in cases() {
        let classic = expose::parse_text(&case.page(ExpositionFormat::Classic))
            .unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        let open = expose::parse_openmetrics(&case.page(ExpositionFormat::OpenMetrics));
        let open = open.unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        assert_eq!(classic.samples.len(), open.samples.len(), "{}", case.name());
        for sample in &classic.samples {
            let labels: Vec<(&str, &str)> = sample
                .labels
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            assert_eq!(
                open.get(&sample.name, &labels),
                Some(sample.value),
                "{}: {}",
                case.name(),
                sample.name
            );
        }
    }
}

#[test]
fn a_validator_with_all_threads_stays_within_the_series_limit() {
    let mut largest = cases()
        .into_iter()
        .max_by_key(|case| series_of(&case.page(ExpositionFormat::Classic)))
        .unwrap();
    let without = largest
        .tick
        .batches
        .iter()
        .filter(|batch| batch.source != Source::Threads)
        .cloned();
    let tick = Tick {
        batches: without.chain([all_threads()]).collect(),
        ..(*largest.tick).clone()
    };
    largest.tick = Arc::new(tick);
    let page = largest.page(ExpositionFormat::Classic);
    let of = |metric: &str| page.lines().filter(|line| line.starts_with(metric)).count();
    let pools = of("agave_thread_pool_threads{");
    assert_eq!(
        of("agave_thread_pool_block_io_delay_seconds_total{"),
        pools,
        "a pool's delay is missing"
    );
    assert!(pools > 80, "only {pools} pools: not all threads");
    let series = series_of(&page);
    println!("{} with {pools} pools: {series} series", largest.name());
    assert!(
        series <= MOST_SERIES,
        "{} has {series} series",
        largest.name()
    );
}

fn series_of(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#')).count()
}

/// The readings of a validator with all its threads, block I/O delay included.
fn all_threads() -> Arc<Batch> {
    let mut fake = FakeDaemon::new("linux-6.18-hybrid", &Config::default());
    fake.host
        .write("proc/sys/kernel/task_delayacct", "1\n")
        .unwrap();
    let read = |name: &str| fs::read_to_string(fake.host.path(name)).unwrap();
    let task = format!("proc/{PID}/task");
    let texts =
        ["stat", "status", "schedstat"].map(|name| (name, read(&format!("{task}/{PID}/{name}"))));
    for (tid, comm) in (5000..).zip(read("threads").lines()) {
        for (name, text) in &texts {
            // Field 42 is the delay. A thread's name is in parentheses.
            let text = text
                .replace("(agave-validator)", &format!("({comm})"))
                .replace(" 0 0 0 0 0 9", " 0 0 7 0 0 9");
            fake.host
                .write(&format!("{task}/{tid}/{name}"), text)
                .unwrap();
        }
    }
    fake.find();
    let tick = fake.tick();
    tick.batches
        .iter()
        .find(|batch| batch.source == Source::Threads)
        .cloned()
        .unwrap()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "promtool is the second opinion here"
)]
fn promtool_finds_nothing_to_complain_about() {
    let Some(promtool) = in_search_path("promtool") else {
        eprintln!("SKIPPED: no promtool in PATH (Debian package: prometheus)");
        return;
    };
    for case in cases() {
        let mut child = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(case.page(ExpositionFormat::Classic).as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && stdout.trim().is_empty(),
            "{}: {}\n{stdout}",
            case.name(),
            output.status
        );
    }
}
