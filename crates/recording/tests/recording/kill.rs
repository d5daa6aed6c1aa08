//! A writer that is killed at any step leaves exactly what it committed.

use crate::made_up::{
    arm, assert_is_a_beginning, assert_is_a_piece, at, random::Random, synthetic_run::SyntheticRun,
    write,
};
use faultline_recording::{Error, Recording, Writer, backup};
use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// The variable with the work that the child repeats.
const ORDER: &str = "FAULTLINE_KILLED_WRITER";

const SECONDS: u64 = 100_000;

/// Result of a child that was killed.
struct Killed {
    folder: tempfile::TempDir,
    /// Number of seconds that it reported as committed, or of files that it made.
    message: u64,
}

impl Killed {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Starts this program as a writer and kills it shortly after it reported step `after`.
fn kill(order: &str, after: u64, random: &mut Random) -> Killed {
    let folder = crate::made_up::folder();
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "kill::writer_waiting_to_be_killed",
            "--exact",
            "--nocapture",
        ])
        .env(ORDER, order)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut message = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut number = |line: String| {
        if let Some((_, step)) = line.rsplit_once("step ") {
            message = step.parse().unwrap();
        }
        message
    };
    while lines
        .next()
        .map(&mut number)
        .expect("it goes on until it is killed")
        < after
    {}
    // A random delay, so that each kill happens at another moment.
    std::thread::sleep(Duration::from_micros(random.next() % 6000));
    child.kill().unwrap();
    child.wait().unwrap();
    lines.map(number).for_each(drop);
    Killed { folder, message }
}

fn kill_repeatedly(order: &str, mut check: impl FnMut(&Killed)) {
    let mut random = Random::new(order.len() as u64);
    for _ in 0..15 {
        let after = random.next() % 40 + 1;
        check(&kill(order, after, &mut random));
    }
}

/// No test, but the child process that the tests start and kill.
#[test]
fn writer_waiting_to_be_killed() {
    let Ok(order) = env::var(ORDER) else {
        return;
    };
    let path = Path::new("run.db");
    let mut synthetic = SyntheticRun::new(arm(SECONDS));
    match order.as_str() {
        "create" | "finish" => make_files(order == "finish"),
        _ => {}
    }
    let mut writer = Writer::create(path, &synthetic.header()).unwrap();
    let at_once = if order == "long transactions" { 7 } else { 1 };
    for step in 1.. {
        write(&mut writer, &synthetic.next().unwrap()).unwrap();
        if step % at_once == 0 {
            writer.commit().unwrap();
            println!("step {step}");
        }
        match order.as_str() {
            "checkpoint" => writer.checkpoint().unwrap(),
            "prune" if step > 30 => writer.prune(at(step - 30).unix).unwrap(),
            "save" => backup(path, Path::new(&format!("saved-{step}.db")), &[], |_, _| ()).unwrap(),
            _ => {}
        }
    }
}

/// Writes recordings of three seconds each.
fn make_files(finish: bool) {
    for file in 1.. {
        let mut synthetic = SyntheticRun::new(arm(SECONDS));
        let mut writer =
            Writer::create(Path::new(&format!("{file}.db")), &synthetic.header()).unwrap();
        if finish {
            for _ in 0..3 {
                write(&mut writer, &synthetic.next().unwrap()).unwrap();
                writer.commit().unwrap();
            }
            writer.finish(synthetic.ended()).unwrap();
        } else {
            std::mem::forget(writer);
        }
        println!("step {file}");
    }
}

#[test]
fn a_recording_killed_at_any_moment_contains_all_committed_rows() {
    kill_repeatedly("commit", |killed| {
        let recording = Recording::open(&killed.path("run.db")).unwrap();
        let ticks = assert_is_a_beginning(&recording, &arm(SECONDS)) as u64;
        // The last transaction may have ended just before the kill.
        assert!(
            (killed.message..=killed.message + 1).contains(&ticks),
            "{ticks} of {}",
            killed.message
        );
        let info = recording.info().unwrap();
        assert!(!info.finished && info.sessions[0].ended.is_none());
    });
}

#[test]
fn a_writer_killed_in_a_transaction_keeps_all_or_nothing_of_it() {
    kill_repeatedly("long transactions", |killed| {
        let recording = Recording::open(&killed.path("run.db")).unwrap();
        let ticks = assert_is_a_beginning(&recording, &arm(SECONDS)) as u64;
        assert!(ticks.is_multiple_of(7) && [killed.message, killed.message + 7].contains(&ticks));
    });
}

#[test]
fn a_writer_killed_during_a_checkpoint_loses_nothing() {
    kill_repeatedly("checkpoint", |killed| {
        let recording = Recording::open(&killed.path("run.db")).unwrap();
        let ticks = assert_is_a_beginning(&recording, &arm(SECONDS)) as u64;
        assert!((killed.message..=killed.message + 1).contains(&ticks));
    });
}

#[test]
fn a_writer_killed_while_pruning_keeps_the_last_seconds() {
    kill_repeatedly("prune", |killed| {
        let recording = Recording::open(&killed.path("run.db")).unwrap();
        let (first, ticks) = assert_is_a_piece(&recording, &arm(SECONDS));
        let last = first + ticks as u64 - 1;
        assert!((killed.message..=killed.message + 1).contains(&last));
        assert!(ticks <= 33, "{ticks} ticks");
    });
}

#[test]
fn a_writer_killed_while_copying_leaves_only_complete_named_copies() {
    kill_repeatedly("save", |killed| {
        let arm = arm(SECONDS);
        assert_is_a_beginning(&Recording::open(&killed.path("run.db")).unwrap(), &arm);
        for step in killed.message.saturating_sub(1).max(1)..=killed.message + 1 {
            match Recording::open(&killed.path(&format!("saved-{step}.db"))) {
                Ok(copy) => {
                    assert_eq!(assert_is_a_beginning(&copy, &arm) as u64, step);
                    assert!(copy.info().unwrap().finished);
                }
                // The last one may not have its name yet.
                Err(error) => assert!(
                    matches!(error, Error::Missing { .. }) && step >= killed.message,
                    "{error}"
                ),
            }
        }
    });
}

#[test]
fn a_writer_killed_at_creation_leaves_an_empty_file_or_a_recording() {
    kill_repeatedly("create", |killed| {
        for file in killed.message.saturating_sub(1).max(1)..=killed.message + 1 {
            let path = killed.path(&format!("{file}.db"));
            match Recording::open(&path) {
                Ok(recording) => assert_eq!(assert_is_a_beginning(&recording, &arm(1)), 0),
                Err(error) => {
                    assert!(file > killed.message, "{error}");
                    assert!(
                        matches!(error, Error::Missing { .. } | Error::Empty { .. }),
                        "{error}"
                    );
                }
            }
            // In each case, a restarted daemon continues it.
            let synthetic = SyntheticRun::new(arm(1));
            Writer::append(&path, &synthetic.header())
                .unwrap()
                .finish(at(9))
                .unwrap();
            assert!(Recording::open(&path).unwrap().info().unwrap().finished);
        }
    });
}

#[test]
fn a_writer_killed_while_finishing_loses_nothing() {
    kill_repeatedly("finish", |killed| {
        for file in killed.message.saturating_sub(2).max(1)..=killed.message {
            let path = killed.path(&format!("{file}.db"));
            assert_eq!(
                assert_is_a_beginning(&Recording::open(&path).unwrap(), &arm(SECONDS)),
                3
            );
            assert!(!killed.path(&format!("{file}.db-wal")).exists());
        }
        let last = killed.path(&format!("{}.db", killed.message + 1));
        match Recording::open(&last) {
            Ok(recording) => assert!(assert_is_a_beginning(&recording, &arm(SECONDS)) <= 3),
            Err(error) => assert!(
                matches!(error, Error::Missing { .. } | Error::Empty { .. }),
                "{error}"
            ),
        }
    });
}
