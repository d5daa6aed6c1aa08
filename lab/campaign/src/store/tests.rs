use super::*;
use std::fs;

#[test]
fn a_database_on_nfs_is_refused_with_the_key_that_moves_it() {
    let path = Path::new("/shared/results.db");
    let refused = refuse_file_system(path, 0x6969).unwrap_err().to_string();
    for words in ["/shared/results.db", "NFS", "`results` in campaign.toml"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    let folder = tempfile::tempdir().unwrap();
    Store::refuse_nfs(&folder.path().join(RESULTS)).unwrap();
    assert!(Store::refuse_nfs(&folder.path().join("none").join(RESULTS)).is_err());
}

#[test]
fn stored_campaign_rounds_are_read_and_stored_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
    let program = Program {
        version: "2.1.14".into(),
        name: "x".into(),
        path: Some("/a".into()),
    };
    store.add(&program, FROM_COMMAND, 1).unwrap();
    store.set_digest("2.1.14", "d").unwrap();
    store.set_error("2.1.14", Some("why")).unwrap();
    store.remove("2.1.14").unwrap();
    let row = RunRow {
        values: vec![("replay-p95".into(), 1.5)],
        outcome: "completed".into(),
        ..RunRow::default()
    };
    store.add_runs(std::slice::from_ref(&row)).unwrap();
    assert!(store.add_runs(std::slice::from_ref(&row)).is_err());
    store.replace_verdicts(&[VerdictRow::default()]).unwrap();
    drop(store);
    let store = Store::open(&folder.path().join(RESULTS)).unwrap();
    let listed = store.listed_versions().unwrap();
    assert_eq!(
        (listed[0].program.clone(), listed[0].removed),
        (program.clone(), true)
    );
    assert_eq!(
        (listed[0].digest.as_deref(), listed[0].error.as_deref()),
        (Some("d"), Some("why"))
    );
    assert_eq!(store.runs().unwrap(), [row]);
    store.add(&program, FROM_WATCH, 2).unwrap();
    assert!(!store.listed_versions().unwrap()[0].removed);
}

/// A database of format 1 with a run.
pub fn make_format_1(folder: &Path) {
    let old = Connection::open(folder.join(RESULTS)).unwrap();
    for table in FORMAT_1.table_statements {
        old.execute_batch(table).unwrap();
    }
    old.execute_batch(
        "PRAGMA application_id = 0x464c436e; PRAGMA user_version = 1;
         INSERT INTO run VALUES (7, '1.1.0', 'd', '1.0.0', 'b', 'p', 'm', 'k', 1, 'release', 1, 5, 'completed', 'valid', 'x', NULL, 'y');
         INSERT INTO value VALUES (7, 'replay-p95', 1.5)",
    )
    .unwrap();
}

#[test]
fn a_database_of_format_1_is_upgraded_and_its_runs_have_no_consensus() {
    let folder = tempfile::tempdir().unwrap();
    make_format_1(folder.path());
    let writer = Connection::open(folder.path().join(RESULTS)).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = Store::needs_upgrade(&folder.path().join(RESULTS)).unwrap_err();
    assert!(format!("{error:#}").contains("locked"), "{error:#}");
    writer.execute_batch("COMMIT").unwrap();
    assert!(Store::needs_upgrade(&folder.path().join(RESULTS)).unwrap());
    let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
    assert!(!Store::needs_upgrade(&folder.path().join(RESULTS)).unwrap());
    let row = RunRow {
        version: "1.2.0".into(),
        cluster: ClusterConditions {
            consensus: vec!["tower".into(), "migrating".into()],
            slot_seconds: Some((0.4, 0.4)),
        },
        ..RunRow::default()
    };
    store.add_runs(std::slice::from_ref(&row)).unwrap();
    drop(store);
    let store = Store::open(&folder.path().join(RESULTS)).unwrap();
    let format = store
        .0
        .pragma_query_value(None, "user_version", |row| row.get(0));
    assert_eq!(format, Ok(KIND.format));
    let runs = store.runs().unwrap();
    assert_eq!(
        (&runs[0].version, &runs[0].cluster),
        (&"1.1.0".into(), &ClusterConditions::default())
    );
    assert_eq!(runs[0].values, [("replay-p95".to_owned(), 1.5)]);
    assert_eq!(runs[1], row);
}

#[test]
fn another_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Connection::open(folder.path().join(RESULTS))
        .unwrap()
        .execute_batch("CREATE TABLE x (y)")
        .unwrap();
    let message = format!(
        "{:#}",
        Store::open(&folder.path().join(RESULTS)).err().unwrap()
    );
    assert!(
        message.contains("results.db: this is not the database of a campaign (restore it, or move this file away): another program's"),
        "{message}"
    );
    assert!(!Store::needs_upgrade(&folder.path().join(RESULTS)).unwrap());
}

#[test]
fn a_campaign_store_with_extra_tables_or_damage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RESULTS);
    drop(Store::open(&folder.path().join(RESULTS)).unwrap());
    let refused = || {
        format!(
            "{:#}",
            Store::open(&folder.path().join(RESULTS)).err().unwrap()
        )
    };
    let trigger = "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END; CREATE VIEW v AS SELECT 1";
    Connection::open(&path)
        .unwrap()
        .execute_batch(trigger)
        .unwrap();
    assert!(
        refused().contains("results.db: not read: `t` (trigger) is not a plain table"),
        "{}",
        refused()
    );
    let undo = "DROP TRIGGER t; DROP VIEW v";
    Connection::open(&path)
        .unwrap()
        .execute_batch(undo)
        .unwrap();
    Store::open(&folder.path().join(RESULTS)).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(!Store::needs_upgrade(&path).unwrap());
    assert!(refused().contains("restore a copy"), "{}", refused());
}

#[test]
fn a_database_that_cannot_be_written_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RESULTS);
    let mut store = Store::open(&path).unwrap();
    store.0.execute_batch("PRAGMA query_only = ON").unwrap();
    let results = [
        store.remove("1.0.0"),
        store.add_runs(&[RunRow::default()]),
        store.void("x"),
        store.replace_verdicts(&[]),
    ];
    let wanted = format!(
        "a change was not made: {}: attempt to write a readonly database; if another program",
        path.display()
    );
    for result in results {
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.starts_with(&wanted), "{error}");
        assert_eq!(error.matches("readonly").count(), 1, "{error}");
    }
    // A reader keeps a transaction from its end.
    store.0.execute_batch("PRAGMA query_only = OFF").unwrap();
    store.0.busy_timeout(std::time::Duration::ZERO).unwrap();
    let reader = Connection::open(&path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT * FROM verdict")
        .unwrap();
    let error = store
        .replace_verdicts(&[VerdictRow::default()])
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("results.db: database is locked; if another program uses it"),
        "{error:#}"
    );
    reader.execute_batch("COMMIT").unwrap();
    store.add_runs(&[RunRow::default()]).unwrap();
    drop(store);
    let verdicts = reader.query_row("SELECT count(*) FROM verdict", [], |row| row.get(0));
    assert_eq!(verdicts, Ok(0), "the change that failed is undone");
}

#[test]
fn a_full_disk_and_a_failed_write_say_to_free_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RESULTS);
    let store = Store::open(&path).unwrap();
    store.add(&Program::default(), FROM_FILE, 1).unwrap();
    store.0.pragma_update(None, "max_page_count", 1).unwrap();
    let full = store.set_error("", Some(&"x".repeat(1 << 19))).unwrap_err();
    let failed = with_remedy(Error::WriteFailed { path: path.clone() }, &path);
    for error in [full, failed] {
        let error = format!("{error:#}");
        let wanted = format!("{}: not written: no space is left, ", path.display());
        assert!(error.contains(&wanted), "{error}");
        assert!(error.ends_with("; free space"), "{error}");
    }
}

#[test]
fn a_database_that_cannot_be_read_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RESULTS);
    let store = Store::open(&path).unwrap();
    store.0.busy_timeout(std::time::Duration::ZERO).unwrap();
    let reads = |store: &Store| {
        let results = [store.listed_versions().err(), store.runs().err()];
        results.map(|error| format!("{:#}", error.unwrap()))
    };
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let locked = "database is locked; if another program uses it, wait for its end or stop it";
    for error in reads(&store) {
        let wanted = format!("{}: {locked}; otherwise check", path.display());
        assert!(error.starts_with(&wanted), "{error}");
    }
    other.execute_batch("COMMIT").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let wanted = format!(
        "{}: damaged: database disk image is malformed; {REMEDY}",
        path.display()
    );
    let store = Store(Connection::open(&path).unwrap());
    assert_eq!(reads(&store), [wanted.clone(), wanted]);
    let error = store.export(&[]).unwrap_err();
    assert!(format!("{error:#}").ends_with(REMEDY), "{error:#}");
}

#[test]
fn a_void_run_loses_its_values_with_its_pair_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
    let row = |replicate, is_baseline| RunRow {
        replicate,
        is_baseline,
        recording: format!("{replicate}{is_baseline}"),
        outcome: "completed".into(),
        validity: "valid".into(),
        values: vec![("replay-p95".into(), 1.5)],
        ..RunRow::default()
    };
    let rows = [row(1, true), row(1, false), row(2, true), row(2, false)];
    store.add_runs(&rows).unwrap();
    store.void("1false").unwrap();
    let runs = store.runs().unwrap();
    let void: Vec<bool> = runs.iter().map(RunRow::is_void).collect();
    assert_eq!(void, [true, true, false, false]);
    assert!(
        runs.iter()
            .all(|run| run.values.is_empty() == run.is_void())
    );
    store.add_runs(&rows).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(RunRow::is_usable));
}

#[test]
fn a_path_that_may_lead_out_of_the_campaign_is_refused() {
    for path in [
        "javascript:alert(1)",
        "\0javascript:alert(1)",
        "reports/../../x.html",
        "..",
        "/dev/zero",
        "//host/x",
        "a\\b",
        "%2e%2e/a",
        "a\nb",
    ] {
        for [recording, report] in [["a/run.fltl", path], [path, "reports/a.html"]] {
            let folder = tempfile::tempdir().unwrap();
            let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
            let row = RunRow {
                recording: recording.into(),
                report: report.into(),
                ..RunRow::default()
            };
            store.add_runs(&[row]).unwrap();
            let read = store.runs().map_err(|error| error.to_string());
            let error = read.expect_err(path);
            assert!(
                error.starts_with("results.db: not read: a path in column recording or report"),
                "{error}"
            );
            assert!(error.ends_with(REMEDY), "{error}");
        }
    }
}

#[test]
fn an_export_has_a_row_for_each_value_with_its_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
    let row = RunRow {
        version: "1.1.0".into(),
        round: 2,
        values: vec![("replay-p95".into(), 1.5), ("replay-p50".into(), 0.5)],
        ..RunRow::default()
    };
    store.add_runs(&[row]).unwrap();
    let verdict = VerdictRow {
        version: "1.1.0".into(),
        metric: "replay-p50".into(),
        verdict: "worse".into(),
        ..VerdictRow::default()
    };
    let stored = VerdictRow {
        verdict: "stored".into(),
        ..verdict.clone()
    };
    store.replace_verdicts(&[stored]).unwrap();
    let path = folder.path().join(RESULTS);
    // Another program reads the database meanwhile.
    let reader = Connection::open(&path).unwrap();
    let read = |sql: &str| reader.query_row(sql, [], |row| row.get::<_, String>(0));
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(read("SELECT verdict FROM verdict").unwrap(), "stored");
    let (rows, columns) = store.export(&[verdict]).unwrap();
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(read("SELECT verdict FROM verdict").unwrap(), "stored");
    assert_eq!((rows, columns.len()), (2, 20));
    let column = |name: &str| {
        let mut named = columns.iter().filter(|(known, _)| known == name);
        named.next().unwrap().1.clone()
    };
    let texts =
        |texts: [Option<&str>; 2]| Values::Text(texts.map(|text| text.map(str::to_owned)).into());
    assert_eq!(column("release"), texts([Some("1.1.0"); 2]));
    assert_eq!(column("arm"), texts([Some("release"); 2]));
    assert_eq!(column("round"), Values::Integer(vec![Some(2); 2]));
    assert_eq!(column("slot_seconds"), Values::Real(vec![None; 2]));
    assert_eq!(
        column("metric"),
        texts([Some("replay-p95"), Some("replay-p50")])
    );
    assert_eq!(column("value"), Values::Real(vec![Some(1.5), Some(0.5)]));
    assert_eq!(column("verdict"), texts([None, Some("worse")]));
}
