//! What `faultline export` writes is read by others: pandas, polars and DuckDB, against SQLite.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::{
    made::{Plain, busy, faultline, said, synthetic_run::Arm},
    small_disk::SmallDisk,
};
use parquet::{
    basic::{Compression, LogicalType, TimeUnit, Type as Physical},
    file::reader::{FileReader, SerializedFileReader},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A Python that has the three; `None` if there is none.
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python3");
    let has_all = |python: &PathBuf| {
        let tried = Command::new(python)
            .args(["-c", "import duckdb, pandas, polars, pyarrow"])
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    [own, "python3".into()].into_iter().find(has_all)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn export(words: &[&Path], more: &[&str]) -> std::process::Output {
    let words = words.iter().map(|word| word.as_os_str().to_owned());
    faultline(
        std::iter::once("export".into())
            .chain(words)
            .chain(more.iter().map(Into::into)),
    )
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn pandas_polars_and_duckdb_read_the_values_of_sqlite() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with pandas, polars and DuckDB; scripts/python-witness makes one"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("run.fltl");
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let labels = vec![
        label("arm", "512G"),
        label("note", "a, \"b\"\r\nc \u{e9}"),
        label("empty", ""),
    ];
    busy(
        &recording,
        Arm {
            seconds: 240,
            killed_at: Some(150),
            gap: Some((60, 7)),
            labels,
            ..Arm::default()
        },
    );
    for format in ["parquet", "csv"] {
        let out = folder.path().join(format);
        let output = export(&[&recording, "--out".as_ref(), &out], &["--format", format]);
        assert!(output.status.success(), "{}", said(&output));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/witness/export.py");
        let read = Command::new(&python)
            .arg(script)
            .args([&recording, &out])
            .arg(format)
            .output()
            .unwrap();
        assert!(read.status.success(), "{format}: {}", said(&read));
        eprintln!("{format}: {}", said(&read).trim());
    }
}

#[test]
fn parquet_files_are_typed_compressed_and_have_statistics_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, out) = (folder.path().join("run.fltl"), folder.path().join("out"));
    let (ticks, labels) = ((1..=8000).collect(), vec![("arm", "512G")]);
    Plain {
        ticks,
        labels,
        ..Plain::default()
    }
    .write(&recording);
    let output = export(&[&recording, "--out".as_ref(), &out], &["--table", "wide"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(names(&out), ["wide.parquet"]);
    let reader =
        SerializedFileReader::new(fs::File::open(out.join("wide.parquet")).unwrap()).unwrap();
    let metadata = reader.metadata();
    let file = metadata.file_metadata();
    assert_eq!(file.num_rows(), 8000);
    assert!(file.key_value_metadata().unwrap().iter().any(|pair| {
        (pair.key.as_str(), pair.value.as_deref()) == ("faultline.label.arm", Some("512G"))
    }));
    assert!(metadata.num_row_groups() > 1, "a chunk is bounded");
    let columns = file.schema_descr();
    let place = |name: &str| {
        (0..columns.num_columns())
            .find(|i| columns.column(*i).name() == name)
            .unwrap()
    };
    assert_eq!(
        columns
            .column(place("process_virtual_bytes"))
            .physical_type(),
        Physical::INT64
    );
    assert_eq!(
        columns.column(place("validator_storages")).physical_type(),
        Physical::DOUBLE,
        "it has fractions"
    );
    let utc = LogicalType::timestamp(true, TimeUnit::NANOS);
    assert_eq!(columns.column(place("time")).logical_type_ref(), Some(&utc));
    let (mut smallest, mut nulls) = (Vec::<u8>::new(), 0);
    for group in metadata.row_groups() {
        let column = group.column(place("process_virtual_bytes"));
        assert_eq!(column.compression(), Compression::SNAPPY);
        smallest.extend(column.statistics().unwrap().min_bytes_opt().unwrap());
        nulls += group
            .column(place("host_memory_available_bytes"))
            .statistics()
            .unwrap()
            .null_count_opt()
            .unwrap();
    }
    assert_eq!(smallest[..8], 1000_i64.to_le_bytes());
    assert_eq!(nulls, 8000);
}

#[test]
fn wide_rows_have_the_arm_the_run_and_the_other_labels() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, out) = (folder.path().join("run.fltl"), folder.path().join("out"));
    Plain {
        ticks: vec![1],
        labels: vec![("arm", "512G"), ("host", "a")],
        ..Plain::default()
    }
    .write(&recording);
    let tables = ["--format", "csv", "--table", "wide"];
    let output = export(&[&recording, "--out".as_ref(), &out], &tables);
    assert!(output.status.success(), "{}", said(&output));
    let wide = fs::read_to_string(out.join("wide.csv")).unwrap();
    let (head, row) = wide.split_once("\r\n").unwrap();
    assert!(head.ends_with(",arm,run,label_host"), "{head}");
    assert!(row.ends_with(",512G,,a\r\n"), "{row}");
}

#[test]
fn csv_distinguishes_null_from_text_and_shows_both_time_formats() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, out) = (folder.path().join("run.fltl"), folder.path().join("out"));
    Plain {
        ticks: vec![1, 2],
        phases: vec![(2, "at_tip")],
        ..Plain::default()
    }
    .write(&recording);
    let tables = ["--format", "csv", "--table", "tick", "--table", "event"];
    let output = export(&[&recording, "--out".as_ref(), &out], &tables);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(names(&out), ["event.csv", "tick.csv"]);
    let expected = "id,session,number,unix_ns,time,uptime_ns,process,phase\r\n\
        1,1,1,1800000001000000000,2027-01-15T08:00:01.000000000Z,1000000000,1,\r\n\
        2,1,2,1800000002000000000,2027-01-15T08:00:02.000000000Z,2000000000,1,at_tip\r\n";
    assert_eq!(fs::read_to_string(out.join("tick.csv")).unwrap(), expected);
    let events = fs::read_to_string(out.join("event.csv")).unwrap();
    assert!(events.contains(",start,1,\"\"\r\n"), "{events}");
    assert!(
        events.ends_with(
            ",exit,1,\"{\"\"code\"\": 1, \"\"text\"\": \"\"a,\\\"\"b\\\"\"\\nc\"\"}\"\r\n"
        ),
        "{events}"
    );
}

#[test]
fn export_overwrites_nothing_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, out) = (folder.path().join("run.fltl"), folder.path().join("out"));
    Plain::default().write(&recording);
    fs::create_dir(&out).unwrap();
    fs::write(out.join("tick.csv"), "mine").unwrap();
    let words: [&Path; 3] = [&recording, "--out".as_ref(), &out];
    let output = export(&words, &["--format", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("tick.csv: exists already") && said(&output).contains("--force"),
        "{}",
        said(&output)
    );
    assert_eq!(names(&out), ["tick.csv"]);
    assert_eq!(fs::read_to_string(out.join("tick.csv")).unwrap(), "mine");
    assert!(
        export(&words, &["--format", "csv", "--force"])
            .status
            .success()
    );
    assert!(
        fs::read_to_string(out.join("tick.csv"))
            .unwrap()
            .starts_with("id,session,")
    );
    assert!(
        names(&out).iter().all(|name| name.ends_with(".csv")),
        "{:?}",
        names(&out)
    );
}

#[test]
fn a_damaged_recording_error_names_the_recording_not_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, out) = (folder.path().join("run.fltl"), folder.path().join("out"));
    Plain {
        ticks: (1..=300).collect(),
        ..Plain::default()
    }
    .write(&recording);
    // One page after the other.
    let mut bytes = fs::read(&recording).unwrap();
    let clean = bytes.clone();
    let mut seen = false;
    for from in (4096..clean.len()).step_by(4096) {
        bytes.clone_from(&clean);
        bytes[from..from + 64].fill(0xa5);
        fs::write(&recording, &bytes).unwrap();
        let output = export(
            &[&recording, "--force".as_ref(), "--out".as_ref(), &out],
            &["--table", "tick"],
        );
        let said = said(&output);
        seen |= !output.status.success();
        let begins = format!("faultline: {}: ", recording.display());
        assert!(
            output.status.success() || said.starts_with(&begins),
            "{said}"
        );
    }
    assert!(seen, "no page of the ticks was damaged");
}

#[test]
fn several_recordings_are_exported_to_separate_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two, out) = (
        folder.path().join("one.fltl"),
        folder.path().join("two.fltl"),
        folder.path().join("out"),
    );
    Plain::default().write(&one);
    Plain::default().write(&two);
    let output = export(&[&one, &two, "--out".as_ref(), &out], &["--table", "tick"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(names(&out), ["one", "two"]);
    assert_eq!(names(&out.join("two")), ["tick.parquet"]);

    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::copy(&one, other.join("one.fltl")).unwrap();
    let output = export(
        &[&one, &other.join("one.fltl"), "--out".as_ref(), &out],
        &["--force"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("would both go to"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_missing_export_input_is_reported_without_creating_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, out) = (folder.path().join("run.fltl"), folder.path().join("out"));
    Plain::default().write(&recording);
    let output = export(&[&recording, "--out".as_ref(), &out], &["--table", "ticks"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        said(&output).contains("\"ticks\"") && said(&output).contains("tick, "),
        "{}",
        said(&output)
    );
    let output = export(
        &[&folder.path().join("nowhere.fltl"), "--out".as_ref(), &out],
        &[],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("nowhere.fltl: no such file"),
        "{}",
        said(&output)
    );
    assert!(!out.exists());
    let output = export(&[&recording, "--out".as_ref(), &out], &["--format", "xlsx"]);
    assert_eq!(output.status.code(), Some(64));
}

/// Below the table's folder.
fn dataset_files(dataset: &Path, table: &str) -> Vec<String> {
    let pattern = dataset.join(table);
    let mut found = Vec::new();
    let mut folders = vec![pattern.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&pattern).unwrap();
                found.push(name.display().to_string());
            }
        }
    }
    found.sort();
    found
}

fn export_into(dataset: &Path, recordings: &[&Path]) -> std::process::Output {
    export(&[recordings, &["--into".as_ref(), dataset]].concat(), &[])
}

#[test]
fn recordings_of_one_name_make_a_dataset_by_host_run_and_day() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    // The second passes midnight after its fourth tick.
    let runs = [("1", 1_800_000_000), ("2", 1_800_057_595)].map(|(run, began)| {
        let path = folder.path().join(run).join("run.fltl");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let labels = vec![("experiment", "ram"), ("arm", "512 G"), ("run", run)];
        Plain {
            began,
            labels,
            ..Plain::default()
        }
        .write(&path);
        path
    });
    let [one, two] = [&*runs[0], &*runs[1]];
    let output = export_into(&dataset, &[one, two]);
    assert!(output.status.success(), "{}", said(&output));
    let [first, second, third] = [
        "host=sol-1/run=ram-512%20G-1-1800000001000000000/day=2027-01-15",
        "host=sol-1/run=ram-512%20G-2-1800057596000000000/day=2027-01-15",
        "host=sol-1/run=ram-512%20G-2-1800057596000000000/day=2027-01-16",
    ];
    for (table, days) in [
        ("tick", vec![first, second, third]),
        ("process_sample", vec![first, second, third]),
        ("wide", vec![first, second, third]),
        ("session", vec![first, second]),
        ("problem", vec![first, second]),
    ] {
        let expected: Vec<String> = days
            .iter()
            .map(|day| format!("{day}/{table}.parquet"))
            .collect();
        assert_eq!(dataset_files(&dataset, table), expected);
    }
    let rows = |day: &str| {
        let file = fs::File::open(dataset.join("tick").join(day).join("tick.parquet"));
        let reader = SerializedFileReader::new(file.unwrap()).unwrap();
        reader.metadata().file_metadata().num_rows()
    };
    assert_eq!([first, second, third].map(rows), [10, 4, 6]);
}

#[test]
fn a_second_export_replaces_the_files_of_its_run_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    let [one, two] = ["1", "2"].map(|run| {
        let path = folder.path().join(format!("{run}.fltl"));
        let labels = vec![("host", "n1"), ("run", run)];
        Plain {
            labels,
            ..Plain::default()
        }
        .write(&path);
        path
    });
    assert!(export_into(&dataset, &[&one, &two]).status.success());
    let run = dataset.join("tick/host=n1/run=1-1800000001000000000");
    let other = dataset.join("tick/host=n1/run=2-1800000001000000000/day=2027-01-15/tick.parquet");
    let [stale, notes, foreign] = [
        "day=2027-01-01/tick.parquet",
        "day=2027-01-01/notes",
        "notes",
    ]
    .map(|name| run.join(name));
    fs::create_dir(stale.parent().unwrap()).unwrap();
    for path in [&stale, &notes, &foreign, &other] {
        fs::write(path, "mine").unwrap();
    }
    let own = run.join("day=2027-01-15/tick.parquet");
    fs::write(&own, "old").unwrap();
    let killed = run.join("day=2027-01-15/tick.parquet.4711-0.part");
    fs::write(&killed, "PAR1").unwrap();
    let output = export_into(&dataset, &[&one]);
    assert!(output.status.success(), "{}", said(&output));
    for path in [&notes, &foreign, &other] {
        assert_eq!(fs::read_to_string(path).unwrap(), "mine");
    }
    assert!(!stale.exists() && !killed.exists());
    assert!(fs::read(&own).unwrap().starts_with(b"PAR1"));

    let copy = folder.path().join("copy.fltl");
    fs::copy(&one, &copy).unwrap();
    let output = export_into(&dataset, &[&one, &copy]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "are both host=n1/run=1-1800000001000000000: give each run once";
    assert!(said(&output).contains(expected), "{}", said(&output));
    let output = export(&[&one, "--out".as_ref(), &dataset], &["--into", "x"]);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
}

#[test]
fn an_export_removes_later_days_of_its_run_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    let write = |name: &str, ticks| {
        let path = folder.path().join(name);
        let began = 1_800_057_595; // five seconds before midnight
        Plain {
            began,
            ticks: (1..=ticks).collect(),
            ..Plain::default()
        }
        .write(&path);
        path
    };
    let (whole, short) = (write("whole.fltl", 10), write("short.fltl", 3));
    // A recording may grow, and may be exported again.
    for path in [&short, &whole, &whole] {
        let output = export_into(&dataset, &[path]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let contents = || {
        let files = dataset_files(&dataset, "").into_iter();
        let contents = files.map(|file| (fs::read(dataset.join(&file)).unwrap(), file));
        contents.collect::<Vec<_>>()
    };
    let before = contents();
    let all_tables = &[][..];
    for table in [
        all_tables,
        &["--table", "event"],
        &["--table", "process_sample"],
    ] {
        let output = export(&[&short, "--into".as_ref(), &dataset], table);
        assert_eq!(output.status.code(), Some(1));
        for part in ["short.fltl: an earlier export", "day=2027-01-16", "--force"] {
            assert!(said(&output).contains(part), "{}", said(&output));
        }
        assert!(contents() == before);
    }
    let output = export(&[&short, "--into".as_ref(), &dataset], &["--force"]);
    assert!(output.status.success(), "{}", said(&output));
    let files = dataset_files(&dataset, "");
    let is_first_day = |file: &String| file.contains("day=2027-01-15");
    assert!(files.iter().all(is_first_day), "{files:#?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn a_full_disk_leaves_no_half_file_and_the_next_export_completes() {
    let Some(disk) = SmallDisk::mount("64k") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("run.fltl");
    // Two days.
    Plain {
        began: 1_800_057_595,
        ..Plain::default()
    }
    .write(&recording);
    let dataset = disk.path().join("dataset");
    let mut failures = 0;
    let mut is_complete = false;
    for kib in (64..1024).step_by(4) {
        disk.resize(&format!("{kib}k"));
        let output = export_into(&dataset, &[&recording]);
        let files = dataset_files(&dataset, "");
        for file in &files {
            let open = fs::File::open(dataset.join(file)).unwrap();
            assert!(SerializedFileReader::new(open).is_ok(), "{file}");
        }
        let day_count = |table: &str| {
            let of_table = |file: &&String| file.starts_with(&format!("{table}/"));
            files.iter().filter(of_table).count()
        };
        let day_counts = ["tick", "event", "process_sample", "wide"].map(day_count);
        if output.status.success() {
            assert_eq!(day_counts, [2; 4], "{files:#?}");
            is_complete = true;
            break;
        }
        failures += 1;
        assert!(!day_counts.contains(&1), "{kib} KiB: {day_counts:?}");
        let said = said(&output);
        for part in ["the disk is full: free space", "dataset/", "No space left"] {
            assert!(said.contains(part), "{said}");
        }
        let empty = std::process::Command::new("find")
            .arg(disk.path())
            .args(["-mindepth", "1", "-type", "d", "-empty"])
            .output();
        assert_eq!(String::from_utf8(empty.unwrap().stdout).unwrap(), "");
    }
    assert!(is_complete && failures > 1, "{failures} failures");
}

/// Sorted, as both readers have them.
const HOSTS: &str = "
import duckdb, polars
of = 'dataset/tick/**/*.parquet'
print([row[0] for row in duckdb.sql(f\"SELECT DISTINCT host FROM '{of}' ORDER BY host\").fetchall()])
print(sorted(polars.scan_parquet(of, hive_partitioning=True).collect()['host'].unique()))
";

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn hosts_with_names_alike_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    let write = |host: &'static str| {
        let path = folder.path().join("run.fltl");
        let _ = fs::remove_file(&path);
        let labels = vec![("host", host)];
        Plain {
            labels,
            ..Plain::default()
        }
        .write(&path);
        export_into(&dataset, &[&path])
    };
    for (hosts, read) in [
        (&["01", "1"][..], "['01', '1']\n"),
        (&["a/b", "a_b", "é"], "['01', '1', 'a/b', 'a_b', 'é']\n"),
    ] {
        for host in hosts {
            let output = write(host);
            assert!(output.status.success(), "{}", said(&output));
        }
        let Some(python) = python() else {
            eprintln!(
                "SKIPPED: no Python with polars and DuckDB; scripts/python-witness makes one"
            );
            continue;
        };
        let mut command = Command::new(&python);
        let output = command.args(["-c", HOSTS]).current_dir(&folder).output();
        assert_eq!(said(&output.unwrap()), read.repeat(2));
    }
    let folders = ["01", "1", "a%2Fb", "a_b", "%C3%A9"].map(|host| format!("host={host}"));
    let mut found = names(&dataset.join("tick"));
    found.sort();
    assert_eq!(found.len(), folders.len());
    assert!(
        folders.iter().all(|folder| found.contains(folder)),
        "{found:?}"
    );
    let output = write("__HIVE_DEFAULT_PARTITION__");
    assert!(said(&output).contains("read as NULL"), "{}", said(&output));
}

/// Makes every seventh slot one that the node produced: nothing of it was replayed in 400 ms.
const LEAD_SLOTS: &str = "
import glob, sqlite3
for path in glob.glob('*/run.fltl'):
    with sqlite3.connect(path) as db:
        db.execute('UPDATE replay_slot_point SET total_transactions = 0, total_entries = 0, total_shreds = 0,'
                   ' program_cache_us = 0, replay_total_elapsed_us = 400000 WHERE slot % 7 = 0')
";

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn the_documents_queries_answer_over_a_hundred_recordings() {
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Python with polars and DuckDB; scripts/python-witness makes one");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let arms = [("512", 512.0, 2.0), ("1024", 1024.0, 1.0)];
    let mut recordings = Vec::new();
    for number in 0..100_u64 {
        let (arm, cache, memory_scarcity) = arms[number as usize % 2];
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut labels = vec![label("arm", arm), label("run", &(number / 2).to_string())];
        // One recording does not say where it was made.
        labels.extend((number > 0).then(|| label("host", &format!("n{}", number % 5))));
        let path = folder.path().join(format!("{number}/run.fltl"));
        fs::create_dir(path.parent().unwrap()).unwrap();
        busy(
            &path,
            Arm {
                seconds: 30,
                cache,
                memory_scarcity,
                seed: number,
                labels,
                killed_at: (number % 10 == 0).then_some(20),
                ..Arm::default()
            },
        );
        recordings.push(path);
    }
    let lead = Command::new(&python)
        .args(["-c", LEAD_SLOTS])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(lead.status.success(), "{}", said(&lead));
    let recordings: Vec<&Path> = recordings.iter().map(PathBuf::as_path).collect();
    let output = export_into(&folder.path().join("dataset"), &recordings);
    assert!(output.status.success(), "{}", said(&output));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = Command::new(&python)
        .arg(root.join("tests/witness/dataset.py"))
        .arg(root.join("../../docs/RECORDING.md"))
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", said(&read));
    eprintln!("{}", said(&read));
}
