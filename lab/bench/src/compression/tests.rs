use super::*;
use crate::args::{Bench, BenchArgs};
use clap::Parser;
use std::path::Path;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The arguments of a run with a node.
pub fn args(more: &[&str]) -> CompressionArgs {
    let words = ["bench", "compression", "http://node"];
    match Cli::try_parse_from(words.iter().chain(more))
        .unwrap()
        .args
        .command
    {
        Bench::Compression(args) => args,
        other => panic!("{other:?}"),
    }
}

fn bench(words: &[&str]) -> anyhow::Result<(String, u8)> {
    crate::run(
        &Cli::try_parse_from(["bench"].iter().chain(words))
            .unwrap()
            .args,
    )
}

/// Records like those of validators: the same first bytes in all, then noise.
fn records(path: &Path) {
    let mut random = fastrand::Rng::with_seed(6);
    let record = |index: usize, random: &mut fastrand::Rng| {
        let mut record = b"a head that every record has in common, of programs and votes".repeat(2);
        record.extend((0..100 + index % 300).map(|_| random.u8(..)));
        record
    };
    records::save(
        path,
        &(0..400)
            .map(|index| record(index, &mut random))
            .collect::<Vec<_>>(),
    )
    .unwrap();
}

#[test]
fn empty_files_are_counted_if_too_few_records_remain() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("1", ""), ("2", "record"), ("3", "")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().display().to_string();
    let error = bench(&["compression", "--files", &path])
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        format!("{path}: fewer than two records; left out: 2 empty records")
    );
}

#[test]
fn the_studys_tables_come_first_and_saved_results_can_be_reshown() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (
        folder.path().join("kept.b64"),
        folder.path().join("run.flb"),
    );
    records(&path);
    let [path, out] = [path, out].map(|path| path.display().to_string());
    let words = [
        "compression",
        "--files",
        &path,
        "--out",
        &out,
        "--codecs",
        "zlib,zstd-3+dict,lz4",
    ];
    let more = [
        "--dictionary",
        "4K",
        "--fetch",
        "40",
        "--latencies",
        "0,5ms",
        "--repeats",
        "1",
    ];
    let words: Vec<&str> = words.iter().chain(&more).copied().collect();
    let (message, code) = bench(&words).unwrap();
    assert_eq!(code, 0, "{message}");
    assert!(
        message.starts_with("range     ubytes  cbytes  cmp_ratio%  datapoints\n0-250b "),
        "{message}"
    );
    for expected in [
        "txcount:10",
        "num records",
        "uncmp 5ms (secs)",
        "400 records, 200 measured",
        "bandwidth not limited",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert_eq!(bench(&["report", &out]).unwrap(), (message, 0));
    reports_have_every_class(&out);
    let table = folder.path().join("classes.parquet").display().to_string();
    assert!(
        bench(&["report", &out, "--parquet", &table])
            .unwrap()
            .0
            .ends_with(" rows\n")
    );
    assert!(std::fs::read(&table).unwrap().starts_with(b"PAR1"));
    let again = bench(&words).unwrap_err().to_string();
    assert!(again.contains("exists already"), "{again}");
    let (diff, code) = bench(&["diff", &out, &out]).unwrap();
    assert!(
        code == 0 && diff.contains("no change established") && diff.contains("zstd-3+dict"),
        "{diff}"
    );
}

fn reports_have_every_class(out: &str) {
    let json: serde_json::Value =
        serde_json::from_str(&bench(&["report", out, "--format", "json"]).unwrap().0).unwrap();
    let of = |codec: &str| {
        json["classes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["codec"] == codec && row["range"] == "all")
            .unwrap()["cmp_ratio"]
            .as_f64()
            .unwrap()
    };
    // Half of the sent bytes are those that all records share. Only the dictionary has them.
    assert!(of("zstd-3+dict") > of("zlib-6") + 10.0, "{json}");
    let csv = bench(&["report", out, "--format", "csv"]).unwrap().0;
    assert!(
        csv.lines().count() > 6 && csv.lines().all(|line| line.split(',').count() >= 16),
        "{csv}"
    );
}

#[test]
fn json_stays_valid_if_the_results_cannot_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.b64");
    records(&path);
    let path = path.display().to_string();
    let words = [
        "compression",
        "--files",
        &path,
        "--out",
        "/proc/run.flb",
        "--format",
        "json",
    ];
    let more = ["--codecs", "lz4", "--fetch", "0", "--bundle", "2"];
    let words: Vec<&str> = words.into_iter().chain(more).collect();
    let (text, code) = bench(&words).unwrap();
    assert_eq!(code, 1);
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
}

#[test]
fn csv_quotes_texts_and_marks_unreliable_intervals() {
    // A results file may come from elsewhere.
    let outcome: Outcome = serde_json::from_value(serde_json::json!({
        "preset": "compression", "version": "1", "started_unix_ns": 0, "source": "x", "notes": [],
        "records": 2, "tested": 2, "dictionary": null, "overhead": {"header": 0, "ack": 0},
        "bundle_below": 0, "bundles": [], "blobs": [], "fetch": null, "problems": [],
        "classes": [{
            "codec": "a,\"b\"", "library": "l", "range": "all", "datapoints": 2, "ubytes": 2.0,
            "cbytes": 1.0, "cmp_ratio": 50.5, "interval": null,
            "compress": {"value": 3.0, "low": 2.5, "high": 4.0, "reliable": "too_rare"},
            "decompress": {"value": 9.0, "low": 8.0, "high": 9.5, "reliable": "drifts"},
        }],
    }))
    .unwrap();
    let csv = render(&outcome, crate::args::Format::Csv).unwrap();
    let (head, row) = csv.trim_end().split_once('\n').unwrap();
    assert!(
        head.ends_with(
            ",datapoints,compress low MB/s,compress high MB/s,decompress low MB/s,decompress high MB/s,unreliable"
        ),
        "{head}"
    );
    assert_eq!(
        row,
        "\"a,\"\"b\"\"\",l,all,2,1,50.5,,,3,9,2,2.5,4,8,9.5,\"compress, decompress\""
    );
}

#[test]
fn invalid_compression_arguments_are_refused() {
    for (words, why) in [
        (vec!["compression"], "required"),
        (
            vec!["compression", "http://x", "--files", "y"],
            "cannot be used with",
        ),
        (
            vec!["compression", "http://x", "--codecs", "zip"],
            "is no codec",
        ),
        (
            vec!["compression", "http://x", "--latencies", "1h"],
            "is more than 10s",
        ),
    ] {
        let refused = Cli::try_parse_from(["bench"].iter().chain(&words))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(refused.contains(why), "{refused}");
    }
    for (words, why) in [
        (["--codecs", "lz4,lz4"], "names lz4 twice"),
        (["--classes", "5,5"], "larger than the one before"),
        (["--classes", "0,5"], "sizes above 0"),
        (["--save", "x"], "must end in .b64"),
    ] {
        let refused = bench(&[&["compression", "http://127.0.0.1:1"], words.as_slice()].concat())
            .unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let cli =
        Cli::try_parse_from(["bench", "compression", "http://node/SECRET", "--dry-run"]).unwrap();
    assert!(matches!(cli.args.command, Bench::Compression(_)));
    let (message, _) = crate::run(&cli.args).unwrap();
    assert!(
        message.contains("getBlock")
            && message.contains("5000 records")
            && !message.contains("SECRET"),
        "{message}"
    );
}

#[test]
fn accounts_are_refused_unless_accounts_are_requested() {
    for (kind, is_valid) in [
        ("transactions", false),
        ("blocks", false),
        ("accounts", true),
    ] {
        let args = args(&["--kind", kind, "--accounts", "A,B"]);
        assert_eq!(validate(&args).is_ok(), is_valid, "{kind}");
    }
}

#[test]
fn a_dry_run_shows_the_requests_that_find_accounts() {
    let shown = records::dry_run(&args(&["--kind", "accounts"])).unwrap();
    for part in [r#""transactionDetails":"accounts""#, r#"[["ADDRESS"],"#] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_dry_run_refuses_an_invalid_address() {
    assert!(bench(&["compression", "ftp://node", "--dry-run"]).is_err());
}
