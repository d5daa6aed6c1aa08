use super::*;
use crate::recorder::{RecordingEntry, RecordingSink};
use faultline_metrics::{
    Batch, LabelText, Reading, Source, Stamp, Tick, Value, metrics::pools as q,
};
use faultline_recording::{
    CostTrackerPoint, EventKind, NewSession, Point, Recording, ReplaySlotPoint,
    schema::{Column, PerTickTable},
};
use serde_json::json;
use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

const START: u64 = 1_795_225_000;

fn at(second: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(second),
        unix: Duration::from_secs(START + second),
    }
}

/// Two points of each of five slots.
fn points(number: u64) -> Vec<RecordingEntry> {
    let received = at(number).unix;
    let time_unix_ns = i64::try_from(received.as_nanos()).unwrap();
    let mut entries = Vec::new();
    for slot in number * 5..number * 5 + 5 {
        let replay = ReplaySlotPoint {
            time_unix_ns,
            received,
            slot: Some(slot),
            ..Default::default()
        };
        let cost = CostTrackerPoint {
            time_unix_ns,
            received,
            ..Default::default()
        };
        entries.push(RecordingEntry::Point(Box::new(Point::ReplaySlot(replay))));
        entries.push(RecordingEntry::Point(Box::new(Point::CostTracker(cost))));
    }
    entries
}

/// A second of a busy validator: every column, 70 pools every five seconds, 10 points.
fn second(number: u64) -> Vec<RecordingEntry> {
    let series = |source: Source, readings: Vec<Reading>| {
        let (at, duration) = (at(number), Duration::from_millis(1));
        Arc::new(Batch {
            source,
            at,
            duration,
            readings,
            problems: Vec::new(),
            up: true,
        })
    };
    let reading = |column: &'static Column| Reading {
        metric: column.metric,
        label_values: column
            .label_values
            .iter()
            .map(|label| LabelText::from(*label))
            .collect(),
        tags: Box::default(),
        value: Value::Integer(number * 1_000_003),
    };
    let wide = PerTickTable::ALL
        .iter()
        .flat_map(|table| table.columns())
        .map(reading)
        .collect();
    let pool = |pool: u64| {
        Reading::integer(
            &q::PAGE_FAULTS,
            [format!("pool{pool}").into(), "minor".into()],
            number * pool,
        )
    };
    let pools = (0..70).map(pool).collect();
    let mut batches = vec![series(Source::Process, wide)];
    if number.is_multiple_of(5) {
        batches.push(series(Source::Threads, pools));
    }
    let mut entries = vec![RecordingEntry::Tick(Arc::new(Tick {
        number,
        at: at(number),
        batches,
    }))];
    entries.extend(points(number));
    entries
}

struct Scene {
    folder: tempfile::TempDir,
    handle: FlightRecorderHandle,
    status: Arc<RecorderStatus>,
}

impl Scene {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            handle: FlightRecorderHandle::default(),
            status: RecorderStatus::new("flight"),
        }
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().join("flight")
    }

    fn build(&self, labels: &[(&str, &str)], config: config::Flight) -> (Box<Ring>, Saver) {
        let session = NewSession {
            started: at(0),
            interval: Duration::from_secs(1),
            version: "1".to_owned(),
            manifest: json!({}),
        };
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let parts = FlightContext {
            clock: Clock::start(),
            folder: self.folder(),
            config,
            host_name: "vm".to_owned(),
            status: Arc::clone(&self.status),
            handle: self.handle.clone(),
        };
        let (ring, saver) = build(parts, NewRecording { labels, session }).unwrap();
        (Box::new(ring), saver)
    }
}

fn ticks(path: &Path) -> Vec<u64> {
    Recording::open(path)
        .unwrap()
        .ticks()
        .unwrap()
        .iter()
        .map(|tick| tick.number)
        .collect()
}

#[test]
fn saving_fifteen_minutes_during_ring_writes_loses_no_row() {
    let scene = Scene::new();
    let (mut ring, saver) = scene.build(&[("arm", "A")], config::Flight::default());
    (1..=1000).for_each(|number| ring.write_entries(&second(number), at(number)));
    let clock = Clock::start();
    let mut answer = scene
        .handle
        .request_save("while it is written", SaveOrigin::Http)
        .unwrap();
    let (longest, turns, last) = std::thread::scope(|scope| {
        let saving = scope.spawn(move || saver.run());
        let (mut longest, mut number) = (Duration::ZERO, 1000);
        let path = loop {
            number += 1;
            let began = clock.now();
            ring.write_entries(&second(number), at(number));
            longest = longest.max(clock.now().since(began));
            if let Ok(outcome) = answer.try_recv() {
                break outcome.unwrap();
            }
            assert!(number < 100_000, "the save never ends");
        };
        ring.finish(at(number));
        saving.join().unwrap();
        let saved = ticks(&path);
        let (first, end) = (saved[0], *saved.last().unwrap());
        assert!(
            saved.into_iter().eq(first..=end),
            "the saved recording has a gap"
        );
        // The copy has the state at its start, which may be some ticks after the request.
        assert!(
            end - first >= 900 && (1001..=number).contains(&end),
            "from {first} to {end}"
        );
        let size = fs::metadata(&path).unwrap().len() >> 10;
        eprintln!("a ring of {size} KiB was saved in {:?}", clock.now());
        (longest, number - 1000, number)
    });
    eprintln!("{turns} turns meanwhile, the longest {longest:?}");
    let ring = ticks(&scene.folder().join(RING_FILE));
    assert!(
        ring.iter().copied().eq(ring[0]..=last),
        "the ring has a gap"
    );
    assert_eq!(scene.status.counts().1, 0, "entries were dropped");
}

#[test]
fn a_save_soon_after_a_start_has_no_rows_of_long_ago() {
    let scene = Scene::new();
    let (mut ring, _saver) = scene.build(&[], config::Flight::default());
    (1..=6).for_each(|number| ring.write_entries(&second(number), at(number)));
    ring.finish(at(7));
    let (mut ring, saver) = scene.build(&[], config::Flight::default());
    let answer = scene.handle.request_save("early", SaveOrigin::Http);
    // A new process: its uptime begins again.
    let now = Stamp {
        uptime: Duration::from_secs(11),
        ..at(70 * 86_400)
    };
    let tick = Tick {
        number: 11,
        at: now,
        batches: Vec::new(),
    };
    ring.write_entries(&[RecordingEntry::Tick(Arc::new(tick))], now);
    drop(ring);
    saver.run();
    let path = answer.unwrap().blocking_recv().unwrap().unwrap();
    assert_eq!(ticks(&path), [11]);
    assert_eq!(Recording::open(&path).unwrap().sessions().unwrap().len(), 1);
}

#[test]
fn a_flight_ring_continues_only_with_unchanged_labels() {
    let scene = Scene::new();
    for (labels, sessions, aside) in [("A", 1, 0), ("A", 2, 0), ("B", 1, 1)] {
        let (mut ring, _saver) = scene.build(&[("arm", labels)], config::Flight::default());
        ring.write_entries(&second(1), at(1));
        ring.finish(at(2));
        let found = Recording::open(&scene.folder().join(RING_FILE)).unwrap();
        assert_eq!(found.sessions().unwrap().len(), sessions, "{labels}");
        let names = fs::read_dir(scene.folder())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name());
        assert_eq!(
            names
                .filter(|name| name.to_string_lossy().contains("-set_aside-"))
                .count(),
            aside,
            "{labels}"
        );
    }
}

#[test]
fn a_flight_ring_next_to_the_wal_of_another_recording_is_set_aside_unchanged() {
    let [finished, killed] = [Scene::new(), Scene::new()].map(|scene| {
        let (mut ring, _saver) = scene.build(&[], config::Flight::default());
        (1..=6).for_each(|number| ring.write_entries(&second(number), at(number)));
        (scene, ring)
    });
    finished.1.finish(at(7));
    let (path, wal) = (finished.0.folder().join(RING_FILE), "ring.fltl-wal");
    fs::copy(killed.0.folder().join(wal), finished.0.folder().join(wal)).unwrap();
    let read = |path: &Path| {
        [path, &faultline_recording::with_suffix(path, "-wal")].map(|path| fs::read(path).unwrap())
    };
    let files = read(&path);
    let (mut ring, _saver) = finished.0.build(&[], config::Flight::default());
    ring.write_entries(&second(8), at(8));
    ring.finish(at(9));
    assert_eq!(ticks(&path), [8]);
    let mut names = fs::read_dir(finished.0.folder())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let aside = names.find(|path| {
        path.to_string_lossy().contains("-set_aside-") && path.extension().unwrap() == "fltl"
    });
    assert!(read(&aside.unwrap()) == files, "a file was changed");
}

#[test]
fn a_flight_ring_that_this_user_cannot_write_stays_in_its_place() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let (mut ring, _saver) = scene.build(&[], config::Flight::default());
    ring.write_entries(&second(1), at(1));
    ring.finish(at(2));
    let path = scene.folder().join(RING_FILE);
    for (path, mode) in [
        (scene.folder.path(), 0o755),
        (&scene.folder(), 0o777),
        (&path, 0o444),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let try_to_write = || {
        // Only this thread changes its user.
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let (mut ring, _saver) = scene.build(&[], config::Flight::default());
        ring.write_entries(&second(3), at(3));
    };
    std::thread::scope(|scope| scope.spawn(try_to_write).join().unwrap());
    let problem = scene.status.problem();
    assert!(
        format!("{problem:?}").contains("Permission denied"),
        "{problem:?}"
    );
    assert_eq!(ticks(&path), [1]);
}

#[test]
fn a_removed_flight_ring_is_recreated() {
    let scene = Scene::new();
    let (mut ring, _saver) = scene.build(&[], config::Flight::default());
    ring.write_entries(&second(1), at(1));
    fs::remove_file(scene.folder().join(RING_FILE)).unwrap();
    ring.write_entries(&second(70), at(70));
    ring.write_entries(&second(71), at(71));
    ring.finish(at(72));
    assert_eq!(ticks(&scene.folder().join(RING_FILE)), [70, 71]);
}

#[test]
fn a_removed_flight_folder_is_recreated_at_the_next_attempt() {
    let scene = Scene::new();
    let (mut ring, _saver) = scene.build(&[], config::Flight::default());
    ring.write_entries(&second(61), at(61));
    fs::remove_dir_all(scene.folder()).unwrap();
    for number in 62..66 {
        ring.write_entries(&second(number), at(number));
    }
    ring.finish(at(66));
    assert_eq!(ticks(&scene.folder().join(RING_FILE)), [63, 64, 65]);
    assert!(scene.folder().join(MARKER_FILE).exists());
}

#[test]
fn a_foreign_file_replacing_the_flight_ring_is_moved_aside() {
    let scene = Scene::new();
    let (mut ring, _saver) = scene.build(&[], config::Flight::default());
    let path = scene.folder().join(RING_FILE);
    ring.write_entries(&second(1), at(1));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "somebody's notes").unwrap();
    let mark = RecordingEntry::event(at(10), EventKind::Mark, json!({}));
    ring.write_entries(&[second(10), vec![mark]].concat(), at(10));
    assert!(scene.status.problem().is_some());
    ring.write_entries(&second(70), at(70));
    ring.write_entries(&second(71), at(71));
    assert_eq!(scene.status.problem(), None);
    ring.finish(at(72));
    assert_eq!(ticks(&path), [71]);
    let events = Recording::open(&path).unwrap().events().unwrap();
    let events = events
        .iter()
        .map(|event| (event.uptime.as_secs(), event.kind.as_str()));
    assert_eq!(
        events.collect::<Vec<_>>(),
        [
            (0, "daemon_start"),
            (10, "mark"),
            (71, "gap"),
            (72, "daemon_stop")
        ],
        "the event during the failure is not lost"
    );
    let mut names = fs::read_dir(scene.folder())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let aside = names
        .find(|path| path.to_string_lossy().contains("-set_aside-"))
        .unwrap();
    assert_eq!(fs::read_to_string(aside).unwrap(), "somebody's notes");
}

#[test]
fn a_reopened_flight_ring_keeps_the_file_of_a_running_save() {
    let scene = Scene::new();
    let part = scene.folder().join("vm-exit-20261120T000000Z.fltl.part");
    for saves_in_progress in [1, 0] {
        let (mut ring, _saver) = scene.build(&[], config::Flight::default());
        fs::write(&part, "").unwrap();
        scene.handle.0.state.lock().saves_in_progress = saves_in_progress;
        ring.write_entries(&second(1), at(1));
        assert_eq!(part.exists(), saves_in_progress == 1);
    }
}

#[test]
fn a_save_without_free_space_fails_and_is_shown_until_success() {
    let scene = Scene::new();
    let (mut ring, saver) = scene.build(
        &[],
        config::Flight {
            max_saved: 2,
            ..config::Flight::default()
        },
    );
    ring.write_entries(&second(1), at(1));
    let replies = [
        scene
            .handle
            .request_save("first", SaveOrigin::Http)
            .unwrap(),
        scene
            .handle
            .request_save("second", SaveOrigin::Http)
            .unwrap(),
    ];
    ring.write_entries(&second(2), at(2));
    ring.finish(at(3));
    // `finish` waited in vain for the saver, which runs only now.
    saver.run();
    let [first, second] = replies.map(|mut reply| reply.try_recv().unwrap());
    assert!(first.is_ok(), "{first:?}");
    assert!(second.unwrap_err().contains("max_saved"));
    let mut output = faultline_sources::tick::SourceOutput::default();
    scene.handle.report(&mut output);
    let counts: Vec<f64> = output
        .readings
        .iter()
        .filter_map(|reading| reading.value.number())
        .collect();
    let written = fs::metadata(first.unwrap()).unwrap();
    let written = written.modified().unwrap().duration_since(UNIX_EPOCH);
    let written = written.unwrap();
    let expected = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, written.as_secs_f64()];
    assert_eq!(counts, expected);
    assert_eq!(super::folder::last_saved_at(&scene.folder()), Some(written));
    assert_eq!(output.problems.len(), 1);
}

#[test]
fn a_trigger_is_saved_under_its_name_after_its_aftermath() {
    let scene = Scene::new();
    let (mut ring, saver) = scene.build(
        &[],
        config::Flight {
            after: Duration::from_secs(3),
            ..Default::default()
        },
    );
    for number in 1..=20 {
        let mut entries = second(number);
        if number == 5 {
            entries.push(RecordingEntry::event(
                at(number),
                EventKind::Behind,
                json!({}),
            ));
        }
        ring.write_entries(&entries, at(number));
    }
    drop(ring);
    saver.run();
    let saved = fs::read_dir(scene.folder())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let saved: Vec<PathBuf> = saved
        .filter(|path| path.display().to_string().contains("vm-behind-"))
        .collect();
    assert_eq!(saved.len(), 1);
    let time = format!("{}", saved[0].display());
    assert!(
        time.ends_with("-20261121T013648Z.fltl"),
        "saved at the eighth second: {time}"
    );
}
