//! `bench compression`: codecs on transactions, blocks or accounts, alone and bundled, and their
//! effect on fetch time.

mod bundle;
mod classes;
mod diff;
mod link;
mod measure;
mod outcome;
mod records;
mod show;
pub(crate) mod tables;

use crate::args::{BundleArgs, CompressionArgs, Format, first_duplicate};
use crate::codec::{self, Coder};
use crate::store;
use anyhow::{Context as _, ensure};
use classes::SizeClasses;
pub(crate) use diff::changes;
use faultline_common::args::UsageError;
use faultline_common::clock;
use faultline_common::output::say;
use faultline_text::counted;
use link::LinkPlan;
use measure::MeasuredCodec;
use outcome::{Blob, Overhead};
pub(crate) use outcome::{BundleRow, ClassRow, FetchTable, Interval, Outcome};
use records::Records;
pub(crate) use show::columns;
use std::path::Path;

/// The exit code is 1 after any problem.
pub(crate) fn run(args: &CompressionArgs) -> anyhow::Result<(String, u8)> {
    let classes = parse_classes(args)?;
    if args.output.dry_run {
        return Ok((records::dry_run(args), 0));
    }
    for (option, path) in [("--out", &args.output.out), ("--save", &args.save)] {
        if let Some(path) = path {
            store::check_new(option, path)?;
        }
    }
    let records = records::records(args)?;
    let why = records
        .ended_by
        .as_ref()
        .map_or_else(String::new, |why| format!(" (ended early{why})"));
    ensure!(
        records.all.len() >= 2,
        "{}: fewer than two records{why}",
        records.source
    );
    let outcome = outcome(args, &classes, records)?;
    let mut code = u8::from(!outcome.problems.is_empty());
    let mut text = shown(&outcome, args.output.format)?;
    if let Some(path) = &args.output.out
        && let Err(error) = store::write_document(path, &outcome)
    {
        text += &format!("\nThe results could not be kept: {error:#}\n");
        code = 1;
    }
    Ok((text, code))
}

pub(crate) fn parse_outcome(file: &Path, header: &str) -> anyhow::Result<Outcome> {
    serde_json::from_str(header).with_context(|| format!("{}: its header", file.display()))
}

/// The study's table comes first.
pub(crate) fn shown(outcome: &Outcome, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => show::text(outcome),
        Format::Json => faultline_common::output::json(outcome)?,
        Format::Csv => show::csv(outcome),
    })
}

fn parse_classes(args: &CompressionArgs) -> Result<SizeClasses, UsageError> {
    if let Some(twice) = first_duplicate(&args.codecs.codecs) {
        let name = twice.name();
        return Err(UsageError(format!("--codecs names {name} twice")));
    }
    let must_grow =
        || UsageError("--classes: sizes above 0, each larger than the one before".to_owned());
    let classes = SizeClasses::new(&args.codecs.classes).ok_or_else(must_grow)?;
    if let Some(path) = &args.save
        && path.extension().is_none_or(|extension| extension != "b64")
    {
        let what = "--save: the file's name must end in .b64";
        return Err(UsageError(what.to_owned()));
    }
    Ok(classes)
}

fn outcome(
    args: &CompressionArgs,
    classes: &SizeClasses,
    records: Records,
) -> anyhow::Result<Outcome> {
    let started_unix_ns = clock::unix_ns();
    let ended = |why: &String| {
        format!(
            "ended early{why}; only the {} records that were read are measured",
            records.all.len()
        )
    };
    let mut problems: Vec<String> = records.ended_by.iter().map(ended).collect();
    problems.extend(records.save_error);
    let all: Vec<&[u8]> = records.all.iter().map(Vec::as_slice).collect();
    let (dictionary, tested) = dictionary(args, &all, &mut problems);
    let mut packed: Vec<MeasuredCodec> = Vec::new();
    for codec in &args.codecs.codecs {
        if codec.needs_dictionary() && dictionary.is_none() {
            continue;
        }
        let coder = Coder::new(*codec, dictionary.as_deref());
        match coder.and_then(|coder| measure::packed(*codec, coder, tested)) {
            Ok(one) => packed.push(one),
            Err(error) => problems.push(format!("{} FAILED: {error:#}", codec.name())),
        }
    }
    say(&format!(
        "{}, {}: measuring sizes and speeds",
        counted(tested.len() as f64, "record"),
        counted(packed.len() as f64, "codec")
    ));
    let classes = measure::classes(&mut packed, tested, classes, args.seed);
    let overhead = Overhead {
        header: args.bundles.header,
        ack: args.bundles.ack,
    };
    let (bundles, blobs) =
        bundle_tables(&args.bundles, overhead, &mut packed, tested, &mut problems);
    let fetch = fetch_table(args, packed.first(), dictionary.as_deref(), tested)?;
    Ok(Outcome {
        preset: "compression".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns,
        source: records.source,
        kind: records.kind.map(str::to_owned),
        notes: records.notes,
        records: all.len() as u64,
        tested: tested.len() as u64,
        dictionary: dictionary.map(|dictionary| dictionary.len() as u64),
        overhead,
        bundle_below: args.bundles.bundle_below,
        classes,
        bundles,
        blobs,
        fetch,
        problems,
    })
}

/// The dictionary, if a codec needs one, and the records that are measured. Records that trained
/// it are not measured.
fn dictionary<'a>(
    args: &CompressionArgs,
    all: &'a [&'a [u8]],
    problems: &mut Vec<String>,
) -> (Option<Vec<u8>>, &'a [&'a [u8]]) {
    if !args
        .codecs
        .codecs
        .iter()
        .any(|codec| codec.needs_dictionary())
    {
        return (None, all);
    }
    let (train, test) = all.split_at(all.len() * usize::from(args.codecs.train) / 100);
    match codec::train_dictionary(train, args.codecs.dictionary) {
        Ok(dictionary) => (Some(dictionary), test),
        Err(error) => {
            let count = train.len();
            problems.push(format!("no dictionary from {count} records: {error:#}"));
            (None, all)
        }
    }
}

fn bundle_tables(
    args: &BundleArgs,
    overhead: Overhead,
    packed: &mut [MeasuredCodec],
    records: &[&[u8]],
    problems: &mut Vec<String>,
) -> (Vec<BundleRow>, Vec<Blob>) {
    let small = |index: &usize| (records[*index].len() as u64) < args.bundle_below;
    let indices: Vec<usize> = (0..records.len()).filter(small).collect();
    let (mut rows, mut blobs) = (Vec::new(), Vec::new());
    for (index, packed) in packed.iter_mut().enumerate() {
        for count in args.bundle.iter().map(|count| *count as usize) {
            if count > indices.len() {
                continue;
            }
            match bundle::row(packed, records, (&indices, count), overhead) {
                Ok((row, blob)) => {
                    rows.push(row);
                    blobs.extend(blob.filter(|_| index == 0));
                }
                Err(error) => problems.push(format!("{} FAILED: {error:#}", packed.codec.name())),
            }
        }
    }
    (rows, blobs)
}

fn fetch_table(
    args: &CompressionArgs,
    first: Option<&MeasuredCodec>,
    dictionary: Option<&[u8]>,
    records: &[&[u8]],
) -> anyhow::Result<Option<FetchTable>> {
    let Some(packed) = first.filter(|_| args.fetch.fetch > 0) else {
        return Ok(None);
    };
    let plan = LinkPlan {
        codec: packed.codec,
        dictionary,
        args: &args.fetch,
        seed: args.seed,
    };
    let fetch_records = records.get(..args.fetch.fetch as usize).unwrap_or(records);
    say(&format!(
        "fetching {}, {} with each latency",
        counted(fetch_records.len() as f64, "record"),
        counted(args.fetch.repeats as f64, "time")
    ));
    link::table(&plan, fetch_records).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Bench, BenchArgs};
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn bench(words: &[&str]) -> anyhow::Result<(String, u8)> {
        crate::run(
            &Cli::try_parse_from(["bench"].iter().chain(words))
                .unwrap()
                .args,
        )
    }

    /// Records as validators have them: a head that all share, then noise.
    fn records(path: &Path) {
        let mut random = fastrand::Rng::with_seed(6);
        let record = |index: usize, random: &mut fastrand::Rng| {
            let mut record =
                b"a head that every record has in common, of programs and votes".repeat(2);
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
            code == 0 && diff.contains("no change shown") && diff.contains("zstd-3+dict"),
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
        // Half of what is sent is the head, which only the dictionary knows.
        assert!(of("zstd-3+dict") > of("zlib-6") + 10.0, "{json}");
        let csv = bench(&["report", out, "--format", "csv"]).unwrap().0;
        assert!(
            csv.lines().count() > 6 && csv.lines().all(|line| line.split(',').count() == 11),
            "{csv}"
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
                "at most 10s",
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
            (["--save", "x"], "must end in .b64"),
        ] {
            let refused =
                bench(&[&["compression", "http://127.0.0.1:1"], words.as_slice()].concat())
                    .unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        let cli = Cli::try_parse_from(["bench", "compression", "http://node/SECRET", "--dry-run"])
            .unwrap();
        assert!(matches!(cli.args.what, Bench::Compression(_)));
        let (message, _) = crate::run(&cli.args).unwrap();
        assert!(
            message.contains("getBlock")
                && message.contains("5000 records")
                && !message.contains("SECRET"),
            "{message}"
        );
    }
}
