use super::*;
use crate::results::{Results, RunState, tests::results};
use faultline_common::args::UsageError;
use rusqlite::Connection;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

fn read(path: &Path) -> anyhow::Result<Results> {
    match super::read::<serde::de::IgnoredAny>(path)? {
        Stored::Requests(results) => Ok(*results),
        Stored::Compression(_) => anyhow::bail!("of compression"),
    }
}

/// Keeps a whole run.
fn write(path: &Path, run: &Results) {
    let file = ResultsFile::create(path).unwrap();
    file.begin(&run.header, &run.cases).unwrap();
    let (first, rest) = run.samples.split_at(run.samples.len() / 2);
    file.append(first, &state(run));
    file.append(rest, &state(run));
    file.finish(run).unwrap();
}

fn state(run: &Results) -> RunState {
    RunState {
        answer_comparisons: run.header.answer_comparisons.clone(),
        refusals: BTreeMap::new(),
        first_error_by_case: BTreeMap::new(),
        stopped_by: None,
        tool_cpu_per_request: None,
        length: Duration::from_secs(1),
    }
}

#[test]
fn a_written_results_file_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.flb");
    let mut saved = results(30, &[("a", 904, &|round| round * 1000), ("b", 904, &|_| 5)]);
    saved.samples[4].result = Err("timeout".to_owned());
    saved.cases[1].answer_bytes = None;
    write(&path, &saved);
    assert_eq!(read(&path).unwrap(), saved);
    let database = Connection::open(&path).unwrap();
    let number = |sql: &str| {
        database
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(number("SELECT sum(count) FROM histogram"), 59);
    let unknown = "SELECT count(*) FROM sample WHERE sent IS NULL AND received IS NULL AND decode_cpu_ns IS NULL";
    assert_eq!(number(unknown), 1, "0 is not what is not known");
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1, "one file");
}

#[test]
fn an_unfinished_run_is_read_up_to_its_last_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.flb");
    let run = results(30, &[("a", 904, &|round| round * 1000), ("b", 904, &|_| 5)]);
    let file = ResultsFile::create(&path).unwrap();
    let early = read(&path).unwrap_err().to_string();
    assert!(early.contains("no run began"), "{early}");
    file.begin(&run.header, &run.cases).unwrap();
    assert_eq!(read(&path).unwrap().samples, []);
    file.append(&run.samples[..20], &state(&run));
    let found = loop {
        let found = read(&path).unwrap();
        if !found.samples.is_empty() {
            break found;
        }
    };
    assert_eq!(found.samples, run.samples[..20]);
    assert_eq!(
        found.header.answer_comparisons,
        run.header.answer_comparisons
    );
    let problems = crate::render::problems(&found).join(" ");
    assert!(
        problems.contains("ended early by a kill, or not ended yet"),
        "{problems}"
    );
    file.abandon();
    assert_eq!(read(&path).unwrap(), found, "what was measured stays");
}

#[test]
fn an_abandoned_results_file_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.flb");
    ResultsFile::create(&path).unwrap().abandon();
    assert!(!path.exists());
}

#[test]
fn an_invalid_new_file_name_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("run.flb");
    fs::write(&taken, "precious").unwrap();
    let nowhere = folder.path().join("nope/x.flb");
    for (path, why) in [
        (
            &taken,
            "run.flb: exists already; give another name, or remove it first",
        ),
        (&nowhere, "nope; make it, or give another name"),
    ] {
        let made = ResultsFile::create(path).map(|_| ());
        for refused in [made, write_document(path, &7)] {
            let refused = refused.unwrap_err();
            assert!(refused.is::<UsageError>(), "{refused:#}");
            assert!(refused.to_string().ends_with(why), "{refused}");
        }
    }
    assert_eq!(fs::read_to_string(&taken).unwrap(), "precious");
    for (path, why) in [
        (folder.path().join("other.flb"), ": no such file"),
        (nowhere, ": no such folder: "),
    ] {
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_file_name_is_never_interpreted_as_an_sqlite_uri() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file:y.flb?mode=memory");
    let run = results(3, &[("a", 904, &|_| 1)]);
    write(&path, &run);
    assert_eq!(read(&path).unwrap(), run);
    // The relative path begins with `file:`. No other test depends on the working folder of this process.
    let relative = Path::new("file:faultline-test-of-a-name.flb?mode=memory");
    let absolute = std::path::absolute(relative).unwrap();
    write(relative, &run);
    let written = (read(relative), fs::remove_file(absolute));
    assert_eq!((written.0.unwrap(), written.1.unwrap()), (run, ()));
}

#[test]
fn a_damaged_or_foreign_results_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.flb");
    fs::write(&path, "no database at all, however long it may be").unwrap();
    assert!(format!("{:#}", read(&path).unwrap_err()).contains("run.flb"));
    let damages = [
        "UPDATE sample SET cell = 7 WHERE number = 3",
        "UPDATE sample SET round = -1 WHERE number = 0",
        "UPDATE run SET header = '{}'",
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 1",
        "DROP TABLE cell",
        "UPDATE sample SET tls_ns = 9223372036854775807",
        "UPDATE sample SET round = 4294967295 WHERE number = 0",
    ];
    for damage in damages {
        fs::remove_file(&path).unwrap();
        write(
            &path,
            &results(3, &[("a", 904, &|_| 1), ("b", 904, &|_| 5)]),
        );
        read(&path).unwrap();
        Connection::open(&path)
            .unwrap()
            .execute_batch(damage)
            .unwrap();
        let refused = format!("{:#}", read(&path).unwrap_err());
        assert!(refused.contains("run.flb"), "{damage}: {refused}");
        assert_eq!(
            refused.contains("no table made by")
                && refused.ends_with("; copy it again, or measure again with this version"),
            damage == "DROP TABLE cell",
            "{damage}: {refused}"
        );
    }
}

/// Small files whose tables have infinitely or extremely many rows.
#[test]
fn a_malicious_results_file_costs_no_more_than_its_size() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)";
    let columns = "number, round, cell, at_ns, queued_ns, connect_ns, tls_ns, first_byte_ns, transfer_ns, decode_ns, \
                   decode_cpu_ns, sent, received, failure, refused";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.flb");
    let harms = [
        format!(
            "DROP TABLE sample; CREATE VIEW sample({columns}) AS {endless} SELECT i, 0, 0, i, 1, 1, 1, 1, 1, 1, 1, 1, 1, NULL, 0 FROM n"
        ),
        // Without its key, the rows would be sorted on disk.
        "DROP TABLE sample; CREATE TABLE sample (number INTEGER, round, cell)".to_owned(),
        format!(
            "DROP TABLE run; CREATE VIEW run(header) AS {endless} SELECT group_concat(i) FROM n"
        ),
        "CREATE TRIGGER twice AFTER INSERT ON cell BEGIN DELETE FROM run; END".to_owned(),
        "UPDATE run SET header = zeroblob(20000000)".to_owned(),
    ];
    for harm in harms {
        write(&path, &results(3, &[("a", 904, &|_| 1)]));
        Connection::open(&path)
            .unwrap()
            .execute_batch(&harm)
            .unwrap();
        let refused = format!("{:#}", read(&path).unwrap_err());
        assert!(refused.contains("not read: "), "{harm}: {refused}");
        fs::remove_file(&path).unwrap();
    }
    write(&path, &results(300, &[("a", 904, &|_| 1)]));
    refer_again_and_again(&path);
    let refused = format!("{:#}", read(&path).unwrap_err());
    assert!(
        refused.contains("than a file of its size can hold"),
        "{refused}"
    );
}

/// Makes all page references of the table `sample` refer to its first page, so that the table has more rows than fit in the file.
fn refer_again_and_again(path: &Path) {
    const PAGE: usize = 4096;
    let database = Connection::open(path).unwrap();
    let root = database
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sample'",
            [],
            |row| row.get::<_, u32>(0),
        )
        .unwrap() as usize;
    drop(database);
    let mut bytes = fs::read(path).unwrap();
    let (begin, leaf) = ((root - 1) * PAGE, bytes.len() / PAGE + 1);
    let page = &bytes[begin..begin + PAGE];
    assert_eq!(page[0], 5, "it has pages below");
    let first = usize::from(u16::from_be_bytes([page[12], page[13]]));
    let below = u32::from_be_bytes(page[first..first + 4].try_into().unwrap()) as usize;
    bytes.extend_from_within((below - 1) * PAGE..below * PAGE);
    let root_page = &mut bytes[begin..begin + PAGE];
    root_page.fill(0);
    let count = 400;
    let cells = PAGE - count * 6;
    root_page[0] = 5;
    root_page[3..5].copy_from_slice(&(count as u16).to_be_bytes());
    root_page[5..7].copy_from_slice(&(cells as u16).to_be_bytes());
    root_page[8..12].copy_from_slice(&(leaf as u32).to_be_bytes());
    for cell in 0..count {
        let at = cells + 6 * cell;
        root_page[12 + 2 * cell..14 + 2 * cell].copy_from_slice(&(at as u16).to_be_bytes());
        root_page[at..at + 4].copy_from_slice(&(leaf as u32).to_be_bytes());
        root_page[at + 4..at + 6].copy_from_slice(&[0x80 | (cell >> 7) as u8, (cell & 0x7f) as u8]);
    }
    bytes[28..32].copy_from_slice(&(leaf as u32).to_be_bytes());
    fs::write(path, bytes).unwrap();
}

/// A file with any change is either refused or shown.
#[test]
fn a_results_file_with_changed_bytes_is_refused_or_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.flb");
    write(
        &path,
        &results(40, &[("a", 904, &|round| round * 1000), ("b", 90, &|_| 5)]),
    );
    let whole = fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut shown = 0;
    for _ in 0..100 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..8) {
            let index = random.usize(..bytes.len());
            bytes[index] = random.u8(..);
        }
        bytes.truncate(random.usize(whole.len() - 100..whole.len() * 2));
        fs::write(&path, bytes).unwrap();
        if let Ok(results) = read(&path) {
            let text = crate::render::text(&results) + &crate::render::csv(&results);
            assert!(!text.is_empty());
            shown += 1;
        }
    }
    assert!((1..100).contains(&shown), "{shown}");
}
