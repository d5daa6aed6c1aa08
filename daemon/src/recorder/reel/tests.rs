use super::*;
use faultline_catalog::{Batch, Reading, Source, Tick, metrics};
use faultline_recording::{NewSession, Recording};
use rusqlite::Connection;

fn at(seconds: u64) -> Stamp {
    Stamp { uptime: Duration::from_secs(seconds), unix: Duration::from_secs(1_795_000_000 + seconds) }
}

fn opening(arm: &str) -> Opening {
    let session = NewSession {
        started: at(0),
        interval: Duration::from_secs(1),
        version: "0.0.0".to_owned(),
        manifest: json!({}),
    };
    Opening { labels: vec![("arm".to_owned(), arm.to_owned())], session }
}

fn tick(number: u64) -> Entry {
    let readings = vec![Reading::counter(&metrics::daemon::TICKS, [], number)];
    let batch = Batch { readings, up: true, ..Batch::empty(Source::Daemon, at(number)) };
    Entry::Tick(Arc::new(Tick { number, at: at(number), batches: vec![Arc::new(batch)] }))
}

fn nobody() -> Entry {
    Entry::Process(None)
}

fn reel(path: &Path) -> (Box<Reel>, Arc<Account>) {
    let account = Account::new("record");
    (Box::new(Reel::open(path, &opening("A"), Arc::clone(&account)).unwrap()), account)
}

fn kinds(path: &Path) -> Vec<(String, String)> {
    let events = Recording::open(path).unwrap().events().unwrap();
    events.into_iter().map(|event| (event.kind.name().to_owned(), event.detail.to_string())).collect()
}

#[test]
fn what_is_taken_is_in_the_file_and_the_end_leaves_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    let (mut reel, account) = reel(&path);
    reel.take(&[nobody(), tick(1), tick(2)], at(2));
    let (rows, dropped) = account.counts();
    assert!(rows >= 2 && dropped == 0, "{rows} rows, {dropped} dropped");
    assert_eq!(Recording::open(&path).unwrap().ticks().unwrap().len(), 2);
    reel.finish(at(3));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["run.sqlite"]);
    let words: Vec<String> = kinds(&path).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(words, ["daemon_start", "daemon_stop"]);
}

#[test]
fn a_second_life_goes_on_in_the_same_file_and_other_labels_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    for _ in 0..2 {
        let (mut reel, _) = reel(&path);
        reel.take(&[tick(1)], at(1));
        reel.finish(at(2));
    }
    assert_eq!(Recording::open(&path).unwrap().sessions().unwrap().len(), 2);
    let refused = Reel::open(&path, &opening("B"), Account::new("record")).err().unwrap().to_string();
    assert!(refused.contains("arm=A") && refused.contains("arm=B"), "{refused}");
}

#[test]
fn a_file_that_cannot_be_written_is_tried_again_and_then_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    let (mut reel, account) = reel(&path);
    reel.take(&[tick(1)], at(1));
    let written = account.counts().0;

    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    reel.take(&[tick(2), tick(3)], at(3));
    assert_eq!(account.counts(), (written, 2), "the first failure");
    assert!(account.problem().is_some_and(|problem| problem.what.contains("run.sqlite")), "{:?}", account.problem());
    reel.take(&[tick(4)], at(3));
    assert_eq!(account.counts(), (written, 3), "a pause");
    other.execute_batch("ROLLBACK").unwrap();

    reel.take(&[tick(5)], at(20));
    assert_eq!((account.problem(), account.counts().1), (None, 3));
    let ticks = Recording::open(&path).unwrap().ticks().unwrap();
    assert_eq!(ticks.iter().map(|tick| tick.number).collect::<Vec<_>>(), [1, 5]);
    let gap = kinds(&path).pop().unwrap();
    assert_eq!(gap.0, "gap");
    assert!(gap.1.contains("\"entries\":3") && gap.1.contains("\"seconds\":17.0"), "{}", gap.1);
}

#[test]
fn pauses_grow_to_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reel, _) = reel(&folder.path().join("run.sqlite"));
    let full = Error::Full { path: "run.sqlite".into() };
    let pauses: Vec<u64> = (1..=6)
        .map(|_| {
            reel.failed(&full, 1, at(100));
            reel.trouble.as_ref().unwrap().pause.as_secs()
        })
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    assert_eq!(reel.trouble.as_ref().map(|trouble| (trouble.entries, trouble.since)), Some((6, at(100))));
}

#[test]
fn a_file_that_was_removed_is_told_at_the_next_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    let (mut reel, account) = reel(&path);
    std::fs::remove_file(&path).unwrap();
    reel.take(&[tick(59)], at(59));
    assert_eq!(account.problem(), None);
    reel.take(&[tick(61)], at(61));
    assert_eq!(account.problem().map(|problem| problem.status), Some(Status::Gone));
}

#[test]
fn a_process_found_while_nothing_could_be_written_is_told_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    let (mut reel, _) = reel(&path);
    reel.failed(&Error::Full { path: path.clone() }, 0, at(1));
    let target = crate::target::Target {
        process: faultline_kernel::ProcessId { pid: 7, start_ticks: 1 },
        comm: "v".to_owned(),
        exe: None,
        validator: None,
        ledger: None,
        found_by: "pid",
    };
    let followed = Followed { target: Arc::new(target), started_unix: None, seen: at(1), manifest: json!({}) };
    reel.take(&[Entry::Process(Some(Arc::new(followed))), tick(1)], at(1));
    assert_eq!(Recording::open(&path).unwrap().processes().unwrap().len(), 0);
    reel.take(&[tick(2)], at(9));
    reel.take(&[tick(3)], at(10));
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.processes().unwrap().iter().map(|process| process.pid).collect::<Vec<_>>(), [7]);
    assert!(recording.ticks().unwrap().iter().all(|tick| tick.process.is_some()));
}
