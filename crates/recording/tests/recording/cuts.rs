//! Files that end too early, at any byte: read exactly, or refused.

use crate::made_up::{
    arm, assert_is_a_beginning, finished, random::Random, synthetic_run::SyntheticRun, write,
};
use faultline_recording::{Error, Recording, Writer};
use std::{fs, iter, mem, path::Path, process::Command};

/// What a killed writer leaves: the database, its log, and how long the log was after each commit.
pub fn left_by_a_kill(folder: &Path, seconds: usize) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let path = folder.join("run.db");
    let log = folder.join("run.db-wal");
    let mut synthetic = SyntheticRun::new(arm(seconds as u64));
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let length = || fs::metadata(&log).unwrap().len() as usize;
    let mut lengths = vec![length()];
    while let Some(second) = synthetic.next() {
        write(&mut writer, &second).unwrap();
        writer.commit().unwrap();
        lengths.push(length());
    }
    // Dropping it would move the log into the database.
    mem::forget(writer);
    (fs::read(&path).unwrap(), fs::read(&log).unwrap(), lengths)
}

fn open_copy(folder: &Path, database: &[u8], log: Option<&[u8]>) -> Result<Recording, Error> {
    let path = folder.join("copy.db");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(folder.join(format!("copy.db{suffix}")));
    }
    fs::write(&path, database).unwrap();
    if let Some(log) = log {
        fs::write(folder.join("copy.db-wal"), log).unwrap();
    }
    Recording::open(&path)
}

#[test]
fn a_log_truncated_anywhere_loses_only_commits_after_the_cut() {
    let folder = crate::made_up::folder();
    let (database, log, lengths) = left_by_a_kill(folder.path(), 12);
    assert_eq!(lengths.last(), Some(&log.len()), "the log never began anew");
    let mut random = Random::new(1);
    let around = lengths
        .iter()
        .flat_map(|length| [length - 1, *length, length + 1]);
    let anywhere = iter::repeat_with(|| random.next() as usize % log.len()).take(80);
    let beginning = [0, 1, 31, 32, 33, 56, 57];
    for cut in beginning
        .into_iter()
        .chain(around)
        .chain(anywhere.collect::<Vec<_>>())
    {
        let cut = cut.min(log.len());
        let copy = open_copy(folder.path(), &database, Some(&log[..cut]));
        if cut < lengths[0] {
            // The session is missing, too.
            assert_eq!(copy.unwrap().sessions().unwrap(), []);
            continue;
        }
        let committed = lengths.iter().filter(|length| **length <= cut).count() - 1;
        assert_eq!(
            assert_is_a_beginning(&copy.unwrap(), &arm(12)),
            committed,
            "cut at {cut}"
        );
    }
}

#[test]
fn a_flipped_bit_in_the_log_loses_only_later_commits() {
    let folder = crate::made_up::folder();
    let (database, mut log, lengths) = left_by_a_kill(folder.path(), 12);
    let mut random = Random::new(2);
    for _ in 0..60 {
        let (byte, bit) = (random.next() as usize % log.len(), 1 << (random.next() % 8));
        if byte < lengths[0] {
            continue;
        }
        log[byte] ^= bit;
        let committed = lengths.iter().filter(|length| **length <= byte).count() - 1;
        let copy = open_copy(folder.path(), &database, Some(&log)).unwrap();
        assert_eq!(assert_is_a_beginning(&copy, &arm(12)), committed);
        log[byte] ^= bit;
    }
}

#[test]
fn a_finished_recording_truncated_at_any_byte_is_refused() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    finished(&path, arm(40));
    let whole = fs::read(&path).unwrap();
    let mut random = Random::new(3);
    let pages =
        (1..whole.len() / 4096).flat_map(|page| [page * 4096 - 1, page * 4096, page * 4096 + 1]);
    let anywhere: Vec<usize> = iter::repeat_with(|| random.next() as usize % whole.len())
        .take(100)
        .collect();
    for cut in [0, 1, 15, 16, 99, 100, 511, 512]
        .into_iter()
        .chain(pages)
        .chain(anywhere)
    {
        let error = open_copy(folder.path(), &whole[..cut], None).unwrap_err();
        match (&error, cut) {
            (Error::Empty { .. }, 0) | (Error::WrongKind { .. }, 1..512) => {}
            (Error::Truncated { have, want, .. }, 28..) => {
                assert_eq!((*have, *want), (cut as u64, whole.len() as u64));
                assert!(error.to_string().contains("`sqlite3 FILE .recover`"));
            }
            _ => panic!("cut at {cut}: {error}"),
        }
        assert!(
            Writer::append(
                &folder.path().join("copy.db"),
                &SyntheticRun::new(arm(1)).header()
            )
            .is_err()
                || cut == 0
        );
    }
    assert_eq!(
        assert_is_a_beginning(&open_copy(folder.path(), &whole, None).unwrap(), &arm(40)),
        40
    );
}

#[test]
fn a_truncated_database_with_a_complete_log_is_read_exactly_or_refused() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    // One half is in the database, the other in the log.
    let mut synthetic = SyntheticRun::new(arm(60));
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    for second in 1..=60 {
        write(&mut writer, &synthetic.next().unwrap()).unwrap();
        writer.commit().unwrap();
        if second == 30 {
            writer.checkpoint().unwrap();
        }
    }
    mem::forget(writer);
    let database = fs::read(&path).unwrap();
    let log = fs::read(folder.path().join("run.db-wal")).unwrap();
    let mut random = Random::new(4);
    let anywhere = iter::repeat_with(|| random.next() as usize % database.len()).take(60);
    let pages = (1..=database.len() / 4096).map(|page| page * 4096);
    let (mut read, mut refused) = (0, 0);
    for cut in anywhere.collect::<Vec<_>>().into_iter().chain(pages) {
        match open_copy(folder.path(), &database[..cut], Some(&log)) {
            Ok(copy) => {
                assert_eq!(assert_is_a_beginning(&copy, &arm(60)), 60, "cut at {cut}");
                read += 1;
            }
            Err(error) => {
                assert!(cut < database.len(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(read > 0 && refused > 20, "{read} read, {refused} refused");
}

/// Every row of every table.
fn count_rows(path: &Path) -> Result<usize, Error> {
    let recording = Recording::open(path)?;
    let mut rows = 0;
    for table in recording.tables()? {
        recording.rows(table.name, 1000, |found| {
            rows += found.len();
            Ok::<(), Error>(())
        })?;
    }
    Ok(rows)
}

#[test]
fn a_recording_with_lost_pages_is_refused_with_a_remedy() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    finished(&path, arm(40));
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for page in 1..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0);
        fs::write(&path, &damaged).unwrap();
        match count_rows(&path) {
            Ok(_) => {}
            Err(Error::Damaged { .. }) => {
                let text = count_rows(&path).unwrap_err().to_string();
                for word in ["run.db: damaged: ", "malformed", "`sqlite3 FILE .recover`"] {
                    assert!(text.contains(word), "{text}");
                }
                refused += 1;
            }
            Err(error) => panic!("page {page}: {error}"),
        }
        assert!(fs::read(&path).unwrap() == damaged, "it was changed");
    }
    assert!(refused > 40, "{refused} of {} pages", whole.len() / 4096);
}

#[test]
fn a_log_from_another_recording_is_named_in_the_read_error() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("copy.db");
    finished(&path, arm(40));
    let mut whole = fs::read(&path).unwrap();
    // As an unfinished recording, to which a WAL may belong.
    whole[18..20].fill(2);
    let (_, log, lengths) = left_by_a_kill(folder.path(), 12);
    open_copy(folder.path(), &whole, Some(&log[..lengths[1]])).ok();
    let text = count_rows(&path).unwrap_err().to_string();
    assert!(
        text.contains("copy.db-wal is of another recording, move it away"),
        "{text}"
    );
    assert!(fs::read(&path).unwrap() == whole, "it was changed");
}

/// The second method of docs/RECORDING.md. The first one needs an sqlite3 that the host may lack.
#[test]
fn a_sqlite3_dump_of_a_damaged_recording_is_readable() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("damaged.fltl");
    finished(&path, arm(40));
    let rows = count_rows(&path).unwrap();
    let document = include_str!("../../../../docs/RECORDING.md");
    let blocks = document
        .split("```sh\n")
        .filter_map(|block| block.split("```").next());
    let commands: Vec<&str> = blocks.filter(|block| block.contains(".dump")).collect();
    if Command::new("sqlite3").arg("--version").output().is_err() {
        println!("SKIPPED: there is no sqlite3");
        return;
    }
    let mut bytes = fs::read(&path).unwrap();
    let page = bytes.len() / 4096 - 2;
    bytes[page * 4096..(page + 1) * 4096].fill(0);
    fs::write(&path, bytes).unwrap();
    assert!(count_rows(&path).is_err());
    let mut shell = Command::new("sh");
    let shell = shell.arg("-c").arg(commands[0]).current_dir(&folder);
    assert!(shell.status().unwrap().success());
    let rescued = folder.path().join("rescued.fltl");
    let found = count_rows(&rescued).unwrap();
    assert!(found > rows / 2 && found < rows, "{found} of {rows}");
    let info = Recording::open(&rescued).unwrap().info().unwrap();
    assert_eq!(info.meta["salvaged_from"], "damaged.fltl");
}
