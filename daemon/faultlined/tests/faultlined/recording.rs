//! The recorder of the real program: the content of the recording, and what happens to it if the
//! daemon is killed or stopped or the disk is full.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use crate::support::small_disk::Small;
use faultline_recording::{Recording, schema::PerTickTable};
use faultline_testkit::{
    Error, Result,
    daemon::Daemon,
    eventually::{eventually, eventually_ok},
    expose::Page,
    http,
    process::{Program, Running},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(90);
const IDENTITY: &str = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";

/// A process that looks like a validator, and a path for the recording.
struct Scene {
    folder: tempfile::TempDir,
    validator: Running,
    config: PathBuf,
    file: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agave-validator");
        let sleep = faultline_testkit::binaries::in_search_path("sleep").expect("sleep is in PATH");
        fs::copy(sleep, &program).unwrap();
        let validator = Running::start(&Program {
            path: program,
            arguments: vec!["1000".to_owned()],
            environment: Vec::new(),
            output: folder.path().join("validator.out"),
        });
        let config = folder.path().join("c.toml");
        // Every source samples at every tick, so that every value has a row at every tick.
        let threads = "[threads]\ninterval = \"100ms\"\nswitches_interval = \"100ms\"\n";
        fs::write(
            &config,
            format!("[target]\nidentity = \"{IDENTITY}\"\n{threads}"),
        )
        .unwrap();
        let file = folder.path().join("run.fltl");
        Self {
            validator: validator.unwrap(),
            config,
            file,
            folder,
        }
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = [
            "--interval",
            "100ms",
            "--label",
            "arm=A",
            "--label",
            "memory=DDR5",
        ]
        .into_iter()
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect();
        let given = |option: &str| more.contains(&option);
        let own = [
            ("--pid", self.validator.pid().to_string()),
            ("--config", self.config.display().to_string()),
            ("--record", self.file.display().to_string()),
        ];
        for (option, value) in own.into_iter().filter(|(option, _)| !given(option)) {
            all.extend([option.to_owned(), value]);
        }
        all
    }

    fn daemon(&self) -> Result<Daemon> {
        self.daemon_by(FAULTLINED)
    }

    fn daemon_by(&self, program: &str) -> Result<Daemon> {
        let arguments = self.arguments(&[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Daemon::start(program, &arguments, self.folder.path())
    }

    /// Opens the recording again.
    fn read(&self) -> Recording {
        Recording::open(&self.file).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.file.parent().unwrap()).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("run.fltl")).collect()
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(FAULTLINED)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("faultlined can be run")
}

/// The points of one slot. The slot's number is its time in seconds after 1,795,000,000.
fn points_of(slot: u64) -> String {
    let time = 1_795_000_000_000_000_000 + slot * 1_000_000_000;
    format!(
        "loaded-programs-cache-stats,host_id={IDENTITY} slot={slot}i,hits=9i,misses=7i,evictions=1i,reloads=2i {time}\n\
         replay-slot-stats,host_id={IDENTITY} slot={slot}i,total_transactions=12i,total_entries=64i,total_shreds=8i,\
         replay_total_elapsed=350000i,program_cache_us=1234i {time}\n\
         bank-forks_set_root,host_id={IDENTITY} slot={slot}i,tx_count=12i,elapsed_ms=1i {time}\n\
         cost_tracker_stats,host_id={IDENTITY},is_leader=false bank_slot={slot}i,transaction_count=12i,block_cost=5000i {time}\n"
    )
}

fn push(daemon: &Daemon, body: &str) {
    let answer = http::post(
        daemon.ingest(),
        "/write?db=d&u=u&p=p&precision=n",
        body.as_bytes(),
    )
    .unwrap();
    assert_eq!(answer.status, 204);
}

/// True if the gap is that of a busy machine, where a tick comes too late.
fn is_late(detail: &str) -> bool {
    detail.contains("ticks were missed")
}

/// Waits until a counter on the page is at least `least`.
fn page_with(daemon: &Daemon, name: &str, labels: &[(&str, &str)], least: f64) -> Page {
    eventually_ok(PATIENCE, name, || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        match page.get(name, labels) {
            Some(value) if value >= least => Ok(page),
            other => Err(format!("{other:?}\n{}", daemon.log())),
        }
    })
}

fn ticks_on(page: &Page) -> f64 {
    page.get("faultline_ticks_total", &[])
        .expect("the page counts ticks")
}

/// A column, and its values on the page and in the recording.
type Compared = (String, Option<f64>, Option<f64>);

/// Compares the row of the page's tick with the page. `None` while the row is not written yet.
fn compared(recording: &Recording, page: &Page) -> Option<Vec<Compared>> {
    let counted = recording.columns(PerTickTable::Daemon, &["ticks"]).unwrap();
    let row = counted.values[0]
        .iter()
        .position(|count| *count == Some(ticks_on(page)))?;
    let tick = counted.ticks[row];
    let mut all = Vec::new();
    for table in PerTickTable::ALL {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        let rows = recording.columns(table, &names).unwrap();
        let row = rows.ticks.iter().position(|id| *id == tick);
        // The evidence of the phase is recorded, but not exported.
        let exported = table
            .columns()
            .iter()
            .zip(&rows.values)
            .filter(|(column, _)| {
                column.metric.name != faultline_metrics::metrics::recorded::PHASE_EVIDENCE.name
            });
        for (column, values) in exported {
            let labels: Vec<(&str, &str)> = column
                .metric
                .label_names
                .iter()
                .copied()
                .zip(column.label_values.iter().copied())
                .collect();
            let name = format!("{}.{}", table.name(), column.name);
            all.push((
                name,
                page.get(column.metric.name, &labels),
                row.and_then(|row| values[row]),
            ));
        }
    }
    Some(all)
}

#[test]
fn every_recorded_column_equals_the_exposed_value_of_its_tick() -> Result<()> {
    let scene = Scene::new();
    let daemon = scene.daemon()?;
    page_with(&daemon, "agave_process_threads", &[], 1.0);
    (100..130).for_each(|slot| push(&daemon, &points_of(slot)));
    let page = page_with(&daemon, "agave_program_cache_misses_total", &[], 30.0 * 7.0);
    let row = eventually(PATIENCE, "the tick is in the recording", || {
        compared(&scene.read(), &page)
    });
    let column_count = row.iter().filter(|(_, shown, _)| shown.is_some()).count();
    assert!(
        column_count > 60,
        "only {column_count} columns have a value"
    );
    let different: Vec<_> = row
        .iter()
        .filter(|(_, shown, kept)| shown != kept)
        .collect();
    assert!(different.is_empty(), "{different:#?}");
    assert_eq!(daemon.stop()?, Some(0));
    let again = compared(&scene.read(), &page).expect("the tick is still there");
    assert_eq!(row, again);
    let cache = row
        .iter()
        .find(|(name, ..)| name == "validator_sample.cache_misses")
        .and_then(|(.., kept)| *kept);
    assert_eq!(cache, Some(210.0));
    Ok(())
}

#[test]
fn points_keep_the_validators_time_and_events_record_the_process_lifecycle() -> Result<()> {
    let mut scene = Scene::new();
    let daemon = scene.daemon()?;
    page_with(&daemon, "agave_process_threads", &[], 1.0);
    push(&daemon, &points_of(100));
    push(&daemon, &points_of(101));
    page_with(&daemon, "agave_program_cache_misses_total", &[], 14.0);
    let mark = |path: &str| http::post(daemon.metrics(), path, b"").map(|answer| answer.status);
    assert_eq!(
        (
            mark("/mark?name=load+begins")?,
            mark("/mark")?,
            mark("/marks?name=a")?
        ),
        (200, 400, 404)
    );
    assert_eq!(http::get(daemon.metrics(), "/mark?name=a")?.status, 405);
    scene.validator.kill()?;
    page_with(&daemon, "agave_phase", &[("phase", "gone")], 1.0);
    assert_eq!(daemon.stop()?, Some(0));
    assert_eq!(scene.files(), ["run.fltl"]);

    let recording = scene.read();
    let labels = [
        ("arm".to_owned(), "A".to_owned()),
        ("memory".to_owned(), "DDR5".to_owned()),
    ];
    assert_eq!(recording.labels(), labels);
    points_have_the_validators_time(&recording);
    events_have_the_life_of_the_process(&recording);
    let processes = recording.processes().unwrap();
    assert_eq!(pids(&recording), [scene.validator.pid()]);
    assert!(processes[0].started.is_some());
    Ok(())
}

fn pids(recording: &Recording) -> Vec<u32> {
    let processes = recording.processes().unwrap();
    processes.iter().map(|process| process.pid).collect()
}

fn points_have_the_validators_time(recording: &Recording) {
    let cache = recording.program_cache_points().unwrap();
    let points: Vec<_> = cache
        .iter()
        .map(|point| (point.slot, point.misses, point.time_unix_ns))
        .collect();
    let time = 1_795_000_100_000_000_000;
    assert_eq!(
        points,
        [
            (Some(100), Some(7), time),
            (Some(101), Some(7), time + 1_000_000_000)
        ]
    );
    assert_eq!(cache[0].lost_insertions, None, "the point did not have it");
    let replayed: Vec<_> = recording
        .replay_slot_points()
        .unwrap()
        .iter()
        .map(|p| p.program_cache_us)
        .collect();
    assert_eq!(replayed, [Some(1234), Some(1234)]);
    assert_eq!(recording.set_root_points().unwrap().len(), 2);
    assert_eq!(
        recording.cost_tracker_points().unwrap()[0].is_leader,
        Some(false)
    );
}

fn events_have_the_life_of_the_process(recording: &Recording) {
    let events: Vec<(String, String)> = recording
        .events()
        .unwrap()
        .iter()
        .map(|e| (e.kind.clone(), e.detail.to_string()))
        .collect();
    let in_time = events
        .iter()
        .filter(|(kind, detail)| kind != "phase" && !is_late(detail));
    let kinds: Vec<&str> = in_time.map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["daemon_start", "start", "mark", "exit", "daemon_stop"],
        "{events:#?}"
    );
    assert!(
        events
            .iter()
            .any(|(_, detail)| detail.contains("load begins")),
        "{events:#?}"
    );
    let exit = events
        .iter()
        .find(|(kind, _)| kind == "exit")
        .map(|(_, detail)| detail.as_str());
    assert!(
        exit.is_some_and(|detail| detail.contains("\"reason\":\"exit\"")),
        "{exit:?}"
    );
    assert!(
        events
            .iter()
            .any(|(kind, detail)| kind == "phase" && detail.contains("\"to\":\"gone\"")),
        "{events:#?}"
    );
}

#[test]
fn a_replaced_process_is_recorded_as_a_second_process_after_a_restart() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.fltl");
    let name = format!("fl-rec-{}", std::process::id());
    let sleep = faultline_testkit::binaries::in_search_path("sleep").expect("sleep is in PATH");
    fs::copy(sleep, folder.path().join(&name)).unwrap();
    let start = || {
        let (path, output) = (folder.path().join(&name), folder.path().join("out"));
        Running::start(&Program {
            path,
            arguments: vec!["1000".to_owned()],
            environment: Vec::new(),
            output,
        })
    };
    let mut one = start()?;
    let record = file.display().to_string();
    let arguments = [
        "--process-name",
        &name,
        "--no-ingest",
        "--interval",
        "100ms",
        "--record",
        &record,
    ];
    let daemon = Daemon::start(FAULTLINED, &arguments, folder.path())?;
    page_with(&daemon, "agave_process_threads", &[], 1.0);
    one.kill()?;
    let two = start()?;
    page_with(
        &daemon,
        "agave_process_restarts_total",
        &[("reason", "exit")],
        1.0,
    );
    page_with(&daemon, "agave_process_threads", &[], 1.0);
    assert_eq!(daemon.stop()?, Some(0));

    let recording = Recording::open(&file).unwrap();
    assert_eq!(pids(&recording), [one.pid(), two.pid()]);
    a_restart_is_recorded(&recording);
    Ok(())
}

fn a_restart_is_recorded(recording: &Recording) {
    let events = recording.events().unwrap();
    let in_time = events
        .iter()
        .filter(|event| !is_late(&event.detail.to_string()));
    let kinds: Vec<&str> = in_time
        .map(|event| event.kind.as_str())
        .filter(|kind| *kind != "phase")
        .collect();
    assert_eq!(
        kinds,
        [
            "daemon_start",
            "start",
            "exit",
            "start",
            "restart",
            "daemon_stop"
        ]
    );
    let of = |process: Option<i64>| {
        recording
            .ticks()
            .unwrap()
            .iter()
            .filter(|tick| tick.process == process)
            .count()
    };
    for process in recording.processes().unwrap() {
        assert!(of(Some(process.id)) > 0);
    }
}

#[test]
fn a_killed_daemon_loses_one_second_and_its_successor_continues_the_file() -> Result<()> {
    let scene = Scene::new();
    let daemon = scene.daemon()?;
    let page = page_with(&daemon, "faultline_ticks_total", &[], 25.0);
    daemon.signal("KILL")?;
    drop(daemon);
    let recording = scene.read();
    let kept = recording
        .ticks()
        .unwrap()
        .last()
        .map(|tick| tick.number as f64)
        .expect("a tick");
    // Ten ticks a second. A busy machine may write late.
    assert!(
        kept >= ticks_on(&page) - 15.0,
        "{kept} of {}",
        ticks_on(&page)
    );
    let sessions = recording.sessions().unwrap();
    assert_eq!((sessions.len(), sessions[0].ended), (1, None));
    drop(recording);

    let daemon = scene.daemon()?;
    page_with(&daemon, "faultline_ticks_total", &[], 5.0);
    assert_eq!(daemon.stop()?, Some(0));
    let recording = scene.read();
    let sessions = recording.sessions().unwrap();
    assert_eq!(
        sessions
            .iter()
            .map(|session| session.ended.is_some())
            .collect::<Vec<_>>(),
        [false, true]
    );
    let events = recording.events().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "daemon_start").count(),
        2
    );
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "daemon_stop").count(),
        1
    );
    assert_eq!(scene.files(), ["run.fltl"]);
    Ok(())
}

/// Makes a push of a validator whose previous push was a moment ago. It has a root and the last
/// point of a push.
fn push_now(daemon: &Daemon) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let end = "points_written=1i,num_points=1i,points_lost=0i,points_buffered=0i,secs_since_last_write=0i";
    let root =
        format!("bank-forks_set_root,host_id={IDENTITY} slot=1i,tx_count=12i,elapsed_ms=1i {now}");
    push(
        daemon,
        &format!("{root}\nmetrics,host_id={IDENTITY} {end} {now}\n"),
    );
}

#[test]
fn pushes_missing_between_daemon_runs_count_as_missed() -> Result<()> {
    let scene = Scene::new();
    let first = scene.daemon()?;
    page_with(&first, "agave_up", &[], 1.0);
    push_now(&first);
    let page = page_with(&first, "faultline_last_push_timestamp_seconds", &[], 1.0);
    let last = page
        .get("faultline_last_push_timestamp_seconds", &[])
        .unwrap();
    assert_eq!(page.get("faultline_pushes_missed_total", &[]), Some(0.0));
    eventually(PATIENCE, "the push is in the recording", || {
        scene.read().last_push().unwrap()
    });
    first.signal("KILL")?;
    drop(first);

    let second = scene.daemon()?;
    let since = |last: f64| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
            - last
    };
    eventually(PATIENCE, "a push is overdue", || {
        (since(last) > 11.0).then_some(())
    });
    push_now(&second);
    page_with(&second, "faultline_pushes_missed_total", &[], 1.0);
    push_now(&second);
    let used = [("result", "used")];
    let page = page_with(&second, "faultline_ingest_lines_total", &used, 4.0);
    let most = (since(last) / 10.0 + 1.0).floor();
    let missed = page.get("faultline_pushes_missed_total", &[]).unwrap();
    assert!((1.0..=most).contains(&missed), "{missed}, {most} at most");
    assert_eq!(
        page.get("agave_tps_unknown_seconds_total", &[]),
        Some(0.0),
        "the daemon counts from its own start on"
    );
    assert_eq!(second.stop()?, Some(0));
    Ok(())
}

#[test]
fn an_unusable_recording_file_is_refused_at_start_with_a_reason() -> Result<()> {
    let scene = Scene::new();
    let daemon = scene.daemon()?;
    let ports = ["--listen", "127.0.0.1:0", "--ingest", "127.0.0.1:0"];
    let refusal = |arm: &str, more: &[&str]| {
        let mut arguments = scene.arguments(&[&ports, more].concat());
        let label = arguments.iter_mut().find(|argument| *argument == "arm=A");
        arm.clone_into(label.expect("a label"));
        let output = run(&std::iter::once("run")
            .chain(arguments.iter().map(String::as_str))
            .collect::<Vec<_>>());
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, stderr) = refusal("arm=A", &[]);
    assert!(
        code == Some(1) && stderr.contains("another program"),
        "two daemons: {code:?} {stderr}"
    );
    assert_eq!(daemon.stop()?, Some(0));
    let (code, stderr) = refusal("arm=B", &[]);
    assert!(
        code == Some(64) && stderr.contains("arm=A") && stderr.contains("arm=B"),
        "other labels: {code:?} {stderr}"
    );
    let (code, stderr) = refusal("arm=A", &["--record", &scene.config.display().to_string()]);
    assert!(
        code == Some(64) && stderr.contains("not a recording"),
        "another file: {code:?} {stderr}"
    );
    let (code, stderr) = refusal("arm=A", &["--record", "/no/such/folder/run.fltl"]);
    assert!(
        code == Some(64) && stderr.contains("/no/such/folder"),
        "no folder: {code:?} {stderr}"
    );
    assert_eq!(refusal("arm=A", &["--label", "arm"]).0, Some(64));
    assert_eq!(
        scene.read().sessions().unwrap().len(),
        1,
        "refusals leave the recording alone"
    );
    Ok(())
}

#[test]
fn a_recording_next_to_the_ledger_warns_and_file_changes_need_restart() -> Result<()> {
    let scene = Scene::new();
    let write = |file: &str| {
        let text = format!(
            "[target]\nledger = {:?}\n[record]\nfile = {:?}\n",
            scene.folder.path().display().to_string(),
            scene.folder.path().join(file).display().to_string()
        );
        fs::write(&scene.config, text).unwrap();
    };
    write("run.fltl");
    let config = scene.config.display().to_string();
    let checked = run(&["check-config", "--config", &config]);
    let stderr = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(
        checked.status.code() == Some(0) && stderr.contains("warning") && stderr.contains("ledger"),
        "{stderr}"
    );

    let daemon = Daemon::start(
        FAULTLINED,
        &["--config", &config, "--interval", "100ms"],
        scene.folder.path(),
    )?;
    write("other.fltl");
    daemon.signal("HUP")?;
    eventually_ok(PATIENCE, "the log names the section that waits", || {
        let log = daemon.log();
        if log.contains("sections=\"record") {
            Ok(())
        } else {
            Err(log)
        }
    });
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn a_full_disk_pauses_only_the_recording_until_space_is_free() -> Result<()> {
    let mut scene = Scene::new();
    let Some(disk) = Small::mount(&scene.folder.path().join("disk")) else {
        eprintln!("SKIPPED: a tmpfs cannot be mounted here; root may");
        return Ok(());
    };
    scene.file = disk.0.join("run.fltl");
    let daemon = scene.daemon()?;
    let recorder = [("recorder", "record")];
    page_with(&daemon, "faultline_recorder_rows_total", &recorder, 20.0);
    let filler = disk.fill();

    only_the_recorder_stops(&mut scene, &daemon)?;

    fs::remove_file(&filler).unwrap();
    let page = page_with(
        &daemon,
        "faultline_source_up",
        &[("source", "recorder")],
        1.0,
    );
    let dropped = page
        .get("faultline_recorder_dropped_total", &recorder)
        .expect("a counter");
    assert_eq!(daemon.stop()?, Some(0));
    the_gap_is_recorded(&scene.read(), dropped);
    assert_eq!(scene.files(), ["run.fltl"]);
    Ok(())
}

/// While the disk is full, the rest of the daemon works. Meanwhile the validator ends.
fn only_the_recorder_stops(scene: &mut Scene, daemon: &Daemon) -> Result<()> {
    let page = page_with(
        daemon,
        "faultline_recorder_dropped_total",
        &[("recorder", "record")],
        5.0,
    );
    assert_eq!(
        page.get("faultline_source_up", &[("source", "recorder")]),
        Some(0.0)
    );
    assert!(
        http::get(daemon.metrics(), "/")?
            .text()
            .contains("no space left"),
        "the landing page says so"
    );
    let page = page_with(daemon, "faultline_ticks_total", &[], ticks_on(&page) + 10.0);
    assert_eq!(page.get("agave_up", &[]), Some(1.0));
    // The validator ends while nothing can be written.
    scene.validator.kill()?;
    let page = page_with(daemon, "agave_phase", &[("phase", "gone")], 1.0);
    page_with(daemon, "faultline_ticks_total", &[], ticks_on(&page) + 20.0);
    Ok(())
}

fn the_gap_is_recorded(recording: &Recording, dropped: f64) {
    let events = recording.events().unwrap();
    let gaps: Vec<_> = events
        .iter()
        .filter(|event| event.detail.to_string().contains("no space"))
        .collect();
    let recorded: f64 = gaps
        .iter()
        .filter_map(|gap| gap.detail["entries"].as_f64())
        .sum();
    assert!(
        !gaps.is_empty() && recorded == dropped,
        "{gaps:?}, {dropped} dropped"
    );
    let ticks = recording.ticks().unwrap();
    assert!(
        ticks
            .windows(2)
            .any(|two| two[1].number > two[0].number + 5),
        "the gap is in the ticks"
    );
    let (exit, gap) = (
        events.iter().find(|event| event.kind.as_str() == "exit"),
        gaps.last(),
    );
    let (exit, gap) = (exit.expect("an exit"), gap.expect("a gap"));
    assert!(
        exit.uptime < gap.uptime
            && exit.process == recording.processes().unwrap().first().map(|one| one.id)
    );
    let missed = |uptime: Duration| {
        !ticks
            .iter()
            .any(|tick| i128::from(tick.uptime_ns) == uptime.as_nanos() as i128)
    };
    assert!(
        missed(exit.uptime),
        "it has its own time, at which no tick was written"
    );
    let gone = events
        .iter()
        .filter(|event| event.detail["to"] == "gone")
        .count();
    assert_eq!(
        (gone, ticks.last().and_then(|tick| tick.process)),
        (1, None)
    );
}

#[test]
fn a_recording_on_a_full_disk_is_not_reported_as_removed() -> Result<()> {
    let mut scene = Scene::new();
    let Some(disk) = Small::mount(&scene.folder.path().join("disk")) else {
        eprintln!("SKIPPED: a tmpfs cannot be mounted here; root may");
        return Ok(());
    };
    scene.file = disk.0.join("run.fltl");
    let daemon = scene.daemon()?;
    page_with(
        &daemon,
        "faultline_recorder_rows_total",
        &[("recorder", "record")],
        20.0,
    );
    assert_eq!(daemon.stop()?, Some(0));
    disk.fill();
    let daemon = scene.daemon()?;
    page_with(
        &daemon,
        "faultline_recorder_dropped_total",
        &[("recorder", "record")],
        5.0,
    );
    assert_eq!(daemon.stop()?, Some(0));
    let log = fs::read_to_string(scene.folder.path().join("faultlined.log")).unwrap();
    assert!(
        scene.file.exists() && log.contains("no space left"),
        "{log}"
    );
    assert!(!log.contains("removed"), "{log}");
    Ok(())
}

/// A limit of file sizes is here for a quota: SQLite reports both as a failed write.
#[test]
fn a_daemon_that_starts_over_a_quota_exports_and_retries_the_recording() -> Result<()> {
    let scene = Scene::new();
    let limited = scene.folder.path().join("limited");
    let script = format!("#!/bin/sh\ntrap '' XFSZ\nulimit -S -f 40\nexec {FAULTLINED} \"$@\"\n");
    fs::write(&limited, script).unwrap();
    fs::set_permissions(&limited, fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = scene.daemon_by(limited.to_str().unwrap())?;
    let recorder = [("source", "recorder")];
    let page = page_with(&daemon, "faultline_ticks_total", &[], 3.0);
    assert_eq!(page.get("faultline_source_up", &recorder), Some(0.0));
    assert!(daemon.log().contains("a quota or a limit of file sizes"));
    let pid = rustix::process::Pid::from_raw(daemon.pid().cast_signed()).unwrap();
    let unlimited = rustix::process::Rlimit {
        current: None,
        maximum: None,
    };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, unlimited).unwrap();
    page_with(&daemon, "faultline_source_up", &recorder, 1.0);
    assert_eq!(daemon.stop()?, Some(0));
    assert_eq!(scene.read().sessions().unwrap().len(), 1);
    Ok(())
}

#[test]
fn leftover_files_of_a_missing_recording_are_untouched_and_reported() -> Result<()> {
    let scene = Scene::new();
    let diary = scene.folder.path().join("diary");
    fs::write(&diary, "mine").unwrap();
    let beside =
        ["-wal", "-shm", "-journal"].map(|end| scene.folder.path().join(format!("run.fltl{end}")));
    for path in &beside {
        std::os::unix::fs::symlink(&diary, path).unwrap();
        let refused = scene.daemon().expect_err("it must not start").to_string();
        assert!(
            refused.contains(&path.display().to_string()) && refused.contains("remove"),
            "{refused}"
        );
        assert_eq!(fs::read_link(path).unwrap(), diary);
        assert!(!scene.file.exists(), "it was begun all the same");
        fs::remove_file(path).unwrap();
    }
    assert_eq!(fs::read_to_string(&diary).unwrap(), "mine");
    let daemon = scene.daemon()?;
    page_with(
        &daemon,
        "faultline_recorder_rows_total",
        &[("recorder", "record")],
        20.0,
    );
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn a_slow_recorder_reports_dropped_ticks_in_log_and_status_row() -> Result<()> {
    let scene = Scene::new();
    let daemon = scene.daemon()?;
    page_with(
        &daemon,
        "faultline_recorder_rows_total",
        &[("recorder", "record")],
        20.0,
    );
    let mut slots = 0..u64::MAX;
    eventually_ok(
        PATIENCE,
        "more points in a second than the recorder keeps",
        || {
            push(
                &daemon,
                &slots
                    .by_ref()
                    .take(10_000)
                    .map(points_of)
                    .collect::<String>(),
            );
            let log = daemon.log();
            if log.contains("the recorder does not keep up") {
                Ok(())
            } else {
                Err(log)
            }
        },
    );
    let page = page_with(
        &daemon,
        "faultline_recorder_dropped_total",
        &[("recorder", "record")],
        1.0,
    );
    assert_eq!(
        page.get("faultline_source_up", &[("source", "recorder")]),
        Some(1.0)
    );
    eventually_ok(PATIENCE, "the landing page says so", || {
        let page = http::get(daemon.metrics(), "/")
            .map_err(|error| error.to_string())?
            .text();
        if page.contains("the recorder does not keep up") {
            Ok(())
        } else {
            Err(page)
        }
    });
    assert_eq!(
        daemon
            .log()
            .matches("the recorder does not keep up")
            .count(),
        1,
        "{}",
        daemon.log()
    );
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn a_recording_removed_while_writing_is_restarted() -> Result<()> {
    let scene = Scene::new();
    let daemon = scene.daemon()?;
    page_with(
        &daemon,
        "faultline_recorder_rows_total",
        &[("recorder", "record")],
        20.0,
    );
    fs::rename(&scene.file, scene.folder.path().join("moved.fltl")).unwrap();
    let page = eventually_ok(PATIENCE, "the recorder says so", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let labels = [("source", "recorder"), ("kind", "gone")];
        let problems = page.get("faultline_source_problems_total", &labels);
        if problems == Some(1.0) {
            Ok(page)
        } else {
            Err(format!("{problems:?}"))
        }
    });
    let up = page.get("faultline_source_up", &[("source", "recorder")]);
    assert_eq!(up, Some(1.0), "the new file is written");
    assert!(
        http::get(daemon.metrics(), "/")?
            .text()
            .contains("removed or moved"),
        "the landing page says so"
    );
    page_with(
        &daemon,
        "faultline_ticks_total",
        &[],
        ticks_on(&page) + 20.0,
    );
    assert_eq!(daemon.stop()?, Some(0));
    let (before, after) = (
        Recording::open(&scene.folder.path().join("moved.fltl")).unwrap(),
        scene.read(),
    );
    let (old, new) = (before.ticks().unwrap(), after.ticks().unwrap());
    assert_eq!(
        old.last().map(|tick| tick.number + 1),
        new.first().map(|tick| tick.number),
        "no tick is lost"
    );
    assert!(before.info().unwrap().finished);
    assert_eq!(pids(&after), [scene.validator.pid()]);
    let events = after.events().unwrap();
    let first = events.first().map(|event| event.kind.as_str());
    assert_eq!(first, Some("gap"));
    Ok(())
}

#[test]
fn a_recording_of_a_demo_is_marked_as_a_demo() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.fltl");
    let arguments = [
        "--demo",
        "--record",
        &file.display().to_string(),
        "--interval",
        "100ms",
    ];
    let daemon = Daemon::start(FAULTLINED, &arguments, folder.path())?;
    page_with(
        &daemon,
        "faultline_recorder_rows_total",
        &[("recorder", "record")],
        50.0,
    );
    assert_eq!(daemon.stop()?, Some(0));
    let recording = Recording::open(&file).map_err(|error| Error::Missing(error.to_string()))?;
    let manifest = recording.sessions().unwrap()[0].manifest.to_string();
    assert!(manifest.contains("\"demo\":true"), "{manifest}");
    Ok(())
}
