//! The question the program was made for, asked of a real validator: what does a program cache of 1,024 entries change
//! against one of 512? Two real nodes, the real daemon that records, and the report on the recordings; what was recorded
//! is compared with the raw lines that the follower pushed.
//!
//! The report is kept in `target/report-real`, or where `FAULTLINE_CACHE_OUT` says. `FAULTLINE_CACHE_RUNS` asks for more
//! than one run of each arm.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot prepare its scene fails")]
#![expect(clippy::disallowed_methods, reason = "a test reads clocks and starts programs itself")]

#[path = "real_cache/witness.rs"]
mod witness;

use faultline_recording::{EventKind, Recording};
use faultline_testkit::Result;
use faultline_testkit::binaries::{Binaries, SKIP_MESSAGE};
use faultline_testkit::browser::Browser;
use faultline_testkit::cluster::{Cluster, ClusterOptions};
use faultline_testkit::daemon::{Daemon, value};
use faultline_testkit::eventually::{eventually, eventually_seeing};
use faultline_testkit::load::Load;
use faultline_testkit::sink::Sink;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use witness::{Sum, sum};

const PATIENCE: Duration = Duration::from_secs(240);
const ARMS: [u32; 2] = [512, 1024];
/// More programs than the smaller cache has room for.
const PROGRAMS: u32 = 640;
const RATE: u32 = 300;
/// As many transactions as a minute has.
const TRANSACTIONS: u64 = RATE as u64 * 60;
const CACHE: &str = "loaded-programs-cache-stats";

/// One run: what was recorded, and the raw lines that were pushed meanwhile.
struct Ran {
    entries: u32,
    recording: PathBuf,
    bodies: Vec<Vec<u8>>,
    identity: String,
    /// When the load began, in nanoseconds since 1970.
    loaded: u128,
}

impl Ran {
    fn sum(&self, name: &str, field: &str) -> Sum {
        sum(&self.bodies, name, &self.identity, field, 0)
    }
}

/// The daemon, beside the program under test unless `FAULTLINE_DAEMON` names it.
fn daemon() -> String {
    let beside = || Path::new(env!("CARGO_BIN_EXE_faultline")).with_file_name("faultlined").display().to_string();
    let program = std::env::var("FAULTLINE_DAEMON").unwrap_or_else(|_| beside());
    assert!(Path::new(&program).is_file(), "no daemon at {program}: cargo build -p faultlined");
    program
}

/// Where results are kept, with a folder for the recordings.
fn results() -> PathBuf {
    let usual = || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("report-real");
    let folder = std::env::var_os("FAULTLINE_CACHE_OUT").map_or_else(usual, PathBuf::from);
    fs::create_dir_all(folder.join("recordings")).expect("a folder for the results");
    folder
}

fn configuration(folder: &Path, upstream: &Sink, entries: u32) -> String {
    let (config, password) = (folder.join("faultlined.toml"), folder.join("password"));
    fs::write(&password, "secret\n").expect("a password file");
    let text = format!(
        "[target]\nprogram_cache_entries = {entries}\n[threads]\ninterval = \"1s\"\n[phase]\nat_tip_for = \"5s\"\n\
         [forward]\nurl = {:?}\ndb = \"up\"\nuser = \"u\"\npassword_file = {:?}\n",
        upstream.url(),
        password.display().to_string()
    );
    fs::write(&config, text).expect("a configuration");
    config.display().to_string()
}

/// A minute of load on a new cluster, recorded from before its start to after its last push.
fn run(entries: u32, number: u32, results: &Path) -> Result<Ran> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = folder.path().join("nodes");
    fs::create_dir(&nodes).expect("a folder for the nodes");
    let recording = results.join(format!("recordings/cache-{entries}-{number}.fltl"));
    for old in [recording.clone(), recording.with_extension("fltl-wal"), recording.with_extension("fltl-shm")] {
        let _ = fs::remove_file(old);
    }
    let upstream = Sink::start()?;
    let config = configuration(folder.path(), &upstream, entries);
    let (ledger, file) = (nodes.join("follower").display().to_string(), recording.display().to_string());
    let (arm, run) = (format!("arm=cache-{entries}"), format!("run={number}"));
    let labels = ["--label", "experiment=program-cache", "--label", &arm, "--label", &run];
    let arguments = [["--config", &config], ["--ledger", &ledger], ["--record", &file]];
    let arguments: Vec<&str> = arguments.iter().flatten().copied().chain(labels).collect();
    let daemon = Daemon::start(&daemon(), &arguments, folder.path())?;
    let mut cluster = Cluster::start(ClusterOptions {
        programs: PROGRAMS,
        cache_entries: Some(entries),
        follower_metrics: Some(daemon.ingest_url()),
        folder: Some(nodes),
        ..ClusterOptions::default()
    })?;
    let identity = cluster.follower_rpc().call("getIdentity", serde_json::json!([]))?;
    let identity = identity["identity"].as_str().unwrap_or_default().to_owned();
    let loaded = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let load = Load::start(cluster.leader_rpc().address(), RATE, PROGRAMS)?;
    eventually_seeing(PATIENCE, "a minute's transactions", || {
        let sent = load.sent();
        if sent >= TRANSACTIONS { Ok(()) } else { Err(sent) }
    });
    load.stop();
    cluster.check()?;
    everything_has_arrived(&daemon, &upstream);
    // The daemon sees the follower end, and records it.
    cluster.kill_follower()?;
    eventually(PATIENCE, "the end is seen", || {
        daemon.scrape().ok().filter(|page| page.get("agave_up", &[]) == Some(0.0)).map(drop)
    });
    let page = daemon.scrape()?;
    assert_eq!(page.sum("faultline_recorder_dropped_total"), Some(0.0));
    let misses = value(&page, "agave_program_cache_misses_total", &[])?;
    // Two validators and a load on two cores: a tick may be missed, and the report says so.
    let missed = value(&page, "faultline_missed_ticks_total", &[])?;
    println!("cache of {entries}, run {number}: {misses} misses; {missed} ticks missed");
    let log = daemon.log();
    assert_eq!(daemon.stop()?, Some(0), "{log}");
    Ok(Ran { entries, recording, bodies: upstream.bodies(), identity, loaded })
}

/// Waits for two further pushes after the load, so that its last points are there, and for their copies.
fn everything_has_arrived(daemon: &Daemon, upstream: &Sink) {
    let pushes = || daemon.scrape().ok()?.get("faultline_ingest_requests_total", &[("code", "204")]);
    let before = eventually(PATIENCE, "a page", pushes);
    eventually_seeing(PATIENCE, "two further pushes", || {
        let now = pushes();
        if now >= Some(before + 2.0) { Ok(()) } else { Err((before, now)) }
    });
    eventually_seeing(PATIENCE, "all copies have arrived", || {
        let forwarded =
            daemon.scrape().ok().and_then(|page| page.get("faultline_forward_bytes_total", &[("result", "sent")]));
        let arrived = upstream.bodies().iter().map(Vec::len).sum::<usize>() as f64;
        if forwarded == Some(arrived) { Ok(()) } else { Err((forwarded, arrived)) }
    });
}

/// Point for point as many, and the same sums, as in the raw lines.
fn the_recording_holds_what_was_pushed(ran: &Ran) {
    let recording = Recording::open(&ran.recording).expect("a recording");
    let info = recording.info().expect("its description");
    assert!(info.finished, "{info:?}");
    let points = recording.program_cache_points().expect("points");
    let of = |field: fn(&faultline_recording::ProgramCachePoint) -> Option<u64>| Sum {
        lines: points.len() as u64,
        total: points.iter().filter_map(field).sum(),
    };
    assert_eq!(of(|point| point.misses), ran.sum(CACHE, "misses"));
    assert_eq!(of(|point| point.evictions), ran.sum(CACHE, "evictions"));
    assert_eq!(of(|point| point.reloads), ran.sum(CACHE, "reloads"));
    assert_eq!(of(|point| point.insertions), ran.sum(CACHE, "insertions"));
    let slots = recording.replay_slot_points().expect("points");
    let told = Sum { lines: slots.len() as u64, total: slots.iter().filter_map(|point| point.program_cache_us).sum() };
    assert_eq!(told, ran.sum("replay-slot-stats", "program_cache_us"));
    assert!(told.lines > 100, "{told:?}");
    let events = recording.events().expect("events");
    for kind in [EventKind::DaemonStart, EventKind::Start, EventKind::AtTip, EventKind::Exit, EventKind::DaemonStop] {
        assert_eq!(events.iter().filter(|event| event.kind == kind).count(), 1, "{kind:?}");
    }
    let ticks = recording.ticks().expect("ticks");
    assert!(ticks.len() >= 60, "{} ticks", ticks.len());
}

/// `faultline report`, as its users run it, with the metric that the question is about; the page's path.
fn report(runs: &[Ran], out: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultline"));
    command
        .args(["report", "--force", "--primary", "cache-time", "--out"])
        .arg(out)
        .args(runs.iter().map(|ran| &ran.recording));
    let output = command.output().expect("faultline can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    out.join("report.html")
}

/// A column of a table of the report, of the runs of `arm`, added up. Rows begin with the run's name: `"ARM, run N",`.
fn added_up(out: &Path, table: &str, column: &str, arm: &str) -> f64 {
    let path = out.join(format!("tables/{table}.csv"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let head = text.lines().next().unwrap_or_default();
    let at = head.split(',').skip(1).position(|title| title == column);
    let at = at.unwrap_or_else(|| panic!("{table} has no column {column}: {head}"));
    let name = format!("\"{arm}, run ");
    let rows = text.lines().filter_map(|line| Some(line.strip_prefix(&name)?.split_once("\",")?.1));
    let values: Vec<f64> = rows.filter_map(|row| row.split(',').nth(at)?.parse().ok()).collect();
    assert!(!values.is_empty(), "{table} has no run of {arm}:\n{text}");
    values.iter().sum()
}

/// The report counts from the first execution on: no more than all lines say, no less than those since the load began.
fn the_report_says_what_the_raw_lines_say(runs: &[Ran], out: &Path) {
    let text = fs::read_to_string(out.join("report.md")).expect("the report as Markdown");
    if runs.len() < 3 * ARMS.len() {
        assert!(text.contains("**Described, not tested.**"), "{}", &text[..text.len().min(2000)]);
    }
    for (table, column, name, field) in [
        ("cache", "Misses (sum)", CACHE, "misses"),
        ("cache", "Evictions (sum)", CACHE, "evictions"),
        ("cache-time", "Time (sum) [µs]", "replay-slot-stats", "program_cache_us"),
    ] {
        for entries in ARMS {
            let told = added_up(out, table, column, &format!("cache-{entries}"));
            let of = |since: fn(&Ran) -> u128| {
                let runs = runs.iter().filter(|ran| ran.entries == entries);
                runs.map(|ran| sum(&ran.bodies, name, &ran.identity, field, since(ran)).total as f64).sum::<f64>()
            };
            let (least, most) = (of(|ran| ran.loaded), of(|_| 0));
            println!("{column} with {entries} entries: {told}");
            assert!((least..=most).contains(&told), "{column}, {entries}: {least} <= {told} <= {most}");
        }
    }
}

fn a_larger_cache_misses_less_and_takes_less_time(runs: &[Ran]) {
    let of = |entries: u32, name: &str, field: &str| {
        let runs = runs.iter().filter(|ran| ran.entries == entries);
        runs.map(|ran| sum(&ran.bodies, name, &ran.identity, field, ran.loaded).total).sum::<u64>()
    };
    let [small, large] = ARMS.map(|entries| of(entries, CACHE, "misses"));
    assert!(small > 2 * large, "misses: {small} against {large}");
    let [small, large] = ARMS.map(|entries| of(entries, CACHE, "evictions"));
    assert!(small > 0 && large == 0, "evictions: {small} against {large}");
    let [small, large] = ARMS.map(|entries| of(entries, "replay-slot-stats", "program_cache_us"));
    assert!(small > 2 * large, "time: {small} against {large} us");
}

/// In a real browser: nothing fails and nothing is asked of anybody.
fn the_page_opens(page: &Path, picture: &Path) -> Result<()> {
    if !Browser::is_installed() {
        println!("{}", faultline_testkit::browser::SKIP_MESSAGE);
        return Ok(());
    }
    let mut browser = Browser::start()?;
    browser.window(1280, 960, false)?;
    browser.open(page)?;
    browser.screenshot(picture, false)?;
    assert_eq!(browser.complaints(), [] as [String; 0]);
    let others: Vec<&String> = browser.requests().iter().filter(|url| !url.starts_with("file:")).collect();
    assert!(others.is_empty(), "{others:?}");
    Ok(())
}

#[test]
fn a_report_on_two_real_recordings_shows_what_a_larger_program_cache_changes() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let times = std::env::var("FAULTLINE_CACHE_RUNS").map_or(1, |text| text.parse().expect("a number of runs"));
    let out = results();
    let mut runs = Vec::new();
    for number in 1..=times {
        for entries in ARMS {
            let ran = run(entries, number, &out)?;
            the_recording_holds_what_was_pushed(&ran);
            runs.push(ran);
        }
    }
    let page = report(&runs, &out);
    a_larger_cache_misses_less_and_takes_less_time(&runs);
    the_report_says_what_the_raw_lines_say(&runs, &out);
    the_page_opens(&page, &out.join("report.png"))
}
