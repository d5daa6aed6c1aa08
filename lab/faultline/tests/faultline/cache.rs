//! `faultline cache` as users run it: exit codes, and where answers and errors go. What it computes is tested in `lab/cache`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::top::terminal;
use faultline_cache_sim::policy::NAMED_POLICIES;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Output},
};

#[path = "../../../cache/tests/common/mod.rs"]
mod common;

#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn cache(words: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_faultline"))
        .arg("cache")
        .args(words)
        .args(files)
        .output()
        .expect("it can be run")
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn fails(output: &Output, code: i32, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(code) && output.stdout.is_empty() && said.contains(what),
        "{output:?}"
    );
}

#[test]
fn the_reasons_of_a_failed_self_test_are_printed_although_no_evidence_is_written() {
    let (folder, small, _) = common::runs();
    let evidence = folder.path().join("evidence.json");
    let words = ["predict", "--entries", "256", "--evidence"];
    let output = cache(&words, &[&evidence, &small]);
    let [text, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(
        text.contains("no other size is predicted")
            && said.contains("evidence.json is not written: no size has a predicted time"),
        "{output:?}"
    );
    assert_eq!((output.status.code(), evidence.exists()), (Some(1), false));
}

#[test]
fn an_unusable_prediction_input_is_refused_on_stderr_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.fltl");
    fs::copy(fixture("arm-512-1.fltl"), &run).unwrap();
    for command in ["predict", "policies"] {
        fails(
            &cache(&[command], &[&run]),
            1,
            "run.trace is missing: `faultline cache fetch",
        );
    }
    fails(&cache(&["check"], &[&run, &run]), 1, "run.trace is missing");
    fails(
        &cache(&["predict", "--version", "9.9.9"], &[&run]),
        1,
        "\"9.9.9\"",
    );
    fails(
        &cache(&["predict"], &[&fixture("any-process.fltl")]),
        1,
        "loaded-programs-cache-stats",
    );
    fs::write(folder.path().join("run.trace"), "garbage").unwrap();
    fails(&cache(&["predict"], &[&run]), 1, "it is not a trace file");
    fails(
        &cache(&["fetch", "--rpc", "ftp://x"], &[&run]),
        1,
        "http://",
    );
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let run = fixture("arm-512-1.fltl");
    fails(&cache(&["fetch"], &[&run]), 64, "--rpc");
    fails(
        &cache(&["predict", "--sizes", "512,none"], &[&run]),
        64,
        "--sizes",
    );
    fails(&cache(&["predict", "--seeds", "1"], &[&run]), 64, "--seeds");
    fails(
        &cache(&["predict", "--json", "--csv"], &[&run]),
        64,
        "cannot be used with",
    );
    fails(
        &cache(&["policies", "--policy", "sieve,belady"], &[&run]),
        64,
        "there is no policy \"belady\": use agave, agave-VERSION",
    );
    fails(
        &cache(&["policies", "--policy", "belady"], &[&run]),
        64,
        &NAMED_POLICIES.map(|(name, _)| name).join(", "),
    );
    fails(
        &cache(&["policies", "--policy", "agave-9.9.9"], &[&run]),
        64,
        "\"9.9.9\"",
    );
    for fill in ["0", "1.1", "90", "0.005", "x", "NaN"] {
        fails(
            &cache(&["policies", "--fill", fill], &[&run]),
            64,
            "not a share from 0.01 to 1",
        );
    }
    fails(
        &cache(&["policies", "--bytes", "800"], &[&run]),
        64,
        "has no unit",
    );
    fails(
        &cache(&["policies", "--bytes", "0"], &[&run]),
        64,
        "holds nothing",
    );
    fails(
        &cache(&["policies", "--bytes", "1M", "--size", "5"], &[&run]),
        64,
        "cannot be used with",
    );
    fails(
        &cache(&["policies", "--json", "--csv"], &[&run]),
        64,
        "cannot be used with",
    );
    let help = cache(&["predict", "--help"], &[]);
    assert!(
        help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Sizes in entries"),
        "{help:?}"
    );
}

/// The files of a report of these recordings, and what was said on standard error.
fn report(runs: &[&Path]) -> (BTreeMap<String, String>, String) {
    let out = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
    let output = Command::new(env!("CARGO_BIN_EXE_faultline"))
        .args(["report", "--force", "--out"])
        .arg(out.path())
        .args(runs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut files = BTreeMap::new();
    for folder in ["", "tables", "figures"] {
        for entry in fs::read_dir(out.path().join(folder))
            .unwrap()
            .map(Result::unwrap)
        {
            if entry.file_type().unwrap().is_file() {
                let name = entry.file_name().into_string().unwrap();
                files.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    (files, String::from_utf8(output.stderr).unwrap())
}

/// But for the last digit, which a parser may round.
fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * other.abs()
}

/// The rows of a table without its head.
fn rows(files: &BTreeMap<String, String>, table: &str) -> Vec<Vec<String>> {
    assert!(
        files.contains_key(table),
        "{table} is not among {:?}",
        files.keys()
    );
    let text = &files[table];
    text.lines()
        .skip(1)
        .map(|line| {
            line.split(',')
                .map(|cell| cell.trim_matches('"').to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn report_predictions_of_a_traced_run_equal_the_commands_output() {
    let (_folder, small, _) = common::runs();
    let (files, said) = report(&[&small]);
    assert!(
        said.contains("512.fltl: predicting the program cache at 11 sizes from its trace, 64 simulated runs each"),
        "{said}"
    );
    assert!(
        said.contains("512.fltl: predicted in ") && said.lines().count() == 2,
        "{said}"
    );
    let answer = cache(&["predict", "--json"], &[&small]);
    let predicted: Value = serde_json::from_slice(&answer.stdout).unwrap();
    println!(
        "{}",
        files["report.md"]
            .split("## Program cache at other sizes")
            .nth(1)
            .unwrap()
    );
    self_test_is_that_of_the_command(&files, &predicted);
    sizes_are_those_of_the_command(&files, &predicted);
    let text = &files["report.md"];
    assert!(
        text.contains(
            "768 entries are enough: no larger size of the table saves 1 % of the replay time"
        ),
        "{text}"
    );
    for figure in ["misses", "reloads", "evictions", "time"] {
        let drawing = &files[&format!("cache-sizes-{figure}.svg")];
        let document = roxmltree::Document::parse(drawing).unwrap();
        let titles: Vec<&str> = document
            .descendants()
            .filter(|node| node.has_tag_name("title"))
            .filter_map(|node| node.text())
            .collect();
        assert_eq!(
            titles.iter().filter(|title| title.contains('[')).count(),
            11,
            "{titles:?}"
        );
        assert!(
            titles.iter().any(|title| title.contains("recorded at 512")),
            "{titles:?}"
        );
    }
    assert!(!text.contains("cache fetch"), "{text}");
    assert_eq!(report(&[&small]).0, files, "the same report again");
}

fn self_test_is_that_of_the_command(files: &BTreeMap<String, String>, predicted: &Value) {
    let number = |text: &str| text.parse::<f64>().unwrap();
    let test = rows(files, "cache-self-test.csv");
    assert_eq!(test.len(), 4);
    for (row, counter) in test.iter().zip(predicted["self_test"].as_array().unwrap()) {
        assert_eq!(
            (row[1].as_str(), row[2].as_str()),
            (counter["name"].as_str().unwrap(), "512")
        );
        assert_eq!(
            (number(&row[3]), number(&row[4])),
            (
                counter["recorded"].as_f64().unwrap(),
                counter["predicted"].as_f64().unwrap()
            )
        );
    }
}

fn sizes_are_those_of_the_command(files: &BTreeMap<String, String>, predicted: &Value) {
    let number = |text: &str| text.parse::<f64>().unwrap();
    let sizes = rows(files, "cache-sizes.csv");
    assert_eq!(sizes.len(), 11);
    for (row, size) in sizes.iter().zip(predicted["sizes"].as_array().unwrap()) {
        assert_eq!(number(&row[1]), size["entries"].as_f64().unwrap());
        assert_eq!(row[2], if row[1] == "512" { "yes" } else { "no" });
        // Each estimate is three columns: the value and its interval.
        let mut cells = row[3..].iter();
        for what in ["misses", "reloads", "evictions", "seconds"] {
            for end in ["mean", "low", "high"] {
                let (shown, expected) = (
                    number(cells.next().unwrap()),
                    size[what][end].as_f64().unwrap(),
                );
                assert!(near(shown, expected), "{what} {end}: {expected} in {row:?}");
            }
        }
    }
}

#[test]
fn with_a_failed_self_test_the_report_gives_reasons_without_curve() {
    let (folder, small, large) = common::runs();
    // What it says of its size is wrong.
    let wrong = folder.path().join("wrong.fltl");
    common::record(&wrong, "2.1.14", "256", &common::points("512.lp"));
    fs::copy(
        folder.path().join("512.trace"),
        folder.path().join("wrong.trace"),
    )
    .unwrap();
    let (files, _) = report(&[&wrong]);
    assert!(files.contains_key("cache-self-test.csv"));
    assert!(
        !files.keys().any(|name| name.starts_with("cache-sizes")),
        "{:?}",
        files.keys()
    );
    let said = "The counters at the recorded size are not predicted within 10 %, so no other size is predicted. Visible reasons: none";
    assert!(files["report.md"].contains(said), "{}", files["report.md"]);
    // A damaged trace is no reason to have no report; a run without one says how to get it.
    fs::write(folder.path().join("512.trace"), "garbage").unwrap();
    let (files, said) = report(&[&small, &large]);
    let text = &files["report.md"];
    assert!(
        text.contains("nothing is predicted: ")
            && text.contains("512.trace: it is not a trace file of this format"),
        "{text}"
    );
    assert!(
        text.contains("1024.fltl has no trace next to it") && said.is_empty(),
        "{text} {said}"
    );
}

#[test]
fn a_report_without_a_trace_prints_one_line_on_getting_one() {
    let (files, said) = report(&[&fixture("arm-512-1.fltl")]);
    let text = &files["report.md"];
    let chapter = text
        .split("## Program cache at other sizes")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    assert_eq!(chapter.trim().lines().count(), 1, "{chapter}");
    assert!(
        chapter.contains("faultline cache fetch arm-512-1.fltl --rpc URL"),
        "{chapter}"
    );
    assert!(
        said.is_empty() && !files.contains_key("cache-self-test.csv"),
        "{said}"
    );
    // Of a program that has no program cache there is nothing to say.
    let (files, _) = report(&[&fixture("any-process.fltl")]);
    assert!(
        !files["report.md"].contains("Program cache at other sizes"),
        "{}",
        files["report.md"]
    );
}

#[test]
fn two_traced_runs_have_separate_rows_and_lines() {
    let (folder, small, _) = common::runs();
    let second = folder.path().join("second.fltl");
    let points = common::points("512.lp");
    common::record_at(
        1_800_100_000,
        "replaying",
        &second,
        ("2.1.14", "512"),
        &points,
    );
    fs::copy(
        folder.path().join("512.trace"),
        folder.path().join("second.trace"),
    )
    .unwrap();
    let (files, _) = report(&[&small, &second]);
    let sizes = rows(&files, "cache-sizes.csv");
    let of = |name: &str| sizes.iter().filter(|row| row[0] == name).count();
    assert_eq!((of("512"), of("second"), sizes.len()), (11, 11, 22));
    let document = roxmltree::Document::parse(&files["cache-sizes-misses.svg"]).unwrap();
    let lines = document.descendants().filter(|node| {
        node.attribute("class")
            .is_some_and(|class| class.ends_with(" area"))
    });
    assert_eq!(lines.count(), 2);
}

/// A node that answers what `fetch` asks first, and blocks if it may; then it keeps connections open in silence.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's server has a thread of its own"
)]
fn node(with_blocks: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                let lower = line.to_ascii_lowercase();
                length = lower
                    .strip_prefix("content-length:")
                    .map_or(length, |value| value.trim().parse().unwrap());
                line.clear();
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            let question: Value = serde_json::from_slice(&body).unwrap();
            let result = match question["method"].as_str().unwrap() {
                "getGenesisHash" => serde_json::json!(common::GENESIS),
                "getSlot" => serde_json::json!(1_u64 << 40),
                "getBlocks" => serde_json::json!([]),
                "getBlock" if with_blocks => {
                    let parent = question["params"][0].as_u64().unwrap() - 1;
                    serde_json::json!({"parentSlot": parent, "transactions": []})
                }
                _ => {
                    held.push(stream);
                    continue;
                }
            };
            let answer =
                serde_json::json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
                    .to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            let _ = stream.write_all((head + &answer).as_bytes());
        }
    });
    address
}

/// A recording of a few slots.
fn short(folder: &Path) -> PathBuf {
    let run = folder.join("short.fltl");
    let points: Vec<_> = common::points("512.lp")
        .into_iter()
        .filter(|point| common::slot(point) < 1_000)
        .collect();
    common::record(&run, "2.1.14", "512", &points);
    run
}

#[test]
fn fetch_shows_a_progress_bar_only_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let run = short(folder.path());
    let quick = cache(
        &["fetch", "--rpc", &format!("http://{}", node(true))],
        &[&run],
    );
    let said = String::from_utf8_lossy(&quick.stdout).into_owned();
    assert!(
        quick.status.success() && quick.stderr.is_empty() && said.contains("short.trace: "),
        "{quick:?}"
    );
    fs::remove_file(run.with_extension("trace")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultline"));
    command
        .args([
            "cache",
            "fetch",
            "--rpc",
            &format!("http://{}/?key=SECRET", node(false)),
        ])
        .arg(&run)
        .env("TERM", "xterm");
    let mut terminal = terminal::Terminal::start(&mut command, 100, 24);
    let screen = terminal.until("the bar", |screen| {
        screen.contains(" slots, ") && screen.contains(" left")
    });
    assert!(
        screen.contains("[") && screen.contains("0/") && !screen.contains("SECRET"),
        "{screen}"
    );
}
