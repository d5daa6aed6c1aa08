//! Compares two compression runs. Their records differ, so nothing is paired.

use super::{ClassRow, Outcome, StoredEstimate};
use crate::{
    changes::{finish_report, list_unmatched, percent_change, setting_mismatch, verdict},
    compare::interval_label,
};
use anyhow::{Result, ensure};
use faultline_stats::{
    arms::Direction,
    block_bootstrap::{Reliability, ratio_of_intervals},
    caveat::reliability_text,
    decision::Decision,
};
use faultline_text::{count, number, table};
use std::iter;

/// (value, worse direction).
const COMPARED: [(&str, Direction); 3] = [
    ("compressed size, %", Direction::Higher),
    ("compress, MB/s", Direction::Lower),
    ("decompress, MB/s", Direction::Lower),
];

/// Returns the text, and whether the diff fails: a value is worse by more than `margin` percent,
/// settings differ, only one run has a value, or the later run has problems.
pub fn changes(before: &Outcome, after: &Outcome, margin: f64) -> Result<(String, bool)> {
    let (mut comparable, mut mismatches) = (Vec::new(), Vec::new());
    for row in &before.classes {
        let Some(other) = after.row(&row.codec, &row.range) else {
            continue;
        };
        let values = iter::zip(intervals(row), intervals(other));
        for ((quantity, worse_direction), values) in iter::zip(COMPARED, values) {
            let missing_in = match values {
                (Some(before), Some(after)) => {
                    comparable.push((row, quantity, [before, after], worse_direction));
                    continue;
                }
                (None, None) => continue,
                (None, _) => "earlier",
                (_, None) => "later",
            };
            mismatches.push(format!(
                "NOT COMPARED: {}: {quantity} has no interval in the {missing_in} run",
                class_name(row)
            ));
        }
    }
    let comparisons = comparable.len();
    ensure!(
        comparisons > 0,
        "the two runs have no codec and size class with an interval in both"
    );
    let rows = comparable
        .into_iter()
        .map(|(row, quantity, values, worse_direction)| {
            let (cells, is_worse) = compare_values(values, worse_direction, margin, comparisons);
            let name = [row.codec.as_str(), &row.range, quantity].map(str::to_owned);
            ([name.as_slice(), &cells].concat(), is_worse)
        });
    let (rows, are_worse): (Vec<_>, Vec<bool>) = rows.unzip();
    let mut out = format!(
        "WORSE or better: the whole {} of the change is above +{margin} % or below -{margin} %. Bundles and times to fetch are not compared\n",
        interval_label(comparisons)
    );
    out += &table(
        &[
            "codec", "range", "what", "before", "after", "change", "interval", "verdict",
        ],
        rows,
    );
    let names = |run: &Outcome| Vec::from_iter(run.classes.iter().map(class_name));
    mismatches.extend(list_unmatched(&names(before), &names(after)));
    mismatches.extend(setting_mismatches(before, after));
    Ok(finish_report(
        out,
        &are_worse,
        &mismatches,
        &after.problems,
        ("Records differ", [&before.source, &after.source]),
    ))
}

fn class_name(row: &ClassRow) -> String {
    format!("{} at {}", row.codec, row.range)
}

/// In the order of [`COMPARED`]. The saved percentage may be near 0, which makes a relative change
/// large, so the compressed size in percent (100 - saved) is compared.
fn intervals(row: &ClassRow) -> [Option<StoredEstimate>; 3] {
    let remaining = row.saved.map(|saved| StoredEstimate {
        value: 100.0 - saved.value,
        low: 100.0 - saved.high,
        high: 100.0 - saved.low,
        ..saved
    });
    [remaining, row.compress, row.decompress]
}

/// Returns the cells, and whether the value is worse by more than `margin` percent.
fn compare_values(
    [before, after]: [StoredEstimate; 2],
    worse_direction: Direction,
    margin: f64,
    comparisons: usize,
) -> (Vec<String>, bool) {
    let ratio = ratio_of_intervals(before.value_and_ends(), after.value_and_ends(), comparisons);
    let decision = ratio.map(|ratio| {
        let margin = margin / 100.0;
        let reliability =
            Reliability::of_ratio(before.reliability, after.reliability, ratio, margin);
        let [_, low, high] = ratio;
        Decision::of((low, high), 1.0 - margin..=1.0 + margin, reliability)
    });
    let mut cells = vec![number(before.value, 1), number(after.value, 1)];
    cells.extend(ratio.map_or_else(Default::default, percent_change));
    cells.push(verdict(
        decision,
        worse_direction,
        ["WORSE", "better"],
        reliability_text,
    ));
    (
        cells,
        decision == Some(Decision::Established(worse_direction)),
    )
}

fn setting_mismatches(before: &Outcome, after: &Outcome) -> Vec<String> {
    let [a, b] = [before, after].map(|run| {
        run.dictionary_bytes
            .map_or("none".to_owned(), |bytes| format!("{} bytes", count(bytes)))
    });
    let mut mismatches = vec![setting_mismatch("dictionary", &a, &b)];
    // The kind of records from files is unknown.
    if let (Some(a), Some(b)) = (&before.record_kind, &after.record_kind) {
        mismatches.push(setting_mismatch("records", a, b));
    }
    for row in before.overall_rows() {
        if let Some(other) = after.row(&row.codec, &row.range) {
            let name = format!("library of {}", row.codec);
            // Older results do not name libraries.
            let [a, b] = [row, other].map(|row| match row.library.as_str() {
                "" => "not known",
                library => library,
            });
            mismatches.push(setting_mismatch(&name, a, b));
        }
    }
    mismatches.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Overhead, bootstrap_plan},
        *,
    };
    use faultline_stats::block_bootstrap;

    fn outcome(saved: f64, speed: f64) -> Outcome {
        let about = |value: f64| {
            Some(StoredEstimate {
                value,
                low: value - 1.0,
                high: value + 1.0,
                reliability: Reliability::Reliable,
            })
        };
        let row = |range: &str| ClassRow {
            codec: "zlib-6".to_owned(),
            library: "zlib 1".to_owned(),
            range: range.to_owned(),
            record_count: 100,
            mean_uncompressed_bytes: 300.0,
            mean_compressed_bytes: 200.0,
            saved_percent: saved,
            saved: about(saved),
            compress: about(speed),
            decompress: about(400.0),
        };
        Outcome {
            subcommand: "compression".to_owned(),
            version: "0".to_owned(),
            started_unix_ns: 0,
            source: "blocks of http://node".to_owned(),
            record_kind: Some("blocks".to_owned()),
            notes: Vec::new(),
            records: 100,
            tested: 100,
            dictionary_bytes: None,
            overhead: Overhead {
                header: 24,
                ack: 52,
            },
            bundle_below: 500,
            classes: vec![row("0-250b"), row("all")],
            bundles: Vec::new(),
            blob_examples: Vec::new(),
            fetch: None,
            problems: Vec::new(),
        }
    }

    #[test]
    fn less_compression_or_speed_is_worse_and_more_is_not() {
        let verdict = |before: &Outcome, after: &Outcome| changes(before, after, 5.0).unwrap();
        let base = outcome(30.0, 100.0);
        assert!(!verdict(&base, &base).1);
        let (out, worse) = verdict(&base, &outcome(20.0, 100.0));
        assert!(
            worse
                && out.contains("compressed size, %")
                && out.contains("14.3 %")
                && out.contains("WORSE"),
            "{out}"
        );
        let (out, worse) = verdict(&base, &outcome(30.0, 80.0));
        assert!(worse && out.contains("−20.0 %"), "{out}");
        let (out, worse) = verdict(&outcome(20.0, 80.0), &base);
        assert!(!worse && out.contains("better"), "{out}");
        assert!(
            !changes(&base, &outcome(20.0, 80.0), 50.0).unwrap().1,
            "within the margin"
        );
    }

    #[test]
    fn result_files_are_compared_by_content_and_differing_kinds_reported() {
        let (base, mut other) = (outcome(30.0, 100.0), outcome(30.0, 100.0));
        (other.record_kind, other.source) = (None, "records of monday.b64".to_owned());
        let (out, worse) = changes(&base, &other, 5.0).unwrap();
        assert!(
            !worse && out.contains("Records differ: blocks of http://node before"),
            "{out}"
        );
        other.record_kind = Some("accounts".to_owned());
        let (out, worse) = changes(&base, &other, 5.0).unwrap();
        assert!(
            worse && out.contains("records: blocks before, accounts after"),
            "{out}"
        );
    }

    #[test]
    fn a_missing_interval_is_named_and_a_too_rare_one_is_inconclusive() {
        let (base, mut other) = (outcome(30.0, 100.0), outcome(30.0, 50.0));
        for interval in other
            .classes
            .iter_mut()
            .filter_map(|row| row.compress.as_mut())
        {
            interval.reliability = Reliability::TooRare;
        }
        let (out, worse) = changes(&base, &other, 5.0).unwrap();
        assert!(
            !worse && out.contains("not established: it happened"),
            "{out}"
        );
        other.classes[0].compress = None;
        let (out, worse) = changes(&base, &other, 5.0).unwrap();
        assert!(
            worse
                && out
                    .contains("zlib-6 at 0-250b: compress, MB/s has no interval in the later run"),
            "{out}"
        );
    }

    #[test]
    fn twelve_passes_detect_a_clear_speed_change_but_not_a_slight_one() {
        // As a run measures it.
        let passes = |base: f64| -> Vec<Option<f64>> {
            let noise = [3, 9, 1, 7, 5, 11, 2, 8, 6, 12, 4, 10];
            noise
                .map(|part| Some(base * (0.97 + 0.005 * f64::from(part))))
                .to_vec()
        };
        let of = |base: f64| {
            let mut outcome = outcome(30.0, 100.0);
            for row in &mut outcome.classes {
                let estimate =
                    block_bootstrap::mean_of_amounts(&passes(base), &bootstrap_plan()).unwrap();
                assert!(!estimate.reliability.is_reliable(), "{estimate:?}");
                row.compress = Some(StoredEstimate::from_estimate(&estimate, |speed| speed));
            }
            outcome
        };
        let (out, worse) = changes(&of(100.0), &of(60.0), 5.0).unwrap();
        assert!(worse && out.contains("WORSE"), "{out}");
        let (out, worse) = changes(&of(60.0), &of(100.0), 5.0).unwrap();
        assert!(!worse && out.contains("better"), "{out}");
        let (out, worse) = changes(&of(100.0), &of(92.5), 5.0).unwrap();
        assert!(!worse, "{out}");
    }

    #[test]
    fn intervals_are_stored_with_their_reliability_and_older_formats_read() {
        let of = |reliable: &str| {
            format!(r#"{{"value": 1.0, "low": 0.5, "high": 2.0, "reliable": {reliable}}}"#)
        };
        for (text, reliability) in [
            ("true", Reliability::Reliable),
            ("false", Reliability::TooRare),
            (
                r#"{"too_short": {"n_eff": 12.0}}"#,
                Reliability::TooShort { n_eff: 12.0 },
            ),
        ] {
            let read: StoredEstimate = serde_json::from_str(&of(text)).unwrap();
            assert_eq!(read.reliability, reliability);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<StoredEstimate>(&json).unwrap(), read);
        }
    }

    #[test]
    fn unmatched_records_and_problems_fail_the_compression_diff() {
        let (base, mut other) = (outcome(30.0, 100.0), outcome(30.0, 100.0));
        other.classes.pop();
        other.dictionary_bytes = Some(4096);
        other.problems.push("lzo FAILED".to_owned());
        let (out, worse) = changes(&base, &other, 5.0).unwrap();
        let all = [
            "NOT COMPARED: zlib-6 at all is not in the later run",
            "dictionary: none before, 4,096 bytes",
            "After: lzo FAILED",
        ];
        assert!(
            worse && all.iter().all(|message| out.contains(message)),
            "{out}"
        );
        other.classes.clear();
        assert!(changes(&base, &other, 5.0).is_err());
    }
}
