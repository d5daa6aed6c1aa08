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
    intake.add_readings(clock.now(), &mut readings);
    let used = readings.iter().find(|reading| {
        reading.metric.name == "faultline_ingest_lines_total"
            && reading.label_values[0].as_str() == "used"
    });
    assert_eq!(used.and_then(|reading| reading.value.number()), Some(1.0));
}

/// No thread could be started, or the thread panicked.
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

/// Writes numbered lines as fast as a busy validator.
struct Writer {
    path: PathBuf,
    written: AtomicU64,
    /// Set to reopen the log.
    reopen: AtomicBool,
    end: AtomicBool,
    /// Locked while a line is written; lock it to pause the writer.
    pause: Mutex<()>,
}

impl Writer {
    fn new(path: &Path) -> Self {
        Self {
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

    fn wait_for_more_lines(&self) {
        let before = self.written();
        eventually(DEADLINE, "the writer continues", || {
            (self.written() > before + 20).then_some(())
        });
    }
}

/// Ends the threads also if the test fails, so that it does not hang.
struct EndGuard<'a>(&'a Writer, &'a Stop);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::SeqCst);
        self.1.set();
    }
}

/// Runs a writer and a follower, and calls `rotate` ten times. Every line must count once.
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
        let _end = EndGuard(&writer, &stop);
        scope.spawn(|| tail.run(stop.clone()));
        scope.spawn(|| writer.run());
        for turn in 0..10 {
            writer.wait_for_more_lines();
            wait_until_caught_up(&probe, writer.written());
            rotate(&path, &writer, &probe, turn);
        }
        writer.wait_for_more_lines();
        writer.end.store(true, Ordering::SeqCst);
        wait_until_caught_up(&probe, writer.written());
    });
    // The writer may have ended within a line.
    let mut numbers = probe.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(probe.bad(), 0);
}

fn wait_until_caught_up(probe: &Probe, written: u64) {
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
        writer.wait_for_more_lines();
        writer.reopen.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_rotation_by_truncation_under_a_writer_loses_and_repeats_nothing() {
    rotate_ten_times(|path, writer, probe, turn| {
        // copytruncate loses what is written between its copy and its truncation: the writer pauses.
        let paused = writer.pause.lock().unwrap();
        wait_until_caught_up(probe, writer.written());
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
