//! Makes the recording of a day without a migration. A real validator votes next to a leader. A
//! release build of the daemon follows it. A Prometheus with the shipped rules scrapes the daemon
//! every 15 s.

use crate::{disk::Disk, limited::LimitedCgroup, recording::Recording, stored::words};
use faultline_testkit::{
    Result,
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::eventually_ok,
    load::Load,
    prometheus::{Prometheus, PrometheusOptions, TimeSeries},
    voter::Stake,
};
use flate2::{Compression, write::GzEncoder};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

pub const PATIENCE: Duration = Duration::from_secs(300);
/// Time after which the effects of the start are over, and after which every request of the start
/// has a response.
const SETTLES: Duration = Duration::from_secs(330);
/// 25 minutes and one scrape. A repetition continues from this last scrape.
const SECONDS: u32 = 25 * 60 + 16;
const GIB: u64 = 1 << 30;
pub const SCRAPED_EVERY: u32 = 15;

pub fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// A release build of the daemon.
pub fn program() -> String {
    let program = tree("target/release/faultlined");
    assert!(
        program.is_file(),
        "first: cargo build --release --bin faultlined"
    );
    program.display().to_string()
}

pub fn record() -> Result<()> {
    let program = program();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = folder.path().join("nodes");
    // Declared before the programs that use them, so that they are dropped last.
    let _disk = Disk::mount(&nodes, 32 * GIB).expect("the right to mount a file system");
    let cgroup = LimitedCgroup::new(8 * GIB).expect("the right to make a cgroup");
    let ledger = nodes.join("follower").display().to_string();
    let daemon = Daemon::start(&program, &["--ledger", &ledger], folder.path())?;
    let mut cluster = Cluster::start_leader(ClusterOptions {
        programs: 8,
        folder: Some(nodes.clone()),
        follower_metrics: Some(daemon.ingest_url()),
        follower_stakes: vec![Stake::always(100_000)],
        ..ClusterOptions::default()
    })?;
    let pid = cluster.start_follower()?;
    cgroup
        .write("cgroup.procs", pid.into())
        .expect("a process can be moved");
    cluster.wait_until_following()?;
    let load = Load::start(cluster.leader_rpc().address(), 40, 8)?;
    let mut prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![daemon.metrics().parse().expect("an address")],
        rule_files: vec![tree("grafana/prometheus/rules/*.yml")],
        interval: Some(SCRAPED_EVERY),
        ..PrometheusOptions::default()
    })?;
    prometheus.wait_until_up(PATIENCE)?;
    eventually_ok(PATIENCE, "it votes at the tip", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let is = |name, labels: &[_]| page.get(name, labels);
        let found = (
            is("agave_phase", &[("phase", "at_tip")]),
            is("agave_delinquent", &[]),
        );
        if found == (Some(1.0), Some(0.0)) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
    println!("settles, in {}", folder.path().display());
    std::thread::sleep(SETTLES + Duration::from_secs(SECONDS.into()));
    cluster.check()?;
    println!(
        "{} transactions were sent, {} refused",
        load.sent(),
        load.failed()
    );
    println!("fired at the end: {:?}", prometheus.firing()?);
    keep(&prometheus, &nodes, SECONDS, &Recording::file("healthy"))
}

/// Writes the series of the last seconds that the rules read, without paths of this machine.
pub fn keep(prometheus: &Prometheus, nodes: &Path, seconds: u32, file: &Path) -> Result<()> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64();
    let rules = prometheus.rules()?;
    let recorded: BTreeSet<&str> = rules
        .iter()
        .filter(|rule| !rule.is_alert)
        .map(|rule| rule.name.as_str())
        .collect();
    let words = rules
        .iter()
        .flat_map(|rule| words(&rule.expression))
        .filter(|name| !recorded.contains(name));
    let mut text = String::new();
    let mut absent = Vec::new();
    for name in words.collect::<BTreeSet<&str>>() {
        let series = prometheus.samples(name, now, seconds)?;
        if series.is_empty() {
            absent.push(name);
        }
        write_family(&mut text, name, &series, &nodes.display().to_string());
    }
    text += "# EOF\n";
    println!("words of the rules without a series here: {absent:?}");
    let mut encoder = GzEncoder::new(
        std::fs::File::create(file).expect("a file"),
        Compression::best(),
    );
    encoder
        .write_all(text.as_bytes())
        .expect("the disk has room");
    encoder.finish().expect("the disk has room");
    println!(
        "{} bytes of text, {} compressed",
        text.len(),
        file.metadata().expect("the file").len()
    );
    Ok(())
}

fn write_family(text: &mut String, name: &str, series: &[TimeSeries], nodes: &str) {
    let kind = ["_total", "_count", "_sum", "_bucket"]
        .iter()
        .any(|end| name.ends_with(end));
    if !series.is_empty() {
        let (family, kind) = if kind {
            (name.trim_end_matches("_total"), "counter")
        } else {
            (name, "gauge")
        };
        let _ = writeln!(text, "# TYPE {family} {kind}");
    }
    for (labels, samples) in series {
        let labels = written(labels, nodes);
        for (time, value) in samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value} {time:.3}");
        }
    }
}

fn written(labels: &BTreeMap<String, String>, nodes: &str) -> String {
    let kept = labels.iter().filter(|(name, _)| *name != "__name__");
    let kept = kept.map(|(name, value)| match name.as_str() {
        "instance" => "instance=\"recorded\"".to_owned(),
        "exe" => "exe=\"/usr/bin/agave-validator\"".to_owned(),
        _ => format!("{name}={:?}", value.replace(nodes, "/mnt")),
    });
    kept.collect::<Vec<_>>().join(",")
}
