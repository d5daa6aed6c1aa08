use crate::{
    results::{PHASES, Results, Sample, Timing},
    store::check_new,
};
use anyhow::Result;
use faultline_pages::export::{Columns, Values, named_columns, write_columns};
use faultline_text::counted;
use std::path::Path;

/// The file gets its final name only when it is complete. Returns the line `PATH: row_count`.
pub fn write(path: &Path, table: &str, row_count: &str, columns: Columns) -> Result<String> {
    check_new("--parquet", path)?;
    write_columns(path, table, columns)?;
    Ok(format!("{}: {row_count}\n", path.display()))
}

pub fn write_requests(path: &Path, results: &Results) -> Result<String> {
    write(
        path,
        "request",
        &counted(results.samples.len() as f64, "request"),
        request_columns(results),
    )
}

/// Measured values of a failed request are NULL. `subject` is the request label, `refused` the
/// retries.
fn request_columns(results: &Results) -> Columns {
    let samples = results.samples.iter();
    let integer = |value: &dyn Fn(&Sample) -> Option<u64>| {
        let integers = samples.clone().map(|sample| value(sample)?.try_into().ok());
        Values::Integer(integers.collect())
    };
    let timing = |value: &dyn Fn(&Timing) -> u64| integer(&|sample| sample.timing().map(value));
    let text = |value: &dyn Fn(&Sample) -> Option<String>| {
        Values::Text(samples.clone().map(value).collect())
    };
    let case = |sample: &Sample| &results.cases[sample.case_index];
    let mut columns = named_columns([
        ("number", integer(&|sample| Some(sample.number))),
        ("round", integer(&|sample| Some(sample.round.into()))),
        ("arm", text(&|sample| Some(case(sample).arm.clone()))),
        (
            "subject",
            text(&|sample| Some(case(sample).request_label.clone())),
        ),
        ("size", integer(&|sample| case(sample).answer_bytes)),
        ("at_ns", integer(&|sample| Some(sample.at_ns))),
        ("latency_ns", integer(&Sample::latency_ns)),
    ]);
    for (index, phase) in PHASES.iter().enumerate() {
        let name = format!("{}_ns", phase.to_lowercase().replace(' ', "_"));
        columns.push((name, timing(&|timing| timing.phases[index])));
    }
    columns.extend(named_columns([
        ("decode_cpu_ns", timing(&|timing| timing.decode_cpu_ns)),
        ("sent", timing(&|timing| timing.sent)),
        ("received", timing(&|timing| timing.received)),
        ("failure", text(&|sample| sample.result.clone().err())),
        ("refused", integer(&|sample| Some(sample.retries.into()))),
    ]));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn every_request_is_a_row_and_a_failed_one_has_no_latency() {
        let mut saved = results(30, &[("a", 904, &|round| round * 1000), ("b", 904, &|_| 5)]);
        saved.samples[4].result = Err("timeout".to_owned());
        let columns = request_columns(&saved);
        let of = |name: &str| {
            columns
                .iter()
                .find(|(column, _)| column == name)
                .unwrap()
                .1
                .clone()
        };
        let Values::Integer(latency) = of("latency_ns") else {
            panic!("whole numbers")
        };
        assert_eq!(
            (latency.len(), latency[4], latency[5], latency[6]),
            (60, None, Some(5), Some(3000))
        );
        for unknown in ["decode_cpu_ns", "sent", "received"] {
            let Values::Integer(values) = of(unknown) else {
                panic!("whole numbers")
            };
            assert!(
                values[4].is_none() && values[5].is_some(),
                "{unknown} of a request that failed"
            );
        }
        assert_eq!(
            of("first_byte_ns"),
            of("latency_ns"),
            "all of a pretended latency"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        write(&path, "request", "", columns.clone()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        assert!(
            write(&path, "request", "", columns)
                .unwrap_err()
                .to_string()
                .contains("exists already")
        );
    }
}
