use super::*;
use crate::{
    tail::probe::{Probe, append, numbered},
    validator::intake::Intake,
};
use faultline_core::config::Datapoints;
use faultline_testkit::eventually::eventually;
use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn the_intake_counts_a_datapoint_of_the_log_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (intake, clock) = (Intake::new(&Datapoints::default()), Clock::start());
    let tail = FileTail::open(&path, intake.clone(), clock);
    let text = "[2025-03-01T12:00:00Z INFO  solana_metrics::metrics] datapoint: loaded-programs-cache-stats slot=1i hits=1i misses=5i\n";
    append(&path).write_all(text.as_bytes()).unwrap();
    let mut follower = tail.follower.unwrap();
    follower.poll(clock.now());
    follower.poll(clock.now());
    let mut readings = Vec::new();
    intake.readings(clock.now(), &mut readings);
    let used = readings.iter().find(|reading| {
        reading.metric.name == "faultline_ingest_lines_total"
            && reading.labels[0].as_str() == "used"
    });
    assert_eq!(used.and_then(|reading| reading.value.number()), Some(1.0));
}

/// No thread was started for it, or that thread panicked.
#[test]
fn a_log_tail_without_a_thread_is_reported_without_exiting() {
    let (status, stop) = (StatusHandle::default(), Stop::default());
    let tail = FileTail {
        follower: None,
        opening: channel().1,
        path: PathBuf::from("/nowhere/log"),
        status: status.clone(),
        clock: Clock::start(),
    };
    let signal = stop.clone();
    let thread = std::thread::Builder::new()
        .spawn(move || tail.run(signal))
        .unwrap();
    let problem = eventually(DEADLINE, "the problem", || {
        assert!(!thread.is_finished(), "the daemon ends with this thread");
        status.snapshot().problem
    });
    let words =
        "/nowhere/log: the thread that opens it failed to start or ended; restart the daemon";
    assert_eq!(problem.what, words);
    assert!(!status.snapshot().up && !thread.is_finished());
    stop.set();
    thread.join().unwrap();
}

/// A validator that writes numbered lines as fast as a busy one, and can be told to open its log anew, or to pause.
struct Writer {
    path: PathBuf,
    written: AtomicU64,
    reopen: AtomicBool,
    end: AtomicBool,
    /// Held while a line is written.
    pause: Mutex<()>,
}

impl Writer {
    fn new(path: &Path) -> Self {
        Writer {
            path: path.to_owned(),
            written: AtomicU64::new(0),
            reopen: AtomicBool::new(false),
            end: AtomicBool::new(false),
            pause: Mutex::new(()),
        }
    }

    fn run(&self) {
        let (mut file, pace) = (append(&self.path), Stop::default());
        while !self.end.load(Ordering::SeqCst) {
            if self.reopen.swap(false, Ordering::SeqCst) {
                file = append(&self.path);
            }
            let paused = self.pause.lock().unwrap();
            let number = self.written.load(Ordering::SeqCst);
            file.write_all(numbered(number).as_bytes()).unwrap();
            self.written.store(number + 1, Ordering::SeqCst);
            drop(paused);
            pace.sleep(Duration::from_micros(300));
        }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    fn writes_more(&self) {
        let before = self.written();
        eventually(DEADLINE, "the writer goes on", || {
            (self.written() > before + 20).then_some(())
        });
    }
}

/// Ends the threads of a test that fails, so that it fails and does not hang.
struct End<'a>(&'a Writer, &'a Stop);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::SeqCst);
        self.1.set();
    }
}

/// Runs a writer and a follower at their own pace; `rotate` is called ten times. Every line must come once.
fn rotate_ten_times(rotate: impl Fn(&Path, &Writer, &Probe, u32)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (writer, probe, stop, clock) = (
        Writer::new(&path),
        Probe::default(),
        Stop::default(),
        Clock::start(),
    );
    let follower = Follower::open(&path, probe.records(), clock.now());
    let tail = FileTail {
        status: follower.status(),
        follower: Some(follower),
        opening: channel().1,
        path: path.clone(),
        clock,
    };
    std::thread::scope(|scope| {
        let _end = End(&writer, &stop);
        scope.spawn(|| tail.run(stop.clone()));
        scope.spawn(|| writer.run());
        for turn in 0..10 {
            writer.writes_more();
            caught_up(&probe, writer.written());
            rotate(&path, &writer, &probe, turn);
        }
        writer.writes_more();
        writer.end.store(true, Ordering::SeqCst);
        caught_up(&probe, writer.written());
    });
    // The writer may have been in the middle of a line when it was told to end.
    let mut numbers = probe.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(probe.bad(), 0);
}

fn caught_up(probe: &Probe, written: u64) {
    eventually(DEADLINE, "the follower has read it all", || {
        (probe.count() as u64 >= written).then_some(())
    });
}

#[test]
fn a_rotation_by_rename_under_a_writer_loses_and_repeats_nothing() {
    rotate_ten_times(|path, writer, _, turn| {
        fs::rename(path, path.with_extension(turn.to_string())).unwrap();
        if turn % 2 == 0 {
            drop(append(path));
        }
        writer.writes_more();
        writer.reopen.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_rotation_by_truncation_under_a_writer_loses_and_repeats_nothing() {
    rotate_ten_times(|path, writer, probe, turn| {
        // What copytruncate itself loses is what is written between its copy and its truncation.
        let paused = writer.pause.lock().unwrap();
        caught_up(probe, writer.written());
        fs::copy(path, path.with_extension(turn.to_string())).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(0)
            .unwrap();
        drop(paused);
    });
}
